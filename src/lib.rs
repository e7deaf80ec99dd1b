//! expctl runs declarative fine-tuning experiments. A YAML spec becomes cells, one for each combination of its axes and
//! seeds. A child process trains each cell and writes a record; the records of a study become a data frame, and the
//! frame becomes Markdown reports. A planner predicts the memory of a cell, for this trainer and for PyTorch's stack.
//!
//! The rooms, from low to high:
//!
//! * [`text`]: words for people. [`random`]: one stream of random numbers for each purpose.
//! * `whole_file`: files that appear whole or not at all.
//! * [`options`]: the vocabulary of a configuration.
//! * [`hub`]: the files of the Hugging Face Hub.
//! * [`trace`]: allocations and releases in their order, and their account.
//! * [`memory`]: buffers of tensors; the ledger of live bytes under the global allocator, and its timeline; dry runs.
//! * [`arch`]: what a model is: its configuration, weights and presets.
//! * [`peft`]: adapters' files.
//! * [`torch`]: an abstract PyTorch that writes such traces, and PyTorch's caching allocator.
//! * `expression`: conditions in specs and on the command line. [`spec`]: YAML to cells. [`results`]: records on disk, and
//!   frames.
//! * [`kernels`]: computations on slices. [`quant`]: weights in fewer bits. [`nn`]: layers.
//! * [`data`], [`model`], [`optim`]: what a training run is made of. [`train`]: the run.
//! * [`plan`]: predictions. [`report`]: reports of frames. [`export`]: timelines for other tools. [`runner`]: child
//!   processes and their outcomes.
//! * [`worker`]: the child's main program. [`cli`]: the commands.

pub mod arch;
pub mod cli;
pub mod data;
pub mod export;
mod expression;
pub mod hub;
pub mod kernels;
pub mod memory;
pub mod model;
pub mod nn;
pub mod optim;
pub mod options;
pub mod peft;
pub mod plan;
pub mod quant;
pub mod random;
pub mod report;
pub mod results;
pub mod runner;
pub mod spec;
pub mod text;
pub mod torch;
pub mod trace;
pub mod train;
mod whole_file;
pub mod worker;
