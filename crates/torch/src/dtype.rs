//! Number formats of tensors.

/// Number formats as PyTorch has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary16.
    Float16,
    /// binary32 with 8 bits of significand.
    Bfloat16,
    /// 64-bit integers.
    Int64,
    /// 32-bit integers.
    Int32,
    /// Signed bytes.
    Int8,
    /// Unsigned bytes.
    Uint8,
    /// Truth values, a byte each.
    Bool,
}

impl Dtype {
    /// The format of floating-point numbers that a spec names; bfloat16 where it names quantised ones.
    pub fn floating(dtype: options::Dtype) -> Self {
        match dtype {
            options::Dtype::Float32 => Self::Float32,
            options::Dtype::Float16 => Self::Float16,
            options::Dtype::Bfloat16 | options::Dtype::Int8 | options::Dtype::Int4 => Self::Bfloat16,
        }
    }

    /// The format of autocast, if it is on.
    pub fn of_autocast(autocast: options::Autocast) -> Option<Self> {
        match autocast {
            options::Autocast::None => None,
            options::Autocast::Bfloat16 => Some(Self::Bfloat16),
            options::Autocast::Float16 => Some(Self::Float16),
        }
    }

    /// Bytes of an element.
    pub fn size(self) -> u64 {
        match self {
            Self::Int64 => 8,
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Int8 | Self::Uint8 | Self::Bool => 1,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float16 | Self::Bfloat16)
    }

    /// The format that an operation on both computes in.
    pub(super) fn promote(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (a, b) if a.is_float() && !b.is_float() => a,
            (a, b) if !a.is_float() && b.is_float() => b,
            (a, b) if a.is_float() && b.is_float() => Self::Float32,
            (a, b) if a.size() >= b.size() => a,
            (_, b) => b,
        }
    }
}
