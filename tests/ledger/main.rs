//! The ledger as a process's global allocator.
#![expect(unsafe_code, reason = "the allocator is called as the language calls it")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

#[path = "../common/mod.rs"]
mod common;
mod dry_run;
mod layer_config;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device};
use expctl::memory::{BACKEND_VARIABLE, Buffer, LedgerAllocator, OOM_EXIT_CODE, ProcessAllocator, Tiers, probes};
use expctl::nn::tensor::Tensor;
use expctl::options::AllocatorBackend;
use expctl::records::Oom;
use expctl::trace::{ByCategory, Category, Phase};

use common::training::turn;

#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

fn tensor_bytes() -> [u64; 7] {
    let live = memory::live().by_category;
    std::array::from_fn(|index| live[Category::ALL[index + 1]])
}

fn live(category: Category) -> u64 {
    memory::live().by_category[category]
}

fn difference(after: ByCategory, before: ByCategory, category: Category) -> i64 {
    after[category] as i64 - before[category] as i64
}

#[test]
fn all_sizes_and_alignments_are_exact() {
    let _turn = turn();
    let _scope = memory::scope(Category::Input);
    let before = tensor_bytes();
    for align in (0..=16).map(|shift| 1usize << shift) {
        // 100,000 bytes become large and small again; 500,000 are large and become small.
        for size in [1, 7, 16, 17, 4095, 100_000, 3 << 20, 500_000] {
            let layout = Layout::from_size_align(size, align).unwrap();
            for zeroed in [false, true] {
                let start = live(Category::Input);
                // SAFETY: the layout is not empty; what is allocated is written within its size and freed with its layout.
                unsafe {
                    let block = if zeroed {
                        ALLOCATOR.alloc_zeroed(layout)
                    } else {
                        ALLOCATOR.alloc(layout)
                    };
                    assert!(!block.is_null());
                    assert_eq!(block.align_offset(align), 0, "size {size} align {align}");
                    assert_eq!(live(Category::Input) - start, size as u64);
                    if zeroed {
                        assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0));
                    }
                    for (index, byte) in std::slice::from_raw_parts_mut(block, size).iter_mut().enumerate() {
                        *byte = (index % 251) as u8;
                    }
                    let grown = ALLOCATOR.realloc(block, layout, size * 3);
                    assert_eq!(grown.align_offset(align), 0);
                    assert_eq!(live(Category::Input) - start, 3 * size as u64);
                    assert!(
                        (0..size).all(|index| *grown.add(index) == (index % 251) as u8),
                        "size {size} align {align}"
                    );
                    let layout = Layout::from_size_align(size * 3, align).unwrap();
                    let kept = size.div_ceil(2);
                    let shrunk = ALLOCATOR.realloc(grown, layout, kept);
                    assert_eq!(live(Category::Input) - start, kept as u64);
                    assert!((0..kept).all(|index| *shrunk.add(index) == (index % 251) as u8));
                    ALLOCATOR.dealloc(shrunk, Layout::from_size_align(kept, align).unwrap());
                }
                assert_eq!(live(Category::Input), start);
            }
        }
    }
    assert_eq!(tensor_bytes(), before);
}

#[test]
fn large_blocks_begin_at_cache_lines_of_different_places() {
    let _turn = turn();
    let blocks = [(); 3].map(|()| vec![0u8; 1 << 20]);
    assert!(blocks.iter().all(|block| block.as_ptr().addr().is_multiple_of(64)));
    let mut places: Vec<usize> = blocks.iter().map(|block| block.as_ptr().addr() % 4096).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), blocks.len(), "{places:?}");
}

/// Gives out pointers 16, 32, 48 or 64 bytes behind a cache line, in turn.
struct Shifting(AtomicUsize);

impl Shifting {
    fn outer(layout: Layout) -> Layout {
        Layout::from_size_align(layout.size() + 64, 64).unwrap()
    }
}

// SAFETY: what is given out lies within an allocation of the system's; the byte in front of it says how far behind its start.
unsafe impl GlobalAlloc for Shifting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        assert!(layout.align() <= 16);
        let shift = 16 + self.0.fetch_add(16, Ordering::Relaxed) % 64;
        // SAFETY: the allocation has 64 bytes more than are asked for.
        unsafe {
            let given = System.alloc(Self::outer(layout)).add(shift);
            given.sub(1).write(shift as u8);
            given
        }
    }

    unsafe fn dealloc(&self, given: *mut u8, layout: Layout) {
        // SAFETY: `alloc` gave it out.
        unsafe { System.dealloc(given.sub(given.sub(1).read().into()), Self::outer(layout)) }
    }
}

