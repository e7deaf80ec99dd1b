//! The optimizer's state and the temporary memory of a step, as in `optim`.

use super::{
    held::{Held, Memory},
    param::Param,
};
use crate::{
    kernels::{eigen, low_rank},
    memory::{Category, Phase},
    optim::rsvd,
    options::{Optimizer as Name, OptimizerOptions},
};

/// The methods that project a gradient onto a basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Projection {
    Galore,
    Rsvd,
}

impl Projection {
    fn new(optimizer: Name) -> Option<Self> {
        match optimizer {
            Name::Galore => Some(Self::Galore),
            Name::Rsvd => Some(Self::Rsvd),
            Name::Adamw => None,
            // Specs refuse these on our own stack.
            Name::AdamwTorchFused | Name::Sgd | Name::Adamw8bit | Name::PagedAdamw32bit | Name::PagedAdamw8bit => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Optimizer<'m> {
    /// `None` for AdamW.
    projection: Option<Projection>,
    rank: u64,
    gap: usize,
    steps: usize,
    /// Made in the first step.
    state: Vec<Held<'m>>,
}

impl<'m> Optimizer<'m> {
    pub(super) fn new(options: &OptimizerOptions) -> Self {
        Self {
            projection: Projection::new(options.optimizer),
            rank: options.low_rank.rank as u64,
            gap: options.low_rank.update_proj_gap,
            steps: 0,
            state: Vec::new(),
        }
    }

    pub(super) fn step(&mut self, memory: &'m Memory, params: Vec<&mut Param<'m>>) {
        memory.phase(Phase::Optimizer);
        memory.module("optimizer", None);
        let params: Vec<_> = params.into_iter().filter(|param| param.trainable).collect();
        drop(memory.temporary(params.len() as u64 * 8));
        let matrices: Vec<&&mut Param> = params.iter().filter(|param| self.is_projected(param)).collect();
        if self.state.is_empty() {
            let projected = matrices.iter().flat_map(|matrix| self.projected_state(matrix));
            let others = params.iter().filter(|param| !self.is_projected(param));
            let moments = others.flat_map(|param| [param.elements(); 2]);
            let state = projected.chain(moments);
            self.state = state
                .map(|elements| memory.tensor_of(elements * 4, Category::OptimizerState))
                .collect();
        }
        let renewed = self.steps.is_multiple_of(self.gap);
        self.steps += 1;
        for matrix in matrices {
            if renewed {
                self.renew(memory, matrix);
            }
            let _projected = self.product_with_basis(memory, matrix, self.rank);
        }
    }

    fn is_projected(&self, param: &Param) -> bool {
        self.projection.is_some() && param.is_matrix && param.rows.min(param.columns) > self.rank
    }

    /// Whether the basis is on the rows' side.
    fn is_on_rows(&self, param: &Param) -> bool {
        self.projection == Some(Projection::Rsvd) || param.rows < param.columns
    }

    /// Elements of the basis and of the two moments.
    fn projected_state(&self, param: &Param) -> [u64; 3] {
        let (basis, moment) = if self.is_on_rows(param) {
            (param.rows, param.columns)
        } else {
            (param.columns, param.rows)
        };
        [basis * self.rank, moment * self.rank, moment * self.rank]
    }

    /// The gradient's product with a basis of `count` vectors.
    fn product_with_basis(&self, memory: &'m Memory, param: &Param, count: u64) -> Held<'m> {
        if self.is_on_rows(param) {
            transposed_times(memory, param, count)
        } else {
            memory.tensor(param.rows * count, 4)
        }
    }

    /// Makes a matrix's basis, and turns it into float32.
    fn renew(&self, memory: &'m Memory, param: &Param) {
        let side = if self.is_on_rows(param) {
            param.rows
        } else {
            param.columns
        };
        if self.projection == Some(Projection::Galore) {
            let _gram = memory.temporary(side * side * 8);
            let vectors = eigen::starts(side as usize, self.rank as usize) as u64 * side * 8;
            // What an iteration holds at once: vectors, their images and both turned.
            let _iteration = [(); 4].map(|()| memory.temporary(vectors));
        } else {
            self.find_range(memory, param);
        }
        let _basis = memory.temporary(self.rank * side * 8);
        let _in_float32 = memory.temporary(self.rank * side * 4);
    }

    /// `optim::rsvd`'s basis.
    fn find_range(&self, memory: &'m Memory, param: &Param) {
        let (rows, columns) = (param.rows, param.columns);
        let wide = (self.rank + rsvd::OVERSAMPLING as u64).min(rows).min(columns);
        let (on_rows, on_columns) = (wide * rows, wide * columns);
        let mut right = memory.temporary(on_columns * 8);
        let mut range = None;
        for iteration in 0..=rsvd::POWER_ITERATIONS {
            if iteration > 0 {
                let back = project_back(memory, param, wide);
                let sharpened = memory.temporary(on_columns * 8);
                drop((back, right));
                right = sharpened;
            }
            let product = {
                let _narrow = memory.tensor(on_columns, 4);
                memory.tensor(on_rows, 4)
            };
            // As numbers of the host in float32, then in float64, transposed, and orthonormal.
            let float32 = memory.temporary(on_rows * 4);
            let float64 = memory.temporary(on_rows * 8);
            drop(float32);
            let transposed = memory.temporary(on_rows * 8);
            let orthonormal = memory.temporary(on_rows * 8);
            range = Some(orthonormal);
            drop((product, float64, transposed));
        }
        drop(project_back(memory, param, wide));
        drop((right, range));
    }
}

/// The gradient's product with a basis of its rows, in float64.
fn project_back<'m>(memory: &'m Memory, param: &Param, wide: u64) -> Held<'m> {
    let left = {
        let _transposed = memory.temporary(wide * param.rows * 8);
        memory.tensor(wide * param.rows, 4)
    };
    let product = transposed_times(memory, param, wide);
    let float32 = memory.temporary(wide * param.columns * 4);
    let float64 = memory.temporary(wide * param.columns * 8);
    drop((left, product, float32));
    float64
}

fn transposed_times<'m>(memory: &'m Memory, param: &Param, count: u64) -> Held<'m> {
    let _blocks = memory.temporary(low_rank::blocks_bytes(param.columns as usize, count as usize) as u64);
    memory.tensor(count * param.columns, 4)
}
