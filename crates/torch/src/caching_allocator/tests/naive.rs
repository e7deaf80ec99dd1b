//! The allocator's rules once more, by lists that are searched from end to end and counts made from nothing each time.

use crate::caching_allocator::rounding::block_size;
use crate::caching_allocator::{DeviceMemory, Settings};

const MIB: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    InUse { requested: u64 },
    Free { since: u64 },
    Unmapped,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    address: u64,
    size: u64,
    state: State,
}

impl Piece {
    fn is_free(&self) -> bool {
        matches!(self.state, State::Free { .. })
    }

    fn end(&self) -> u64 {
        self.address + self.size
    }
}

#[derive(Debug, Clone)]
struct Segment {
    small: bool,
    pieces: Vec<Piece>,
}

/// Counts over the segments.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub allocations: u64,
    pub allocated: u64,
    pub requested: u64,
    pub segments: u64,
    pub reserved: u64,
    pub inactive_splits: u64,
    pub inactive_split: u64,
}

pub(super) struct Naive {
    settings: Settings,
    device: DeviceMemory,
    limit: u64,
    segments: Vec<Segment>,
    next_address: u64,
    searches: [u64; 2],
    pub retries: u64,
}

/// A piece by its segment and its place in that.
type Place = (usize, usize);

impl Naive {
    pub(super) fn new(settings: &Settings, device: &DeviceMemory) -> Self {
        let fraction = settings.per_process_memory_fraction;
        Self {
            settings: settings.clone(),
            device: *device,
            limit: if fraction < 1.0 {
                (fraction * device.total as f64) as u64
            } else {
                u64::MAX
            },
            segments: Vec::new(),
            next_address: 0,
            searches: [0; 2],
            retries: 0,
        }
    }

    pub(super) fn counts(&self, small: Option<bool>) -> Counts {
        let mut counts = Counts::default();
        for segment in self
            .segments
            .iter()
            .filter(|segment| small.is_none_or(|small| segment.small == small))
        {
            counts.segments += u64::from(!self.settings.expandable_segments);
            for piece in &segment.pieces {
                counts.reserved += if piece.state == State::Unmapped { 0 } else { piece.size };
                match piece.state {
                    State::InUse { requested } => {
                        counts.allocations += 1;
                        counts.allocated += piece.size;
                        counts.requested += requested;
                    }
                    State::Free { .. } if segment.pieces.len() > 1 && !self.settings.expandable_segments => {
                        counts.inactive_splits += 1;
                        counts.inactive_split += piece.size;
                    }
                    _ => {}
                }
            }
        }
        counts
    }

    pub(super) fn largest_free(&self) -> u64 {
        let pieces = self.segments.iter().flat_map(|segment| &segment.pieces);
        pieces
            .filter(|piece| piece.is_free())
            .map(|piece| piece.size)
            .max()
            .unwrap_or(0)
    }

    fn max_split(&self) -> u64 {
        self.settings.max_split_size.unwrap_or(u64::MAX)
    }

    fn page(&self, small: bool) -> u64 {
        if small {
            2 * MIB
        } else {
            self.settings.large_segment_size
        }
    }

