//! One step and more against a plain reference in double precision, and the kernels against candle's ops.

use arch::{ModuleName, WeightName};
use candle_core::DType;
use kernels::eigen;

use super::super::{galore::Galore, rsvd::Rsvd};
use super::*;
use crate::testing::{assert_close, elements, tensor, uniform, uniform_tensor, with_plain_ops};

const NAME: WeightName = ModuleName::new("p").part("weight");

const LOW_RANK: LowRankOptions = LowRankOptions {
    rank: 3,
    update_proj_gap: 200,
    galore_scale: 0.25,
    seed: 5,
};
const OPTIONS: AdamwOptions = AdamwOptions {
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.1,
};
const RATE: f64 = 0.01;
const SHAPES: [[usize; 2]; 3] = [[40, 21], [17, 50], [24, 24]];

fn galore() -> LowRankAdam<Galore> {
    LowRankAdam::new(
        Galore {
            scale: LOW_RANK.galore_scale,
        },
        OPTIONS,
        LOW_RANK,
        false,
    )
}

fn rsvd() -> LowRankAdam<Rsvd> {
    LowRankAdam::new(Rsvd, OPTIONS, LOW_RANK, false)
}

/// A gradient whose singular values fall by half from one to the next, from 1 on.
fn gradient(name: &str, [rows, columns]: [usize; 2]) -> Tensor {
    let count = rows.min(columns);
    let vectors = |name: String, len: usize| {
        let mut rows: Vec<f64> = elements(&uniform(&name, &[count, len]))
            .into_iter()
            .map(f64::from)
            .collect();
        eigen::orthonormalise(&mut rows, len);
        rows
    };
    let (left, right) = (
        vectors(format!("{name} left"), rows),
        vectors(format!("{name} right"), columns),
    );
    let element = |i: usize, j: usize| -> f64 {
        (0..count)
            .map(|k| 0.5f64.powi(k as i32) * left[k * rows + i] * right[k * columns + j])
            .sum()
    };
    let values: Vec<f32> = (0..rows * columns)
        .map(|at| element(at / columns, at % columns) as f32)
        .collect();
    Tensor::from_f32(&values, (rows, columns), DType::F32).unwrap()
}

/// The optimizer in double precision, with a basis of exact singular vectors.
struct Reference {
    side: ProjectionSide,
    scale: f64,
    basis: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
    steps: i32,
}

impl Reference {
    fn new(side: ProjectionSide, scale: f64) -> Self {
        let (basis, m, v) = Default::default();
        Self {
            side,
            scale,
            basis,
            m,
            v,
            steps: 0,
        }
    }

    fn step(&mut self, values: &mut [f64], gradient: &Tensor) {
        let (rows, columns) = (gradient.rows(), gradient.cols());
        let g: Vec<f64> = elements(gradient).into_iter().map(f64::from).collect();
        let g = |i: usize, j: usize| g[i * columns + j];
        // In terms of the basis' side: `at(i, j)` is element j of the vector that is i along that side.
        let (len, other) = match self.side {
            ProjectionSide::Rows => (rows, columns),
            ProjectionSide::Columns => (columns, rows),
        };
        let side = self.side;
        let at = |i: usize, j: usize| if side == ProjectionSide::Rows { g(i, j) } else { g(j, i) };
        if self.basis.is_empty() {
            let gram = (0..len * len)
                .map(|index| (0..other).map(|j| at(index / len, j) * at(index % len, j)).sum())
                .collect();
            self.basis = eigen::symmetric(gram, len).1[..LOW_RANK.rank * len].to_vec();
            self.m = vec![0.0; LOW_RANK.rank * other];
            self.v = self.m.clone();
        }
        self.steps += 1;
        let mut change = vec![0.0; LOW_RANK.rank * other];
        for k in 0..LOW_RANK.rank {
            for j in 0..other {
                let projected: f64 = (0..len).map(|i| self.basis[k * len + i] * at(i, j)).sum();
                let (m, v) = (&mut self.m[k * other + j], &mut self.v[k * other + j]);
                *m = OPTIONS.beta1 * *m + (1.0 - OPTIONS.beta1) * projected;
                *v = OPTIONS.beta2 * *v + (1.0 - OPTIONS.beta2) * projected * projected;
                let m = *m / (1.0 - OPTIONS.beta1.powi(self.steps));
                let v = *v / (1.0 - OPTIONS.beta2.powi(self.steps));
                change[k * other + j] = RATE * m / (v.sqrt() + OPTIONS.epsilon);
            }
        }
        for (index, value) in values.iter_mut().enumerate() {
            let (i, j) = match side {
                ProjectionSide::Rows => (index / columns, index % columns),
                ProjectionSide::Columns => (index % columns, index / columns),
            };
            let step: f64 = (0..LOW_RANK.rank)
                .map(|k| self.basis[k * len + i] * change[k * other + j])
                .sum();
            *value = *value * (1.0 - RATE * OPTIONS.weight_decay) - self.scale * step;
        }
    }
}

