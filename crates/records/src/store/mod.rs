//! A study's files. A write is atomic: the file is complete, or it is not there. A file that is read back proves itself
//! by a hash in it or in the record beside it.

mod cell_yaml;
mod checkpoints;
mod error;
mod folders;
mod place;
mod records;
mod seal;
mod steps;
#[cfg(test)]
mod tests;
mod write;

pub use cell_yaml::{read_cell_yaml, write_cell_yaml};
pub use checkpoints::{Checkpoint, remove_checkpoints};
pub use error::StoreError;
pub use folders::{CellDir, STUDY_FILE, StudyDir, is_cell_id};
pub use place::{make_room, make_room_unless_file, make_room_unless_folder, move_aside};
pub use records::{
    check_file, check_files, read_prediction, read_record, read_record_at, write_prediction, write_record,
};
pub use seal::{check_yaml, seal_yaml, sha256};
pub use steps::{StepLog, read_steps};
pub use write::{write_atomically, write_if_changed, write_own};
