//! The trainer's figures on the preset `tiny`. tests/golden compares it with transformers, PEFT and bitsandbytes.

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
mod optimizers;
mod oracle;
mod profile;
mod runs;
mod setup;
mod timeline;

#[global_allocator]
static ALLOCATOR: LedgerAllocator = LedgerAllocator::new(System);
