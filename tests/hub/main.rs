//! The hub, over HTTP: a server of its layout on the loopback address, which fails in many ways.
#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod server;
mod walk;
