//! The `sweep` section: which keys vary, and how they are combined.

use super::error::Diagnostic;
use super::keys;
use super::source::Place;
use super::tree::{Map, Node, Value};
use crate::text::quoted;

/// One key and the value that a cell gives it.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub name: String,
    pub path: Vec<String>,
    pub key: Place,
    pub value: Node,
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
    pub fn name(&self) -> &str {
        &self.values[0].name
    }

    pub fn path(&self) -> &[String] {
        &self.values[0].path
    }
}

/// Axes that step together: one of the grid, or all of the zip.
#[derive(Debug, Clone)]
pub(crate) struct Dimension {
    pub axes: Vec<Axis>,
}

impl Dimension {
    pub fn len(&self) -> usize {
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
    /// Whether the product counts: it does not where there are only included cells.
    pub product: bool,
}

const SECTIONS: [&str; 4] = ["grid", "zip", "exclude", "include"];

impl Sweep {
    /// Reads the section; without one there is a single cell.
    pub fn read(section: Option<&Node>) -> Result<Self, Diagnostic> {
        let Some(section) = section.filter(|node| !node.is_null()) else {
            return Ok(Self {
                product: true,
                ..Self::default()
            });
        };
        let map = expect_map(section, "sweep")?;
        for (key, entry) in map.iter() {
            if !SECTIONS.contains(&&**key) {
                let help =
                    keys::suggestion(key, &SECTIONS).unwrap_or_else(|| match keys::is_known(&[key.to_string()]) {
                        true => format!("a key to vary stands in `grid` or `zip`: `sweep: {{grid: {{{key}: [...]}}}}`"),
                        false => "a sweep has `grid`, `zip`, `exclude` and `include`".into(),
                    });
                return Err(Diagnostic::new(format!("sweep.{key}: unknown key"))
                    .at(entry.key)
                    .help(help));
            }
        }
        let mut sweep = Self {
            product: map.contains_key("grid") || map.contains_key("zip"),
            ..Self::default()
        };
        if let Some(entry) = map.get("grid") {
            let axes = read_axes(&entry.value, "sweep.grid", entry.key)?;
            sweep
                .dimensions
                .extend(axes.into_iter().map(|axis| Dimension { axes: vec![axis] }));
        }
        if let Some(entry) = map.get("zip") {
            let axes = read_axes(&entry.value, "sweep.zip", entry.key)?;
            check_zip(&axes)?;
            sweep.dimensions.push(Dimension { axes });
        }
        check_overlap(&sweep)?;
        if let Some(entry) = map.get("exclude") {
            sweep.exclude = read_exclude(&entry.value)?;
            if !sweep.product {
                let message = "sweep.exclude: there is no `grid` and no `zip` to exclude combinations from";
                return Err(Diagnostic::new(message).at(entry.key));
            }
        }
        if let Some(entry) = map.get("include") {
            sweep.include = read_include(&entry.value)?;
        }
        match map.get_index(0) {
            None => Err(Diagnostic::new("sweep: the section is empty")
                .at(section.place)
                .help("leave it out for one cell")),
            Some((_, first)) if !sweep.product && sweep.include.is_empty() => {
                let message = "sweep: there is nothing to sweep: no `grid`, no `zip` and no `include`";
                Err(Diagnostic::new(message).at(first.key))
            }
            Some(_) => Ok(sweep),
        }
    }

    /// The keys that it sets, in the product or in an included cell.
    pub fn paths(&self) -> impl Iterator<Item = &[String]> {
        let included = self
            .include
            .iter()
            .flatten()
            .map(|assignment| assignment.path.as_slice());
        self.axes().map(Axis::path).chain(included)
    }

    pub fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.dimensions.iter().flat_map(|dimension| &dimension.axes)
    }
}

pub(crate) fn expect_map<'n>(node: &'n Node, path: &str) -> Result<&'n Map, Diagnostic> {
    node.as_map()
        .ok_or_else(|| Diagnostic::new(format!("{path}: expected a map, got {}", node.kind())).at(node.place))
}

fn read_axes(section: &Node, path: &'static str, key: Place) -> Result<Vec<Axis>, Diagnostic> {
    let empty = || {
        Diagnostic::new(format!("{path}: the section has no axes"))
            .at(key)
            .help("for example `rank: [4, 8]`")
    };
    if section.is_null() {
        return Err(empty());
    }
    let map = expect_map(section, path)?;
    if map.is_empty() {
        return Err(empty());
    }
    map.iter()
        .map(|(name, entry)| read_axis(name, entry.key, &entry.value, path))
        .collect()
}

