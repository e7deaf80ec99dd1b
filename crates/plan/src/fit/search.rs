//! The search: prices are tried from the least to the most, and whole branches are left out by what they need at least.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Mutex;

use cell::Cell;
use rayon::prelude::*;
use records::prediction::{PAST_HOST, Prediction};
use serde_json::Value;
use techniques::{Harm, Price};

use super::space::{Changed, Point, Space};
use crate::cache::{cached_apart, lock};
use crate::{PlanError, Planner};

/// A row of the front needs this share of the memory of the row before it, at most.
const STEP: f64 = 0.9;

/// Points of a branch that are replayed if the one with the least live bytes nearly fits: all of a small branch, or
/// else a few near that one.
const ALL_POINTS: usize = 64;
const NEIGHBOURS: usize = 8;

/// The share of the limit that such a point needs at most. What PyTorch's allocator holds beside live bytes differs
/// between points by less.
const NEARLY: f64 = 1.2;

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
    /// True if the cell fits into `limit` bytes of the device whatever is uncertain, and into the host's memory.
    pub fn fits(&self, limit: u64) -> bool {
        self.over(limit) == 0
    }

    /// Bytes that may be needed beyond `limit`.
    fn over(&self, limit: u64) -> u64 {
        let [_, high] = self.prediction.possible_bytes();
        let needed = self.prediction.needed_within_host().max(high);
        needed.saturating_sub(limit)
    }

    /// The keys that changed, with their new values.
    pub fn keys(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.changes.iter().flat_map(|changed| &changed.keys)
    }
}

/// A search in one space.
///
/// It first finds how little of the worst kind of change is enough, then how little of the next. A branch is left out
/// if it is oversize with every step that it still allows at the one that saves most. What a point needs is bounded by
/// live bytes, without a replay of PyTorch's allocator. A branch whose bound fits is replayed at that point, with and
/// without the techniques that change just what the allocator holds. If the point nearly fits, so are others of the
/// branch.
#[derive(Debug)]
pub struct Search<'p> {
    planner: &'p Planner,
    space: Space,
    /// Bytes that points need at least; `None` if they cannot be planned, or need more than the host's budget.
    bounds: Mutex<HashMap<Point, Option<u64>>>,
    /// Bytes that points need in a few steps; `None` if they have no more, or cannot be planned.
    first_looks: Mutex<HashMap<Point, Option<u64>>>,
    /// Bytes that points need, by a replay; `None` if they cannot be planned.
    needs: Mutex<HashMap<Point, Option<u64>>>,
}

/// The steps that a branch still allows, for each axis.
type Allowed = Vec<Vec<u8>>;

impl<'p> Search<'p> {
    /// A search in `space`.
    pub fn new(planner: &'p Planner, space: Space) -> Self {
        Self {
            planner,
            space,
            bounds: Mutex::default(),
            first_looks: Mutex::default(),
            needs: Mutex::default(),
        }
    }

    /// The space that is searched.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Combinations that were predicted so far.
    pub fn planned(&self) -> usize {
        lock(&self.bounds).len()
    }

    /// Bytes of live tensors that the cell needs with the changes that save most; 0 if none can be planned.
    pub(super) fn at_least(&self) -> u64 {
        let (_, bound) = self.smallest(&self.space.all(), &self.space.given());
        bound.unwrap_or(0)
    }

    /// The cell as it is given.
    ///
    /// # Errors
    /// It cannot be planned.
    pub fn given(&self) -> Result<Found, PlanError> {
        self.found(self.space.given())
    }

    /// The least change with which the cell certainly needs no more than `limit` bytes; `None` if there is none.
    pub fn least(&self, limit: u64) -> Option<Found> {
        self.certain(limit, &self.space.all())
    }

    /// The least change with which the likely figure is no more than `limit`.
    pub(super) fn likely(&self, limit: u64) -> Option<Found> {
        self.least_of(limit, self.space.all())
    }

    /// Changes that make the likely figure fit, not the least ones: quicker than [`Self::least`].
    pub(super) fn some_fit(&self, limit: u64) -> Option<Vec<Changed>> {
        let all = self.space.all();
        let point = self.fitting(&all, &self.space.given(), limit)?;
        let mut points = self.held(&all, &point).into_iter();
        let point = points.find(|point| self.fits(point, limit))?;
        Some(self.space.changes(&point))
    }

