//! What recording a timeline costs: `cargo bench --bench timeline`.
//!
//! Steps of SmolLM2-135M's shape, int4, 4 x 512 tokens, are recorded and not recorded in turns, so that whatever else the
//! machine does falls on both; the medians are compared. As a step's time varies more than a recording costs, the cost of an
//! event is taken alone, too, and put together with the events of a step. The target is 5 % of a step's time. A number
//! after `--` is how many pairs of steps there are.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use candle_core::Device;
use expctl::data::{self, EffectiveBatch};
use expctl::memory::event::Event;
use expctl::memory::{self, BackendAllocator, Category, LedgerAllocator, Phase, set_phase, timeline};
use expctl::model::{self, Source};
use expctl::spec::cell::Cell;
use expctl::train::Trainer;

#[global_allocator]
static ALLOCATOR: LedgerAllocator<BackendAllocator> = LedgerAllocator::new(BackendAllocator);

/// Of a step: by the clock, and of all of the process's threads.
#[derive(Clone, Copy)]
struct Times {
    seconds: f64,
    cpu_seconds: f64,
}

fn main() -> anyhow::Result<()> {
    let given = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    rayon::scope(|_| run(given.unwrap_or(7)))
}

fn run(pairs: usize) -> anyhow::Result<()> {
    let cell = Cell {
        batch_size: 4,
        max_seq_length: 512,
        ..Cell::default()
    };
    let source = Source::open(&cell, Path::new("."))?;
    let dataset = data::load(&cell, source.config(), Path::new("."))?;
    let steps = 2 * pairs;
    // The first makes the optimizer's state, and maps what the others use again.
    let batches: Vec<EffectiveBatch> = dataset.batches(&cell, source.config()).take(steps + 1).collect();
    let mut trainer = Trainer::new(&cell, model::load(&cell, &source, &Device::Cpu)?);
    trainer.step(&batches[0], 0, steps, &mut || ())?;
    trainer.release_gradients();

    let (mut without, mut with) = (Vec::new(), Vec::new());
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("timeline.bin");
    for (index, batch) in batches.iter().enumerate().skip(1) {
        let record = index % 2 == 0;
        if record {
            timeline::start(File::create(&path)?, usize::MAX)?;
        }
        let (start, cpu) = (Instant::now(), cpu_seconds());
        trainer.step(batch, index, steps, &mut timeline::write_out)?;
        let times = Times {
            seconds: start.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - cpu,
        };
        trainer.release_gradients();
        set_phase(Phase::Idle);
        if record { &mut with } else { &mut without }.push(times);
        timeline::finish()?;
    }
    let bytes = path.metadata()?.len();
    let events = bytes as f64 / Event::SIZE as f64;
    println!("median of {pairs} steps    not recorded  recorded  ratio");
    for (name, of) in [
        ("seconds", (|times| times.seconds) as fn(&Times) -> f64),
        ("CPU seconds", |times| times.cpu_seconds),
    ] {
        let (without, with) = (median(without.iter().map(of)), median(with.iter().map(of)));
        println!("{name:<20} {without:>15.3} {with:>9.3} {:>6.3}", with / without);
    }
    let plain = nanos_of_an_event();
    timeline::start(File::create(&path)?, usize::MAX)?;
    let recorded = nanos_of_an_event();
    timeline::finish()?;
    let (cost, step) = (
        (recorded - plain).max(0.0),
        median(without.iter().map(|times| times.seconds)),
    );
    println!(
        "\nan event costs {cost:.0} ns; a step has {events:.0} ({:.2} MB): {:.2} % of its time",
        bytes as f64 / 1e6,
        cost * events / step / 1e7
    );
    Ok(())
}

/// Of allocating and freeing, each of which is an event, and of writing them out: the best of some rounds.
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Time that the process's threads have computed.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure; where it cannot, the time stays 0.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
