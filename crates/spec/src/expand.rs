//! From a sweep to its cells: every combination typed by its keys, checked and named.

mod check;
mod explain;
mod idle;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use base::text::counted;
use cell::{Cell, Engine};
use idle::IdleDefaults;
use indexmap::IndexMap;
use serde_json::{Map, Value as Json};
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Place;
use yaml::tree::Node;

use super::axis_values::{axis_values, values_of};
use super::config_files::ConfigFiles;
use super::filter::{self, Filter};
use super::key_path::nearest_path;
use super::lineage::Lineage;
use super::sample::Sample;
use super::study::StudyCell;
use super::sweep::{Assignment, Sweep};
use super::type_values::leave_open;
use crate::typed;

/// More combinations than this are a mistake: at a second a cell they take more than a day.
const MOST_CELLS: u64 = 100_000;

/// Keys that decide which values the others may have.
const DECIDING: [&str; 3] = ["stack", "engine", "task"];

/// The cells of a sweep.
pub(crate) struct Expansion {
    pub cells: Vec<StudyCell>,
    /// The keys that vary.
    pub axes: Vec<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// The cells of `sweep` over `defaults`, each with `repeats` seeds. `pinned` names the keys of the sweep that
/// overrides fix.
///
/// The values of `defaults` and of the axes have their types. `None` if there are too many cells to look at.
pub(crate) fn expand(
    defaults: &Node,
    sweep: &Sweep,
    configs: &ConfigFiles,
    repeats: usize,
    pinned: &[String],
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
        idle: IdleDefaults::new(defaults),
        saw_all: true,
        sound: mistakes.is_empty(),
        mistakes,
    };
    let mut notes = expander.add_product(product);
    for index in 0..sweep.include.len() {
        if let Some(made) = expander.make(Origin::Include(index)) {
            expander.add(made);
        }
    }
    let idle = expander.report_idle();
    notes.extend(idle);
    expander.report_invalid();
    if let Some(filter) = expander.filter.as_ref().filter(|_| expander.saw_all) {
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
    configs: &'s ConfigFiles,
    repeats: usize,
    pinned: &'s [String],
    /// `None` if there are mistakes in the conditions.
    filter: Option<Filter<'s>>,
    axes: Vec<String>,
    cells: Vec<StudyCell>,
    /// Where each id comes from, and the index of its cell.
    origins: HashMap<String, (Origin, usize)>,
    /// How many cells the overrides made equal to an earlier one.
    merged: usize,
    /// Values that cells cannot have, with the number of cells, by key and place.
    invalid: IndexMap<(String, Option<Place>), (Diagnostic, usize)>,
    /// Defaults that some cells do not heed.
    idle: IdleDefaults,
    /// False if a sample was drawn before all combinations were looked at.
    saw_all: bool,
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
        let mut drawn: Vec<u64> = Vec::new();
        let mut looked_at = 0;
        for index in sample.draw(product).take(MOST_CELLS as usize) {
            looked_at += 1;
            drawn.extend(self.make(Origin::Product(index)).map(|_| index));
            if drawn.len() == sample.count {
                break;
            }
        }
        self.saw_all = looked_at == product;
        let left = drawn.len();
        drawn.sort_unstable();
        for index in drawn {
            // To keep what was made would take kilobytes each.
            if let Some(made) = self.make(Origin::Product(index)) {
                self.add(made);
            }
        }
        if left == sample.count || !self.sound {
            return Vec::new();
        }
        if left == 0 && looked_at == product && !self.sweep.exclude.is_empty() && self.pinned.is_empty() {
            self.mistakes.add(self.all_excluded(product));
            return Vec::new();
        }
        let there_are = match looked_at == product {
            true => format!("and there are {left}"),
            false => format!("and {left} of {looked_at} that were looked at are not excluded"),
        };
        let message = format!("{} are asked for, {there_are}", counted(sample.count, "combination"));
        if !self.pinned.is_empty() {
            return vec![format!("sweep.sample: {message}")];
        }
        self.mistakes
            .add(Diagnostic::new(format!("sweep.sample.count: {message}")).at(place));
        Vec::new()
    }

    /// Types a combination. `None` if it is excluded, or cannot be typed.
    fn make(&mut self, origin: Origin) -> Option<Made> {
        let (made, in_config) = self.typed(origin, &[])?;
        if matches!(origin, Origin::Product(_)) {
            let filter = self.filter.as_mut();
            match filter.map_or(Ok(false), |filter| filter.excludes(&made.cell, &made.keys)) {
                Ok(false) => {}
                Ok(true) => return None,
                Err(mistake) => {
                    self.mistakes.add(self.explain(mistake, origin));
                    return None;
                }
            }
        }
        match in_config.is_empty() {
            true => Some(made),
            false => self.refuse(in_config, origin),
        }
    }

