//! Reports: a template turns a frame into Markdown with charts.
//!
//! Nothing here reads records. The same frame gives the same bytes.

mod about;
pub mod accuracy;
mod answer;
mod answer_text;
mod axes;
mod change;
mod charts;
mod check;
mod claims;
mod columns;
pub mod compare;
mod context;
mod entry;
mod error;
mod figures;
mod files;
mod filters;
mod front;
mod group;
mod html;
mod judged;
mod labels;
mod ladder;
mod made_up;
pub mod markdown;
mod memory_unit;
mod methods;
mod one_method;
mod outcomes;
mod paste;
mod planned;
mod profile_path;
mod published;
mod render;
mod speeds;
mod stacks;
mod table;
pub mod techniques;
mod template;
mod timeline;
mod value_count;
pub mod verdicts;

pub use about::About;
pub use axes::{axes, key_columns};
pub use check::check_study;
pub use claims::{Basis, BasisVerdict, ClaimResult, ClaimVerdict, Evidence, NamedValue};
pub use entry::{Entry, entries};
pub use error::ReportError;
pub use figures::{AnswerResult, NOT_MEASURED, Piece, evaluate, pieces};
pub use files::{make_folder, prepare_output, stale_files, write};
pub use one_method::one_method;
pub use paste::PasteTable;
pub use render::{Frames, Rendered, paste_table, render};
pub use template::Template;
