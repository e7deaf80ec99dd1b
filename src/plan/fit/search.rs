//! The search: prices are tried from the least to the most, and whole branches are left out by what they need at least.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use serde_json::Value;

use super::space::{Changed, Point, Space};
use crate::plan::{PlanError, Planner};
use crate::results::prediction::Prediction;
use crate::spec::cell::Cell;
use crate::spec::cell::techniques::{Harm, Price};

/// A row of the front needs this share of the memory of the row before it, at most.
const STEP: f64 = 0.9;

/// A changed cell that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The cell.
    pub cell: Cell,
    /// The changes, the mildest first.
    pub changes: Vec<Changed>,
    /// The price of the changes.
    pub price: Price,
    /// The prediction, of PyTorch's stack with a replay of its allocator.
    pub prediction: Prediction,
    point: Point,
}

impl Found {
    /// The keys that changed, with their new values.
    pub fn keys(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.changes.iter().flat_map(|changed| &changed.keys)
    }
}

/// A search in one space.
///
/// Techniques are grouped by the worst that they can do. The harshest group is fixed first, at its least price for which the
/// milder ones can still make the cell fit; then the next. A branch is left out if it is oversize with every milder
/// technique at the step that saves most. What a point needs is bounded by live bytes, without a replay of PyTorch's allocator;
/// what the search finds is replayed before it counts.
#[derive(Debug)]
pub struct Search<'p> {
    planner: &'p Planner,
    space: Space,
    groups: Vec<Group>,
    /// Bytes that points need at least; `None` if they cannot be planned.
    bounds: Mutex<HashMap<Point, Option<u64>>>,
    /// Predictions with a replay; `None` if they cannot be planned.
    judged: Mutex<HashMap<Point, Option<Prediction>>>,
    /// Combinations that were predicted to find the steps that save nothing.
    before: usize,
}

/// One question: the least change for a limit.
struct Solve<'s> {
    /// Bytes that are there.
    limit: u64,
    /// The axes that stay.
    kept: &'s [usize],
    /// The least that PyTorch's allocator held of what was judged, for each live byte.
    held: Option<f64>,
}

/// Techniques of one harm.
#[derive(Debug)]
struct Group {
    axes: Vec<usize>,
    /// The steps of these axes in every combination, from the least price to the most.
    combinations: Vec<Vec<u8>>,
}

impl<'p> Search<'p> {
    /// A search in `space`, without the steps that save nothing.
    pub fn new(planner: &'p Planner, space: Space) -> Self {
        let mut search = Self::of(planner, space);
        let needless = search.needless();
        if needless.is_empty() {
            return search;
        }
        search.space.retain(|axis, step| !needless.contains(&(axis, step)));
        let before = search.planned();
        Self {
            before,
            ..Self::of(planner, search.space)
        }
    }

    fn of(planner: &'p Planner, space: Space) -> Self {
        let groups = space.groups().into_iter().map(|axes| Group::new(axes, &space));
        Self {
            planner,
            groups: groups.collect(),
            space,
            bounds: Mutex::default(),
            judged: Mutex::default(),
            before: 0,
        }
    }

    /// The steps that need no less than a cheaper one of their axis, neither alone nor with the other axes at the steps that
    /// save most.
    fn needless(&self) -> Vec<(usize, u8)> {
        let given = self.space.given();
        let least = self.least_point(0, &given, &[]).0;
        let axes = (0..given.len()).filter(|&axis| self.space.is_of_tensors(axis));
        let steps = axes.flat_map(|axis| {
            let needs = |start: &Point, step| {
                let mut point = start.clone();
                point[axis] = step;
                self.bound(&point).unwrap_or(u64::MAX)
            };
            let saves = |start: &Point, step| (0..step).all(|cheaper| needs(start, step) < needs(start, cheaper));
            let needless = self
                .space
                .steps(axis)
                .filter(|&step| !saves(&given, step) && !saves(&least, step));
            needless.map(|step| (axis, step)).collect::<Vec<_>>()
        });
        steps.collect()
    }

