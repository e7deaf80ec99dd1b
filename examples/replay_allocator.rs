//! Replays calls of PyTorch's CUDA caching allocator without a GPU: what would be reserved, and when memory would run out.
//!
//!     printf '%s\n' '{"device": {"total": 25757220864, "taken": 0, "settings": "expandable_segments:True"}}' \
//!         '{"malloc": {"id": 1, "bytes": 1024}}' '{"free": {"id": 1}}' '"empty_cache"' '"reset_peaks"' |
//!         cargo run --release --example replay_allocator
//!
//! The first line is the device, in bytes, with the settings of `PYTORCH_CUDA_ALLOC_CONF`; each other line is a call. For each
//! call it writes what the allocator counts afterwards, by the names of `torch.cuda.memory_stats`: `[current, peak]`. A malloc
//! that fails has `"out_of_memory": true`, and its id stays free.
//!
//! A malloc may have a `stream`, which is 0 else. `{"record_stream": {"id": 1}}` says that another one uses the memory, and
//! `{"done_up_to": {"id": 1}}` that the others are done with all that was freed up to this; with everything: `"synchronize"`.
//! `python/allocator/compare.py` compares it with PyTorch's own.

use std::collections::HashMap;
use std::io::{BufRead, BufWriter, Write, stdin, stdout};

use anyhow::{Context, bail};
use expctl::torch::caching_allocator::{Amount, CachingAllocator, DeviceMemory, PoolStats};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Device {
        total: u64,
        taken: u64,
        settings: String,
    },
    Malloc {
        id: u32,
        bytes: u64,
        #[serde(default)]
        stream: u8,
    },
    Free {
        id: u32,
    },
    RecordStream {
        id: u32,
    },
    DoneUpTo {
        id: u32,
    },
    Synchronize,
    EmptyCache,
    ResetPeaks,
}

fn main() -> anyhow::Result<()> {
    let mut lines = stdin().lock().lines();
    let first = lines.next().context("there is no line")??;
    let Line::Device { total, taken, settings } = serde_json::from_str(&first)? else {
        bail!("the first line is the device, not {first}");
    };
    let mut allocator = CachingAllocator::new(&settings.parse()?, &DeviceMemory { total, taken });
    let mut live = HashMap::new();
    let mut output = BufWriter::new(stdout().lock());
    for (line, number) in lines.zip(2..) {
        let line = line?;
        let mut failed = false;
        match serde_json::from_str(&line).with_context(|| format!("line {number}: {line}"))? {
            Line::Malloc { id, bytes, stream } => {
                allocator.use_stream(stream);
                match allocator.malloc(bytes) {
                    Ok(allocation) if !live.contains_key(&id) => drop(live.insert(id, allocation)),
                    Ok(_) => bail!("line {number}: {id} is in use"),
                    Err(_) => failed = true,
                }
            }
            Line::Free { id } => allocator.free(
                live.remove(&id)
                    .with_context(|| format!("line {number}: {id} is not in use"))?,
            ),
            Line::RecordStream { id } => allocator.record_stream(
                live.get(&id)
                    .with_context(|| format!("line {number}: {id} is not in use"))?,
                id,
            ),
            Line::DoneUpTo { id } => allocator.done_up_to(id),
            Line::Synchronize => allocator.synchronize(),
            Line::EmptyCache => allocator.empty_cache(),
            Line::ResetPeaks => allocator.reset_peaks(),
            Line::Device { .. } => bail!("line {number}: there is one device"),
        }
        writeln!(output, "{}", counts(&allocator, failed))?;
    }
    output.flush()?;
    Ok(())
}

fn counts(allocator: &CachingAllocator, failed: bool) -> Value {
    let stats = allocator.stats();
    json!({
        "all": pool(&stats.all),
        "small_pool": pool(&stats.small),
        "large_pool": pool(&stats.large),
        "oversize_allocations": both(stats.oversize_allocations),
        "oversize_segments": both(stats.oversize_segments),
        "num_alloc_retries": stats.retries,
        "num_ooms": stats.out_of_memory,
        "active_bytes": stats.all.allocated.current + allocator.awaited_bytes(),
        "out_of_memory": failed,
    })
}

/// The counts of a pool, by the names of `torch.cuda.memory_stats`.
fn pool(stats: &PoolStats) -> Value {
    json!({
        "allocation": both(stats.allocations),
        "allocated_bytes": both(stats.allocated),
        "requested_bytes": both(stats.requested),
        "segment": both(stats.segments),
        "reserved_bytes": both(stats.reserved),
        "inactive_split": both(stats.inactive_splits),
        "inactive_split_bytes": both(stats.inactive_split),
    })
}

fn both(amount: Amount) -> [u64; 2] {
    [amount.current, amount.peak]
}
