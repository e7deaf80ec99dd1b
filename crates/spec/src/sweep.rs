//! The `sweep` section: which keys vary, and how they are combined.

use base::text::{counted, quoted};
use cell::Cell;
use cell::keys;
use indexmap::IndexSet;
use schemars::JsonSchema;
use serde::Deserialize;
use yaml::de;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Place;
use yaml::tree::{Entry, Map, Node, Value};

use super::by_key::{self, Untyped};
use super::sample::Sample;
use super::{aliases, typed};

/// One key and the value that a cell gives it.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub name: String,
    pub path: Vec<String>,
    pub key: Place,
    pub value: Node,
    /// The value is null, which the key does not have: the cell leaves the key out.
    pub unsets: bool,
}

impl Assignment {
    fn new(name: &str, path: Vec<String>, key: Place, value: &Node) -> Self {
        let mut alone = Node::empty_map(key);
        alone.set(&path, key, value.clone());
        Self {
            unsets: value.is_null() && typed::read::<Cell>(&alone).is_err(),
            name: name.to_owned(),
            path,
            key,
            value: value.clone(),
        }
    }

    /// Gives the cell that `tree` describes this value.
    pub(crate) fn apply(&self, tree: &mut Node) {
        match self.unsets {
            true => tree.remove_at(&self.path.iter().map(String::as_str).collect::<Vec<_>>()),
            false => tree.set(&self.path, self.key, self.value.clone()),
        }
    }
}

/// A key that varies.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Where it stands: `sweep.grid` or `sweep.zip`.
    pub section: &'static str,
    /// One assignment a value.
    pub values: Vec<Assignment>,
    pub key: Place,
}

impl Axis {
    pub(crate) fn name(&self) -> &str {
        &self.values[0].name
    }

    pub(crate) fn path(&self) -> &[String] {
        &self.values[0].path
    }
}

/// Axes that step together: one of the grid, or all of the zip.
#[derive(Debug, Clone)]
pub(crate) struct Dimension {
    pub axes: Vec<Axis>,
}

impl Dimension {
    pub(crate) fn len(&self) -> usize {
        self.axes[0].values.len()
    }
}

/// An expression that takes cells out.
#[derive(Debug, Clone)]
pub(crate) struct Exclude {
    pub text: String,
    pub place: Place,
}

/// The section, read; values are not typed yet.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Their product is what is swept; the last one varies fastest.
    pub dimensions: Vec<Dimension>,
    pub exclude: Vec<Exclude>,
    pub include: Vec<Vec<Assignment>>,
    /// False if there are only included cells.
    pub product: bool,
    /// The sample to draw, and where its count was written.
    pub sample: Option<(Sample, Place)>,
}

/// The section as it is declared: its keys and their schema.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SweepSection {
    /// Every combination of these axes.
    #[schemars(schema_with = "by_key::axes")]
    grid: Untyped,
    /// Axes that step together; all of the same length.
    #[schemars(schema_with = "by_key::axes")]
    zip: Untyped,
    /// Combinations for which this minijinja expression holds (or one of these) are left out.
    #[schemars(schema_with = "by_key::expressions")]
    exclude: Untyped,
    /// So many of the combinations, drawn at random, instead of all.
    sample: Option<Sample>,
    /// Further cells: the defaults with these keys, neither excluded, multiplied nor drawn.
    #[schemars(schema_with = "by_key::lists_of_values")]
    include: Untyped,
}

impl Sweep {
    /// Reads the section; without one there is a single cell.
    pub(crate) fn read(section: Option<Node>, mistakes: &mut Mistakes) -> Self {
        let mut sweep = Self {
            product: true,
            ..Self::default()
        };
        let Some(mut section) = section.filter(|node| !node.is_null()) else {
            return sweep;
        };
        let (declared, errors) = typed::read_all::<SweepSection>(&mut section);
        errors.into_iter().for_each(|error| mistakes.add(explain(error)));
        let Some(map) = section.as_map() else {
            return sweep;
        };
        let written = |key: &str| map.get(key).filter(|entry| !entry.value.is_hole());
        sweep.product = map.contains_key("grid") || map.contains_key("zip");
        let count = section.get(&["sample", "count"]).map(|node| node.place);
        sweep.sample = declared.and_then(|declared| declared.sample).zip(count);
        if let Some(Entry { key, value }) = written("grid") {
            let axes = read_axes(value, "sweep.grid", *key, mistakes);
            let dimensions = axes.into_iter().map(|axis| Dimension { axes: vec![axis] });
            sweep.dimensions.extend(dimensions);
        }
        if let Some(Entry { key, value }) = written("zip") {
            let axes = read_axes(value, "sweep.zip", *key, mistakes);
            match check_zip(&axes) {
                Ok(()) if axes.is_empty() => {}
                Ok(()) => sweep.dimensions.push(Dimension { axes }),
                Err(mistake) => {
                    mistakes.add(mistake);
                    axes.iter().for_each(|axis| mistakes.leave_open(Some(axis.name())));
                }
            }
        }
        if let Some(Entry { key, value }) = written("exclude") {
            sweep.exclude = read_exclude(value, mistakes);
            if !sweep.product {
                let message = "sweep.exclude: there is no `grid` and no `zip` to exclude combinations from";
                mistakes.add(Diagnostic::new(message).at(*key));
            }
        }
        if let Some(Entry { key, .. }) = written("sample").filter(|_| !sweep.product) {
            let message = "sweep.sample: there is no `grid` and no `zip` to draw combinations from";
            mistakes.add(Diagnostic::new(message).at(*key));
        }
        if let Some(Entry { value, .. }) = written("include") {
            sweep.include = read_include(value, mistakes);
        }
        sweep.drop_overlapping(mistakes);
        match map.get_index(0) {
            None => mistakes.add(
                Diagnostic::new("sweep: the section is empty")
                    .at(section.place)
                    .help("leave it out for one cell"),
            ),
            Some((_, first)) if !sweep.product && sweep.include.is_empty() && mistakes.is_empty() => {
                let message = "sweep: there is nothing to sweep: no `grid`, no `zip` and no `include`";
                mistakes.add(Diagnostic::new(message).at(first.key));
            }
            Some(_) => {}
        }
        sweep
    }

