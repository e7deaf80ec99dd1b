//! The way from a step's profile to a whole training: cells that come nearer to it one cause at a time, and the bytes
//! that each cause changes. All rows add up to the byte.

use results::columns::{category_column, profile_column};
use serde::Serialize;
use trace::Category;

use super::axes::{is_of_machine, key_columns};
use super::entry::Entry;
use super::group::Group;

/// What may differ between a profile and a training that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The size of a micro-batch.
    MicroBatch,
    /// The number of micro-batches in a step.
    Accumulation,
    /// All of a training instead of one step's passes.
    Training,
}

/// The keys of each cause.
fn keys() -> impl Iterator<Item = (Cause, &'static str)> {
    let of = |cause, keys: &'static [&str]| keys.iter().map(move |key| (cause, *key));
    of(Cause::MicroBatch, &["batch_size", "max_seq_length", "padding", "data"])
        .chain(of(Cause::Accumulation, &["gradient_accumulation_steps"]))
        .chain(of(Cause::Training, &["measure"]))
        .chain(cell::of_trainings().map(|key| (Cause::Training, key)))
}

/// The way from the lowest profile to the highest training that is otherwise equal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ProfilePath {
    /// The profile.
    pub profile: Entry,
    /// The training.
    pub training: Entry,
    /// Categories of tensors that held bytes on the way.
    pub categories: Vec<&'static str>,
    /// From the profile's components to the training's peak: levels, and the changes between them.
    pub rows: Vec<Row>,
    /// The gradients of the training, if it accumulates.
    pub accumulation: Option<Accumulated>,
}

/// A level or a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The meaning of the row.
    pub kind: RowKind,
    /// The causes of a change between two cells.
    pub causes: Vec<Cause>,
    /// The cell of a level, or the one that a change leads to.
    pub cell: Entry,
    /// Bytes of each of the path's categories; `None` if the row says nothing of one.
    pub parts: Vec<Option<f64>>,
    /// The sum of the parts.
    pub sum: f64,
}

/// The meaning of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowKind {
    /// The profile's components.
    Components,
    /// Change: components that are not alive at the profile's peak.
    NotAlive,
    /// Change: memory at the profile's peak that belongs to no component.
    NoComponent,
    /// The peak of a cell.
    Peak,
    /// Change: from the peak of one cell to that of the next.
    Change,
}

/// The gradients that a training with accumulation holds at its peak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Accumulated {
    /// Micro-batches in a step.
    pub micro_batches: f64,
    /// Bytes that one micro-batch leaves.
    pub one: f64,
    /// Bytes at the training's peak.
    pub held: f64,
    /// True if the gradients of all micro-batches are alive at the peak.
    pub keeps_all: bool,
}

/// A profile and a training of equal micro-batches and accumulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Twins {
    /// The profile.
    pub profile: Entry,
    /// The training.
    pub training: Entry,
    /// The training's peak, less the profile's.
    pub difference: f64,
}

/// A path for each configuration that has a profile and a training.
pub(crate) fn paths(groups: &[Group]) -> Vec<ProfilePath> {
    let cells = measured(groups);
    let mut trainings: Vec<&Entry> = cells.iter().copied().filter(|cell| !is_profile(cell)).collect();
    // Of equal peaks, the training that accumulates over more micro-batches comes first.
    let micro_batches = |cell: &Entry| cell.number("gradient_accumulation_steps").unwrap_or(1.0);
    trainings.sort_by(|a, b| {
        let by_peak = peak(b).total_cmp(&peak(a));
        by_peak.then(micro_batches(b).total_cmp(&micro_batches(a)))
    });
    let mut paths: Vec<ProfilePath> = Vec::new();
    for training in trainings {
        let known = |path: &ProfilePath| causes(&path.training, training).is_some();
        let profiles = cells.iter().copied().filter(|cell| is_profile(cell));
        let lowest = profiles
            .filter(|cell| causes(cell, training).is_some())
            .min_by(|a, b| peak(a).total_cmp(&peak(b)));
        if let Some(profile) = lowest
            && !paths.iter().any(known)
        {
            paths.push(ProfilePath::new(&way(&cells, profile, training)));
        }
    }
    paths
}

/// Each profile with each training that differs in being one alone.
pub(crate) fn twins(groups: &[Group]) -> Vec<Twins> {
    let cells = measured(groups);
    let profiles = cells.iter().filter(|cell| is_profile(cell));
    let pairs = profiles.flat_map(|profile| cells.iter().map(move |training| (*profile, *training)));
    pairs
        .filter(|(profile, training)| causes(profile, training).is_some_and(|causes| causes == [Cause::Training]))
        .filter(|(_, training)| !is_profile(training))
        .map(|(profile, training)| Twins {
            profile: profile.clone(),
            training: training.clone(),
            difference: peak(training) - peak(profile),
        })
        .collect()
}

