//! From a sweep to its cells.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use super::cell::{Cell, Invalid};
use super::de;
use super::error::{Diagnostic, Label};
use super::filter::{self, Filter};
use super::study::StudyCell;
use super::sweep::{Assignment, Axis, Sweep, flow};
use super::tree::Node;
use crate::text::quoted;

/// More combinations than this are a mistake: at a second a cell they take more than a day.
const MOST_CELLS: u64 = 100_000;

/// What a sweep comes to.
pub(crate) struct Expansion {
    pub cells: Vec<StudyCell>,
    /// The keys that vary.
    pub axes: Vec<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// The cells of `sweep` over `defaults`, each with `repeats` seeds. `fixed` says that overrides fix some of the axes.
pub(crate) fn expand(defaults: &Node, sweep: &Sweep, repeats: usize, fixed: bool) -> Result<Expansion, Diagnostic> {
    let product = check_count(sweep, repeats)?;
    check_defaults(defaults, sweep.paths())?;
    sweep.axes().try_for_each(|axis| check_axis(defaults, axis))?;
    if repeats > 1 {
        check_seed_axis(sweep)?;
    }
    let language = filter::language();
    let mut expander = Expander {
        defaults,
        sweep,
        repeats,
        fixed,
        filter: Filter::compile(&language, &sweep.exclude)?,
        axes: axis_names(sweep),
        cells: Vec::new(),
        origins: HashMap::new(),
        merged: 0,
    };
    for index in 0..product {
        expander.add(Origin::Product(index))?;
    }
    if product > 0 && expander.cells.is_empty() && sweep.include.is_empty() {
        let diagnostic = Diagnostic::new(format!("sweep.exclude: all {product} combinations are excluded"));
        return Err(sweep
            .exclude
            .iter()
            .fold(diagnostic, |diagnostic, exclude| diagnostic.at(exclude.place)));
    }
    for index in 0..sweep.include.len() {
        expander.add(Origin::Include(index))?;
    }
    let mut notes = expander.filter.idle();
    if expander.merged > 0 {
        notes.push(format!(
            "{} cells became equal to others and are left out",
            expander.merged
        ));
    }
    Ok(Expansion {
        cells: expander.cells,
        axes: expander.axes,
        notes,
    })
}

fn check_count(sweep: &Sweep, repeats: usize) -> Result<usize, Diagnostic> {
    let lengths = sweep.dimensions.iter().map(|dimension| dimension.len() as u64);
    let product = if sweep.product {
        lengths.fold(1, u64::saturating_mul)
    } else {
        0
    };
    let cells = product
        .saturating_add(sweep.include.len() as u64)
        .saturating_mul(repeats as u64);
    if cells <= MOST_CELLS {
        return Ok(product as usize);
    }
    let count = if cells == u64::MAX {
        "more than 2^64".to_owned()
    } else {
        cells.to_string()
    };
    let diagnostic = Diagnostic::new(format!(
        "the sweep has {count} cells; at most {MOST_CELLS} are possible"
    ));
    Err(sweep.axes().take(8).fold(diagnostic, |diagnostic, axis| {
        diagnostic.label(axis.key, format!("{} values", axis.values.len()))
    }))
}

/// Types the defaults alone. What is missing inside a value that one of the `later` keys completes (a path for a column,
/// say) is no error yet.
pub(crate) fn check_defaults<'p>(
    defaults: &Node,
    mut later: impl Iterator<Item = &'p [String]>,
) -> Result<(), Diagnostic> {
    let Err(error) = de::read::<Cell>(defaults) else {
        return Ok(());
    };
    let around = |path: &[String]| path.len() > error.path.len() && path.starts_with(&error.path);
    if !error.path.is_empty() && later.any(around) {
        Ok(())
    } else {
        Err(error.diagnostic("defaults"))
    }
}

