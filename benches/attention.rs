//! Attention at the models' shapes, forward and backward: `cargo bench --bench attention`.

use expctl::kernels::Dispatch as _;
use std::time::Instant;

use expctl::kernels::{
    Element, InstructionSet, Sequences,
    attention::{Gradients, Pattern, Saved, Scores, Shape, backward, forward},
};
use expctl::memory::ProcessAllocator;
use half::bf16;

/// Outputs begin at cache lines, as a trainer's do.
#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

/// Samples, length, heads, heads of keys and values; each with 64 dimensions.
const SHAPES: [(usize, usize, usize, usize); 3] = [(4, 512, 9, 3), (1, 512, 32, 8), (1, 8192, 32, 8)];
const HEAD_DIM: usize = 64;
/// Runs of each, of which the median counts.
const RUNS: usize = 31;

fn main() {
    println!(
        "instruction set: {}, threads: {}",
        InstructionSet::current().name(),
        rayon::current_num_threads()
    );
    println!("{:>18}  {:>22}  {:>22}", "batch x len, heads", "forward", "backward");
    for (batch, len, heads, kv_heads) in SHAPES {
        let sequences = Sequences::even(batch, len);
        let shape = Shape {
            sequences: &sequences,
            heads,
            kv_heads,
            head_dim: HEAD_DIM,
            scores: Scores::of(HEAD_DIM),
        };
        let (queries, keys) = (batch * len * heads * HEAD_DIM, batch * len * kv_heads * HEAD_DIM);
        let (q, k, v, d_out) = (values(queries, 1), values(keys, 2), values(keys, 3), values(queries, 4));
        let (mut out, mut lse) = (values(queries, 0), vec![0.0; batch * heads * len]);
        let runs = if len > 4096 { 3 } else { RUNS };
        let forward = median(runs, || {
            forward::<bf16, bf16>(&q, &k, &v, shape, Pattern::CAUSAL, &mut out, &mut lse)
        });
        let (mut dq, mut dk, mut dv) = (values(queries, 0), values(keys, 0), values(keys, 0));
        let saved = Saved {
            q: &q,
            k: &k,
            v: &v,
            out: &out,
            lse: &lse,
        };
        let backward = median(runs, || {
            let gradients = Gradients {
                q: &mut dq,
                k: &mut dk,
                v: &mut dv,
            };
            backward::<bf16, bf16>(&saved, &d_out, shape, Pattern::CAUSAL, gradients);
        });
        // A product of all that causality leaves of the scores: 2 · head_dim operations for each of len² / 2.
        let product = (batch * heads * len * len * HEAD_DIM) as f64;
        println!(
            "{:>18}  {}  {}",
            format!("{batch} x {len}, {heads}/{kv_heads}"),
            figures(forward, 2.0 * product),
            figures(backward, 5.0 * product)
        );
    }
}

fn figures(seconds: f64, operations: f64) -> String {
    format!(
        "{:>8.2} ms {:>5.2} TFLOP/s",
        seconds * 1e3,
        operations * 1e-12 / seconds
    )
}

/// Numbers between -1 and 1.
fn values(count: usize, seed: usize) -> Vec<bf16> {
    (0..count)
        .map(|i| Element::narrow(((i * 2_654_435_761 + seed * 40_503) >> 7) as f32 % 1021.0 / 510.0 - 1.0))
        .collect()
}

/// Seconds of a run, after one that is not counted.
fn median(runs: usize, mut run: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..=runs)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[runs / 2]
}