fn read_axis(name: &str, key: Place, values: &Node, section: &'static str) -> Result<Axis, Diagnostic> {
    let path = cell_key(name, section, key)?;
    let Value::List(list) = &values.value else {
        let message = format!("{section}.{name}: an axis is a list of values, got {}", values.kind());
        let help = matches!(values.value, Value::Scalar(_)).then(|| format!("write `[{}]`", flow(values)));
        return Err(Diagnostic::new(message).at(values.place).help_if(help));
    };
    if list.is_empty() {
        let message = format!("{section}.{name}: the axis has no values, so there would be no cells");
        return Err(Diagnostic::new(message).at(values.place));
    }
    let assignment = |value: &Node| Assignment {
        name: name.into(),
        path: path.clone(),
        key,
        value: value.clone(),
    };
    Ok(Axis {
        section,
        values: list.iter().map(assignment).collect(),
        key,
    })
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
    let help = keys::suggestion(name, &known).unwrap_or_else(|| "`expctl schema` lists the keys of a cell".into());
    Err(Diagnostic::new(format!("{section}.{}: unknown key", escape(name)))
        .at(place)
        .help(help))
}

fn escape(name: &str) -> String {
    quoted(name).trim_matches('`').to_owned()
}

fn check_zip(axes: &[Axis]) -> Result<(), Diagnostic> {
    let count = |axis: &Axis| {
        format!(
            "{} value{}",
            axis.values.len(),
            if axis.values.len() == 1 { "" } else { "s" }
        )
    };
    match axes.iter().find(|axis| axis.values.len() != axes[0].values.len()) {
        None => Ok(()),
        Some(other) => Err(Diagnostic::new("sweep.zip: paired axes need equally many values")
            .label(other.key, format!("{} has {}", other.name(), count(other)))
            .label(axes[0].key, format!("{} has {}", axes[0].name(), count(&axes[0])))),
    }
}

/// No axis may be named twice, or lie inside another.
fn check_overlap(sweep: &Sweep) -> Result<(), Diagnostic> {
    let axes: Vec<&Axis> = sweep.axes().collect();
    for (index, axis) in axes.iter().enumerate() {
        let clash = axes[..index]
            .iter()
            .find(|other| axis.path().starts_with(other.path()) || other.path().starts_with(axis.path()));
        if let Some(other) = clash {
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
            return Err(Diagnostic::new(message).at(axis.key).label(other.key, "the other one"));
        }
    }
    Ok(())
}

fn read_exclude(node: &Node) -> Result<Vec<Exclude>, Diagnostic> {
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
    match &node.value {
        Value::List(list) => list
            .iter()
            .enumerate()
            .map(|(index, node)| one(node, &format!("sweep.exclude[{index}]")))
            .collect(),
        _ => Ok(vec![one(node, "sweep.exclude")?]),
    }
}

fn read_include(node: &Node) -> Result<Vec<Vec<Assignment>>, Diagnostic> {
    let Value::List(list) = &node.value else {
        let message = format!("sweep.include: expected a list of maps, got {}", node.kind());
        return Err(Diagnostic::new(message)
            .at(node.place)
            .help("for example `include: [{rank: 0, dtype: float32}]`"));
    };
    let entry = |(index, node): (usize, &Node)| {
        let section = format!("sweep.include[{index}]");
        let assignment = |(name, entry): (&std::rc::Rc<str>, &super::tree::Entry)| {
            let path = cell_key(name, &section, entry.key)?;
            Ok(Assignment {
                name: name.to_string(),
                path,
                key: entry.key,
                value: entry.value.clone(),
            })
        };
        expect_map(node, &section)?.iter().map(assignment).collect()
    };
    list.iter().enumerate().map(entry).collect()
}

/// A node in one line of YAML, for messages.
pub(crate) fn flow(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) if scalar.plain && scalar.text.is_empty() => "null".into(),
        Value::Scalar(scalar) if scalar.plain => scalar.text.to_string(),
        Value::Scalar(scalar) => format!("\"{}\"", scalar.text.escape_default()),
        Value::List(list) => format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, entry)| format!("{key}: {}", flow(&entry.value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}