    /// The keys that it sets, in the product or in an included cell.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[String]> {
        let included = self
            .include
            .iter()
            .flatten()
            .map(|assignment| assignment.path.as_slice());
        self.axes().map(Axis::path).chain(included)
    }

    pub(crate) fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.dimensions.iter().flat_map(|dimension| &dimension.axes)
    }

    /// The keys that vary, in the order in which the spec names them.
    pub(crate) fn axis_names(&self) -> Vec<String> {
        let included = self.include.iter().flatten().map(|assignment| assignment.name.as_str());
        let names: IndexSet<&str> = self.axes().map(Axis::name).chain(included).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Drops an axis that is named twice, or lies inside another.
    fn drop_overlapping(&mut self, mistakes: &mut Mistakes) {
        let mut kept: Vec<Axis> = Vec::new();
        for dimension in &mut self.dimensions {
            dimension.axes.retain(|axis| {
                let clash = kept
                    .iter()
                    .find(|other| axis.path().starts_with(other.path()) || other.path().starts_with(axis.path()));
                let mistake = clash.map(|other| overlap(axis, other));
                kept.push(axis.clone());
                mistake.map(|mistake| mistakes.add(mistake)).is_none()
            });
        }
        self.dimensions.retain(|dimension| !dimension.axes.is_empty());
    }
}

/// Adds what there is to say of a key that the section does not have.
fn explain(error: de::Error) -> Diagnostic {
    let key = error
        .path
        .first()
        .filter(|_| error.is_unknown_key() && error.path.len() == 1);
    let key = key.filter(|key| keys::is_known(&[key.to_string()])).cloned();
    let mut diagnostic = error.diagnostic("sweep");
    if let Some(key) = key {
        let help = format!("a key to vary stands in `grid` or `zip`: `sweep: {{grid: {{{key}: [...]}}}}`");
        diagnostic.help = vec![help];
    }
    diagnostic
}

/// The entries of a node that must be a map; `path` is its name.
pub(crate) fn expect_map<'n>(node: &'n Node, path: &str) -> Result<&'n Map, Diagnostic> {
    node.as_map()
        .ok_or_else(|| Diagnostic::new(format!("{path}: expected a map, got {}", node.kind())).at(node.place))
}

fn read_axes(section: &Node, path: &'static str, key: Place, mistakes: &mut Mistakes) -> Vec<Axis> {
    let empty = || {
        Diagnostic::new(format!("{path}: the section has no axes"))
            .at(key)
            .help("for example `rank: [4, 8]`")
    };
    let map = match expect_map(section, path) {
        Ok(map) if !map.is_empty() => map,
        Err(mistake) if !section.is_null() => {
            mistakes.add(mistake);
            return Vec::new();
        }
        _ => {
            mistakes.add(empty());
            return Vec::new();
        }
    };
    let mut axes = Vec::new();
    for (name, entry) in map {
        match read_axis(name, entry, path) {
            Ok(axis) => axes.push(axis),
            Err(mistake) => {
                leave_open(name, mistakes);
                mistakes.add(mistake);
            }
        }
    }
    axes
}

