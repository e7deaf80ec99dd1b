//! The speed of the replay of PyTorch's caching allocator: `cargo bench --bench allocator`.
//!
//! Times calls of malloc and free, best of several rounds: as training makes them, and at random with more and more blocks
//! alive, which is the worst there is. The target is 5 million a second.

use std::hint::black_box;
use std::time::{Duration, Instant};

use expctl::torch::caching_allocator::{CachingAllocator, DeviceMemory, Settings, replay};
use expctl::trace::Trace;
use expctl::trace::{Category, Phase};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROUNDS: usize = 9;
const CALLS: usize = 1_000_000;

/// Millions of events a second in the best round, which others on the machine disturbed least.
fn rate(events: usize, mut round: impl FnMut()) -> f64 {
    let time = || {
        let start = Instant::now();
        round();
        start.elapsed()
    };
    let best: Duration = std::iter::repeat_with(time).take(ROUNDS).min().unwrap_or_default();
    events as f64 / best.as_secs_f64() / 1e6
}

/// Steps of a transformer with 32 blocks: activations are kept for the backward pass, temporaries are not.
fn training(steps: u32) -> Trace {
    let mut trace = Trace::new();
    let (tokens, hidden, wide) = (2048u64, 4096u64, 14_336u64);
    trace.phase(Phase::Load);
    for _ in 0..32 {
        for size in [hidden * hidden, hidden * wide] {
            for _ in 0..4 {
                trace.alloc(size * 2, Category::Parameter);
            }
        }
    }
    for step in 1..=steps {
        trace.step(step);
        // The rows of a step are not as long as those of another.
        let tokens = tokens - u64::from(step * 37 % 512);
        trace.phase(Phase::Forward);
        let mut saved = Vec::new();
        for layer in 0..32 {
            trace.module("mlp", Some(layer));
            for width in [hidden, hidden, 1024, 1024, hidden, hidden, wide, wide, wide, 64, 16] {
                let temporary = trace.alloc(tokens * width * 4, Category::Temporary);
                saved.push(trace.alloc(tokens * width * 2, Category::Activation));
                trace.free(temporary);
            }
        }
        trace.phase(Phase::Backward);
        let mut gradients = Vec::new();
        while let Some(activation) = saved.pop() {
            let gradient = trace.alloc(tokens * hidden * 2, Category::Gradient);
            gradients.push(trace.alloc(hidden * 16 * 4, Category::Gradient));
            trace.free(activation);
            trace.free(gradient);
        }
        trace.phase(Phase::Optimizer);
        gradients.into_iter().for_each(|gradient| trace.free(gradient));
    }
    trace
}

/// Calls at random: `(block, bytes)`, bytes of 0 for a free. About `live` blocks are alive.
fn random(live: usize) -> Vec<(usize, u64)> {
    let mut random = ChaCha8Rng::seed_from_u64(live as u64);
    let mut calls = Vec::with_capacity(CALLS);
    let mut alive = vec![false; 2 * live];
    while calls.len() < CALLS {
        let block = random.random_range(0..alive.len());
        alive[block] = !alive[block];
        let bytes = if random.random_bool(0.5) {
            random.random_range(1..1 << 20)
        } else {
            random.random_range(1 << 20..64 << 20)
        };
        calls.push((block, if alive[block] { bytes } else { 0 }));
    }
    calls
}

fn main() -> anyhow::Result<()> {
    println!(
        "millions of events a second\n\nsettings                     training   random, alive: 100    1,000   10,000"
    );
    let trace = training(50);
    let calls = [100, 1_000, 10_000].map(random);
    for text in ["", "expandable_segments:True", "max_split_size_mb:32"] {
        let settings: Settings = text.parse()?;
        let replayed = rate(trace.events().count(), || {
            black_box(replay(&trace, &settings, &DeviceMemory::UNLIMITED));
        });
        let at_random = calls.each_ref().map(|calls| {
            rate(calls.len(), || {
                let mut allocator = CachingAllocator::new(&settings, &DeviceMemory::UNLIMITED);
                let mut blocks = Vec::new();
                blocks.resize_with(20_000, || None);
                for &(block, bytes) in calls {
                    match blocks[block].take() {
                        Some(allocation) => allocator.free(allocation),
                        None => blocks[block] = allocator.malloc(bytes).ok(),
                    }
                }
                black_box(allocator.stats());
            })
        });
        let [few, some, many] = at_random;
        println!(
            "{:<28} {replayed:>8.1} {few:>21.1} {some:>8.1} {many:>8.1}",
            if text.is_empty() { "default" } else { text }
        );
    }
    Ok(())
}
