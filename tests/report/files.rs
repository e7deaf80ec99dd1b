//! The files that a report is made of, and when they are written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use expctl::results::collect::collect;
use expctl::spec::{self, Overrides};
use polars_io::SerReader;
use polars_io::parquet::read::ParquetReader;

use crate::{Recorded, SPEC};

#[test]
fn the_frame_holds_what_the_records_say() {
    let recorded = Recorded::new(SPEC);
    recorded.expctl(&["report", "experiments/rank_sweep.yaml"]).exits(0);
    insta::assert_snapshot!(recorded.read(recorded.dir.cells_csv()));
    let frame = collect(&recorded.dir, &recorded.study, false).unwrap().frame().unwrap();
    let stored = ParquetReader::new(File::open(recorded.dir.cells_parquet()).unwrap())
        .finish()
        .unwrap();
    assert!(stored.equals_missing(&frame));
}

#[test]
fn equal_records_give_equal_bytes() {
    let files = |recorded: &Recorded| -> BTreeMap<PathBuf, Vec<u8>> {
        recorded.expctl(&["report", "results/rank_sweep"]).exits(0);
        let results = [recorded.path("results"), recorded.dir.path().to_path_buf()];
        let entries = results.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let name = |path: &Path| path.strip_prefix(recorded.path("")).unwrap().to_path_buf();
        paths.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
    };
    let (one, other) = (files(&Recorded::new(SPEC)), files(&Recorded::new(SPEC)));
    assert_eq!(
        one.len(),
        7,
        "study.yaml, two frames, one report with its frame and two charts: {:?}",
        one.keys()
    );
    assert!(one == other);
}

#[test]
fn only_what_changed_is_written() {
    let recorded = Recorded::new(SPEC);
    let report = ["report", "results/rank_sweep"];
    recorded
        .expctl(&report)
        .exits(0)
        .stdout_has("wrote results/rank_sweep.md\n");
    recorded
        .expctl(&report)
        .exits(0)
        .stdout_is("results/rank_sweep.md is up to date with results/rank_sweep\n");
    recorded.write("results/rank_sweep.md", "something else");
    recorded
        .expctl(&report)
        .exits(0)
        .stdout_is("wrote results/rank_sweep.md\n");
}

#[test]
fn check_says_what_is_stale() {
    let recorded = Recorded::new(SPEC);
    let check = ["report", "experiments/rank_sweep.yaml", "--check=pages"];
    recorded
        .expctl(&check)
        .exits(1)
        .stderr_has("`results/rank_sweep.md` is not there");
    assert!(
        !recorded.path("results/rank_sweep.md").exists(),
        "a check writes nothing"
    );
    recorded.expctl(&["report", "results/rank_sweep"]).exits(0);
    recorded.expctl(&check).exits(0);

    let path = recorded.path("results/rank_sweep.md");
    let text = recorded.read(&path);
    recorded.write(&path, text.replace("What does the LoRA rank cost", "What does it cost"));
    let expected = "`results/rank_sweep.md` is stale at line 3:\n  \
         is:       What does it cost in memory and time?\n  \
         would be: What does the LoRA rank cost in memory and time?\n";
    recorded.expctl(&check).exits(1).stderr_is(expected);
}

#[test]
fn a_page_to_paste_has_no_ids() {
    let recorded = Recorded::new(SPEC);
    let id = &recorded.study.cells[0].id[..4];
    let spec = "experiments/rank_sweep.yaml";
    recorded.expctl(&["report", spec]).exits(0);
    assert!(recorded.read("results/rank_sweep.md").contains(id));
    recorded
        .expctl(&["report", spec, "--no-ids", "--output", "page.md"])
        .exits(0);
    let page = recorded.read("page.md");
    assert!(!page.contains(id) && !page.contains("| Cell"), "{page}");
    assert!(page.contains("| Peak allocated (MiB)"), "{page}");
    recorded
        .expctl(&["report", spec, "--no-ids", "--check"])
        .exits(2)
        .stderr_has("--no-ids");
}

