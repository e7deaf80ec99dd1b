//! Free blocks in order.

use super::blocks::BlockId;

/// Free blocks by size, then address. They are kept by classes of nearly equal sizes, so that to find one is to find a
/// bit and to search in a few. The first in order is the last of its class, so that to take it moves no other.
#[derive(Debug, Clone)]
pub(super) struct FreeBlocks {
    classes: Vec<Vec<Entry>>,
    /// A bit for each class that is not empty.
    filled: [u64; CLASSES / 64],
}

/// A free block. It has 24 bytes: those before it are moved when one is added or taken.
#[derive(Debug, Clone, Copy)]
struct Entry {
    size: u64,
    address: u64,
    id: BlockId,
}

impl Entry {
    /// Its place in the order of sizes and, where they are equal, of addresses.
    fn order(self) -> u128 {
        order(self.size, self.address)
    }
}

fn order(size: u64, address: u64) -> u128 {
    u128::from(size) << 64 | u128::from(address)
}

/// How many entries at the front of a class, the largest first, come after a place in the order. Most classes have a
/// few entries, of which a scan from the back looks at fewer than a binary search.
fn after(class: &[Entry], order: u128) -> usize {
    const FEW: usize = 8;
    if class.len() > FEW {
        return class.partition_point(|entry| entry.order() > order);
    }
    class
        .iter()
        .rposition(|entry| entry.order() > order)
        .map_or(0, |last| last + 1)
}

/// How many entries of a class have at least this size.
fn large_enough(class: &[Entry], size: u64) -> usize {
    match order(size, 0).checked_sub(1) {
        Some(before) => after(class, before),
        None => class.len(),
    }
}

/// Classes of each power of two.
const PER_POWER: u32 = 16;
/// Enough for all sizes of 64 bits, which are multiples of 512 bytes.
const CLASSES: usize = 832;

/// Grows with `size`.
fn class(size: u64) -> usize {
    let units = size / 512;
    let shift = units.max(1).ilog2().saturating_sub(PER_POWER.ilog2());
    (shift * PER_POWER) as usize + (units >> shift) as usize
}

impl Default for FreeBlocks {
    fn default() -> Self {
        Self {
            classes: vec![Vec::new(); CLASSES],
            filled: [0; CLASSES / 64],
        }
    }
}

/// The place of a free block, until one is added or removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    class: usize,
    at: usize,
}

impl FreeBlocks {
    pub(super) fn insert(&mut self, size: u64, address: u64, id: BlockId) {
        let (class, order) = (class(size), order(size, address));
        let entries = &mut self.classes[class];
        entries.insert(after(entries, order), Entry { size, address, id });
        self.filled[class / 64] |= 1 << (class % 64);
    }

    pub(super) fn remove(&mut self, size: u64, address: u64) {
        let (class, order) = (class(size), order(size, address));
        let entries = &self.classes[class];
        let at = after(entries, order);
        if entries.get(at).is_some_and(|entry| entry.order() == order) {
            self.remove_at(Place { class, at });
        }
    }

    /// Removes the block at a place.
    pub(super) fn remove_at(&mut self, Place { class, at }: Place) {
        let entries = &mut self.classes[class];
        if at + 1 == entries.len() {
            entries.pop();
        } else {
            entries.remove(at);
        }
        if entries.is_empty() {
            self.filled[class / 64] &= !(1 << (class % 64));
        }
    }

    /// The first of [`Self::at_least`], and its place.
    pub(super) fn first_at_least(&self, size: u64) -> Option<(BlockId, Place)> {
        let mut class = class(size);
        let mut count = large_enough(&self.classes[class], size);
        if count == 0 {
            class = self.filled_from(class + 1).next()?;
            count = self.classes[class].len();
        }
        let at = count.checked_sub(1)?;
        let entry = self.classes[class].get(at)?;
        Some((entry.id, Place { class, at }))
    }

