//! From a sweep to its cells: every combination typed by its keys, checked and named.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use indexmap::IndexMap;
use serde_json::{Map, Value as Json};

use super::adapter_config::AdapterConfigs;
use super::axis_values::axis_values;
use super::cell::{Cell, Invalid};
use super::de;
use super::diagnostic::{Diagnostic, Label, Mistakes};
use super::filter::{self, Filter};
use super::key_path::{lies_in, nearest_node};
use super::lineage::Lineage;
use super::place::Place;
use super::sample::Sample;
use super::study::StudyCell;
use super::sweep::{Assignment, Sweep};
use super::tree::Node;
use super::type_values::leave_open;
use crate::text::{counted, quoted};

/// More combinations than this are a mistake: at a second a cell they take more than a day.
const MOST_CELLS: u64 = 100_000;

/// Keys that decide which values the others may have.
const DECIDING: [&str; 2] = ["stack", "task"];

/// The cells of a sweep.
pub(crate) struct Expansion {
    pub cells: Vec<StudyCell>,
    /// The keys that vary.
    pub axes: Vec<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// The cells of `sweep` over `defaults`, each with `repeats` seeds. `pinned` says that overrides fix some of the axes.
///
/// The values of `defaults` and of the axes have their types. `None` if there are too many cells to look at.
pub(crate) fn expand(
    defaults: &Node,
    sweep: &Sweep,
    configs: &AdapterConfigs,
    repeats: usize,
    pinned: bool,
    mistakes: &mut Mistakes,
) -> Option<Expansion> {
    let product = mistakes.take(check_count(sweep, repeats))?;
    if repeats > 1 {
        mistakes.take(check_seed_axis(sweep));
    }
    let language = filter::language();
    let filter = mistakes.take(Filter::compile(&language, &sweep.exclude));
    if filter.is_none() {
        // Other conditions may be wrong as well, and any combination may be meant to be excluded.
        for exclude in &sweep.exclude {
            mistakes.take(Filter::compile(&language, std::slice::from_ref(exclude)));
        }
        sweep.axes().for_each(|axis| mistakes.leave_open(Some(axis.name())));
    }
    let mut expander = Expander {
        defaults,
        sweep,
        configs,
        repeats,
        pinned,
        filter,
        axes: sweep.axis_names(),
        cells: Vec::new(),
        origins: HashMap::new(),
        merged: 0,
        invalid: IndexMap::new(),
        sound: mistakes.is_empty(),
        mistakes,
    };
    let mut notes = expander.add_product(product);
    for index in 0..sweep.include.len() {
        if let Some(made) = expander.make(Origin::Include(index)) {
            expander.add(made);
        }
    }
    expander.report_invalid();
    if let Some(filter) = &expander.filter {
        notes.splice(0..0, filter.idle());
    }
    if expander.merged > 0 {
        let merged = counted(expander.merged, "cell");
        notes.push(format!("{merged} merged with an equal one"));
    }
    Some(Expansion {
        cells: expander.cells,
        axes: expander.axes,
        notes,
    })
}

/// The number of combinations. A sample of them may be few, however many there are.
fn check_count(sweep: &Sweep, repeats: usize) -> Result<u64, Diagnostic> {
    let lengths = sweep.dimensions.iter().map(|dimension| dimension.len() as u64);
    let product = if sweep.product {
        lengths.fold(1, u64::saturating_mul)
    } else {
        0
    };
    let count = sweep.sample.as_ref().map(|(sample, _)| sample.count as u64);
    let drawn = count
        .filter(|_| product < u64::MAX)
        .map_or(product, |count| product.min(count));
    let cells = drawn
        .saturating_add(sweep.include.len() as u64)
        .saturating_mul(repeats as u64);
    if cells <= MOST_CELLS {
        return Ok(product);
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
        diagnostic.label(axis.key, counted(axis.values.len(), "value"))
    }))
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

/// The part of the sweep that a cell comes from.
#[derive(Clone, Copy)]
enum Origin {
    Product(u64),
    Include(usize),
}

/// A cell before it is checked.
struct Made {
    origin: Origin,
    tree: Node,
    cell: Cell,
    keys: Map<String, Json>,
}

struct Expander<'s> {
    defaults: &'s Node,
    sweep: &'s Sweep,
    configs: &'s AdapterConfigs,
    repeats: usize,
    pinned: bool,
    /// `None` if there are mistakes in the conditions.
    filter: Option<Filter<'s>>,
    axes: Vec<String>,
    cells: Vec<StudyCell>,
    origins: HashMap<String, Origin>,
    /// How many cells the overrides made equal to an earlier one.
    merged: usize,
    /// Values that cells cannot have, with the number of cells, by key and place.
    invalid: IndexMap<(String, Option<Place>), (Diagnostic, usize)>,
    /// No mistake so far leaves open which cells there are.
    sound: bool,
    mistakes: &'s mut Mistakes,
}