#[test]
fn the_spec_says_how_results_are_shown() {
    let recorded = Recorded::new(SPEC);
    let spec = "experiments/rank_sweep.yaml";
    recorded.expctl(&["report", spec]).exits(0).stderr_is("");
    let reworded = SPEC
        .replace("What does", "How much does")
        .replace("rank_sweep.md", "new.md");
    recorded.write(spec, reworded);
    recorded.expctl(&["report", spec, "--check=pages"]).exits(1);
    recorded.expctl(&["report", spec]).exits(0);
    let markdown = recorded.read("results/new.md");
    assert!(markdown.contains("How much does the LoRA rank cost"), "{markdown}");

    recorded.write(spec, SPEC.replace("[4, 16, 64, 256]", "[4, 16, 64, 128]"));
    recorded.expctl(&["report", spec]).exits(0);
    recorded
        .expctl(&["report", spec, "--check=pages"])
        .exits(1)
        .stderr_has("4 cells new, 4 cells gone");
}

#[test]
fn a_report_takes_the_place_of_nothing_else() {
    let recorded = Recorded::new(SPEC);
    let record = recorded.dir.cell(&recorded.study.cells[0].id).record();
    let other = [
        "experiments/rank_sweep.yaml",
        "results/rank_sweep/study.yaml",
        "results/rank_sweep/no/../cells.csv",
    ];
    for output in other.into_iter().map(PathBuf::from).chain([record]) {
        let before = fs::read(recorded.path("").join(&output)).ok();
        recorded
            .expctl(&[
                "report",
                "results/rank_sweep",
                "--output",
                &output.display().to_string(),
            ])
            .exits(2)
            .stderr_has("is a part of the study");
        assert_eq!(fs::read(recorded.path("").join(&output)).ok(), before);
    }
}

#[test]
fn cells_that_left_the_spec_are_rows_on_request() {
    let recorded = Recorded::new(SPEC);
    let smaller = SPEC.replace("rank: [4, 16, 64, 256]", "rank: [4, 16]");
    recorded.write("experiments/rank_sweep.yaml", smaller);
    let spec = recorded.path("experiments/rank_sweep.yaml");
    spec::load(&spec, &Overrides::default())
        .unwrap()
        .write(recorded.dir.path())
        .unwrap();
    let rows = || recorded.read(recorded.dir.cells_csv()).lines().count() - 1;

    let note = "7 records of cells that are no longer in the study are left out; `report --all` shows them\n";
    recorded
        .expctl(&["report", "results/rank_sweep"])
        .exits(0)
        .stderr_is(note);
    assert_eq!(rows(), 8);
    recorded
        .expctl(&["report", "results/rank_sweep", "--all"])
        .exits(0)
        .stderr_is("");
    assert_eq!(rows(), 15);
}

#[test]
fn a_record_cut_short_is_a_warning_and_a_cell_that_did_not_run() {
    let recorded = Recorded::new(SPEC);
    let path = recorded.dir.cell(&recorded.study.cells[0].id).record();
    let text = recorded.read(&path);
    recorded.write(&path, &text[..text.len() / 2]);
    recorded
        .expctl(&["report", "results/rank_sweep"])
        .exits(0)
        .stderr_has("is cut short; `expctl run` makes it again");
    let markdown = recorded.read("results/rank_sweep.md");
    assert!(markdown.contains("1 not run, 1 ok"), "{markdown}");
}

/// Removes the study's folder, as in a fresh clone.
fn without_folder(recorded: &Recorded) {
    fs::remove_dir_all(recorded.dir.path()).unwrap();
}

