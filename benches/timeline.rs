//! The cost of recording a timeline: `CELL_ALLOCATOR=retain cargo bench --bench timeline`.
//!
//! Steps of SmolLM2-135M's shape, int4, 4 x 512 tokens, run in pairs, one recorded and one not, in alternating order, so that
//! disturbances fall on both. A recorded step includes its buffers' mapping and first pages, its writes, and its end. The
//! result is the median of the pairs' ratios, with their spread. A step's time varies more than a recording costs, so the cost
//! of an event is measured alone, too, and multiplied by the events of a step. The target is 5 % of a step's time. A number
//! after `--` is the number of pairs.
#![expect(unsafe_code, reason = "the process's CPU time is a call of the C library")]

use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

use candle_core::Device;
use expctl::cell::Cell;
use expctl::data::{self, EffectiveBatch};
use expctl::memory::{ProcessAllocator, set_phase, timeline};
use expctl::model::{self, Source};
use expctl::trace::recording::Event;
use expctl::trace::{Category, Phase};
use expctl::train::Trainer;

#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

/// Steps before the pairs: the first makes the optimizer's state, and maps what the others use again.
const WARM_UP: usize = 2;

/// Seconds of a step: by the clock, and of all threads of the process.
#[derive(Clone, Copy)]
struct Times {
    seconds: f64,
    cpu_seconds: f64,
}

fn main() -> anyhow::Result<()> {
    let given: Option<usize> = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    rayon::scope(|_| run(given.unwrap_or(7).max(1)))
}

fn run(pairs: usize) -> anyhow::Result<()> {
    let steps = WARM_UP + 2 * pairs;
    let cell = Cell {
        batch_size: 4,
        max_seq_length: 512,
        max_steps: Some(steps),
        ..Cell::default()
    };
    let options = cell.train_options();
    let source = Source::open(&options.model, &".".into())?;
    let dataset = data::load(&options.data, source.config(), &".".into(), ".".as_ref())?;
    let batches = dataset.batches(&options.data, source.config());
    let batches: Vec<EffectiveBatch> = batches.collect::<Result<_, _>>()?;
    let mut trainer = Trainer::new(&options, model::load(&options.model, &source, &Device::Cpu)?)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("timeline.bin");
    let mut step = |index: usize, record: bool| -> anyhow::Result<Times> {
        let file = File::create(&path)?;
        let (start, cpu) = (Instant::now(), cpu_seconds());
        if record {
            timeline::start(file, usize::MAX)?;
        }
        trainer.step(&batches[index], index, steps, &mut timeline::write_out)?;
        trainer.release_gradients();
        set_phase(Phase::Idle);
        timeline::finish()?;
        Ok(Times {
            seconds: start.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - cpu,
        })
    };
    for index in 0..WARM_UP {
        step(index, false)?;
    }
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let first = WARM_UP + 2 * pair;
        for (index, record) in [(first, pair % 2 == 1), (first + 1, pair % 2 == 0)] {
            if record { &mut with } else { &mut without }.push(step(index, record)?);
        }
    }
    // A step that is not recorded empties the file.
    step(0, true)?;
    let bytes = path.metadata()?.len();
    let events = bytes as f64 / Event::SIZE as f64;
    println!(
        "{:<14} {:^24} {:^24} {:^24}",
        format!("{pairs} pairs"),
        "not recorded",
        "recorded",
        "ratio"
    );
    for (name, of) in [
        ("seconds", (|times| times.seconds) as fn(&Times) -> f64),
        ("CPU seconds", |times| times.cpu_seconds),
    ] {
        let ratios = with.iter().zip(&without).map(|(with, without)| of(with) / of(without));
        println!(
            "{name:<14} {:^24} {:^24} {:^24}",
            spread(without.iter().map(of)),
            spread(with.iter().map(of)),
            spread(ratios)
        );
    }
    let plain = nanos_of_an_event();
    timeline::start(File::create(&path)?, usize::MAX)?;
    let recorded = nanos_of_an_event();
    timeline::finish()?;
    let cost = (recorded - plain).max(0.0);
    let seconds = sorted(without.iter().map(|times| times.seconds));
    println!(
        "\nan event costs {cost:.0} ns; a step has {events:.0} ({:.2} MB): {:.2} % of its time",
        bytes as f64 / 1e6,
        cost * events / median(&seconds) / 1e7
    );
    Ok(())
}

/// Nanoseconds of an event, its writing included: the best of some rounds of allocating and freeing.
fn nanos_of_an_event() -> f64 {
    const PAIRS: usize = 20_000;
    let _scope = memory::scope(Category::Temporary);
    let round = |_| {
        let start = Instant::now();
        for pair in 0..PAIRS {
            drop(black_box(Vec::<u8>::with_capacity(black_box(4096))));
            if pair % 500 == 0 {
                timeline::write_out();
            }
        }
        start.elapsed().as_nanos() as f64 / (2 * PAIRS) as f64
    };
    (0..50).map(round).fold(f64::INFINITY, f64::min)
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// The median, the lowest and the highest.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let values = sorted(values);
    format!(
        "{:.3} ({:.3} to {:.3})",
        median(&values),
        values[0],
        values[values.len() - 1]
    )
}

/// Time that the process's threads have computed.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure; where it cannot, the time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