    /// The least change of `allowed` steps that fits at the high end of its range, which no search looks at. It is
    /// repeated with as much less as that end is over. Ranges differ in width, so that this may be far too little: the
    /// largest limit that gives such a change is bisected.
    fn certain(&self, limit: u64, allowed: &Allowed) -> Option<Found> {
        const TRIES: usize = 4;
        const HALVINGS: usize = 3;
        let (mut reduced, mut too_much, mut certain) = (limit, limit, None);
        for _ in 0..TRIES {
            let found = self.least_of(reduced, allowed.clone())?;
            match found.over(limit) {
                0 => {
                    certain = Some(found);
                    break;
                }
                over => {
                    too_much = reduced;
                    reduced = reduced.min(found.prediction.needed_within_host()).checked_sub(over)?;
                }
            }
        }
        let mut certain = certain?;
        for _ in 0..HALVINGS {
            // What needs as much is found again.
            let enough = reduced.max(certain.prediction.needed_within_host());
            let middle = enough.midpoint(too_much);
            if too_much.saturating_sub(enough) <= limit / 100 {
                break;
            }
            match self.least_of(middle, allowed.clone()).filter(|found| found.fits(limit)) {
                Some(found) => (reduced, certain) = (middle, found),
                None => too_much = middle,
            }
        }
        Some(certain)
    }

    /// Other ways to fit: for each technique that `found` uses, the least change without it; the cheapest first. Tokens
    /// are lost only if `found` loses some.
    pub fn others(&self, found: &Found, limit: u64) -> Vec<Found> {
        let mut others: Vec<Found> = Vec::new();
        for axis in self.space.changed_axes(&found.point) {
            let mut without = self.space.all();
            without[axis] = vec![0];
            let other = self.certain(limit, &without);
            let other = other.filter(|other| other.price.worst() < Harm::Data || found.price.worst() == Harm::Data);
            others.extend(other.filter(|other| others.iter().all(|known| known.point != other.point)));
        }
        others.sort_by_key(|other| other.price);
        others
    }

    /// The cell as it is given and, if it does not fit, the least change that does, or the changes that save most.
    ///
    /// # Errors
    /// The cell as it is given cannot be planned.
    pub fn to_fit(&self, limit: u64) -> Result<Vec<Found>, PlanError> {
        let mut rows = vec![self.given()?];
        if !rows[0].fits(limit) {
            let least = self.least(limit).or_else(|| self.smallest_below(&rows[0]));
            rows.extend(least);
        }
        Ok(rows)
    }

    /// The cell as it is given, and the least changes for less and less memory: down to half of a budget, or to the
    /// least that the cell can need. One row is the least change for the budget.
    ///
    /// # Errors
    /// The cell as it is given cannot be planned.
    pub fn front(&self, budget: Option<u64>) -> Result<Vec<Found>, PlanError> {
        let mut front = vec![self.given()?];
        loop {
            let last = &front[front.len() - 1];
            let needed = last.prediction.needed_within_host();
            let less = (needed as f64 * STEP) as u64;
            let next = match budget {
                Some(budget) if needed <= budget / 2 => return Ok(front),
                Some(budget) if !last.fits(budget) && less <= budget => self.least(budget),
                _ => self.likely(less),
            };
            match next {
                Some(found) => front.push(found),
                None => break,
            }
        }
        // The least that the search can reach may be less than the last row, by less than a step.
        let smallest = front.last().and_then(|last| self.smallest_below(last));
        front.extend(smallest);
        Ok(front)
    }

    /// The changes that save most, if that is less than `found` needs.
    fn smallest_below(&self, found: &Found) -> Option<Found> {
        let (smallest, _) = self.smallest(&self.space.all(), &self.space.given());
        let needed = found.prediction.needed_within_host();
        let smallest = self.found(smallest).ok()?;
        (smallest.prediction.needed_within_host() < needed).then_some(smallest)
    }

    fn least_of(&self, limit: u64, allowed: Allowed) -> Option<Found> {
        let (smallest, _) = self.smallest(&allowed, &self.space.given());
        let point = self.descend(&Harm::ALL, &allowed, &smallest, limit)?;
        self.found(point).ok()
    }

