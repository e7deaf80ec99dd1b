//! expctl runs declarative fine-tuning experiments. A YAML spec becomes cells, one for each combination of its axes and
//! seeds. A child process trains each cell and writes a record; the records of a study become a data frame, and the
//! frame becomes Markdown reports. A planner predicts the memory of a cell, for this trainer and for PyTorch's stack.
//!
//! The program is made of crates, which lie in `crates/`; each imports only those that its `Cargo.toml` names. This one
//! has the commands and the child's main program, and gives the others under one name.

pub mod cli;
pub mod worker;

pub use base::{random, text};
pub use nn::optim;
pub use {
    arch, cell, chart, data, export, hub, import, kernels, memory, model, nn, options, peft, plan, quant, records,
    report, results, runner, spec, techniques, torch, trace, train, yaml,
};