#[test]
fn contents_move_with_the_start_of_a_large_block() {
    static SHIFTING: LedgerAllocator<Shifting> = LedgerAllocator::new(Shifting(AtomicUsize::new(0)));
    let _turn = turn();
    let mut layout = Layout::from_size_align(300_000, 8).unwrap();
    // SAFETY: the layout is not empty; what is allocated is written within its size and freed with its layout.
    unsafe {
        let mut block = SHIFTING.alloc(layout);
        for index in 0..layout.size() {
            block.add(index).write((index % 251) as u8);
        }
        for size in [400_000, 350_000, 350_001, 900_000, 100_000, 300_000, 300_001] {
            block = SHIFTING.realloc(block, layout, size);
            layout = Layout::from_size_align(size, 8).unwrap();
            assert!(size < 262_144 || block.addr().is_multiple_of(64));
            assert!(
                (0..size.min(100_000)).all(|index| *block.add(index) == (index % 251) as u8),
                "{size}"
            );
        }
        SHIFTING.dealloc(block, layout);
    }
}

#[test]
fn a_request_that_no_layout_holds_is_refused() {
    let _turn = turn();
    let _scope = memory::scope(Category::Input);
    let before = tensor_bytes();
    let peak = memory::peaks().allocated;
    let mut bytes = Vec::<u8>::new();
    assert!(bytes.try_reserve_exact(isize::MAX as usize).is_err());
    assert!(bytes.try_reserve_exact(1 << 48).is_err());
    assert_eq!(tensor_bytes(), before);
    assert_eq!(memory::peaks().allocated, peak, "what was not granted was never live");
}

#[test]
fn scopes_nest_and_belong_to_a_thread() {
    let _turn = turn();
    let before = memory::live().by_category;
    let gradient = memory::scope(Category::Gradient);
    let first = vec![0u8; 1000];
    let second = {
        let _scope = memory::scope(Category::Activation);
        vec![0u8; 500]
    };
    let third = vec![0u8; 30];
    let fourth = std::thread::spawn(|| {
        let _scope = memory::scope(Category::Temporary);
        vec![0u8; 7]
    })
    .join()
    .unwrap();
    let within = memory::live().by_category;
    drop(gradient);
    assert_eq!(difference(within, before, Category::Activation), 500);
    assert_eq!(difference(within, before, Category::Temporary), 7);
    // the thread's own bookkeeping was allocated in the scope as well
    assert!(difference(within, before, Category::Gradient) >= 1030);
    drop((first, second, third, fourth));
    assert_eq!(live(Category::Activation), before[Category::Activation]);
    assert_eq!(live(Category::Temporary), before[Category::Temporary]);
}

#[test]
fn what_has_no_scope_is_host_memory() {
    let _turn = turn();
    let (tensors, start) = (tensor_bytes(), live(Category::Host));
    let bytes = vec![1u8; 1 << 20];
    // The harness's own threads let some of theirs go meanwhile.
    assert!(live(Category::Host) + (1 << 16) >= start + (1 << 20));
    assert_eq!(tensor_bytes(), tensors);
    drop(bytes);
}

#[test]
fn many_threads_leave_nothing_behind() {
    let _turn = turn();
    let before = tensor_bytes();
    std::thread::scope(|threads| {
        for seed in 0..8u64 {
            threads.spawn(move || {
                let _scope = memory::scope(Category::ALL[1 + seed as usize % 7]);
                let mut held = Vec::with_capacity(64);
                let mut state = seed + 1;
                for _ in 0..20_000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let size = 1 + (state >> 33) as usize % 3000;
                    if held.len() == 64 {
                        held.swap_remove(size % 64);
                    }
                    held.push(vec![0u8; size]);
                }
            });
        }
    });
    assert_eq!(tensor_bytes(), before);
}

#[test]
fn labels_follow_the_buffer() {
    let _turn = turn();
    assert!(memory::installed());
    let before = tensor_bytes();
    let temporaries = live(Category::Temporary);
    // Outside the scopes of tensors, a buffer is temporary; names and lists around it are host memory.
    let buffer = Buffer::<f32>::zeros(3000);
    assert_eq!(live(Category::Temporary) - temporaries, 12_000);
    let activations = live(Category::Activation);
    buffer.label(Category::Activation);
    // A label that is there already changes nothing.
    buffer.label(Category::Activation);
    assert_eq!(live(Category::Activation) - activations, 12_000);
    assert_eq!(live(Category::Temporary), temporaries);
    drop(buffer);
    assert_eq!(live(Category::Activation), activations);

    let gradients = live(Category::Gradient);
    let scope = memory::scope(Category::Gradient);
    let of_scope = Buffer::<u32>::zeros(100);
    drop(scope);
    let taken_over = Buffer::from(vec![0f64; 50]);
    taken_over.label(Category::Gradient);
    assert_eq!(live(Category::Gradient) - gradients, 400 + 400);
    drop((of_scope, taken_over));
    Buffer::<f32>::zeros(0).label(Category::Gradient);
    assert_eq!(tensor_bytes(), before);
}

#[test]
fn a_tensor_counts_its_elements_in_every_format() {
    let _turn = turn();
    let before = tensor_bytes();
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let start = live(Category::Temporary);
        let tensor = Tensor::zeros((3, 100), dtype, &Device::Cpu).unwrap();
        let bytes = 300 * dtype.size_in_bytes() as u64;
        assert_eq!(live(Category::Temporary) - start, bytes, "{dtype:?}");
        drop(tensor);
    }
    assert_eq!(tensor_bytes(), before);
}

