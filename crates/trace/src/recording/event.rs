//! An event of a recording, and its encoding in 20 bytes.

use crate::Category;

/// The kind of an event, which says what its address and bytes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `bytes` at `address` were allocated.
    Alloc,
    /// The `bytes` at `address` were freed.
    Free,
    /// The allocation at `address` was resized to `bytes`.
    Resize,
    /// The allocation of the preceding [`Kind::Resize`] moved to `address`.
    Move,
    /// The allocation at `address` has a new category. A change from host acts as an allocation, one to host as a free.
    Relabel,
    /// The allocation at `address` holds a tensor. `bytes` is the number of its dtype, plus its rank shifted left by
    /// [`RANK_SHIFT`].
    Tensor,
    /// Two dimensions of the preceding [`Kind::Tensor`], in `address` and `bytes`.
    Dimensions,
    /// The phase with the number `bytes` begins.
    Phase,
    /// The training thread enters or returns to `module`.
    Module,
    /// Step `bytes` begins.
    StepBegin,
    /// Step `bytes` is computed. Its gradients are still live.
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

/// Position of the rank in the `bytes` of a [`Kind::Tensor`].
pub const RANK_SHIFT: u32 = 8;

/// One event. An address identifies an allocation as long as it is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the recording began; 48 bits.
    pub nanos: u64,
    /// The meaning of the other fields.
    pub kind: Kind,
    /// The category of an allocation; host for other kinds.
    pub category: Category,
    /// Number of a module's name, from 1; 0 outside modules.
    pub module: u16,
    /// Address of an allocation; 48 bits.
    pub address: u64,
    /// Size of an allocation, or what the kind says; 40 bits.
    pub bytes: u64,
}

impl Event {
    /// Bytes of an encoded event.
    pub const SIZE: usize = 20;

    /// True if the numbers fit their fields. No address of a Linux process needs more than 48 bits, and no allocation
    /// of a tebibyte is expected.
    pub fn fits(&self) -> bool {
        self.nanos >> 48 == 0 && self.address >> 48 == 0 && self.bytes >> 40 == 0
    }

    /// Encodes the fields one after another in little-endian order, kind and category in one byte.
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

    /// Decodes an event; `None` if the bytes are not one.
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
    fn events_decode_as_they_were_encoded() {
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