    /// Free pieces of a pool by size, then address.
    fn free_pieces(&self, small: bool) -> Vec<Place> {
        let mut places = Vec::new();
        for (i, segment) in self
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.small == small)
        {
            places.extend(
                segment
                    .pieces
                    .iter()
                    .enumerate()
                    .filter(|(_, piece)| piece.is_free())
                    .map(|(j, _)| (i, j)),
            );
        }
        places.sort_by_key(|&place| (self.piece(place).size, self.piece(place).address));
        places
    }

    fn piece(&self, (i, j): Place) -> Piece {
        self.segments[i].pieces[j]
    }

    /// The address of a block for `bytes` bytes.
    pub(super) fn malloc(&mut self, bytes: u64) -> Option<u64> {
        let size = block_size(bytes, &self.settings.roundup_power2_divisions);
        let small = size <= MIB;
        let collects = self.limit != u64::MAX && self.settings.garbage_collection_threshold.is_some();
        self.searches[usize::from(small)] += u64::from(collects);
        let mut found = self.best_fit(size, small);
        if found.is_none() {
            if collects {
                self.collect();
            }
            found = self.reserve(size, small);
        }
        if found.is_none() && self.release_oversize(size, small) {
            found = self.reserve(size, small);
        }
        if found.is_none() {
            self.empty_cache();
            self.retries += 1;
            found = self.reserve(size, small);
        }
        let (i, j) = found?;
        let left = self.piece((i, j)).size - size;
        let split = match small || self.settings.expandable_segments {
            true => left >= 512,
            false => left > MIB && size < self.max_split(),
        };
        let since = self.searches[usize::from(small)];
        let piece = &mut self.segments[i].pieces[j];
        piece.state = State::InUse { requested: bytes };
        let address = piece.address;
        if split {
            piece.size = size;
            let rest = Piece {
                address: address + size,
                size: left,
                state: State::Free { since },
            };
            self.segments[i].pieces.insert(j + 1, rest);
        }
        Some(address)
    }

    fn best_fit(&self, size: u64, small: bool) -> Option<Place> {
        let places = self.free_pieces(small);
        let mut fitting = places.into_iter().filter(|&place| self.piece(place).size >= size);
        let mut best = fitting.next()?;
        if self.settings.expandable_segments {
            let reach = |(i, j): Place| {
                let behind = self.segments[i]
                    .pieces
                    .get(j + 1)
                    .filter(|piece| piece.state == State::Unmapped);
                self.piece((i, j)).size + behind.map_or(0, |piece| piece.size)
            };
            for place in fitting {
                if reach(place) >= reach(best) {
                    break;
                }
                best = place;
            }
        }
        let found = self.piece(best).size;
        let refused = size < self.max_split() && found >= self.max_split()
            || size >= self.max_split() && found >= size + self.settings.max_non_split_rounding();
        (!refused).then_some(best)
    }

    fn reserve(&mut self, size: u64, small: bool) -> Option<Place> {
        let segment = match size {
            _ if size <= MIB => 2 * MIB,
            _ if size < 10 * MIB => self.settings.large_segment_size,
            _ => size.div_ceil(2 * MIB) * 2 * MIB,
        };
        if self.counts(None).reserved + segment > self.limit {
            return None;
        }
        if self.settings.expandable_segments {
            return self.expand(size, small);
        }
        if self.counts(None).reserved + segment + self.device.taken > self.device.total {
            return None;
        }
        self.add_segment(segment, small, State::Free { since: 0 }, 1);
        Some((self.segments.len() - 1, 0))
    }

    fn add_segment(&mut self, size: u64, small: bool, state: State, alignment: u64) {
        let address = self.next_address.div_ceil(alignment) * alignment;
        self.next_address = address + size;
        let pieces = vec![Piece { address, size, state }];
        self.segments.push(Segment { small, pieces });
    }

    fn expand(&mut self, size: u64, small: bool) -> Option<Place> {
        let page = self.page(small);
        let fits = |segment: &Segment, first: usize| {
            let row = segment.pieces[first..]
                .iter()
                .take_while(|piece| !matches!(piece.state, State::InUse { .. }));
            row.map(|piece| piece.size).sum::<u64>() >= size
        };
        let mut start = None;
        'search: for (i, segment) in self
            .segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.small == small)
        {
            for j in 0..segment.pieces.len() {
                if segment.pieces[j].state == State::Unmapped {
                    let first = if j > 0 && segment.pieces[j - 1].is_free() {
                        j - 1
                    } else {
                        j
                    };
                    if fits(segment, first) {
                        start = Some((i, segment.pieces[first].address));
                        break 'search;
                    }
                }
            }
        }
        let (i, address) = start.unwrap_or_else(|| {
            let total = self.device.total;
            self.add_segment((total + total / 8).div_ceil(page) * page, small, State::Unmapped, page);
            let i = self.segments.len() - 1;
            (i, self.segments[i].pieces[0].address)
        });
        loop {
            let pieces = &self.segments[i].pieces;
            // What was free before may have merged with what lies before it; it then begins lower.
            let j = pieces
                .iter()
                .position(|piece| piece.end() > address)
                .expect("it is in the segment");
            let free = if pieces[j].is_free() { pieces[j].size } else { 0 };
            if free >= size {
                return Some((i, j));
            }
            let unmapped = if free > 0 { j + 1 } else { j };
            let wanted = (size - free).min(pieces[unmapped].size).div_ceil(page) * page;
            if self.counts(None).reserved + wanted + self.device.taken > self.device.total {
                return None;
            }
            let since = self.searches[usize::from(small)];
            let pieces = &mut self.segments[i].pieces;
            let whole = pieces[unmapped];
            pieces[unmapped].size = wanted;
            pieces[unmapped].state = State::Free { since };
            if wanted < whole.size {
                let rest = Piece {
                    address: whole.address + wanted,
                    size: whole.size - wanted,
                    state: State::Unmapped,
                };
                pieces.insert(unmapped + 1, rest);
            }
            self.merge(i, since);
        }
    }

    /// Makes one of neighbours in the same state; what has grown is as old as `since`.
    fn merge(&mut self, i: usize, since: u64) {
        let pieces = &mut self.segments[i].pieces;
        let mut j = 1;
        while j < pieces.len() {
            let (left, right) = (pieces[j - 1], pieces[j]);
            let same =
                left.is_free() && right.is_free() || left.state == State::Unmapped && right.state == State::Unmapped;
            if same {
                pieces[j - 1].size += right.size;
                if left.is_free() {
                    pieces[j - 1].state = State::Free { since };
                }
                pieces.remove(j);
            } else {
                j += 1;
            }
        }
    }

    pub(super) fn free(&mut self, address: u64) {
        for i in 0..self.segments.len() {
            let since = self.searches[usize::from(self.segments[i].small)];
            for piece in &mut self.segments[i].pieces {
                if piece.address == address && matches!(piece.state, State::InUse { .. }) {
                    piece.state = State::Free { since };
                    self.merge(i, since);
                    return;
                }
            }
        }
        panic!("nothing is in use at {address}");
    }

    fn release(&mut self, (i, _): Place) {
        assert!(self.segments[i].pieces.len() == 1 && self.segments[i].pieces[0].is_free());
        self.segments.remove(i);
    }

    fn release_oversize(&mut self, size: u64, small: bool) -> bool {
        if self.settings.max_split_size.is_none() {
            return false;
        }
        let enough = size.max(self.max_split());
        let places = self.free_pieces(small);
        let fitting = places.iter().copied().find(|&place| self.piece(place).size >= enough);
        if self.settings.expandable_segments {
            return false;
        }
        if let Some(place) = fitting {
            self.release(place);
            return true;
        }
        let mut released = 0;
        while released < enough {
            let Some(&largest) = self
                .free_pieces(small)
                .last()
                .filter(|&&place| self.piece(place).size >= self.max_split())
            else {
                return false;
            };
            released += self.piece(largest).size;
            self.release(largest);
        }
        true
    }

    pub(super) fn empty_cache(&mut self) {
        if !self.settings.expandable_segments {
            self.segments
                .retain(|segment| segment.pieces.len() > 1 || !segment.pieces[0].is_free());
            return;
        }
        let mut emptied = Vec::new();
        for i in 0..self.segments.len() {
            let small = self.segments[i].small;
            let (page, since) = (self.page(small), self.searches[usize::from(small)]);
            let mut pieces = Vec::new();
            for &piece in &self.segments[i].pieces {
                let (first, last) = (piece.address.div_ceil(page) * page, piece.end() / page * page);
                if !piece.is_free() || first >= last {
                    pieces.push(piece);
                    continue;
                }
                let free = State::Free { since };
                for (address, end, state) in [
                    (piece.address, first, free),
                    (first, last, State::Unmapped),
                    (last, piece.end(), free),
                ] {
                    if end > address {
                        let size = end - address;
                        pieces.push(Piece { address, size, state });
                    }
                }
            }
            // Free pieces never touch here, so that only unmapped ones become one.
            let had_memory = self.segments[i].pieces.iter().any(Piece::is_free);
            self.segments[i].pieces = pieces;
            self.merge(i, since);
            // One that never had memory stays.
            if had_memory && self.segments[i].pieces.len() == 1 && self.segments[i].pieces[0].state == State::Unmapped {
                emptied.push(i);
            }
        }
        emptied.into_iter().rev().for_each(|i| drop(self.segments.remove(i)));
    }

    fn collect(&mut self) {
        let threshold = self.settings.garbage_collection_threshold.unwrap_or(1.0);
        let allowed = (threshold * self.limit as f64) as u64;
        let reserved = self.counts(None).reserved;
        let age = |segment: &Segment| match segment.pieces[..] {
            [
                Piece {
                    state: State::Free { since },
                    ..
                },
            ] if !segment.small => Some(self.searches[0] - since),
            _ => None,
        };
        if self.settings.expandable_segments {
            return;
        }
        let mut segments = self.segments.clone();
        let held = |segments: &[Segment]| {
            segments
                .iter()
                .flat_map(|s| &s.pieces)
                .map(|piece| piece.size)
                .sum::<u64>()
        };
        while reserved > allowed && reserved - held(&segments) < reserved - allowed {
            let ages: Vec<u64> = segments.iter().filter_map(age).collect();
            if ages.is_empty() {
                break;
            }
            let mean = ages.iter().sum::<u64>() as f64 / ages.len() as f64;
            segments.retain(|segment| age(segment).is_none_or(|age| (age as f64) < mean));
        }
        self.segments = segments;
    }
}