    /// The space that is searched.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Combinations that were predicted so far.
    pub fn planned(&self) -> usize {
        self.before + lock(&self.bounds).len()
    }

    /// The cell as it is given.
    ///
    /// # Errors
    /// It cannot be planned.
    pub fn given(&self) -> Result<Found, PlanError> {
        let point = self.space.given();
        match self.judge(&point) {
            Some(prediction) => Ok(self.found(point, prediction)),
            None => {
                let cell = self.space.cell(&point).ok_or(PlanError::NothingToVary)?;
                self.planner
                    .predict(&cell)
                    .map(|prediction| self.found(point, prediction))
            }
        }
    }

    /// The least change with which the cell needs no more than `limit` bytes; `None` if there is none.
    pub fn least(&self, limit: u64) -> Option<Found> {
        self.least_keeping(limit, &[])
    }

    /// Other ways to fit: for each technique that `found` uses, the least change without it; the cheapest first. Tokens are
    /// lost only if `found` loses some.
    pub fn others(&self, found: &Found, limit: u64) -> Vec<Found> {
        let mut others: Vec<Found> = Vec::new();
        for axis in self.space.changed_axes(&found.point) {
            let other = self.least_keeping(limit, &[axis]);
            let other = other.filter(|other| other.price.worst() < Harm::Data || found.price.worst() == Harm::Data);
            others.extend(other.filter(|other| others.iter().all(|known| known.point != other.point)));
        }
        others.sort_by_key(|other| other.price);
        others
    }

    /// The cell as it is given, and the least changes for less and less memory, until one needs no more than `enough` bytes.
    ///
    /// # Errors
    /// The cell as it is given cannot be planned.
    pub fn front(&self, enough: u64) -> Result<Vec<Found>, PlanError> {
        let mut front = vec![self.given()?];
        while let Some(last) = front.last().filter(|last| last.prediction.needed_bytes > enough) {
            let limit = (last.prediction.needed_bytes as f64 * STEP) as u64;
            match self.least(limit) {
                Some(found) => front.push(found),
                None => break,
            }
        }
        Ok(front)
    }

    fn least_keeping(&self, limit: u64, kept: &[usize]) -> Option<Found> {
        let given = self.space.given();
        let (smallest, _) = self.least_point(0, &given, kept);
        let mut solve = Solve {
            limit,
            kept,
            held: None,
        };
        let (point, prediction) = self.descend(0, &given, &smallest, &mut solve)?;
        Some(self.found(point, prediction))
    }

    /// The least price of the groups from `first` on with which `point` fits. `smallest` has their steps that save most.
    fn descend(
        &self,
        first: usize,
        point: &Point,
        smallest: &Point,
        solve: &mut Solve<'_>,
    ) -> Option<(Point, Prediction)> {
        let Some(group) = self.groups.get(first) else {
            return self.judge_for(point, solve);
        };
        let allowed: Vec<&Vec<u8>> = group
            .combinations
            .iter()
            .filter(|steps| {
                let mut chosen = group.axes.iter().zip(steps.iter());
                chosen.all(|(axis, &step)| step == 0 || !solve.kept.contains(axis))
            })
            .collect();
        // As many at once as there are threads: more would often be predicted for nothing.
        for some in allowed.chunks(rayon::current_num_threads().max(1)) {
            let kept = solve.kept;
            let bound = |steps: &&Vec<u8>| {
                let smallest = group.set(steps, smallest);
                match self.bound(&smallest) {
                    Some(bytes) => (smallest, Some(bytes)),
                    // The milder steps that save most do not go with these.
                    None => self.least_point(first + 1, &group.set(steps, point), kept),
                }
            };
            let bounds: Vec<_> = some.par_iter().map(bound).collect();
            for (steps, (smallest, bound)) in some.iter().zip(bounds) {
                let point = group.set(steps, point);
                if bound.is_some_and(|bound| self.may_fit(&point, bound, solve))
                    && let Some(found) = self.descend(first + 1, &point, &smallest, solve)
                {
                    return Some(found);
                }
            }
        }
        None
    }

