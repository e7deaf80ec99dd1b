//! Adafactor, as transformers has it (`Adafactor.step` in `optimization.py`) and its Trainer calls it: without a first
//! moment, without relative steps. It computes in float32, whatever the format of the weights.
//!
//! The step goes over the parameters one after the other in Python, so what it names for one parameter lives until the
//! next one's is there.

use super::dtype::Dtype;
use super::tape::{Tape, Tensor};

/// The optimizer.
#[derive(Default)]
pub(super) struct Adafactor<'t> {
    /// The sums of each parameter's squared gradients and the root of its mean square; none before the first step.
    states: Vec<Vec<Tensor<'t>>>,
}

/// The variables of the loop over the parameters.
#[derive(Default)]
struct Locals<'t> {
    gradient: Option<Tensor<'t>>,
    parameter: Option<Tensor<'t>>,
    update: Option<Tensor<'t>>,
}

impl<'t> Adafactor<'t> {
    /// `optimizer.step()`.
    pub(super) fn step(&mut self, tape: &'t Tape, trainable: &[Tensor<'t>]) {
        let mut locals = Locals::default();
        for (index, parameter) in trainable.iter().enumerate() {
            // Copies in float32, unless the parameter has that format.
            let copy = || (parameter.dtype() != Dtype::Float32).then(|| parameter.like(Dtype::Float32));
            locals.gradient = None;
            locals.gradient = copy();
            if index == self.states.len() {
                self.states.push(states(tape, parameter));
            }
            locals.parameter = None;
            locals.parameter = copy();
            locals.update(tape, parameter);
        }
    }
}

impl<'t> Locals<'t> {
    fn update(&mut self, tape: &'t Tape, parameter: &Tensor<'t>) {
        let full = || parameter.like(Dtype::Float32);
        // The square, and the square with the floor.
        let squared = full();
        let with_floor = full();
        drop(squared);
        self.update = Some(with_floor);
        // The means of rows, which are added to the sums, and those of columns.
        if let [rows, columns] = *parameter.dims() {
            drop(tape.empty(&[rows], Dtype::Float32));
            let means = tape.empty(&[columns], Dtype::Float32);
            tape.use_staging(rows.into(), columns.into());
            drop(means);
        }
        let rows_and_columns = match *parameter.dims() {
            [rows, columns] => [rows, columns]
                .map(|length| tape.empty(&[length], Dtype::Float32))
                .into(),
            _ => Vec::new(),
        };
        let update = full();
        drop(rows_and_columns);
        self.update = Some(update);
        // What is subtracted from the parameter: the update with another sign.
        let negated = full();
        drop(negated);
    }
}

/// The sums over rows and over columns of a matrix, one number for each element of anything else; and the root.
fn states<'t>(tape: &'t Tape, parameter: &Tensor<'t>) -> Vec<Tensor<'t>> {
    let lengths = match *parameter.dims() {
        [rows, columns] => vec![u64::from(rows), u64::from(columns)],
        _ => vec![parameter.numel()],
    };
    let lengths = lengths.into_iter().chain([1]);
    lengths.map(|length| tape.state(length, Dtype::Float32)).collect()
}
