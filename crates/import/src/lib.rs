//! Configurations of other programs as specs: axolotl, LLaMA-Factory, torchtune, TRL and transformers, accelerate,
//! DeepSpeed.
//!
//! A tool is a table (`tools/*.yaml`): what it is recognised by, its keys, what becomes of each, and the defaults that
//! decide memory. [`table`] reads the tables, [`source`] a file or a command line, [`recognise`] finds the tool,
//! [`translate`] applies its table, and [`write`] writes the spec with a remark beside each key. [`axes`] are sweeps.
//! [`answer`] is for one key alone: what an unknown key of a spec means here.

mod answer;
mod axes;
mod command_line;
mod files;
mod interpolate;
mod pattern;
mod recognise;
mod source;
mod table;
mod translate;
mod translation;
mod values;
mod write;

pub use answer::{Answer, answer};
pub use axes::{Axes, Swept};
pub use recognise::{Recognised, recognise, recognise_tree};
pub use source::Document;
pub use table::{Tool, tools};
pub use translate::{Options, translate};
pub use translation::{Left, Setting, Translation};
pub use write::{Written, write};
