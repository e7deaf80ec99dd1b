//! Tests of a study's files.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use crate::{Step, sample};

fn cell_dir(root: &Path) -> CellDir {
    let dir = StudyDir::new(root).cell("0123456789ab");
    fs::create_dir_all(dir.path()).unwrap();
    dir
}

#[test]
fn a_record_comes_back_as_it_was_written() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    assert_eq!(read_record(&dir).unwrap(), None);
    let record = sample::ok("0123456789ab");
    write_record(&dir, &record).unwrap();
    assert_eq!(read_record(&dir).unwrap(), Some(record));
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays behind");
}

#[test]
fn a_record_cut_short_says_so() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    write_record(&dir, &sample::ok("0123456789ab")).unwrap();
    let whole = fs::read(dir.record()).unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 3] {
        fs::write(dir.record(), &whole[..length]).unwrap();
        let error = read_record(&dir).unwrap_err();
        assert!(matches!(error, StoreError::CutShort(_)), "{length}: {error}");
    }
}

#[test]
fn another_cells_record_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    write_record(&dir, &sample::ok("ffffffffffff")).unwrap();
    let error = read_record(&dir).unwrap_err().to_string();
    assert!(
        error.ends_with("holds the record of cell ffffffffffff, not of 0123456789ab"),
        "{error}"
    );
}

#[test]
fn a_file_of_something_else_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    fs::write(dir.record(), "{\"hello\": 1}").unwrap();
    let error = anyhow::Error::from(read_record(&dir).unwrap_err());
    assert!(format!("{error:#}").contains("unknown field `hello`"), "{error:#}");
}

#[test]
fn steps_survive_a_kill_in_the_middle_of_a_line() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    let mut log = StepLog::create(&dir.steps()).unwrap();
    let steps = [sample::step(1), sample::step(2)];
    for step in &steps {
        log.append(step).unwrap();
    }
    let mut file = fs::OpenOptions::new().append(true).open(dir.steps()).unwrap();
    file.write_all(b"{\"step\":3,\"lo").unwrap();
    assert_eq!(read_steps(&dir.steps()).unwrap(), steps);
    assert_eq!(read_steps(&root.path().join("none")).unwrap(), []);
}

#[test]
fn a_loss_that_is_not_a_number_can_be_read_back() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    let step = Step {
        loss: f64::NAN,
        ..sample::step(1)
    };
    StepLog::create(&dir.steps()).unwrap().append(&step).unwrap();
    assert!(read_steps(&dir.steps()).unwrap()[0].loss.is_nan());
}

#[test]
fn only_cell_folders_are_listed() {
    let root = tempfile::tempdir().unwrap();
    for name in ["0123456789ab", "00000000000f", "notes", "0123456789AB"] {
        fs::create_dir_all(root.path().join("cells").join(name)).unwrap();
    }
    let ids: Vec<_> = StudyDir::new(root.path())
        .cells()
        .unwrap()
        .iter()
        .map(CellDir::id)
        .collect();
    assert_eq!(ids, ["00000000000f", "0123456789ab"]);
    assert_eq!(StudyDir::new(root.path().join("none")).cells().unwrap(), []);
}

#[test]
fn unchanged_files_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.md");
    assert!(write_if_changed(&path, b"one").unwrap());
    assert!(!write_if_changed(&path, b"one").unwrap());
    assert!(write_if_changed(&path, b"two").unwrap());
    let error = write_if_changed(&root.path().join("none/a.md"), b"one").unwrap_err();
    assert!(error.to_string().starts_with("cannot write `"), "{error}");
}