    /// The least price with which an allowed point fits. The amounts of harms that are not in `harms` are fixed;
    /// `smallest` has the allowed steps that save most.
    fn descend(&self, harms: &[Harm], allowed: &Allowed, smallest: &Point, limit: u64) -> Option<Point> {
        let Some((&harm, milder)) = harms.split_last() else {
            // All that is left has one price.
            let mut points = self.space.points(allowed).into_iter();
            return points.find(|point| self.fits(point, limit));
        };
        let branches = self.space.branches(allowed, harm);
        // As many at once as there are threads: more would often be predicted for nothing.
        for some in branches.chunks(rayon::current_num_threads().max(1)) {
            let fitting = some.par_iter().map(|allowed| self.fitting(allowed, smallest, limit));
            let fitting: Vec<_> = fitting.collect();
            for (allowed, smallest) in some.iter().zip(fitting) {
                if let Some(smallest) = smallest
                    && let Some(found) = self.descend(milder, allowed, &smallest, limit)
                {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The allowed steps that save most, if they fit, or else others that do. `start` has those of the branch above.
    fn fitting(&self, allowed: &Allowed, start: &Point, limit: u64) -> Option<Point> {
        let start = nearest(allowed, start);
        let fits = |point: &Point| {
            self.needed_somehow(allowed, point, limit)
                .is_some_and(|needed| needed <= limit)
        };
        if fits(&start) {
            return Some(start);
        }
        let (smallest, bound) = self.smallest(allowed, &start);
        if bound.is_none_or(|bound| bound > limit) {
            return None;
        }
        let needed = self.needed_somehow(allowed, &smallest, limit)?;
        if needed <= limit {
            return Some(smallest);
        }
        if needed as f64 > NEARLY * limit as f64 {
            return None;
        }
        // The allocator may hold less for a point that has a little more live.
        self.others_in(allowed, &smallest).into_iter().find(fits)
    }

    /// Other points of a branch from the least live bytes to the most: all if they are few, or else some that differ
    /// from `point` in one step.
    fn others_in(&self, allowed: &Allowed, point: &Point) -> Vec<Point> {
        let of_tensors = |(axis, (steps, &step)): (usize, (&Vec<u8>, &u8))| match self.space.is_of_tensors(axis) {
            true => steps.clone(),
            false => vec![step],
        };
        let steps: Allowed = allowed.iter().zip(point).enumerate().map(of_tensors).collect();
        let count: usize = steps.iter().map(Vec::len).product();
        let (others, most) = match count <= ALL_POINTS {
            true => (self.space.points(&steps), ALL_POINTS),
            false => (one_step_from(point, &steps), NEIGHBOURS),
        };
        let others = others.into_iter().filter(|other| other != point);
        let mut bounded: Vec<_> = others.filter_map(|point| Some((self.bound(&point)?, point))).collect();
        bounded.sort();
        bounded.into_iter().map(|(_, point)| point).take(most).collect()
    }

    /// Bytes that a point needs with those of the allowed techniques that leave live tensors as they are: the first
    /// that is no more than `limit`, or else the least. `None` if live bytes alone are more.
    fn needed_somehow(&self, allowed: &Allowed, point: &Point, limit: u64) -> Option<u64> {
        self.bound(point).filter(|&bound| bound <= limit)?;
        let mut least = None;
        for point in self.held(allowed, point) {
            let needed = self.needed_up_to(&point, limit);
            least = least.into_iter().chain(needed).min();
            if least.is_some_and(|least| least <= limit || least as f64 > NEARLY * limit as f64) {
                break;
            }
        }
        least
    }

    /// The points with the live tensors of `point`, and every allowed step of the other techniques. What saves most is
    /// first.
    fn held(&self, allowed: &Allowed, point: &Point) -> Vec<Point> {
        let steps = allowed.iter().zip(point).enumerate();
        let held = steps.map(|(axis, (steps, &step))| match self.space.is_of_tensors(axis) {
            true => vec![step],
            false => steps.iter().rev().copied().collect(),
        });
        self.space.points(&held.collect())
    }

    /// True if a point fits.
    fn fits(&self, point: &Point, limit: u64) -> bool {
        let may_fit = self.bound(point).is_some_and(|bound| bound <= limit);
        may_fit && self.needed_up_to(point, limit).is_some_and(|needed| needed <= limit)
    }

    /// Bytes that a point needs; if these are more than `limit` in a few steps already, those. `None` if it cannot be
    /// planned.
    fn needed_up_to(&self, point: &Point, limit: u64) -> Option<u64> {
        match self.first_look(point).filter(|&needed| needed > limit) {
            Some(needed) => Some(needed),
            None => self.needed(point),
        }
    }

    /// The allowed steps that save most, axis by axis from `start`, and the bytes that are needed at least.
    fn smallest(&self, allowed: &Allowed, start: &Point) -> (Point, Option<u64>) {
        let mut point = start.clone();
        let mut least = self.bound(&point);
        let axes = allowed.iter().enumerate();
        for (axis, steps) in axes.filter(|(axis, steps)| steps.len() > 1 && self.space.is_of_tensors(*axis)) {
            let mut best = point[axis];
            for &step in steps.iter().rev() {
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
        cached_apart(&self.bounds, point, || {
            let needed = self.planner.needed_at_least(&self.space.cell(point)?).ok()?;
            (needed < PAST_HOST).then_some(needed)
        })
    }

    /// Bytes that a point needs in a few steps, by a replay; `None` if it has no more.
    fn first_look(&self, point: &Point) -> Option<u64> {
        cached_apart(&self.first_looks, point, || {
            self.planner.needed_in_few_steps(&self.space.cell(point)?).ok()?
        })
    }

    /// Bytes that a point needs, by a replay.
    fn needed(&self, point: &Point) -> Option<u64> {
        cached_apart(&self.needs, point, || {
            let needed = self.planner.needed(&self.space.cell(point)?).ok()?;
            (needed < PAST_HOST).then_some(needed)
        })
    }

    fn found(&self, point: Point) -> Result<Found, PlanError> {
        let cell = self.space.cell(&point);
        let cell = cell.unwrap_or_else(|| self.space.given_cell().clone());
        Ok(Found {
            changes: self.space.changes(&point),
            price: self.space.price(&point),
            prediction: self.planner.predict(&cell)?,
            cell,
            point,
        })
    }
}

/// `point` with an allowed step where its own is not: the last.
fn nearest(allowed: &Allowed, point: &Point) -> Point {
    let step = |(steps, step): (&Vec<u8>, &u8)| match steps.contains(step) {
        true => *step,
        false => steps.last().copied().unwrap_or(0),
    };
    allowed.iter().zip(point).map(step).collect()
}

/// The points that differ from `point` in one allowed step.
fn one_step_from(point: &Point, allowed: &Allowed) -> Vec<Point> {
    let others = allowed.iter().enumerate().flat_map(|(axis, steps)| {
        let others = steps.iter().filter(move |&&step| step != point[axis]);
        others.map(move |&step| {
            let mut other = point.clone();
            other[axis] = step;
            other
        })
    });
    others.collect()
}

impl Space {
    /// Every step of every axis.
    fn all(&self) -> Allowed {
        (0..self.given().len())
            .map(|axis| (0..self.count(axis)).collect())
            .collect()
    }

    /// The branches of `allowed` by the amounts of one harm, from the least to the most: in each, every axis has steps
    /// of one amount.
    fn branches(&self, allowed: &Allowed, harm: Harm) -> Vec<Allowed> {
        let mut branches: Vec<(f64, Allowed)> = vec![(0.0, Vec::new())];
        for (axis, steps) in allowed.iter().enumerate() {
            let classes = self.classes(axis, steps, harm);
            let with = |(sum, before): &(f64, Allowed)| {
                let with = |(amount, steps): &(f64, Vec<u8>)| {
                    let mut allowed = before.clone();
                    allowed.push(steps.clone());
                    (sum + amount, allowed)
                };
                classes.iter().map(with).collect::<Vec<_>>()
            };
            branches = branches.iter().flat_map(with).collect();
        }
        branches.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        branches.into_iter().map(|(_, allowed)| allowed).collect()
    }

    /// Steps by their amount of a harm.
    fn classes(&self, axis: usize, steps: &[u8], harm: Harm) -> Vec<(f64, Vec<u8>)> {
        let mut classes: Vec<(f64, Vec<u8>)> = Vec::new();
        for &step in steps {
            let amount = self.step_price(axis, step).amount(harm);
            match classes
                .iter_mut()
                .find(|(known, _)| known.total_cmp(&amount) == Ordering::Equal)
            {
                Some((_, steps)) => steps.push(step),
                None => classes.push((amount, vec![step])),
            }
        }
        classes
    }

    /// The points that `allowed` leaves.
    fn points(&self, allowed: &Allowed) -> Vec<Point> {
        let mut points = vec![Vec::new()];
        for steps in allowed {
            let with = |point: &Vec<u8>| {
                let point = point.clone();
                steps.iter().map(move |&step| [point.as_slice(), &[step]].concat())
            };
            points = points.iter().flat_map(with).collect();
        }
        points.into_iter().map(Into::into).collect()
    }
}
