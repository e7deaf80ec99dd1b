//! The key `allocator`, and the variables of an environment.

use std::collections::BTreeMap;

use options::AllocatorBackend;
use schemars::JsonSchema;

use super::acts::{LORA, Move::*, candle, torch};
use super::facts::{CANDLE, Deciding, Facts, TORCH};
use super::map::cell_keys;
use super::plain::unless;

cell_keys! {
    /// The allocator of the cell's process, and the variables that it reads.
    pub struct Allocator of Deciding {
        /// The allocator: system (the C library's), retain or mimalloc. retain is glibc's, set to keep freed pages, so that
        /// no step asks the system for them again. It uses huge pages through GLIBC_TUNABLES unless the cell unsets that
        /// variable. mimalloc keeps freed pages too. Default: retain, or mimalloc without glibc.
        backend: Option<AllocatorBackend> = None => {
            filled: |backend, _| backend.or(Some(AllocatorBackend::DEFAULT)),
            plain: |backend, _| unless(backend, &AllocatorBackend::Retain),
            stacks: CANDLE,
            of_process: true,
            example: "system",
            no_technique: "bytes of the process beside tensors; measured, not predicted",
            acts: [candle("max_steps: 20, max_seq_length: 256, batch_size: 8", "system", &[Time])],
        }
        /// Environment variables that the allocator reads, such as MALLOC_ARENA_MAX (system) or PYTORCH_ALLOC_CONF (stack:
        /// torch); null leaves one unset.
        #[schemars(with = "BTreeMap<String, Variable>")]
        env: BTreeMap<String, Option<String>> = BTreeMap::new() => {
            acts: [
                candle("allocator: {backend: system}", "{MALLOC_ARENA_MAX: '1'}", &[Time, Report]),
                torch(LORA, "{PYTORCH_ALLOC_CONF: 'roundup_power2_divisions:4'}", &[Bytes]),
            ],
            nested: &[
                ("*", Facts {
                    no_technique: Some("the environment"),
                    ..Facts::NONE
                }),
                // Nobody else reads PyTorch's variables.
                ("PYTORCH_ALLOC_CONF", Facts {
                    stacks: TORCH,
                    ..Facts::NONE
                }),
                ("PYTORCH_CUDA_ALLOC_CONF", Facts {
                    stacks: TORCH,
                    ..Facts::NONE
                }),
            ],
        }
    }
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
