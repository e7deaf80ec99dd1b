//! The harness of all suites.
#![expect(dead_code, reason = "every suite uses a part of it")]

pub mod project;
pub mod training;
