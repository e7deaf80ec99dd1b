//! Cells that cannot fit, since a smaller one did not.

use cell::Cell;

/// True if `cell` differs from `other` in its micro-batch, its longest sample and its rank alone, and is at least as
/// large in each: memory only grows with them.
pub(super) fn is_at_least_as_large(cell: &Cell, other: &Cell) -> bool {
    // Of longer samples fewer go into a limited micro-batch.
    if cell.max_tokens_per_batch.is_some() {
        return false;
    }
    let is_adapted = cell.method().is_some() && other.method().is_some();
    let grows = cell.batch_size >= other.batch_size
        && cell.max_seq_length >= other.max_seq_length
        && (cell.rank == other.rank || is_adapted && cell.rank > other.rank);
    // Alpha scales the adapter and takes no memory.
    let shrunk = Cell {
        batch_size: other.batch_size,
        max_seq_length: other.max_seq_length,
        rank: other.rank,
        lora_alpha: other.lora_alpha,
        ..cell.clone()
    };
    grows && shrunk == *other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_grows_in_every_way_is_larger() {
        let of = |batch_size, max_seq_length, rank| Cell {
            batch_size,
            max_seq_length,
            rank,
            ..Cell::default()
        };
        let out_of_memory = of(4, 128, 8);
        let is_larger = |cell: &Cell| is_at_least_as_large(cell, &out_of_memory);
        assert!([of(4, 128, 8), of(8, 128, 8), of(4, 256, 16)].iter().all(is_larger));
        assert!(
            ![of(2, 256, 8), of(8, 64, 8), of(8, 128, 4), of(8, 128, 0)]
                .iter()
                .any(is_larger)
        );
        let other_seed = Cell {
            seed: 1,
            ..of(8, 128, 8)
        };
        assert!(!is_larger(&other_seed), "its samples may be shorter");
        let limited = |max_seq_length| Cell {
            max_tokens_per_batch: Some(512),
            ..of(4, max_seq_length, 8)
        };
        assert!(!is_at_least_as_large(&limited(510), &limited(120)));
    }
}
