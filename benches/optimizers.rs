//! The kernels of optimizers' steps, one after the other, over one matrix: `cargo bench --bench optimizers`.

use expctl::kernels::Dispatch as _;
use std::time::Instant;

use expctl::kernels::{
    InstructionSet, adafactor, adamw,
    adamw_8bit::{self, BLOCK, Moment},
    lion, sgd,
};
use expctl::quant::dynamic::{SIGNED, UNSIGNED};

const ROWS: usize = 4096;
const COLUMNS: usize = 2048;
/// Steps of each, of which the median counts.
const RUNS: usize = 31;

const DECAY: f32 = 0.999;
const RATE: f32 = 1e-3;

fn main() {
    println!(
        "{ROWS} x {COLUMNS} in float32, instruction set: {}, threads: {}",
        InstructionSet::current().name(),
        rayon::current_num_threads()
    );
    let count = ROWS * COLUMNS;
    let gradients: Vec<f32> = (0..count)
        .map(|i| (((i * 40_503) >> 7) % 1021) as f32 / 510.0 - 1.0)
        .collect();
    let mut values = gradients.clone();
    let (mut m, mut v) = (vec![0.0; count], vec![0.0; count]);
    let c = adamw::Coefficients {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        decay: DECAY,
        rate: RATE,
        root_correction: 1.0,
    };
    let of_adamw = median(|| adamw::step(&mut values, &gradients, &mut m, &mut v, c));
    let show = |name: &str, seconds: f64| {
        let nanoseconds = seconds * 1e9 / count as f64;
        println!(
            "{name:>10}  {nanoseconds:>6.2} ns an element  {:>5.2} of adamw",
            seconds / of_adamw
        );
    };
    show("adamw", of_adamw);
    let (mut m_codes, mut v_codes) = (vec![0; count], vec![0; count]);
    let (mut m_absmax, mut v_absmax) = (vec![0.0; count / BLOCK], vec![0.0; count / BLOCK]);
    let c = adamw_8bit::Coefficients {
        beta1: [0.9, 0.1],
        beta2: [0.999, 0.001],
        epsilon: 1e-8,
        decay: DECAY,
        rate: RATE,
        root_correction: 1.0,
    };
    let of_codes = median(|| {
        let m = Moment {
            codes: &mut m_codes,
            absmax: &mut m_absmax,
            codebook: &SIGNED,
        };
        let v = Moment {
            codes: &mut v_codes,
            absmax: &mut v_absmax,
            codebook: &UNSIGNED,
        };
        adamw_8bit::step(&mut values, &gradients, m, v, c);
    });
    show("adamw_8bit", of_codes);
    let c = lion::Coefficients {
        beta1: 0.9,
        beta2: 0.99,
        decay: DECAY,
        rate: RATE,
    };
    show("lion", median(|| lion::step(&mut values, &gradients, &mut m, c)));
    let (mut rows, mut columns) = (vec![0.0; ROWS], vec![0.0; COLUMNS]);
    let c = adafactor::Coefficients {
        beta2: 0.999,
        decay: DECAY,
        rate: RATE,
    };
    let of_sums = median(|| adafactor::step_matrix(&mut values, &gradients, &mut rows, &mut columns, c));
    show("adafactor", of_sums);
    let c = sgd::Coefficients {
        decay: DECAY,
        rate: RATE,
    };
    show("sgd", median(|| sgd::step(&mut values, &gradients, c)));
}

/// Seconds of a step, after one that is not counted.
fn median(mut step: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let start = Instant::now();
            step();
            start.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}