/// Three steps of each shape, by the optimizer and by the reference.
fn check<P: GradientProjection>(make: impl Fn() -> LowRankAdam<P>) {
    for shape in SHAPES {
        let mut param = Param::base(NAME, uniform_tensor("p", &shape), true);
        let mut want: Vec<f64> = elements(&param.value).into_iter().map(f64::from).collect();
        let mut optimizer = make();
        let projection = &optimizer.projection;
        let mut reference = Reference::new(projection.side(shape[0], shape[1]), projection.scale());
        for step in 0..3 {
            let gradient = || gradient(&format!("{step}"), shape);
            param.accumulate(gradient()).unwrap();
            optimizer.step(&mut [&mut param], RATE).unwrap();
            param.release_gradient();
            let before = want.clone();
            reference.step(&mut want, &gradient());
            // What a step changes is far smaller than the values, and is what counts.
            let change: f64 = want
                .iter()
                .zip(&before)
                .map(|(a, b)| (a - b).powi(2))
                .sum::<f64>()
                .sqrt();
            let got = elements(&param.value);
            let error: f64 = got
                .iter()
                .zip(&want)
                .map(|(got, want)| (f64::from(*got) - want).powi(2))
                .sum::<f64>()
                .sqrt();
            assert!(error < 2e-3 * change, "{shape:?}, step {step}: {error} of {change}");
        }
    }
}

#[test]
fn galore_steps_as_double_precision_does() {
    check(galore);
    with_plain_ops(|| check(galore));
}

/// The singular values fall fast, so that the randomised basis is the exact one.
#[test]
fn rsvd_steps_as_double_precision_does() {
    check(rsvd);
    with_plain_ops(|| check(rsvd));
}

/// Matrices that are projected and one that is not, a vector, one without a gradient, and each dtype.
fn params() -> Vec<Param> {
    let shapes: [&[usize]; 6] = [&[40, 21], &[3, 50], &[33], &[24, 24], &[150, 130], &[17, 300]];
    let param = |(index, shape): (usize, &&[usize])| {
        let dtype = [DType::F32, DType::BF16, DType::F16][index % 3];
        Param::base(NAME, tensor(&uniform("p", shape).to_dtype(dtype).unwrap()), true)
    };
    shapes.iter().enumerate().map(param).collect()
}

fn trained(mut optimizer: impl Optimizer) -> Vec<Param> {
    let mut params = params();
    for step in 0..4 {
        for (index, param) in params.iter_mut().enumerate().filter(|(index, _)| *index != 3) {
            let gradient = match *param.value.dims() {
                [rows, columns] => gradient(&format!("{step} {index}"), [rows, columns]),
                _ => uniform_tensor(&format!("{step} {index}"), param.value.dims()),
            };
            param.accumulate(gradient).unwrap();
        }
        optimizer
            .step(&mut params.iter_mut().collect::<Vec<_>>(), RATE)
            .unwrap();
        params.iter_mut().for_each(Param::release_gradient);
    }
    params
}

