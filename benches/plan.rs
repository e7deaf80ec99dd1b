//! The time of a plan: `cargo bench --bench plan`.
//!
//! Cells of models from 135M to 8B, each planned several times: of our trainer, and of PyTorch's stack without and with the
//! replay of its allocator. Then 10,000 cells in one go, as `expctl plan` does it. The targets are 0.3 ms a cell of
//! our trainer and 2 s for its 10,000; of PyTorch's stack 1 ms without replay, 2 ms with it, and 5 s for the 10,000. At last
//! combinations of a search for what fits, on all cores: 2,000 a second are wanted.
//!
//! `cargo bench --bench plan -- replay` times only cells planned one by one whose heading has this word.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use expctl::cell::{Cell, Checkpointing, Dtype, Stack};
use expctl::plan::fit::{Moves, Space};
use expctl::plan::{Options, Planner};
use expctl::spec::FitSpec;
use expctl::techniques::Harm;
use rayon::prelude::*;

const ROUNDS: usize = 15;
const MANY: usize = 10_000;

/// Model, format, rank, samples at once, their tokens, and whether blocks are checkpointed.
type Typical = (&'static str, Dtype, usize, usize, usize, bool);

const OURS: [Typical; 14] = [
    ("smollm2-135m", Dtype::Int4, 16, 4, 512, false),
    ("smollm2-135m", Dtype::Float32, 0, 1, 128, false),
    ("smollm2-135m", Dtype::Bfloat16, 8, 8, 256, true),
    ("smollm2-360m", Dtype::Int4, 16, 4, 512, false),
    ("smollm2-360m", Dtype::Int8, 64, 2, 1024, true),
    ("smollm2-360m", Dtype::Bfloat16, 0, 1, 512, true),
    ("tinyllama-1.1b", Dtype::Int4, 8, 1, 2048, true),
    ("tinyllama-1.1b", Dtype::Bfloat16, 16, 4, 512, false),
    ("llama-3.2-1b", Dtype::Int4, 16, 4, 1024, false),
    ("llama-3.2-1b", Dtype::Int8, 8, 2, 512, true),
    ("llama-3.2-1b", Dtype::Bfloat16, 32, 1, 4096, true),
    ("llama-3.2-3b", Dtype::Int4, 16, 1, 512, true),
    ("llama-3.2-3b", Dtype::Int4, 64, 4, 2048, false),
    ("llama-3.2-3b", Dtype::Bfloat16, 0, 1, 1024, true),
];

const TORCH: [Typical; 16] = [
    ("smollm2-135m", Dtype::Int4, 16, 4, 512, false),
    ("smollm2-135m", Dtype::Float32, 0, 8, 256, false),
    ("smollm2-360m", Dtype::Bfloat16, 16, 4, 512, true),
    ("qwen2.5-0.5b", Dtype::Bfloat16, 8, 4, 1024, false),
    ("qwen3-0.6b", Dtype::Int4, 16, 2, 1024, true),
    ("tinyllama-1.1b", Dtype::Bfloat16, 8, 4, 512, false),
    ("llama-3.2-1b", Dtype::Bfloat16, 0, 2, 1024, true),
    ("qwen2.5-1.5b", Dtype::Int8, 16, 2, 1024, true),
    ("smollm2-1.7b", Dtype::Int4, 64, 4, 512, false),
    ("llama-3.2-3b", Dtype::Bfloat16, 16, 1, 4096, true),
    ("phi-4-mini", Dtype::Bfloat16, 16, 2, 1024, false),
    ("llama-2-7b", Dtype::Int4, 64, 1, 512, true),
    ("mistral-7b", Dtype::Int4, 16, 4, 1024, true),
    ("qwen2.5-7b", Dtype::Bfloat16, 8, 2, 2048, false),
    ("llama-3.1-8b", Dtype::Int4, 16, 1, 2048, true),
    ("llama-3.1-8b", Dtype::Int8, 32, 2, 512, false),
];

fn cell((model, dtype, rank, batch_size, max_seq_length, is_checkpointed): Typical, stack: Stack) -> Cell {
    Cell {
        model: model.into(),
        stack,
        dtype,
        rank,
        batch_size,
        max_seq_length,
        gradient_checkpointing: if is_checkpointed {
            Checkpointing::Full
        } else {
            Checkpointing::None
        },
        ..Cell::default()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn planner(replay: bool) -> Planner {
    let options = Options {
        replay,
        ..Options::default()
    };
    Planner::new(Path::new(""), options)
}

/// CPU time of all threads so far, in milliseconds: it does not grow while other programs have the cores.
fn cpu_milliseconds() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let scheduled = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        scheduled.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e6
}

/// Milliseconds of one cell's plan, the median of several, and of CPU time, their mean. The first is in neither, as it reads
/// the model's shape.
fn time(planner: &Planner, cell: &Cell) -> (f64, f64) {
    let once = || {
        let start = Instant::now();
        if let Err(error) = black_box(planner.predict(black_box(cell))) {
            panic!("{}: {error}", cell.model);
        }
        milliseconds(start.elapsed())
    };
    once();
    let before = cpu_milliseconds();
    let times = median((0..ROUNDS).map(|_| once()).collect());
    (times, (cpu_milliseconds() - before) / ROUNDS as f64)
}

fn cells_one_by_one(name: &str, cells: &[Cell], replay: bool) {
    let planner = planner(replay);
    println!("\n{name}, ms a cell, and of CPU time");
    let times: Vec<(f64, f64)> = cells.iter().map(|cell| time(&planner, cell)).collect();
    for (cell, (time, cpu)) in cells.iter().zip(&times) {
        let (dtype, rank, batch, len) = (cell.dtype, cell.rank, cell.batch_size, cell.max_seq_length);
        println!(
            "  {time:8.3}  {cpu:8.3}  {} {dtype:?} rank {rank} {batch} x {len}",
            cell.model
        );
    }
    let (times, cpu): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
    let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let (longest, most_cpu) = (most(&times), most(&cpu));
    println!(
        "  {:8.3}  {:8.3}  median; {longest:.3} and {most_cpu:.3} at most",
        median(times),
        median(cpu)
    );
}

/// Cells that differ, on all cores.
fn many(name: &str, typical: &[Typical], stack: Stack, replay: bool) {
    let of = |index: usize| {
        let mut cell = cell(typical[index % typical.len()], stack);
        cell.max_seq_length = 128 + index % 1900;
        cell
    };
    let cells: Vec<Cell> = (0..MANY).map(of).collect();
    let planner = planner(replay);
    let start = Instant::now();
    let planned = cells.par_iter().filter(|cell| planner.predict(cell).is_ok()).count();
    assert_eq!(planned, MANY);
    println!("{MANY} cells, {name}: {:.2} s", start.elapsed().as_secs_f64());
}

/// Combinations of every technique, far from each other in the space of a cell, on all cores.
fn combinations(typical: Typical) {
    let (cell, planner, fit) = (cell(typical, Stack::Torch), planner(false), FitSpec::default());
    let model = planner.model(&cell).unwrap_or_else(|error| panic!("{error}"));
    let moves = Moves {
        fit: &fit,
        worst: Harm::Data,
    };
    let space = Space::new(&cell, &model, moves).unwrap_or_else(|error| panic!("{error}"));
    let all = space.combinations();
    let start = Instant::now();
    let numbers = (0..MANY as u64)
        .into_par_iter()
        .map(|number| number * (all as u64 / MANY as u64).max(1));
    let cells = numbers.filter_map(|number| space.cell(&space.nth(number)));
    let planned = cells.filter(|cell| planner.needed_at_least(cell).is_ok()).count();
    let seconds = start.elapsed().as_secs_f64();
    let rate = planned as f64 / seconds;
    println!(
        "{planned} of {all} combinations of {}: {seconds:.2} s, {rate:.0} a second",
        typical.0
    );
}

fn main() {
    let ours = OURS.map(|typical| cell(typical, Stack::Candle));
    let torch = TORCH.map(|typical| cell(typical, Stack::Torch));
    let alone = [
        ("our trainer", &ours[..], false),
        ("PyTorch's stack without replay", &torch, false),
        ("PyTorch's stack with replay", &torch, true),
    ];
    // Cargo passes options of its own, such as --bench.
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    for (name, cells, replay) in alone {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            cells_one_by_one(name, cells, replay);
        }
    }
    if only.is_some() {
        return;
    }
    println!();
    many("our trainer", &OURS, Stack::Candle, false);
    many("PyTorch's stack without replay", &TORCH, Stack::Torch, false);
    many("PyTorch's stack with replay", &TORCH, Stack::Torch, true);
    println!();
    for typical in [TORCH[3], TORCH[13], TORCH[14]] {
        combinations(typical);
    }
}