#[test]
fn a_report_is_made_and_checked_from_the_frame_beside_it() {
    let recorded = Recorded::new(SPEC);
    let spec = "experiments/rank_sweep.yaml";
    recorded
        .expctl(&["report", spec])
        .exits(0)
        .stdout_has("wrote results/rank_sweep.parquet\n");
    let entries = fs::read_dir(recorded.path("results")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_text = |name: &String| name.ends_with(".md") || name.ends_with(".svg");
    let names: Vec<String> = names.filter(is_text).collect();
    assert!(names.len() > 1, "a report and its charts: {names:?}");
    let read = || -> Vec<String> {
        let texts = names.iter().map(|name| recorded.read(format!("results/{name}")));
        texts.collect()
    };
    let before = read();

    without_folder(&recorded);
    recorded
        .expctl(&["report", spec, "--check=pages"])
        .exits(0)
        .stdout_is("results/rank_sweep.md is up to date with results/rank_sweep.parquet\n");
    for name in &names {
        recorded.write(format!("results/{name}"), "something else");
        recorded
            .expctl(&["report", spec, "--check=pages"])
            .exits(1)
            .stderr_has(&format!("`results/{name}` is stale at line 1"));
        recorded
            .expctl(&["report", spec])
            .exits(0)
            .stdout_is(&format!("wrote results/{name}\n"));
    }
    assert_eq!(read(), before, "the frame holds all that the folder did");
    assert!(!recorded.dir.path().exists());

    recorded.write(spec, SPEC.replace("[4, 16, 64, 256]", "[4, 16, 64, 128]"));
    recorded
        .expctl(&["report", spec, "--check=pages"])
        .exits(1)
        .stderr_has("after the frame `results/rank_sweep.parquet` was written: 4 cells new, 4 cells gone");
    recorded
        .expctl(&["report", spec, "--all"])
        .exits(2)
        .stderr_has("`results/rank_sweep` holds no study");
}

#[test]
fn the_frame_beside_a_report_knows_its_overrides() {
    let recorded = Recorded::new(SPEC);
    let spec = "experiments/rank_sweep.yaml";
    let overrides = Overrides::new([], vec!["batch_size=2".to_owned()]);
    let mut study = spec::load(&recorded.path(spec), &overrides).unwrap();
    study.invocation.spec = spec.to_owned();
    study.write(recorded.dir.path()).unwrap();
    recorded.expctl(&["report", spec]).exits(0);
    without_folder(&recorded);
    recorded
        .expctl(&["report", spec, "--check=pages"])
        .exits(0)
        .stderr_is("");
    let markdown = recorded.read("results/rank_sweep.md");
    assert!(
        markdown.contains("expctl run experiments/rank_sweep.yaml --set batch_size=2"),
        "{markdown}"
    );
}

#[test]
fn a_stale_frame_beside_a_report_is_noticed() {
    let recorded = Recorded::new(SPEC);
    let spec = "experiments/rank_sweep.yaml";
    recorded.expctl(&["report", spec]).exits(0);
    fs::remove_file(recorded.dir.cell(&recorded.study.cells[0].id).record()).unwrap();
    // The other report follows the records, but nothing writes the frame with it.
    recorded.expctl(&["report", spec, "--output", "other.md"]).exits(0);
    fs::copy(recorded.path("other.md"), recorded.path("results/rank_sweep.md")).unwrap();
    recorded
        .expctl(&["report", spec, "--check=pages"])
        .exits(1)
        .stderr_has("`results/rank_sweep.parquet` does not hold the records of `results/rank_sweep`");
    assert!(!recorded.path("other.parquet").exists());
}

#[test]
fn several_reports_are_checked_at_once() {
    let recorded = Recorded::new(SPEC);
    let first = "experiments/rank_sweep.yaml";
    recorded.expctl(&["report", first]).exits(0);
    without_folder(&recorded);
    let other = SPEC.replace("rank_sweep", "other");
    recorded.write("experiments/other.yaml", &other);
    recorded
        .expctl(&["report", first, "experiments/other.yaml", "--check=pages"])
        .exits(0)
        .stderr_has("skipped: `results/other` holds no study");
    for name in ["md", "parquet"] {
        let from = recorded.path(format!("results/rank_sweep.{name}"));
        fs::copy(from, recorded.path(format!("results/other.{name}"))).unwrap();
    }
    let both = recorded.expctl(&["report", first, "experiments/other.yaml", "--check=pages"]);
    let both = both.exits(1);
    both.stdout_has("results/rank_sweep.md is up to date");
    both.stderr_has("`results/other.md` is stale at line 1");
    recorded
        .expctl(&["report", first, "experiments/other.yaml", "--output", "x.md"])
        .exits(2)
        .stderr_has("--output is for one study");
}

#[test]
fn a_frame_takes_the_place_of_nothing_else() {
    let spec = SPEC.replace("results/rank_sweep.md", "corpus.md");
    let recorded = Recorded::new(&spec);
    recorded.write("corpus.parquet", "somebody's texts");
    recorded
        .expctl(&["report", "experiments/rank_sweep.yaml"])
        .exits(2)
        .stderr_has("the report's frame cannot be kept in `corpus.parquet`");
    assert_eq!(recorded.read("corpus.parquet"), "somebody's texts");
    fs::copy(recorded.dir.cells_parquet(), recorded.path("corpus.parquet")).unwrap();
    recorded
        .expctl(&["report", "experiments/rank_sweep.yaml"])
        .exits(2)
        .stderr_has("it is not a frame that expctl wrote beside a report");
    fs::remove_file(recorded.path("corpus.parquet")).unwrap();
    let spec = spec.replace("corpus.md", "corpus.parquet");
    recorded.write("experiments/rank_sweep.yaml", spec);
    recorded
        .expctl(&["report", "experiments/rank_sweep.yaml"])
        .exits(2)
        .stderr_has("is a part of the study");
}
