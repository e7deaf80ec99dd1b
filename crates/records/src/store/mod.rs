//! A study's files. A write is atomic: the file is complete, or it is not there.

mod error;
mod folders;
mod records;
mod steps;
#[cfg(test)]
mod tests;
mod write;

pub use error::StoreError;
pub use folders::{CellDir, STUDY_FILE, StudyDir, is_cell_id};
pub use records::{read_prediction, read_record, write_prediction, write_record};
pub use steps::{StepLog, read_steps};
pub use write::{remove_temporaries, write_atomically, write_if_changed};
