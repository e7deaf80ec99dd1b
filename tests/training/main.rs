//! The trainer's figures on the preset `tiny`. tests/golden compares it with transformers, PEFT and bitsandbytes.
#![expect(clippy::expect_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

use std::alloc::System;

use expctl::memory::LedgerAllocator;

mod accumulation;
mod checkpointing;
#[path = "../common/mod.rs"]
mod common;
mod encoders;
mod gradients;
mod keys;
mod ledger;
mod offload;
mod optimizers;
mod oracle;
mod packing;
mod partial;
mod profile;
mod runs;
mod setup;
mod timeline;

#[global_allocator]
static ALLOCATOR: LedgerAllocator = LedgerAllocator::new(System);