    /// The smallest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.at_least(0)
    }

    /// Those of at least `size` bytes, the smallest first.
    pub(super) fn at_least(&self, size: u64) -> impl Iterator<Item = BlockId> + '_ {
        let class = class(size);
        let blocks = &self.classes[class];
        let first = &blocks[..large_enough(blocks, size)];
        let rest = self
            .filled_from(class + 1)
            .flat_map(|class| self.classes[class].iter().rev());
        first.iter().rev().chain(rest).map(|entry| entry.id)
    }

    /// Those of less than `size` bytes, the largest first.
    pub(super) fn below(&self, size: u64) -> impl Iterator<Item = BlockId> + '_ {
        let class = class(size);
        let blocks = &self.classes[class];
        let last = &blocks[large_enough(blocks, size)..];
        let rest = (0..class).rev().flat_map(|class| &self.classes[class]);
        last.iter().chain(rest).map(|entry| entry.id)
    }

    /// Bytes of the largest.
    pub(super) fn largest(&self) -> u64 {
        let words = self.filled.iter().enumerate().rev();
        let filled = words
            .filter(|(_, word)| **word != 0)
            .map(|(at, word)| at * 64 + word.ilog2() as usize)
            .next();
        filled
            .and_then(|class| self.classes[class].first())
            .map_or(0, |entry| entry.size)
    }

    /// Classes from `first` on that are not empty.
    fn filled_from(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at = first / 64;
        let mut word = self.filled.get(at).map_or(0, |word| word & (!0 << (first % 64)));
        std::iter::from_fn(move || {
            while word == 0 {
                at += 1;
                word = *self.filled.get(at)?;
            }
            let class = at * 64 + word.trailing_zeros() as usize;
            word &= word - 1;
            Some(class)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::{Block, Blocks};
    use super::super::pool_kind::{PoolId, PoolKind};
    use super::*;

    const LARGE: PoolId = PoolId {
        kind: PoolKind::Large,
        stream: 0,
    };

    #[test]
    fn classes_grow_with_the_size() {
        let sizes = (1..5000).chain((13..55).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]));
        let classes: Vec<usize> = sizes.map(|units| class(units * 512)).collect();
        assert!(classes.is_sorted());
        assert_eq!((class(0), class(u64::MAX)), (0, CLASSES - 1));
    }

    #[test]
    fn blocks_are_in_order() {
        let (mut free, mut blocks) = (FreeBlocks::default(), Blocks::default());
        for (units, address) in [(3, 5), (3, 2), (40, 1), (41, 0), (1 << 40, 7), (1, 9)] {
            let id = blocks.add(Block::segment(address, units * 512, LARGE));
            free.insert(units * 512, address, id);
        }
        let addresses = |ids: &mut dyn Iterator<Item = BlockId>| ids.map(|id| blocks[id].address).collect::<Vec<_>>();
        assert_eq!(addresses(&mut free.iter()), [9, 2, 5, 1, 0, 7]);
        assert_eq!(addresses(&mut free.at_least(3 * 512)), [2, 5, 1, 0, 7]);
        assert_eq!(addresses(&mut free.at_least(41 * 512)), [0, 7]);
        assert_eq!(addresses(&mut free.below(41 * 512)), [1, 5, 2, 9]);
        assert_eq!(free.largest(), 1 << 49);
        assert_eq!(
            free.first_at_least(1 << 49).unwrap().0,
            free.at_least(1 << 49).next().unwrap()
        );
        assert_eq!(
            free.first_at_least(4 * 512).unwrap().0,
            free.at_least(4 * 512).next().unwrap()
        );
        assert!(free.first_at_least((1 << 49) + 1).is_none());
        free.remove(1 << 49, 7);
        assert_eq!(free.largest(), 41 * 512);
        assert_eq!(addresses(&mut free.at_least(41 * 512)), [0]);
    }

    /// More of a class than are scanned.
    #[test]
    fn many_blocks_of_a_size_are_in_order() {
        let (mut free, mut blocks) = (FreeBlocks::default(), Blocks::default());
        let order: Vec<u64> = (0..20).map(|at| at * 7 % 20).collect();
        for &address in &order {
            let id = blocks.add(Block::segment(address, 80 * 512, LARGE));
            free.insert(80 * 512, address, id);
        }
        let mut left: Vec<u64> = (0..20).collect();
        for address in order {
            let addresses: Vec<u64> = free.at_least(80 * 512).map(|id| blocks[id].address).collect();
            assert_eq!(addresses, left);
            assert_eq!(free.at_least(81 * 512).count(), 0);
            free.remove(80 * 512, address);
            left.retain(|&other| other != address);
        }
        assert_eq!(free.largest(), 0);
    }
}