/// The first cell of each group that ended well and has its peak by category.
fn measured(groups: &[Group]) -> Vec<&Entry> {
    let cells = groups
        .iter()
        .filter_map(|group| group.cells.iter().find(|cell| cell.is_ok()));
    let has_parts = |cell: &&Entry| tensors().all(|category| at_peak(cell, category).is_some());
    cells.filter(has_parts).collect()
}

fn is_profile(cell: &Entry) -> bool {
    cell.text("measure") == Some("profile")
}

fn tensors() -> impl Iterator<Item = Category> {
    Category::ALL.into_iter().filter(|category| category.is_tensor())
}

fn peak(cell: &Entry) -> f64 {
    tensors().filter_map(|category| at_peak(cell, category)).sum()
}

fn at_peak(cell: &Entry, category: Category) -> Option<f64> {
    cell.number(&category_column(category.name()))
}

fn component(cell: &Entry, category: Category) -> Option<f64> {
    cell.number(&profile_column(category.name()))
}

/// The causes by which two cells differ, in their order; `None` if they differ in another key, too.
fn causes(from: &Entry, to: &Entry) -> Option<Vec<Cause>> {
    let columns = key_columns(std::slice::from_ref(from));
    let differ = columns
        .iter()
        .filter(|key| !is_of_machine(key) && from.get(key) != to.get(key));
    let cause = |key: &String| keys().find_map(|(cause, own)| (own == key).then_some(cause));
    let causes: Option<Vec<Cause>> = differ.map(cause).collect();
    let mut causes = causes?;
    causes.sort_unstable();
    causes.dedup();
    Some(causes)
}

/// The cells from a profile to a training. Each has keys of the cell before it or of the training, and as few causes as
/// possible change at once.
fn way<'a>(cells: &[&'a Entry], profile: &'a Entry, training: &'a Entry) -> Vec<&'a Entry> {
    let mut way = vec![profile];
    let mut current = profile;
    while current != training {
        let is_between = |cell: &&&Entry| {
            let moves = |(_, key)| cell.get(key) == current.get(key) || cell.get(key) == training.get(key);
            keys().all(moves) && causes(current, cell).is_some_and(|causes| !causes.is_empty())
        };
        let changed = |cell: &&&Entry| causes(current, cell).map(|causes| (causes.len(), causes));
        // The training itself is always between.
        current = cells
            .iter()
            .filter(is_between)
            .min_by_key(changed)
            .copied()
            .unwrap_or(training);
        way.push(current);
    }
    way
}

impl ProfilePath {
    /// The path along these cells; the first one is a profile and the last one a training.
    fn new(way: &[&Entry]) -> Self {
        let (profile, training) = (way[0], way[way.len() - 1]);
        let held = |category: &Category| {
            let bytes = |cell: &&Entry| at_peak(cell, *category).unwrap_or(0.0);
            way.iter().map(bytes).sum::<f64>() + component(profile, *category).unwrap_or(0.0) > 0.0
        };
        let categories: Vec<Category> = tensors().filter(held).collect();
        let row = |kind, cell: &Entry, part: &dyn Fn(Category) -> Option<f64>| {
            let parts: Vec<Option<f64>> = categories.iter().map(|category| part(*category)).collect();
            Row {
                kind,
                causes: Vec::new(),
                cell: cell.clone(),
                sum: parts.iter().flatten().sum(),
                parts,
            }
        };
        let level = |cell: &Entry| row(RowKind::Peak, cell, &|category| at_peak(cell, category));
        let mut rows = vec![
            row(RowKind::Components, profile, &|category| component(profile, category)),
            row(RowKind::NotAlive, profile, &|category| {
                Some(at_peak(profile, category)? - component(profile, category)?)
            }),
            row(
                RowKind::NoComponent,
                profile,
                &|category| match component(profile, category) {
                    Some(_) => None,
                    None => at_peak(profile, category),
                },
            ),
            level(profile),
        ];
        for pair in way.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let change = row(RowKind::Change, to, &|category| {
                Some(at_peak(to, category)? - at_peak(from, category)?)
            });
            let causes = causes(from, to).unwrap_or_default();
            rows.extend([Row { causes, ..change }, level(to)]);
        }
        Self {
            accumulation: accumulated(profile, training),
            categories: categories.into_iter().map(Category::name).collect(),
            profile: profile.clone(),
            training: training.clone(),
            rows,
        }
    }
}

fn accumulated(profile: &Entry, training: &Entry) -> Option<Accumulated> {
    let micro_batches = training
        .number("gradient_accumulation_steps")
        .filter(|count| *count > 1.0)?;
    let one = component(profile, Category::Gradient).filter(|bytes| *bytes > 0.0)?;
    let held = at_peak(training, Category::Gradient)?;
    Some(Accumulated {
        micro_batches,
        one,
        held,
        keeps_all: held >= micro_batches * one,
    })
}

impl Twins {
    /// The training's peak.
    pub(super) fn peak(&self) -> f64 {
        peak(&self.training)
    }
}
