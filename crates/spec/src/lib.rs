//! The spec: a YAML file that declares a study.
//!
//! [`load()`] takes these steps, a file each, and goes through them once:
//!
//! 1. `read`, and the crate [`yaml`]: the file becomes a tree that remembers where everything stands, and does not guess types.
//! 2. `overrides`, `layers`: variables of the environment and `--set` are laid over the tree; `fit_options`: `--vary`
//!    and `--keep`.
//! 3. `sweep`, `pin_axes`: the keys that vary, without those that an override fixes.
//! 4. `config_files`: PEFT's and accelerate's configurations, for the keys that they stand for.
//! 5. `type_values`, `typed`: every value gets the type of its key. The sections are declared in `study`, a cell's keys in
//!    [`cell`].
//! 6. `expand`: the axes are combined (`sample` draws some), `filter` leaves combinations out, and every cell is
//!    checked.
//! 7. `entries`: baseline, published figures and claims pick cells.
//!
//! The result is a [`Study`], which `study_file` writes and reads. Nothing is parsed and then ignored: a key that is
//! not known, a value that its key cannot have and a combination that makes no sense are mistakes. They are collected
//! on the way ([`yaml::diagnostic`]), and a [`SpecError`] shows all of them with file, line and what would be right.

mod aliases;
mod answer;
mod answer_check;
mod as_setting;
mod axis_values;
mod by_key;
mod cell_file;
mod cell_selector;
mod claim;
mod config_files;
mod duration;
mod entries;
mod entry;
mod error;
mod examples;
mod expand;
mod expect;
mod figures;
mod filter;
mod fit;
mod fit_options;
mod foreign;
mod giving_way;
mod invocation;
mod jobs;
mod key_path;
mod layers;
mod lineage;
mod load;
mod names;
mod normal_path;
mod on_oom;
mod one_cell;
mod origin;
mod ours;
mod overrides;
mod pin_axes;
mod prose;
mod published;
mod read;
mod recipes;
mod reference;
mod requires;
mod sample;
mod schema;
mod selection;
mod selector;
mod shell_word;
mod spec_file;
mod study;
mod study_file;
mod sweep;
mod type_values;
mod typed;
mod whose;
mod written;

pub use aliases::{near, suggestion};
pub use answer::AnswerSentence;
pub use cell_file::read_cell;
pub use claim::{Claim, Measure};
pub use error::SpecError;
pub use examples::{Example, ExampleFile, ShippedFile, ship};
pub use expect::{Expect, Expected};
pub use fit::{Budget, FitSpec};
pub use invocation::Invocation;
pub use jobs::Jobs;
pub use lineage::{Fallback, Lineage, Resolved, Trials};
pub use load::{load, parse};
pub use names::Names;
pub use normal_path::normal_path;
pub use on_oom::{OnOom, Rung};
pub use origin::Origin;
pub use ours::ours;
pub use overrides::Overrides;
pub use prose::Prose;
pub use published::{Evidence, LargestKey, Metric, Published, PublishedOutcome};
pub use recipes::Recipe;
pub use reference::{reference, values_of};
pub use requires::{Made, Requirement};
pub use schema::schema;
pub use selection::Selection;
pub use selector::Selector;
pub use spec_file::SpecFile;
pub use study::{DEFAULT_SAVE_TOTAL_LIMIT, Limits, RecordSpec, ReportSpec, Study, StudyCell, TEMPLATES};
pub use written::key_in_front;
