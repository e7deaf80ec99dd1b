//! Tests of a study's files.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use crate::prediction::Prediction;
use crate::{Record, Step, sample};

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
    let files = Some(std::collections::BTreeMap::new());
    assert_eq!(read_record(&dir).unwrap(), Some(Record { files, ..record }));
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

/// Every byte of a file is changed in turn, and two are that no JSON parser would mind.
#[test]
fn a_changed_byte_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    write_record(&dir, &sample::ok("0123456789ab")).unwrap();
    write_prediction(&dir, &Prediction::default()).unwrap();
    write_cell_yaml(&dir, "model: tiny\nrank: 16\n").unwrap();
    let noticed = |path: &Path, read: &dyn Fn() -> bool| {
        let whole = fs::read(path).unwrap();
        assert!(read(), "{}", path.display());
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[place] ^= 1 << bit;
                fs::write(path, changed).unwrap();
                assert!(!read(), "{}: bit {bit} of byte {place}", path.display());
            }
        }
        for changed in [
            [&whole[..], b"\n"].concat(),
            [&whole[..], &whole[..]].concat(),
            Vec::new(),
        ] {
            fs::write(path, changed).unwrap();
            assert!(!read(), "{}", path.display());
        }
        fs::write(path, whole).unwrap();
    };
    noticed(&dir.record(), &|| read_record(&dir).is_ok());
    noticed(&dir.prediction(), &|| read_prediction(&dir).is_ok());
    // Whoever reads it parses it as well.
    let is_cell = |yaml: String| yaml.ends_with("model: tiny\nrank: 16\n") && yaml.starts_with('#');
    noticed(&dir.cell_yaml(), &|| read_cell_yaml(&dir).is_ok_and(is_cell));
}

#[test]
fn a_record_proves_the_files_beside_it() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    StepLog::create(&dir.steps()).unwrap().append(&sample::step(1)).unwrap();
    fs::write(dir.timeline(), "events").unwrap();
    write_record(&dir, &sample::ok("0123456789ab")).unwrap();
    let record = read_record(&dir).unwrap().unwrap();
    check_files(&dir, &record).unwrap();
    fs::write(dir.timeline(), "event").unwrap();
    assert!(matches!(check_files(&dir, &record), Err(StoreError::Damaged(path)) if path == dir.timeline()));
    check_file(&record, &dir.steps()).unwrap();
    fs::remove_file(dir.timeline()).unwrap();
    check_files(&dir, &record).expect("what was removed shows nothing false");
    fs::create_dir(dir.timeline()).unwrap();
    assert!(matches!(check_files(&dir, &record), Err(StoreError::NotAFile(_))));
    let older = Record { files: None, ..record };
    check_files(&dir, &older).expect("an older record proves nothing");
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
fn a_held_out_loss_that_is_not_a_number_is_not_an_absent_one() {
    let root = tempfile::tempdir().unwrap();
    let dir = cell_dir(root.path());
    let loss_eval = |record: &Record| record.measured.as_ref().unwrap().loss_eval;
    let mut record = sample::ok("0123456789ab");
    for loss in [None, Some(0.5), Some(f64::NAN)] {
        record.measured.as_mut().unwrap().loss_eval = loss;
        write_record(&dir, &record).unwrap();
        let read = loss_eval(&read_record(&dir).unwrap().unwrap());
        assert_eq!(
            (read.is_some(), read.is_some_and(f64::is_nan)),
            (loss.is_some(), loss.is_some_and(f64::is_nan))
        );
    }
    // As an older version wrote it.
    let older = serde_json::to_vec(&record).unwrap();
    fs::write(dir.record(), older).unwrap();
    assert_eq!(loss_eval(&read_record(&dir).unwrap().unwrap()), None);
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