/// Types the values of an axis, each by its key.
fn check_axis(defaults: &Node, axis: &Axis) -> Result<(), Diagnostic> {
    for (index, assignment) in axis.values.iter().enumerate() {
        let mut tree = defaults.clone();
        tree.set(&assignment.path, assignment.key, assignment.value.clone());
        let Err(mut error) = de::read::<Cell>(&tree) else {
            continue;
        };
        if error.path.starts_with(&assignment.path) {
            error.path.drain(..assignment.path.len());
            return Err(error.diagnostic(&format!("{}.{}[{index}]", axis.section, axis.name())));
        }
    }
    Ok(())
}

fn check_seed_axis(sweep: &Sweep) -> Result<(), Diagnostic> {
    match sweep.axes().find(|axis| axis.name() == "seed") {
        Some(axis) => Err(Diagnostic::new(format!(
            "{}.seed: `repeats` gives the cells their seeds already",
            axis.section
        ))
        .at(axis.key)
        .help("keep one of them")),
        None => Ok(()),
    }
}

/// The keys that vary, in the order in which the spec names them.
fn axis_names(sweep: &Sweep) -> Vec<String> {
    let swept = sweep.axes().map(Axis::name);
    let included = sweep
        .include
        .iter()
        .flatten()
        .map(|assignment| assignment.name.as_str());
    let names: indexmap::IndexSet<&str> = swept.chain(included).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Which part of the sweep a cell comes from.
#[derive(Clone, Copy)]
enum Origin {
    Product(usize),
    Include(usize),
}

struct Expander<'s> {
    defaults: &'s Node,
    sweep: &'s Sweep,
    repeats: usize,
    fixed: bool,
    filter: Filter<'s>,
    axes: Vec<String>,
    cells: Vec<StudyCell>,
    origins: HashMap<String, Origin>,
    /// How many cells the overrides made equal to an earlier one.
    merged: usize,
}

impl<'s> Expander<'s> {
    fn add(&mut self, origin: Origin) -> Result<(), Diagnostic> {
        let mut tree = self.defaults.clone();
        for assignment in self.assignments(origin) {
            tree.set(&assignment.path, assignment.key, assignment.value.clone());
        }
        let mut cell: Cell = de::read(&tree).map_err(|error| self.explain(error.diagnostic(""), origin))?;
        let mut keys = cell.to_map();
        if matches!(origin, Origin::Product(_)) {
            let excluded = self
                .filter
                .excludes(&cell, &keys)
                .map_err(|error| self.explain(error, origin))?;
            if excluded {
                return Ok(());
            }
        }
        cell.validate()
            .map_err(|invalid| self.invalid(&invalid, &tree, origin))?;
        let first_seed = cell.seed;
        for repeat in 0..self.repeats as u64 {
            cell.seed = first_seed.checked_add(repeat).ok_or_else(|| {
                let message = "seed: the last repeat's seed is beyond 64 bits";
                self.explain(Diagnostic::new(message), origin)
            })?;
            keys.insert("seed".into(), cell.seed.into());
            self.plan(cell.clone(), &keys, origin)?;
        }
        Ok(())
    }

    fn plan(&mut self, cell: Cell, keys: &Map<String, Json>, origin: Origin) -> Result<(), Diagnostic> {
        let id = cell.id_of(keys);
        match self.origins.entry(id.clone()) {
            Slot::Vacant(slot) => {
                slot.insert(origin);
                let axes = axis_values(&self.axes, keys);
                self.cells.push(StudyCell { id, cell, axes });
                Ok(())
            }
            Slot::Occupied(_) if self.fixed => {
                self.merged += 1;
                Ok(())
            }
            Slot::Occupied(slot) => {
                let first = *slot.get();
                Err(self.duplicate(first, origin))
            }
        }
    }