impl<'s> Expander<'s> {
    /// Adds all combinations, or a sample of them. Returns remarks for the user.
    fn add_product(&mut self, product: u64) -> Vec<String> {
        if let Some((sample, place)) = &self.sweep.sample {
            return self.add_sample(sample, *place, product);
        }
        let mut left = 0;
        for index in 0..product {
            if let Some(made) = self.make(Origin::Product(index)) {
                left += 1;
                self.add(made);
            }
        }
        if product > 0 && left == 0 && self.sweep.include.is_empty() && self.sound && self.mistakes.is_empty() {
            self.mistakes.add(self.all_excluded(product));
        }
        Vec::new()
    }

    fn all_excluded(&self, product: u64) -> Diagnostic {
        let message = match product {
            1 => "sweep.exclude: the only combination is excluded".to_owned(),
            _ => format!("sweep.exclude: all {product} combinations are excluded"),
        };
        let places = self.sweep.exclude.iter().map(|exclude| exclude.place);
        places.fold(Diagnostic::new(message), Diagnostic::at)
    }

    /// Adds as many combinations as the sample asks for, in the order of the sweep.
    fn add_sample(&mut self, sample: &Sample, place: Place, product: u64) -> Vec<String> {
        let mut drawn: Vec<(u64, Made)> = Vec::new();
        let mut looked_at = 0;
        for index in sample.draw(product).take(MOST_CELLS as usize) {
            looked_at += 1;
            drawn.extend(self.make(Origin::Product(index)).map(|made| (index, made)));
            if drawn.len() == sample.count {
                break;
            }
        }
        let left = drawn.len();
        drawn.sort_by_key(|(index, _)| *index);
        drawn.into_iter().for_each(|(_, made)| self.add(made));
        if left == sample.count || !self.sound {
            return Vec::new();
        }
        if left == 0 && looked_at == product && !self.sweep.exclude.is_empty() && !self.pinned {
            self.mistakes.add(self.all_excluded(product));
            return Vec::new();
        }
        let there_are = match looked_at == product {
            true => format!("and there are {left}"),
            false => format!("and {left} of {looked_at} that were looked at are not excluded"),
        };
        let message = format!("{} are asked for, {there_are}", counted(sample.count, "combination"));
        if self.pinned {
            return vec![format!("sweep.sample: {message}")];
        }
        self.mistakes
            .add(Diagnostic::new(format!("sweep.sample.count: {message}")).at(place));
        Vec::new()
    }

    /// Types a combination. `None` if it is excluded, or cannot be typed.
    fn make(&mut self, origin: Origin) -> Option<Made> {
        let mut tree = self.defaults.clone();
        for assignment in self.assignments(origin) {
            tree.set(&assignment.path, assignment.key, assignment.value.clone());
        }
        let in_config = match self.configs.expand(&mut tree) {
            Ok(in_config) => in_config,
            Err(mistake) => return self.refuse(vec![mistake], origin),
        };
        let cell = match de::read(&tree) {
            Ok(cell) => cell,
            Err(_) => self.take_out_mistakes(&mut tree, origin)?,
        };
        let keys = cell.to_map();
        if matches!(origin, Origin::Product(_)) {
            let filter = self.filter.as_mut();
            match filter.map_or(Ok(false), |filter| filter.excludes(&cell, &keys)) {
                Ok(false) => {}
                Ok(true) => return None,
                Err(mistake) => {
                    self.mistakes.add(self.explain(mistake, origin));
                    return None;
                }
            }
        }
        if !in_config.is_empty() {
            return self.refuse(in_config, origin);
        }
        Some(Made {
            origin,
            tree,
            cell,
            keys,
        })
    }

    /// Reports what is wrong with a combination, which makes no cell.
    fn refuse(&mut self, mistakes: Vec<Diagnostic>, origin: Origin) -> Option<Made> {
        self.sound = false;
        for mistake in mistakes {
            self.mistakes.add(self.explain(mistake, origin));
        }
        None
    }

    /// Reports what cannot be typed in a combination, and reads the rest.
    fn take_out_mistakes(&mut self, tree: &mut Node, origin: Origin) -> Option<Cell> {
        let (cell, errors) = de::read_all(tree);
        self.sound = false;
        for error in errors {
            leave_open(&error, self.mistakes);
            self.mistakes.add(self.explain(error.diagnostic(""), origin));
        }
        cell
    }

    /// Checks a cell and adds it, once for each repeat.
    fn add(&mut self, made: Made) {
        let Made {
            origin,
            tree,
            mut cell,
            mut keys,
        } = made;
        if let Err(invalid) = cell.validate() {
            invalid
                .0
                .iter()
                .for_each(|invalid| self.note_invalid(invalid, &tree, origin));
            return;
        }
        let first_seed = cell.seed;
        for repeat in 0..self.repeats as u64 {
            let Some(seed) = first_seed.checked_add(repeat) else {
                let message = "seed: the last repeat's seed is beyond 64 bits";
                self.mistakes.add(self.explain(Diagnostic::new(message), origin));
                return;
            };
            cell.seed = seed;
            keys.insert("seed".into(), cell.seed.into());
            self.add_cell(cell.clone(), &keys, origin);
        }
    }