    /// Types a combination without the defaults that it does not heed, and says what does not suit its adapter's file.
    fn typed(&mut self, origin: Origin, idle: &[String]) -> Option<(Made, Vec<Diagnostic>)> {
        let mut tree = self.defaults.clone();
        for key in idle {
            tree.remove_at(&nearest_path(self.defaults, key)?);
        }
        for assignment in self.assignments(origin) {
            assignment.apply(&mut tree);
        }
        follow_engine(&mut tree);
        let leaves_adapter_out = self.leaves_adapter_out(&tree);
        let expanded = self.configs.expand(&mut tree, leaves_adapter_out);
        let in_config = match expanded {
            Ok(in_config) => in_config,
            Err(mistake) => return self.refuse(vec![mistake], origin),
        };
        let cell = match typed::read(&tree) {
            Ok(cell) => cell,
            Err(_) => self.take_out_mistakes(&mut tree, origin)?,
        };
        let keys = cell.to_map();
        let made = Made {
            origin,
            tree,
            cell,
            keys,
        };
        Some((made, in_config))
    }

    /// True if a combination has `rank: 0` of its own beside the defaults' file of an adapter, which it does not heed.
    fn leaves_adapter_out(&self, tree: &Node) -> bool {
        let place = |tree: &Node, key: &str| tree.get(&[key]).map(|node| node.place);
        let is_default = |key| place(tree, key) == place(self.defaults, key);
        let is_zero = tree.get(&["rank"]).and_then(Node::text) == Some("0");
        is_zero && !is_default("rank") && is_default("adapter_config")
    }

    /// Reports what is wrong with a combination, which makes no cell.
    fn refuse<T>(&mut self, mistakes: Vec<Diagnostic>, origin: Origin) -> Option<T> {
        self.sound = false;
        for mistake in mistakes {
            self.mistakes.add(self.explain(mistake, origin));
        }
        None
    }

    /// Reports what cannot be typed in a combination, and reads the rest.
    fn take_out_mistakes(&mut self, tree: &mut Node, origin: Origin) -> Option<Cell> {
        let (cell, errors) = typed::read_all(tree);
        self.sound = false;
        for error in errors {
            leave_open(&error, self.mistakes);
            self.mistakes.add(self.explain(error.diagnostic(""), origin));
        }
        cell
    }

    /// Checks a cell and adds it, once for each repeat.
    fn add(&mut self, made: Made) {
        let origin = made.origin;
        let Some(Made { mut cell, mut keys, .. }) = self.checked(made) else {
            return;
        };
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
                slot.insert((origin, self.cells.len()));
                let axes = axis_values(&self.axes, &cell, keys);
                self.cells.push(StudyCell {
                    id,
                    cell,
                    axes,
                    lineage: Lineage::Written,
                });
            }
            Slot::Occupied(_) if !self.pinned.is_empty() => self.merged += 1,
            Slot::Occupied(slot) if differs_idly(&self.axes, &self.cells[slot.get().1].cell, &cell) => self.merged += 1,
            Slot::Occupied(slot) => {
                let (first, _) = *slot.get();
                // One of them shows what is wrong.
                if std::mem::take(&mut self.sound) {
                    self.mistakes.add(self.duplicate(first, origin));
                }
            }
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
}

/// Sets the stack of a combination that names its engine alone.
fn follow_engine(tree: &mut Node) {
    let Some(node) = tree.get(&["engine"]).filter(|_| tree.get(&["stack"]).is_none()) else {
        return;
    };
    let place = node.place;
    if let Some(engine) = node.text().and_then(Engine::named) {
        let stack = Node::of_json(&engine.stack().name().into(), place);
        tree.set(&["stack".to_owned()], place, stack);
    }
}

/// True if two cells with one id differ in axes that they do not heed.
fn differs_idly(axes: &[String], one: &Cell, other: &Cell) -> bool {
    let (one_values, other_values) = (values_of(axes, &one.to_map()), values_of(axes, &other.to_map()));
    let mut differing = axes
        .iter()
        .filter(|axis| one_values[*axis] != other_values[*axis])
        .peekable();
    differing.peek().is_some() && differing.all(|axis| !one.heeds(axis))
}
