//! Adam with low-rank state by randomised SVD, as a PyTorch program has it: rSVDAdam of
//! <https://github.com/ASB1127/HPMLProj> (`rSVD/optimizer/rSVD_adam_optimizer.py`, commit ec7ccdb).
//!
//! A matrix of `m × n` keeps a projection of `m × r` and two moments of `r × n`; everything else keeps Adam's moments.
//! The step goes over the parameters one after the other in Python, so what it names for one parameter lives until the
//! next one's is there. The workspaces of cuSOLVER, which decomposes matrices as wide as the rank, are not counted.

use trace::Category;

use super::dtype::Dtype;
use super::tape::{Tape, Tensor};

/// Directions beyond the rank (`oversample`), and passes over the gradient that sharpen them (`power_iters`).
const OVERSAMPLING: u32 = 4;
const POWER_ITERATIONS: u32 = 1;

/// The state of a parameter.
enum State<'t> {
    Vector {
        _moments: [Tensor<'t>; 2],
    },
    Matrix {
        projection: Tensor<'t>,
        _moments: [Tensor<'t>; 2],
    },
}

/// The variables of the loop over the parameters.
#[derive(Default)]
struct Locals<'t> {
    denominator: Option<Tensor<'t>>,
    low_rank_denominator: Option<Tensor<'t>>,
    decomposition: Option<[Tensor<'t>; 3]>,
    projected: Option<Tensor<'t>>,
    update: Option<Tensor<'t>>,
    full_update: Option<Tensor<'t>>,
}

/// The optimizer.
pub(super) struct Rsvd<'t> {
    /// The rank of a matrix whose shorter side is `hidden_size`; others' are in proportion (`rank_fraction`).
    rank: u32,
    hidden_size: u32,
    /// Steps from one projection to the next.
    gap: u32,
    steps: u32,
    states: Vec<State<'t>>,
}

impl<'t> Rsvd<'t> {
    pub(super) fn new(rank: u32, hidden_size: u32, gap: u32) -> Self {
        Self {
            rank,
            hidden_size,
            gap,
            steps: 0,
            states: Vec::new(),
        }
    }

    /// The rank of a matrix of `rows × columns`, at least 1.
    fn rank_of(&self, rows: u32, columns: u32) -> u32 {
        let shorter = rows.min(columns);
        let rank = u64::from(self.rank) * u64::from(shorter) / u64::from(self.hidden_size.max(1));
        (rank as u32).clamp(1, shorter.max(1))
    }

    /// `optimizer.step()`.
    pub(super) fn step(&mut self, tape: &'t Tape, trainable: &[Tensor<'t>]) {
        let renews = self.steps.is_multiple_of(self.gap.max(1));
        self.steps += 1;
        let mut locals = Locals::default();
        for (index, parameter) in trainable.iter().enumerate() {
            match *parameter.dims() {
                [rows, columns] => self.step_matrix(tape, index, parameter, [rows, columns], renews, &mut locals),
                _ => self.step_vector(index, parameter, &mut locals),
            }
        }
    }

    fn step_vector(&mut self, index: usize, parameter: &Tensor<'t>, locals: &mut Locals<'t>) {
        if index == self.states.len() {
            let moment = || state(parameter.tape, parameter.dims(), parameter.dtype());
            self.states.push(State::Vector {
                _moments: [moment(), moment()],
            });
        }
        locals.denominator = Some(denominator(parameter.tape, parameter.dims(), parameter.dtype()));
    }

    fn step_matrix(
        &mut self,
        tape: &'t Tape,
        index: usize,
        parameter: &Tensor<'t>,
        [rows, columns]: [u32; 2],
        renews: bool,
        locals: &mut Locals<'t>,
    ) {
        let (rank, dtype) = (self.rank_of(rows, columns), parameter.dtype());
        if index == self.states.len() {
            self.states.push(State::Matrix {
                projection: state(tape, &[rows, rank], dtype),
                _moments: [(); 2].map(|()| state(tape, &[rank, columns], dtype)),
            });
        }
        if renews {
            let wide = (rank + OVERSAMPLING).min(rows).min(columns);
            locals.decomposition = Some(tape.svd_lowrank([rows, columns], wide, dtype));
            // Its first columns, made contiguous.
            let renewed = state(tape, &[rows, rank], dtype);
            if let Some(State::Matrix { projection, .. }) = self.states.get_mut(index) {
                *projection = renewed;
            }
        }
        let low_rank = [rank, columns];
        locals.projected = Some(tape.product(&low_rank, dtype));
        locals.low_rank_denominator = Some(denominator(tape, &low_rank, dtype));
        locals.update = Some(tape.empty(&low_rank, dtype));
        locals.full_update = Some(tape.product(&[rows, columns], dtype));
    }
}

fn state<'t>(tape: &'t Tape, dims: &[u32], dtype: Dtype) -> Tensor<'t> {
    tape.empty_as(super::layout::Layout::contiguous(dims), dtype, Category::OptimizerState)
}

/// The root of the second moment, divided by a number.
fn denominator<'t>(tape: &'t Tape, dims: &[u32], dtype: Dtype) -> Tensor<'t> {
    let root = tape.empty(dims, dtype);
    let divided = tape.empty(dims, dtype);
    drop(root);
    divided
}

impl Tape {
    /// `torch.svd_lowrank(A, q=wide, niter=1)` of a matrix (`torch/_lowrank.py`): left vectors, values, right vectors.
    fn svd_lowrank(&self, [rows, columns]: [u32; 2], wide: u32, dtype: Dtype) -> [Tensor<'_>; 3] {
        // A wide matrix is decomposed as its transpose.
        let (long, short) = (rows.max(columns), rows.min(columns));
        let _start = self.empty(&[short, wide], dtype);
        let mut product = self.product(&[long, wide], dtype);
        let mut range = self.orthonormal(&product);
        for _ in 0..POWER_ITERATIONS {
            for side in [short, long] {
                product = self.product(&[side, wide], dtype);
                range = self.orthonormal(&product);
            }
        }
        drop(product);
        let small = self.product(&[wide, short], dtype);
        let copy = self.empty(small.dims(), dtype);
        let rotation = self.empty(&[wide, wide], dtype);
        let values = self.empty(&[wide], dtype);
        let right = self.empty(small.dims(), dtype);
        drop((copy, small));
        let left = self.product(&[long, wide], dtype);
        drop((rotation, range));
        let (left, right) = if rows < columns { (right, left) } else { (left, right) };
        [left, values, right]
    }

    /// `torch.linalg.qr(matrix).Q`.
    fn orthonormal<'t>(&'t self, matrix: &Tensor<'t>) -> Tensor<'t> {
        let &[_, wide] = matrix.dims() else {
            return matrix.clone();
        };
        let range = self.empty(matrix.dims(), matrix.dtype());
        let coefficients = self.empty(&[wide], matrix.dtype());
        let triangle = self.empty(&[wide, wide], matrix.dtype());
        drop((coefficients, triangle));
        range
    }
}