    fn add_cell(&mut self, cell: Cell, keys: &Map<String, Json>, origin: Origin) {
        let id = cell.id_of(keys);
        match self.origins.entry(id.clone()) {
            Slot::Vacant(slot) => {
                slot.insert(origin);
                let axes = axis_values(&self.axes, keys);
                self.cells.push(StudyCell {
                    id,
                    cell,
                    axes,
                    lineage: Lineage::Written,
                });
            }
            Slot::Occupied(_) if self.pinned => self.merged += 1,
            Slot::Occupied(slot) => {
                let first = *slot.get();
                // One of them shows what is wrong.
                if std::mem::take(&mut self.sound) {
                    self.mistakes.add(self.duplicate(first, origin));
                }
            }
        }
    }

    /// Notes an invalid value, unless it follows from another mistake.
    fn note_invalid(&mut self, invalid: &Invalid, tree: &Node, origin: Origin) {
        let keys = [invalid.key.as_str()].into_iter().chain(DECIDING);
        if self.mistakes.leaves_open(keys.chain(invalid.with.iter().copied())) {
            return;
        }
        let place = nearest_node(tree, &invalid.key).map(|node| node.place);
        let key = (invalid.key.clone(), place);
        let is_of_all = self.is_of_all(invalid, origin);
        match self.invalid.get_mut(&key) {
            Some(_) if is_of_all => {}
            Some((_, cells)) => *cells += 1,
            None => {
                let diagnostic = self.invalid(invalid, tree, origin);
                self.invalid.insert(key, (diagnostic, 1));
            }
        }
    }

    /// Adds the invalid values to the mistakes: each once, however many cells have it.
    fn report_invalid(&mut self) {
        for (_, (diagnostic, cells)) in std::mem::take(&mut self.invalid) {
            self.mistakes.add(match cells {
                1 => diagnostic,
                cells => diagnostic.help(format!("the same holds for {}", counted(cells - 1, "more cell"))),
            });
        }
    }

    fn assignments(&self, origin: Origin) -> Vec<&'s Assignment> {
        match origin {
            Origin::Include(index) => self.sweep.include[index].iter().collect(),
            Origin::Product(mut index) => {
                let mut assignments = Vec::new();
                for dimension in self.sweep.dimensions.iter().rev() {
                    let length = dimension.len() as u64;
                    let step = (index % length) as usize;
                    index /= length;
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
            let place = if assignment.value.place.is_empty() {
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
        let assigned = |key: &str| assignments.iter().any(|assignment| lies_in(key, &assignment.name));
        let made_by = match self.is_of_all(invalid, origin) {
            true => String::new(),
            false => format!(" ({})", text(&assignments)),
        };
        let section = match nearest_node(self.defaults, &invalid.key) {
            Some(_) if !assigned(&invalid.key) => "defaults.",
            _ => "",
        };
        let message = format!("{section}{}: {}{made_by}", invalid.key, invalid.mistake.message);
        let mut diagnostic = Diagnostic::new(message).help_if(invalid.mistake.help.as_ref());
        let keys = std::iter::once(invalid.key.as_str()).chain(invalid.with.iter().copied());
        for key in keys {
            let Some(node) = nearest_node(tree, key) else { continue };
            let label = if invalid.with.is_empty() {
                String::new()
            } else {
                format!("{key} = {}", node.to_flow_yaml())
            };
            let bytes = invalid.mistake.range.as_ref().filter(|_| key == invalid.key);
            let part = bytes
                .zip(node.text())
                .and_then(|(bytes, text)| node.place.part(text, bytes));
            diagnostic = diagnostic.label(part.unwrap_or(node.place), label);
        }
        match self.is_of_all(invalid, origin) {
            true => diagnostic,
            false => self.explain(diagnostic, origin),
        }
    }

    /// True if a mistake is in the defaults alone, and so in every combination.
    fn is_of_all(&self, invalid: &Invalid, origin: Origin) -> bool {
        let keys = [invalid.key.as_str()].into_iter().chain(DECIDING);
        let mut keys = keys.chain(invalid.with.iter().copied());
        let assignments = self.assignments(origin);
        keys.all(|key| {
            !assignments
                .iter()
                .any(|assignment| lies_in(key, &assignment.name) || lies_in(&assignment.name, key))
        })
    }
}

/// `rank = 4, dtype = int4`.
fn text(assignments: &[&Assignment]) -> String {
    let one = |assignment: &&Assignment| {
        let value = assignment.value.to_flow_yaml();
        format!("{} = {}", assignment.name, quoted(&value).trim_matches('`'))
    };
    if assignments.is_empty() {
        "of the defaults".into()
    } else {
        assignments.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