#[test]
fn kernels_and_plain_ops_agree_and_threads_do_not_matter() {
    fn check<P: GradientProjection + Send>(make: fn() -> LowRankAdam<P>) {
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let many = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let kernel = trained(make());
        let plain = with_plain_ops(|| trained(make()));
        let (alone, many) = (alone.install(|| trained(make())), many.install(|| trained(make())));
        for (index, kernel) in kernel.iter().enumerate() {
            let tolerance = if kernel.value.dtype() == DType::F32 { 1e-5 } else { 1e-2 };
            assert_close(&kernel.value, &plain[index].value, tolerance, &format!("p{index}"));
            assert_close(&kernel.value, &alone[index].value, 0.0, "one thread");
            assert_close(&kernel.value, &many[index].value, 0.0, "three threads");
            let moved = index != 3;
            assert_eq!(
                elements(&kernel.value) != elements(&params()[index].value),
                moved,
                "{index}"
            );
        }
    }
    check(galore);
    check(rsvd);
}

#[test]
fn small_matrices_and_vectors_are_adamws() {
    let mut adamw = trained(AdamW::new(Elementwise(AdamwRule(OPTIONS)), false));
    for (index, param) in trained(rsvd()).iter_mut().enumerate() {
        let same = elements(&param.value) == elements(&adamw[index].value);
        assert_eq!(same, matches!(index, 1..=3), "{index}");
        adamw[index].release_gradient();
    }
}

/// The first gradient of a LoRA's A is zero, because B is.
#[test]
fn the_basis_waits_for_a_gradient() {
    let zeros = || Tensor::from_f32(&[0.0; 40 * 21], (40, 21), DType::F32).unwrap();
    for make in [(|| Box::new(galore())) as fn() -> Box<dyn Optimizer>, || {
        Box::new(rsvd())
    }] {
        let mut param = Param::adapter(NAME, uniform_tensor("p", &[40, 21]));
        let mut optimizer = make();
        param.accumulate(zeros()).unwrap();
        optimizer.step(&mut [&mut param], RATE).unwrap();
        let decayed = (uniform("p", &[40, 21]) * (1.0 - RATE * OPTIONS.weight_decay)).unwrap();
        assert_close(&param.value, &decayed, 1e-6, "decay alone");
        let before = elements(&param.value);
        param.release_gradient();
        param.accumulate(gradient("g", [40, 21])).unwrap();
        optimizer.step(&mut [&mut param], RATE).unwrap();
        let moved = elements(&param.value)
            .iter()
            .zip(&before)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(moved > 1e-4, "{moved}");
    }
}

#[test]
fn the_basis_is_refreshed_after_the_gap() {
    let moved = |gap: usize| {
        let mut param = Param::base(NAME, uniform_tensor("p", &[24, 24]), true);
        let mut optimizer = LowRankAdam::new(
            Rsvd,
            OPTIONS,
            LowRankOptions {
                update_proj_gap: gap,
                ..LOW_RANK
            },
            false,
        );
        let mut bases = Vec::new();
        for step in 0..5 {
            param.accumulate(gradient(&format!("{step}"), [24, 24])).unwrap();
            optimizer.step(&mut [&mut param], RATE).unwrap();
            param.release_gradient();
            bases.push(elements(&optimizer.states[0].basis));
        }
        bases.windows(2).map(|pair| pair[0] != pair[1]).collect::<Vec<_>>()
    };
    assert_eq!(moved(1), [true; 4]);
    assert_eq!(moved(2), [false, true, false, true]);
    assert_eq!(moved(200), [false; 4]);
}

#[test]
fn nothing_to_project_is_an_error() {
    let mut param = Param::base(NAME, uniform_tensor("p", &[3, 50]), true);
    let error = rsvd().step(&mut [&mut param], RATE).unwrap_err().to_string();
    assert!(error.contains("more than 3 rows and columns"), "{error}");
}