fn read_axis(name: &str, entry: &Entry, section: &'static str) -> Result<Axis, Diagnostic> {
    let Entry { key, value: values } = entry;
    let path = cell_key(name, section, *key)?;
    let Value::List(list) = &values.value else {
        let message = format!("{section}.{name}: an axis is a list of values, got {}", values.kind());
        let help = matches!(values.value, Value::Scalar(_)).then(|| format!("write `[{}]`", values.to_flow_yaml()));
        return Err(Diagnostic::new(message).at(values.place).help_if(help));
    };
    if list.is_empty() {
        let message = format!("{section}.{name}: the axis has no values, so there would be no cells");
        return Err(Diagnostic::new(message).at(values.place));
    }
    let assignment = |value: &Node| Assignment::new(name, path.clone(), *key, value);
    Ok(Axis {
        section,
        values: list.iter().map(assignment).collect(),
        key: *key,
    })
}

/// Notes that the value of the key `name` is open, or that of the key which was most likely meant.
fn leave_open(name: &str, mistakes: &mut Mistakes) {
    let known: Vec<&str> = keys::named().collect();
    mistakes.leave_open(match known.contains(&name) {
        true => Some(name),
        false => aliases::near(name, &known),
    });
}

/// The segments of the dotted key `name`, which must be a cell's.
pub(crate) fn cell_key(name: &str, section: &str, place: Place) -> Result<Vec<String>, Diagnostic> {
    let path: Vec<String> = name.split('.').map(str::to_owned).collect();
    if keys::is_known(&path) {
        return Ok(path);
    }
    if let Some(key) = keys::moved(name) {
        return Err(Diagnostic::new(format!("{section}.{name}: the key has moved"))
            .at(place)
            .help(format!("write `{key}`")));
    }
    let known: Vec<&str> = keys::named().collect();
    let help = typed::spaced(name, &known).or_else(|| aliases::suggestion(name, &known));
    let help = help.unwrap_or_else(|| "`expctl schema` lists the keys of a cell".into());
    Err(Diagnostic::new(format!("{section}.{}: unknown key", escape(name)))
        .at(place)
        .help(help))
}

fn escape(name: &str) -> String {
    quoted(name).trim_matches('`').to_owned()
}

fn check_zip(axes: &[Axis]) -> Result<(), Diagnostic> {
    let count = |axis: &Axis| counted(axis.values.len(), "value");
    match axes.iter().find(|axis| axis.values.len() != axes[0].values.len()) {
        None => Ok(()),
        Some(other) => Err(Diagnostic::new("sweep.zip: paired axes need equally many values")
            .label(other.key, format!("{} has {}", other.name(), count(other)))
            .label(axes[0].key, format!("{} has {}", axes[0].name(), count(&axes[0])))),
    }
}

fn overlap(axis: &Axis, other: &Axis) -> Diagnostic {
    let message = match axis.name() == other.name() {
        true => format!(
            "{}.{}: the axis is in {} as well",
            axis.section,
            axis.name(),
            other.section
        ),
        false => format!(
            "{}.{} and {}.{} set the same key",
            axis.section,
            axis.name(),
            other.section,
            other.name()
        ),
    };
    Diagnostic::new(message).at(axis.key).label(other.key, "the other one")
}

fn read_exclude(node: &Node, mistakes: &mut Mistakes) -> Vec<Exclude> {
    let one = |node: &Node, path: &str| match &node.value {
        Value::Scalar(scalar) if !scalar.is_null() && !scalar.text.trim().is_empty() => Ok(Exclude {
            text: scalar.text.to_string(),
            place: node.place,
        }),
        _ => {
            let message = format!("{path}: expected an expression or a list of them, got {}", node.kind());
            Err(Diagnostic::new(message)
                .at(node.place)
                .help("for example `exclude: \"rank == 64 and dtype == 'bfloat16'\"`"))
        }
    };
    let read: Vec<_> = match &node.value {
        Value::List(list) => list
            .iter()
            .enumerate()
            .map(|(index, node)| one(node, &format!("sweep.exclude[{index}]")))
            .collect(),
        _ => vec![one(node, "sweep.exclude")],
    };
    read.into_iter().filter_map(|read| mistakes.take(read)).collect()
}

fn read_include(node: &Node, mistakes: &mut Mistakes) -> Vec<Vec<Assignment>> {
    let Value::List(list) = &node.value else {
        let message = format!("sweep.include: expected a list of maps, got {}", node.kind());
        mistakes.add(
            Diagnostic::new(message)
                .at(node.place)
                .help("for example `include: [{rank: 0, dtype: float32}]`"),
        );
        return Vec::new();
    };
    let mut included = Vec::new();
    for (index, node) in list.iter().enumerate() {
        let section = format!("sweep.include[{index}]");
        let Some(map) = mistakes.take(expect_map(node, &section)) else {
            continue;
        };
        let mut assignments = Vec::new();
        for (name, Entry { key, value }) in map {
            let Some(path) = mistakes.take(cell_key(name, &section, *key)) else {
                leave_open(name, mistakes);
                continue;
            };
            assignments.push(Assignment::new(name, path, *key, value));
        }
        included.push(assignments);
    }
    included
}
