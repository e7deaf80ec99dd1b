//! An event of the timeline, and the 20 bytes that it takes.

use super::category::Category;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `bytes` at `address` were allocated.
    Alloc,
    /// What was at `address` is free; `bytes` is how much that was.
    Free,
    /// What is at `address` has `bytes` now.
    Resize,
    /// What the event before resized is at `address` now.
    Move,
    /// What is at `address` is of another category now; from and to host, it comes and goes.
    Relabel,
    /// What is at `address` is a tensor; `bytes` is its dtype, and its number of dimensions above [`RANK_SHIFT`].
    Tensor,
    /// Two dimensions of the tensor before, in `address` and `bytes`.
    Dimensions,
    /// The phase with the number `bytes` begins.
    Phase,
    /// The thread that trains is in `module` now.
    Module,
    /// Step `bytes` begins.
    StepBegin,
    /// Step `bytes` is computed; its gradients are still there.
    StepEnd,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Alloc,
        Self::Free,
        Self::Resize,
        Self::Move,
        Self::Relabel,
        Self::Tensor,
        Self::Dimensions,
        Self::Phase,
        Self::Module,
        Self::StepBegin,
        Self::StepEnd,
    ];
}

/// Where the number of dimensions begins in [`Kind::Tensor`]'s `bytes`.
pub const RANK_SHIFT: u32 = 8;

/// One event. Addresses tell allocations apart while they live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Since the recording began; 48 bits.
    pub nanos: u64,
    pub kind: Kind,
    /// Where the kind has one.
    pub category: Category,
    /// The number of a name; 0 is none.
    pub module: u16,
    /// 48 bits.
    pub address: u64,
    /// 40 bits.
    pub bytes: u64,
}

impl Event {
    /// Its size on disk.
    pub const SIZE: usize = 20;

    /// Whether its numbers fit their fields: no address of a Linux process needs more than 48 bits, and no allocation of
    /// a tebibyte is expected.
    pub(super) fn fits(&self) -> bool {
        self.nanos >> 48 == 0 && self.address >> 48 == 0 && self.bytes >> 40 == 0
    }

    /// Little-endian fields one after another, kind and category in one byte.
    #[inline]
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..6].copy_from_slice(&self.nanos.to_le_bytes()[..6]);
        out[6..12].copy_from_slice(&self.address.to_le_bytes()[..6]);
        out[12..17].copy_from_slice(&self.bytes.to_le_bytes()[..5]);
        out[17..19].copy_from_slice(&self.module.to_le_bytes());
        out[19] = (self.kind as u8) << 4 | self.category as u8;
        out
    }

    /// None where the bytes are no event.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| {
            bytes[range]
                .iter()
                .rev()
                .fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        Some(Self {
            nanos: number(0..6),
            address: number(6..12),
            bytes: number(12..17),
            module: u16::from_le_bytes([bytes[17], bytes[18]]),
            kind: *Kind::ALL.get(usize::from(bytes[19] >> 4))?,
            category: *Category::ALL.get(usize::from(bytes[19] & 15))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_as_they_were_written() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            for category in Category::ALL {
                let event = Event {
                    nanos: (1 << 48) - 1,
                    kind,
                    category,
                    module: u16::MAX - 1,
                    address: 0x7fff_1234_5670,
                    bytes: (1 << 40) - 2,
                };
                assert!(event.fits());
                assert_eq!(Event::decode(&event.encode()), Some(event));
            }
        }
        assert_eq!(Event::decode(&[0xff; Event::SIZE]), None);
    }
}