    /// True if a point that needs so many bytes at least may fit. The allocator is taken to hold no less for each live byte
    /// than it did in what was judged before, unless a technique is used that changes just that. Without this, every point
    /// at the edge would be replayed.
    fn may_fit(&self, point: &Point, bound: u64, solve: &Solve<'_>) -> bool {
        let held = solve.held.filter(|_| *point == self.space.of_tensors(point));
        bound as f64 * held.unwrap_or(1.0) <= solve.limit as f64
    }

    /// The prediction of a point that fits.
    fn judge_for(&self, point: &Point, solve: &mut Solve<'_>) -> Option<(Point, Prediction)> {
        let bound = self.bound(point)?;
        if !self.may_fit(point, bound, solve) {
            return None;
        }
        let prediction = self.judge(point)?;
        let held = prediction.needed_bytes as f64 / bound as f64;
        solve.held = Some(solve.held.map_or(held, |least| least.min(held)));
        (prediction.needed_bytes <= solve.limit).then(|| (point.clone(), prediction))
    }

    /// `point` with the groups from `first` on at the steps that save most, and the bytes that it needs at least.
    fn least_point(&self, first: usize, point: &Point, kept: &[usize]) -> (Point, Option<u64>) {
        let (mut point, mut least) = (point.clone(), self.bound(point));
        let axes = self.groups[first..].iter().flat_map(|group| &group.axes);
        for &axis in axes.filter(|&&axis| !kept.contains(&axis) && self.space.is_of_tensors(axis)) {
            let mut best = 0;
            for step in self.space.steps(axis).rev() {
                point[axis] = step;
                let bound = self.bound(&point);
                if let Some(bytes) = bound
                    && least.is_none_or(|least| bytes < least)
                {
                    (best, least) = (step, bound);
                }
                // Steps before the last one save less, where that can be planned.
                if bound.is_some() && self.space.is_ordered(axis) {
                    break;
                }
            }
            point[axis] = best;
        }
        (point, least)
    }

    /// Bytes that a point needs at least.
    fn bound(&self, point: &Point) -> Option<u64> {
        let point = &self.space.of_tensors(point);
        kept(&self.bounds, point, || {
            self.planner.needed_at_least(&self.space.cell(point)?).ok()
        })
    }

    fn judge(&self, point: &Point) -> Option<Prediction> {
        kept(&self.judged, point, || {
            self.planner.predict(&self.space.cell(point)?).ok()
        })
    }

    fn found(&self, point: Point, prediction: Prediction) -> Found {
        let (changes, price) = (self.space.changes(&point), self.space.price(&point));
        let cell = self.space.cell(&point).unwrap_or_default();
        Found {
            cell,
            changes,
            price,
            prediction,
            point,
        }
    }
}

impl Group {
    fn new(axes: Vec<usize>, space: &Space) -> Self {
        let mut combinations = vec![Vec::new()];
        for &axis in &axes {
            let with = |start: &Vec<u8>| {
                let start = start.clone();
                let step = move |step| [start.as_slice(), &[step]].concat();
                std::iter::once(0).chain(space.steps(axis)).map(step)
            };
            combinations = combinations.iter().flat_map(with).collect();
        }
        let mut group = Self {
            axes,
            combinations: Vec::new(),
        };
        let given = space.given();
        combinations.sort_by_cached_key(|steps| space.price(&group.set(steps, &given)));
        group.combinations = combinations;
        group
    }

    /// The point with these steps of the group's axes.
    fn set(&self, steps: &[u8], point: &Point) -> Point {
        let mut point = point.clone();
        for (&axis, &step) in self.axes.iter().zip(steps) {
            point[axis] = step;
        }
        point
    }
}

/// The value of a key, made at its first use. Threads that make the same one at once make it each.
fn kept<K: Eq + Hash + Clone, V: Clone>(made: &Mutex<HashMap<K, V>>, key: &K, make: impl FnOnce() -> V) -> V {
    if let Some(known) = lock(made).get(key) {
        return known.clone();
    }
    let value = make();
    lock(made).insert(key.clone(), value.clone());
    value
}

/// Locks a mutex; the entries are whole even if a thread panicked.
fn lock<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}