#[test]
fn peaks_are_split_by_category_and_phase() {
    let _turn = turn();
    memory::reset_peaks();
    let base = memory::live().allocated();
    memory::set_phase(Phase::Forward);
    {
        let _scope = memory::scope(Category::Activation);
        let kept = vec![0u8; 1 << 20];
        let _inner = memory::scope(Category::Temporary);
        drop(vec![0u8; 1 << 19]);
        memory::set_phase(Phase::Backward);
        drop(kept);
        drop(vec![0u8; 1000]);
    }
    memory::set_phase(Phase::Idle);
    let peaks = memory::peaks();
    assert_eq!(peaks.allocated - base, (1 << 20) + (1 << 19));
    assert_eq!(peaks.phase, Phase::Forward);
    assert_eq!(peaks.by_category[Category::Activation], 1 << 20);
    assert_eq!(peaks.by_category[Category::Temporary], 1 << 19);
    assert_eq!(
        peaks.in_phase[Phase::Backward] - base,
        1 << 20,
        "live when the phase began"
    );
    assert_eq!(peaks.in_phase[Phase::Idle], base);
    assert_eq!(peaks.in_phase[Phase::Optimizer], 0);
}

/// Runs all tests of this binary again, on each backend.
#[test]
fn every_backend_keeps_the_account() {
    if let Ok(name) = std::env::var(BACKEND_VARIABLE) {
        assert_eq!(memory::current_backend().name(), name);
        return;
    }
    assert_eq!(memory::current_backend(), AllocatorBackend::System);
    for backend in AllocatorBackend::ALL
        .into_iter()
        .filter(|backend| backend.is_available())
    {
        let output = Command::new(std::env::current_exe().unwrap())
            .env(BACKEND_VARIABLE, backend.name())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{backend:?}: {said}");
    }
}

#[test]
fn a_backend_holds_what_is_live_and_keeps_its_pages() {
    let _turn = turn();
    let mut faults = [0; 2];
    for faults in &mut faults {
        let before = probes::page_faults().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        if let Some(reserved) = probes::reserved_bytes() {
            assert!(reserved >= memory::live().heap(), "{reserved}");
        }
        drop(block);
        *faults = probes::page_faults().unwrap() - before;
    }
    if memory::current_backend() != AllocatorBackend::System {
        // Other threads of this process fault as well, by up to some 1,100 pages.
        assert!(faults[1] < 16384 / 4, "{faults:?} for 16384 pages");
    }
}

const CHILD: &str = "LEDGER_TEST_CHILD";

/// Runs one test of this binary again, in a process that [`child`] recognises.
fn run_again(test: &str, oom: &std::path::Path) -> (Option<i32>, Oom) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--test-threads=1"])
        .env(CHILD, oom)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    let line = std::fs::read_to_string(oom).unwrap();
    assert!(line.ends_with("}\n"), "{line:?}");
    (status.code(), serde_json::from_str(&line).unwrap())
}

fn child() -> Option<File> {
    std::env::var_os(CHILD).map(|path| File::create(path).unwrap())
}

#[test]
fn past_the_budget_the_process_ends_and_says_why() {
    if let Some(oom) = child() {
        memory::set_phase(Phase::Backward);
        let budgets = Tiers {
            device: Some(1_000_000),
            host: None,
        };
        memory::arm(budgets, oom.into());
        drop(vec![0u8; 5_000_000]);
        let _scope = memory::scope(Category::Activation);
        let _fits = vec![0u8; 900_000];
        let _workers: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    let _scope = memory::scope(Category::Gradient);
                    std::hint::black_box(vec![0u8; 200_000]);
                })
            })
            .map(std::thread::JoinHandle::join)
            .collect();
        unreachable!("the budget was passed");
    }
    let dir = tempfile::tempdir().unwrap();
    let (code, oom) = run_again(
        "past_the_budget_the_process_ends_and_says_why",
        &dir.path().join("oom.json"),
    );
    assert_eq!(code, Some(OOM_EXIT_CODE));
    assert_eq!((oom.phase.as_str(), oom.category.as_str()), ("backward", "gradient"));
    assert_eq!((oom.requested_bytes, oom.budget_bytes), (200_000, Some(1_000_000)));
    assert!((900_000..=1_000_000).contains(&oom.allocated_bytes), "{oom:?}");
}

#[test]
fn what_the_system_refuses_is_said_too() {
    if let Some(oom) = child() {
        memory::set_phase(Phase::Load);
        let budgets = Tiers {
            device: None,
            host: None,
        };
        memory::arm(budgets, oom.into());
        let _scope = memory::scope(Category::Parameter);
        std::hint::black_box(Vec::<u8>::with_capacity(1 << 48));
        unreachable!("no machine has that much");
    }
    let dir = tempfile::tempdir().unwrap();
    let (code, oom) = run_again("what_the_system_refuses_is_said_too", &dir.path().join("oom.json"));
    assert_eq!(code, Some(OOM_EXIT_CODE));
    assert_eq!((oom.phase.as_str(), oom.category.as_str()), ("load", "parameter"));
    assert_eq!((oom.requested_bytes, oom.budget_bytes), (1 << 48, None));
}