    fn assignments(&self, origin: Origin) -> Vec<&'s Assignment> {
        match origin {
            Origin::Include(index) => self.sweep.include[index].iter().collect(),
            Origin::Product(mut index) => {
                let mut assignments = Vec::new();
                for dimension in self.sweep.dimensions.iter().rev() {
                    let step = index % dimension.len();
                    index /= dimension.len();
                    assignments.extend(dimension.axes.iter().rev().map(|axis| &axis.values[step]));
                }
                assignments.reverse();
                assignments
            }
        }
    }

    fn duplicate(&self, first: Origin, second: Origin) -> Diagnostic {
        let name = |origin| match origin {
            Origin::Include(index) => format!("sweep.include[{index}]"),
            Origin::Product(_) => format!("the combination {}", text(&self.assignments(origin))),
        };
        let message = format!("{} is the same cell as {}", name(second), name(first));
        let mut diagnostic = self.explain(Diagnostic::new(message), second);
        for label in self.labels(first) {
            if !diagnostic.labels.iter().any(|known| known.place == label.place) {
                diagnostic.labels.push(label);
            }
        }
        diagnostic.help("every cell must differ from the others in a key")
    }

    /// Points at the values that made the combination, each where it was written.
    fn explain(&self, mut diagnostic: Diagnostic, origin: Origin) -> Diagnostic {
        for label in self.labels(origin) {
            match diagnostic.labels.iter_mut().find(|known| known.place == label.place) {
                Some(known) if known.text.is_empty() => known.text = label.text,
                Some(_) => {}
                None => diagnostic.labels.push(label),
            }
        }
        diagnostic
    }

    fn labels(&self, origin: Origin) -> impl Iterator<Item = Label> {
        self.assignments(origin).into_iter().map(|assignment| {
            let place = if assignment.value.place.start == assignment.value.place.end {
                assignment.key
            } else {
                assignment.value.place
            };
            Label {
                place,
                text: text(&[assignment]),
            }
        })
    }

    /// Points at the key at fault, the keys without which it would do, and the values that made the combination.
    fn invalid(&self, invalid: &Invalid, tree: &Node, origin: Origin) -> Diagnostic {
        let assignments = self.assignments(origin);
        let made_by = if assignments.is_empty() {
            String::new()
        } else {
            format!(" ({})", text(&assignments))
        };
        let assigned = |key: &str| assignments.iter().any(|assignment| key.starts_with(&assignment.name));
        let section = match nearest_node(self.defaults, &invalid.key) {
            Some(_) if !assigned(&invalid.key) => "defaults.",
            _ => "",
        };
        let message = format!("{section}{}: {}{made_by}", invalid.key, invalid.message);
        let mut diagnostic = Diagnostic::new(message).help_if(invalid.help.as_ref());
        let keys = std::iter::once(invalid.key.as_str()).chain(invalid.with.iter().copied());
        for key in keys {
            if let Some(node) = nearest_node(tree, key) {
                let label = if invalid.with.is_empty() {
                    String::new()
                } else {
                    format!("{key} = {}", flow(node))
                };
                let at = invalid.at.as_ref().filter(|_| key == invalid.key);
                let place = at.and_then(|at| node.place_of(at)).unwrap_or(node.place);
                diagnostic = diagnostic.label(place, label);
            }
        }
        self.explain(diagnostic, origin)
    }
}

/// The node of a key such as `target_modules[1]`, or else of the innermost key around it that the tree has.
fn nearest_node<'n>(tree: &'n Node, key: &str) -> Option<&'n Node> {
    let path: Vec<&str> = key
        .split(['.', '['])
        .map(|segment| segment.trim_end_matches(']'))
        .collect();
    (1..=path.len()).rev().find_map(|depth| tree.get(&path[..depth]))
}

/// `rank = 4, dtype = int4`.
fn text(assignments: &[&Assignment]) -> String {
    let one = |assignment: &&Assignment| {
        let value = flow(&assignment.value);
        format!("{} = {}", assignment.name, quoted(&value).trim_matches('`'))
    };
    if assignments.is_empty() {
        "of the defaults".into()
    } else {
        assignments.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// What a cell has for each of `axes`.
pub(crate) fn axis_values(axes: &[String], keys: &Map<String, Json>) -> IndexMap<String, Json> {
    let value = |axis: &String| {
        let mut segments = axis.split('.');
        let first = segments.next().and_then(|segment| keys.get(segment));
        first
            .and_then(|first| segments.try_fold(first, |value, segment| value.get(segment)))
            .cloned()
            .unwrap_or(Json::Null)
    };
    axes.iter().map(|axis| (axis.clone(), value(axis))).collect()
}
