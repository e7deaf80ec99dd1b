//! The allocator of a cell's process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An allocator that a cell's process can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllocatorBackend {
    /// The C library's malloc with its own settings.
    System,
    /// glibc's malloc, set to keep the pages of freed memory.
    Retain,
    /// mimalloc, set to keep the pages of freed memory.
    Mimalloc,
}

impl AllocatorBackend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::System, Self::Retain, Self::Mimalloc];

    /// The backend of a cell that names none: one that keeps the pages of freed memory.
    pub const DEFAULT: Self = if Self::Retain.is_available() {
        Self::Retain
    } else {
        Self::Mimalloc
    };

    /// The name in specs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Retain => "retain",
            Self::Mimalloc => "mimalloc",
        }
    }

    /// The backend of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }

    /// True if this build has the backend: `retain` needs glibc.
    pub const fn is_available(self) -> bool {
        !matches!(self, Self::Retain) || cfg!(all(target_os = "linux", target_env = "gnu"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_known_by_their_names() {
        for backend in AllocatorBackend::ALL {
            assert_eq!(AllocatorBackend::named(backend.name()), Some(backend));
        }
        assert_eq!(AllocatorBackend::named("jemalloc"), None);
        assert!(AllocatorBackend::DEFAULT.is_available());
    }
}
