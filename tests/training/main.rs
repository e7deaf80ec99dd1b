//! What the trainer owes whoever reads its figures, on the preset `tiny`. That it agrees with transformers, PEFT and
//! bitsandbytes is shown in tests/golden.

use std::alloc::System;

use expctl::memory::LedgerAllocator;

mod accumulation;
mod checkpointing;
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
