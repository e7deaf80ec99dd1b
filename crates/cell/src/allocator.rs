//! The key `allocator`, and the variables of an environment.

use std::collections::BTreeMap;

use options::AllocatorBackend;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The allocator of the cell's process, and the variables that it reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Allocator {
    /// The allocator: system (the C library's), retain or mimalloc. retain is glibc's, set to keep freed pages, so that
    /// no step asks the system for them again. It uses huge pages through GLIBC_TUNABLES unless the cell unsets that
    /// variable. mimalloc keeps freed pages too. Default: retain, or mimalloc without glibc.
    pub backend: Option<AllocatorBackend>,
    /// Environment variables that the allocator reads, such as MALLOC_ARENA_MAX (system) or PYTORCH_ALLOC_CONF (stack:
    /// torch); null leaves one unset.
    #[schemars(with = "BTreeMap<String, Variable>")]
    pub env: BTreeMap<String, Option<String>>,
}

/// For the schema: a variable's value may be written as a number, and is then the text that was written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Variable {
    Text(String),
    Number(f64),
    Unset(()),
}
