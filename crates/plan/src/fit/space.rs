//! The combinations of techniques that a cell can use.

use arch::ModelConfig;
use cell::Cell;
use serde_json::Value;
use spec::FitSpec;
use techniques::{Harm, Price, Step, TECHNIQUES, Technique};

use crate::PlanError;

/// The number of a step for each axis; 0 is the value that is given.
pub type Point = Box<[u8]>;

/// The techniques that may be used.
#[derive(Debug, Clone, Copy)]
pub struct Moves<'s> {
    /// The section of the spec.
    pub fit: &'s FitSpec,
    /// The worst harm that a change may do.
    pub worst: Harm,
}

/// Everything that a search may change in a cell.
#[derive(Debug)]
pub struct Space {
    cell: Cell,
    axes: Vec<Axis>,
}

/// One change of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The keys that change, with their new values.
    pub keys: Vec<(&'static str, Value)>,
    /// The price.
    pub price: Price,
    /// The price in words.
    pub meaning: String,
}

/// A technique and its steps.
#[derive(Debug)]
struct Axis {
    technique: &'static Technique,
    steps: Vec<Step>,
    /// True if the last step saves most, whatever the other keys are.
    is_ordered: bool,
}

impl Space {
    /// The techniques that have a step for `cell`, a model of this shape, and are allowed.
    ///
    /// # Errors
    /// A key that is to change has no other value in this cell.
    pub fn new(cell: &Cell, model: &ModelConfig, moves: Moves<'_>) -> Result<Self, PlanError> {
        let FitSpec { keep, vary, .. } = moves.fit;
        let mut axes = Vec::new();
        for technique in TECHNIQUES {
            let is_kept = technique.keys().any(|key| keep.iter().any(|kept| kept == key));
            let has_values = matches!(vary.get(technique.key), Some(Some(_)));
            let mut steps = match vary.get(technique.key) {
                _ if is_kept => continue,
                None if !vary.is_empty() => continue,
                Some(Some(values)) => technique.steps_to(values, cell, model),
                Some(None) | None => technique.steps(cell, model),
            };
            steps.retain(|step| step.price.worst() <= moves.worst);
            // A point has a byte for each axis.
            steps.truncate(usize::from(u8::MAX));
            if steps.len() > 1 {
                let is_ordered = technique.is_ordered && !has_values;
                axes.push(Axis {
                    technique,
                    steps,
                    is_ordered,
                });
            }
        }
        match axes.is_empty() {
            true => Err(PlanError::NothingToVary),
            false => Ok(Self {
                cell: cell.clone(),
                axes,
            }),
        }
    }

    /// The techniques of `moves`, if there are some; otherwise `cell` stays as it is.
    pub fn with(cell: &Cell, model: &ModelConfig, moves: Option<Moves<'_>>) -> Self {
        let space = moves.and_then(|moves| Self::new(cell, model, moves).ok());
        space.unwrap_or_else(|| Self::of_one(cell))
    }

    /// A space in which `cell` stays as it is.
    pub(super) fn of_one(cell: &Cell) -> Self {
        Self {
            cell: cell.clone(),
            axes: Vec::new(),
        }
    }

    /// The cell as it is given.
    pub fn given(&self) -> Point {
        vec![0; self.axes.len()].into()
    }

    /// The given cell itself, not its point.
    pub(super) fn given_cell(&self) -> &Cell {
        &self.cell
    }

    /// The number of combinations.
    pub fn combinations(&self) -> f64 {
        self.axes.iter().map(|axis| axis.steps.len() as f64).product()
    }

    /// The combination with this number, from 0.
    pub fn nth(&self, number: u64) -> Point {
        let mut left = number;
        let step = |axis: &Axis| {
            let steps = axis.steps.len() as u64;
            let step = left % steps;
            left /= steps;
            step as u8
        };
        self.axes.iter().map(step).collect()
    }

    /// The cell of a point; `None` if its keys contradict each other.
    pub fn cell(&self, point: &Point) -> Option<Cell> {
        let mut cell = self.cell.clone();
        for (axis, &step) in self.axes.iter().zip(point) {
            if step > 0 {
                axis.technique.apply(&axis.steps[usize::from(step)].cell, &mut cell);
            }
        }
        cell.validate().is_ok().then_some(cell)
    }

    /// The price of a point.
    pub fn price(&self, point: &Point) -> Price {
        self.changed(point)
            .fold(Price::NOTHING, |sum, (_, step)| sum + step.price)
    }

    /// What a point changes, the mildest first.
    pub fn changes(&self, point: &Point) -> Vec<Changed> {
        let mut changed: Vec<_> = self.changed(point).collect();
        changed.sort_by_key(|(_, step)| step.price);
        let change = |(axis, step): (&Axis, &Step)| {
            let keys = axis.technique.keys();
            let values = keys.map(|key| (key, self.cell.value(key), step.cell.value(key)));
            let differing = values.filter(|(_, before, after)| before != after);
            Changed {
                keys: differing.map(|(key, _, after)| (key, after)).collect(),
                price: step.price,
                meaning: step.meaning.clone(),
            }
        };
        changed.into_iter().map(change).collect()
    }

    fn changed<'s>(&'s self, point: &'s Point) -> impl Iterator<Item = (&'s Axis, &'s Step)> {
        let steps = self.axes.iter().zip(point).filter(|&(_, &step)| step > 0);
        steps.map(|(axis, &step)| (axis, &axis.steps[usize::from(step)]))
    }

    /// The axes that a point changes.
    pub(super) fn changed_axes(&self, point: &Point) -> Vec<usize> {
        (0..self.axes.len()).filter(|&axis| point[axis] > 0).collect()
    }

    /// The number of an axis' steps, the given value included.
    pub(super) fn count(&self, axis: usize) -> u8 {
        self.axes[axis].steps.len() as u8
    }

    /// The price of a step.
    pub(super) fn step_price(&self, axis: usize, step: u8) -> Price {
        self.axes[axis].steps[usize::from(step)].price
    }

    /// True if an axis' last step saves most.
    pub(super) fn is_ordered(&self, axis: usize) -> bool {
        self.axes[axis].is_ordered
    }

    /// The point without techniques that leave live tensors as they are.
    pub(super) fn of_tensors(&self, point: &Point) -> Point {
        let step = |(axis, &step): (&Axis, &u8)| if axis.technique.is_of_tensors { step } else { 0 };
        self.axes.iter().zip(point).map(step).collect()
    }

    /// True if an axis changes the bytes of live tensors.
    pub(super) fn is_of_tensors(&self, axis: usize) -> bool {
        self.axes[axis].technique.is_of_tensors
    }
}
