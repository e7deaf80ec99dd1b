//! Matrix products at the models' shapes, in FLOP/s: `cargo bench --bench gemm`.

use std::time::Instant;

use expctl::kernels::{
    InstructionSet,
    gemm::{
        Dense, Operand, Segment, Source, Term,
        block::Multiply,
        product,
        store::{Output, Replace},
    },
};
use half::bf16;

/// Rows, depth, columns.
const SHAPES: [(usize, usize, usize); 9] = [
    (2048, 576, 576),
    (2048, 576, 960),
    (2048, 576, 3072),
    (2048, 1536, 576),
    (2048, 3072, 576),
    (352, 576, 49152),
    (352, 49152, 576),
    (512, 2048, 8192),
    (512, 8192, 2048),
];
/// Runs of each, of which the median counts.
const RUNS: usize = 7;

fn main() {
    println!(
        "instruction set: {}, threads: {}",
        InstructionSet::current().name(),
        rayon::current_num_threads()
    );
    println!(
        "{:>20}  {:>12}  {:>12}  {:>12}",
        "rows x depth x cols", "bf16 x·Wᵀ", "bf16 dy·W", "f32 x·Wᵀ"
    );
    for (rows, depth, cols) in SHAPES {
        let x = vec![bf16::from_f32(0.5); rows * depth];
        let w = vec![bf16::from_f32(0.25); cols * depth];
        let (x32, w32) = (vec![0.5f32; rows * depth], vec![0.25f32; cols * depth]);
        let figures = [
            tera::<bf16>(
                (rows, depth, cols),
                &Dense::new(&x, depth),
                Operand::depth_last(&Dense::new(&w, depth)),
            ),
            tera::<bf16>(
                (rows, depth, cols),
                &Dense::new(&x, depth),
                Operand::depth_first(&Dense::new(&w, cols)),
            ),
            tera::<f32>(
                (rows, depth, cols),
                &Dense::new(&x32, depth),
                Operand::depth_last(&Dense::new(&w32, depth)),
            ),
        ];
        println!(
            "{:>20}  {:>7.2} TF/s  {:>7.2} TF/s  {:>7.2} TF/s",
            format!("{rows} x {depth} x {cols}"),
            figures[0],
            figures[1],
            figures[2]
        );
    }
}

fn tera<P: Multiply>((rows, depth, cols): (usize, usize, usize), left: &dyn Source<P>, right: Operand<P>) -> f64 {
    let mut out = vec![0f32; rows * cols];
    let mut seconds: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let store = Replace {
                out: Output::new(&mut out, cols),
                scale: 1.0,
            };
            let term = Term {
                left: Operand::depth_last(left),
                right,
                depth,
            };
            let start = Instant::now();
            product(
                rows,
                &[Segment {
                    cols,
                    terms: vec![term],
                    store: &store,
                }],
            );
            start.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    seconds.sort_by(f64::total_cmp);
    2e-12 * (rows * depth * cols) as f64 / seconds[RUNS / 2]
}
