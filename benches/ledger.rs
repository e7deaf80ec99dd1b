//! The ledger's cost: `cargo bench --bench ledger`.
//!
//! Measures a pair of allocating and freeing with the ledger and without, counts the allocations of training steps, and
//! puts the two together: the share of a step that the ledger takes. The target is 3 %.
#![expect(unsafe_code, reason = "allocators are called directly, and one is written here")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use candle_core::Device;
use expctl::cell::Cell;
use expctl::data::{self, EffectiveBatch};
use expctl::memory::{Buffer, LedgerAllocator, probes};
use expctl::model::{self, Source};
use expctl::trace::Category;
use expctl::train::Trainer;

/// The system's allocator, which counts what is asked of it.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every request to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: LedgerAllocator<Counting> = LedgerAllocator::new(Counting);

/// The ledger over the bare system, to compare with the bare system.
static LEDGER: LedgerAllocator = LedgerAllocator::new(System);

const SIZES: [usize; 6] = [16, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20];
const ROUNDS: usize = 15;
const PAIRS: usize = 100_000;

/// Times of several rounds, ascending.
fn rounds(count: usize, round: impl FnMut() -> Duration) -> Vec<Duration> {
    let mut times: Vec<_> = std::iter::repeat_with(round).take(count).collect();
    times.sort();
    times
}

/// Seconds of one call: the best round, which others on the machine disturbed least.
fn best(count: usize, round: impl FnMut() -> Duration, calls: usize) -> f64 {
    rounds(count, round)[0].as_secs_f64() / calls as f64
}

fn pairs<A: GlobalAlloc>(allocator: &A, size: usize) {
    // SAFETY: the layout is not empty, and what was allocated is freed with it.
    unsafe {
        let layout = Layout::from_size_align_unchecked(size, 16);
        for _ in 0..PAIRS {
            allocator.dealloc(black_box(allocator.alloc(black_box(layout))), layout);
        }
    }
}

fn alone<A: GlobalAlloc>(allocator: &A, size: usize) -> f64 {
    let round = || {
        let start = Instant::now();
        pairs(allocator, size);
        start.elapsed()
    };
    best(ROUNDS, round, PAIRS)
}

/// The same by all cores at once, which share the ledger's lock: the median, as in the best round they took turns.
fn together<A: GlobalAlloc + Sync>(allocator: &A, size: usize, threads: usize) -> f64 {
    let round = || {
        let barrier = Barrier::new(threads);
        let longest = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        let start = Instant::now();
                        pairs(allocator, size);
                        start.elapsed()
                    })
                })
                .collect();
            let times = workers.into_iter().filter_map(|worker| worker.join().ok());
            times.max()
        });
        longest.unwrap_or_default()
    };
    rounds(ROUNDS, round)[ROUNDS / 2].as_secs_f64() / PAIRS as f64
}

/// Time that giving a buffer another category takes.
fn label() -> f64 {
    let buffer = Buffer::<f32>::zeros(16);
    let round = || {
        let start = Instant::now();
        for _ in 0..PAIRS / 2 {
            black_box(&buffer).label(Category::Activation);
            black_box(&buffer).label(Category::Temporary);
        }
        start.elapsed()
    };
    best(ROUNDS, round, PAIRS)
}

/// Time of asking what the allocator holds, as the trainer does between segments.
fn look() -> f64 {
    let round = || {
        let start = Instant::now();
        black_box(probes::reserved_bytes());
        start.elapsed()
    };
    best(100, round, 1)
}

struct Step {
    seconds: f64,
    allocations: u64,
    looks: u64,
    /// Time of a look after a step, when there is more to add up.
    look: f64,
}

/// The quickest of some steps.
fn step(cell: &Cell, steps: usize) -> anyhow::Result<Step> {
    let options = cell.train_options();
    let source = Source::open(&options.model, &".".into())?;
    let dataset = data::load(&options.data, source.config(), &".".into(), ".".as_ref())?;
    let batches = dataset.batches(&options.data, source.config()).take(steps);
    let batches: Vec<EffectiveBatch> = batches.collect::<Result<_, _>>()?;
    let mut trainer = Trainer::new(&options, model::load(&options.model, &source, &Device::Cpu)?)?;
    let mut quickest: Option<Step> = None;
    for (index, batch) in batches.iter().enumerate() {
        let mut looks = 0;
        let (before, start) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
        trainer.step(batch, index, steps, &mut || looks += 1)?;
        let seconds = start.elapsed().as_secs_f64();
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        trainer.release_gradients();
        if quickest.as_ref().is_none_or(|quickest| seconds < quickest.seconds) {
            quickest = Some(Step {
                seconds,
                allocations,
                looks,
                look: look(),
            });
        }
    }
    quickest.ok_or_else(|| anyhow::anyhow!("no step was made"))
}

fn size_name(size: usize) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", size >> 20),
    }
}

fn main() -> anyhow::Result<()> {
    let threads = available_parallelism()?.get();
    println!("nanoseconds for allocating and freeing, by one thread and by {threads} at once\n");
    println!("    size    system    ledger   costs    system x{threads}  ledger x{threads}   costs");
    let (mut cost_alone, mut cost_together) = (0f64, 0f64);
    for size in SIZES {
        let (system, ledger) = (alone(&System, size), alone(&LEDGER, size));
        let (system_all, ledger_all) = (together(&System, size, threads), together(&LEDGER, size, threads));
        cost_alone = cost_alone.max(ledger - system);
        cost_together = cost_together.max(ledger_all - system_all);
        println!(
            "{:>8} {:>9.1} {:>9.1} {:>7.1} {:>12.1} {:>10.1} {:>7.1}",
            size_name(size),
            system * 1e9,
            ledger * 1e9,
            (ledger - system) * 1e9,
            system_all * 1e9,
            ledger_all * 1e9,
            (ledger_all - system_all) * 1e9
        );
    }
    let label = label();
    println!("   label {:>29.1}\n", label * 1e9);

    println!("A training step: its allocations at the highest cost above, each with a label (fewer have one).");
    println!("x{threads} is as if all threads did nothing but allocate, all the time: more than any step costs.");
    println!("A look is what is asked of the allocator between segments, which is not the ledger's.\n");
    println!("step                            allocations        ms   ledger  ledger x{threads}  looks");
    let tiny = Cell {
        model: "tiny".into(),
        batch_size: 4,
        max_seq_length: 64,
        ..Cell::default()
    };
    let steps = [
        ("tiny, int4, 4 x 64", tiny, 10),
        ("smollm2-135m, int4, 1 x 128", Cell::default(), 2),
    ];
    for (name, cell, count) in steps {
        let step = step(&cell, count)?;
        let share = |cost: f64| 100.0 * step.allocations as f64 * (cost + label) / step.seconds;
        println!(
            "{name:<30} {:>12} {:>9.1} {:>7.2}% {:>8.2}% {:>5.2}%",
            step.allocations,
            step.seconds * 1e3,
            share(cost_alone),
            share(cost_together),
            100.0 * step.looks as f64 * step.look / step.seconds
        );
    }
    Ok(())
}
