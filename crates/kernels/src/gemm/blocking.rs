//! How a product is shared out among threads, and cut into what the caches hold.

use std::{
    ops::Range,
    sync::{
        PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{block::TILE, pack::Packed, scratch::Buffer};

/// Packed right operands of a thread, in bytes: half of a server core's second-level cache.
const RIGHT_BYTES: usize = 1 << 20;
/// Columns that a thread takes at the least, where there are as many, although the depth is too large for all of it to
/// fit.
const WIDE: usize = 512;
/// Places of the depth that are multiplied at a time, at most. A packed left block of bfloat16 has 40 KiB then, and
/// stays in the first-level cache of a CPU with tiles. No sum depends on it.
const CHUNK: usize = 640;
/// Rows whose sums are held from one block of the depth to the next, if not all of it fits.
const HELD_ROWS: usize = 2048;
/// Columns of an output that is cut by rows instead.
const NARROW: usize = 128;

/// A part of a term's depth.
#[derive(Clone)]
pub(super) struct Chunk {
    pub(super) term: usize,
    pub(super) depth: Range<usize>,
}

/// How a product is shared out.
pub(super) struct Blocking {
    pub(super) parts: Vec<Part>,
    pub(super) k_blocks: Vec<KBlock>,
}

/// What is packed on the right at a time, in stages: what is packed on the left at a time.
#[derive(Default)]
pub(super) struct KBlock {
    pub(super) stages: Vec<Vec<Chunk>>,
}

impl KBlock {
    /// Adds a chunk to the last stage, or to a new one where that would be too deep.
    fn push(&mut self, chunk: Chunk) {
        match self.stages.last_mut() {
            Some(stage) if stage.iter().map(|chunk| chunk.depth.len()).sum::<usize>() + chunk.depth.len() <= CHUNK => {
                stage.push(chunk);
            }
            _ => self.stages.push(vec![chunk]),
        }
    }
}

/// Rows and panels that one thread packs the right operands of.
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    pub(super) panels: Range<usize>,
    /// The first row that no thread has taken.
    next: AtomicUsize,
    /// The packed right operands, as long as they are there for all threads.
    right: RwLock<Option<Buffer>>,
}

impl Part {
    /// Takes a block of rows.
    pub(super) fn take_rows(&self) -> Option<Range<usize>> {
        let start = self.next.fetch_add(TILE, Ordering::Relaxed);
        (start < self.rows.end).then(|| start..self.rows.end.min(start + TILE))
    }

    /// Lends packed right operands to all threads.
    pub(super) fn publish(&self, right: Buffer) {
        *self.right.write().unwrap_or_else(PoisonError::into_inner) = Some(right);
    }

    /// The packed right operands, if they are there. They stay until the guard is dropped.
    pub(super) fn right(&self) -> RwLockReadGuard<'_, Option<Buffer>> {
        self.right.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the operands back once no thread uses them.
    pub(super) fn withdraw(&self) -> Buffer {
        let mut right = self.right.write().unwrap_or_else(PoisonError::into_inner);
        right.take().unwrap_or_default()
    }
}

impl Blocking {
    pub(super) fn new<P: Packed>(rows: usize, panels: usize, grain: usize, depths: &[usize], threads: usize) -> Self {
        let panel_bytes = |depth| P::packed_len(depth) * size_of::<P>();
        let bytes: usize = depths.iter().map(|&depth| panel_bytes(depth)).sum();
        let fitting = (RIGHT_BYTES / bytes.max(1)).max(WIDE / TILE);
        let by_rows = grain == 1 && panels * TILE <= NARROW && rows >= 2 * TILE * threads;
        let (row_parts, panel_parts) = if by_rows {
            (threads, 1)
        } else {
            let fair = panels.div_ceil(fitting).next_multiple_of(threads);
            (1, fair.min(panels.div_ceil(grain)))
        };
        let together = panels.div_ceil(panel_parts.max(1));

        let mut k_blocks = vec![KBlock::default()];
        let mut held = 0;
        for chunk in depths.iter().enumerate().flat_map(|(term, &depth)| chunks(term, depth)) {
            let bytes = panel_bytes(chunk.depth.len()) * together;
            if held > 0 && held + bytes > RIGHT_BYTES {
                k_blocks.push(KBlock::default());
                held = 0;
            }
            held += bytes;
            if let Some(k_block) = k_blocks.last_mut() {
                k_block.push(chunk);
            }
        }

        let row_step = rows.div_ceil(row_parts).next_multiple_of(TILE);
        let row_step = if k_blocks.len() > 1 {
            row_step.min(HELD_ROWS)
        } else {
            row_step
        };
        let cut = |at: usize| (at * panels / panel_parts).next_multiple_of(grain).min(panels);
        let parts = (0..rows)
            .step_by(row_step.max(1))
            .flat_map(|start| {
                (0..panel_parts).map(move |part| Part {
                    rows: start..rows.min(start + row_step),
                    panels: cut(part)..cut(part + 1),
                    next: AtomicUsize::new(start),
                    right: RwLock::default(),
                })
            })
            .collect();
        Self { parts, k_blocks }
    }
}

/// The parts of a depth that are multiplied at a time, of about the same length.
fn chunks(term: usize, depth: usize) -> impl Iterator<Item = Chunk> {
    let count = depth.div_ceil(CHUNK).max(1);
    let step = depth.div_ceil(count).next_multiple_of(TILE).max(TILE);
    // A depth of 0 is one chunk too: its sums, zeros, have to be stored.
    (0..depth.max(1)).step_by(step).map(move |start| Chunk {
        term,
        depth: start..depth.min(start + step),
    })
}

/// A stage's chunks, with the place of each among their packed elements.
pub(super) fn packed_parts<P: Packed>(stage: &[Chunk]) -> impl Iterator<Item = (&Chunk, Range<usize>)> {
    stage.iter().scan(0, |end, chunk| {
        let start = *end;
        *end += P::packed_len(chunk.depth.len());
        Some((chunk, start..*end))
    })
}

/// Packed elements of a stage's chunks for one block or panel.
pub(super) fn stage_len<P: Packed>(stage: &[Chunk]) -> usize {
    stage.iter().map(|chunk| P::packed_len(chunk.depth.len())).sum()
}
