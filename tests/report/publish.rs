//! Published reports: the ones that are committed, which no run changes.

use std::fs;

use expctl::spec::{self, Overrides};

use crate::{Recorded, SPEC};

const PUBLISHED: &str = "experiments/rank_sweep.yaml";

/// A study of cells that all have a result, which publishes its report.
fn recorded() -> Recorded {
    let publish = "output: results/rank_sweep.md, publish: reports/rank_sweep.md";
    let spec = SPEC.replace("output: results/rank_sweep.md", publish);
    Recorded::new(&spec.replace("[bfloat16, int4]", "[bfloat16]"))
}

#[test]
fn one_command_writes_the_published_report() {
    let recorded = recorded();
    recorded.expctl(&["report", PUBLISHED]).exits(0);
    assert!(
        !recorded.path("reports").exists(),
        "a report of a run is no published one"
    );
    recorded
        .expctl(&["report", PUBLISHED, "--check=pages"])
        .exits(1)
        .stderr_has("`expctl report --publish experiments/rank_sweep.yaml` does so");

    let wrote = recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
    wrote.stdout_has("wrote reports/rank_sweep.parquet\n");
    wrote.stdout_has("wrote reports/rank_sweep.md\n");
    let same = |name: &str| recorded.read(format!("results/{name}")) == recorded.read(format!("reports/{name}"));
    assert!(same("rank_sweep.md") && same("rank_sweep-growth.svg"));
}

#[test]
fn later_records_leave_the_published_report_true() {
    let recorded = recorded();
    recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
    let published = recorded.read("reports/rank_sweep.md");
    fs::remove_file(recorded.dir.cell(&recorded.study.cells[0].id).record()).unwrap();
    recorded.expctl(&["report", PUBLISHED]).exits(0);
    assert_ne!(recorded.read("results/rank_sweep.md"), published);
    recorded
        .expctl(&["report", PUBLISHED, "--publish"])
        .exits(2)
        .stderr_has("1 cell is not run; `expctl run experiments/rank_sweep.yaml` goes on");
    assert_eq!(recorded.read("reports/rank_sweep.md"), published);
    let up_to_date = "reports/rank_sweep.md is up to date with reports/rank_sweep.parquet\n";
    recorded
        .expctl(&["report", PUBLISHED, "--check=pages"])
        .exits(0)
        .stdout_is(up_to_date);

    // In a clone there are no records. The published report is checked, and made again, from its frame.
    fs::remove_dir_all(recorded.path("results")).unwrap();
    recorded
        .expctl(&["report", PUBLISHED, "--check=pages"])
        .exits(0)
        .stdout_is(up_to_date);
    recorded.write("reports/rank_sweep.md", "something else");
    recorded
        .expctl(&["report", PUBLISHED, "--check=pages"])
        .exits(1)
        .stderr_has("`reports/rank_sweep.md` is stale at line 1");
    recorded
        .expctl(&["report", PUBLISHED, "--publish"])
        .exits(0)
        .stdout_is("wrote reports/rank_sweep.md\n");
    assert_eq!(recorded.read("reports/rank_sweep.md"), published);
    recorded
        .expctl(&["report", PUBLISHED])
        .exits(0)
        .stdout_has("wrote results/rank_sweep.md\n");
    assert_eq!(recorded.read("results/rank_sweep.md"), published);
}

#[test]
fn a_stale_frame_takes_todays_plans() {
    let recorded = recorded();
    recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
    fs::remove_dir_all(recorded.path("results")).unwrap();
    recorded
        .expctl(&["report", PUBLISHED, "--check=pages"])
        .exits(0)
        .stderr_is("");
    let stale = recorded.expctl(&["report", PUBLISHED, "--check"]).exits(1);
    let id = &recorded.study.cells[0].id;
    stale.stderr_has(&format!(
        "`reports/rank_sweep.parquet` is stale: cell {id}: allocated_peak_bytes is 493,887,488 and today "
    ));
    stale.stderr_has("`expctl report --replan experiments/rank_sweep.yaml` writes today's plans");

    let replan = || recorded.expctl(&["report", PUBLISHED, "--replan"]).exits(0);
    let losses = |text: &str| text.matches(" → ").count();
    let before = recorded.read("reports/rank_sweep.md");
    replan().stdout_has("wrote reports/rank_sweep.parquet\n");
    let report = recorded.read("reports/rank_sweep.md");
    assert!(report.contains("not measured ([provenance](#provenance))"), "{report}");
    assert!(report.contains("cells is planned by expctl 0.1.0"), "{report}");
    assert_eq!(losses(&report), losses(&before), "what was not planned stays");
    replan().stdout_has("reports/rank_sweep.md is up to date");
    recorded
        .expctl(&["report", PUBLISHED, "--check"])
        .exits(0)
        .stderr_is("");
}

#[test]
fn cells_whose_inputs_are_not_those_of_the_run_are_not_compared() {
    for (model, note) in [
        ("./model", "cannot be planned again here: unknown model `./model`"),
        (
            "tiny",
            "cannot be planned again here: model or data are not those of the run",
        ),
    ] {
        let publish = "output: results/rank_sweep.md, publish: reports/rank_sweep.md";
        let spec = SPEC.replace("output: results/rank_sweep.md", publish);
        let spec = spec.replace("[bfloat16, int4]", "[bfloat16]");
        let recorded = Recorded::new(&spec.replace("defaults: {", &format!("defaults: {{ model: {model},")));
        recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
        recorded
            .expctl(&["report", PUBLISHED, "--check"])
            .exits(0)
            .stderr_has(note);
    }
}

#[test]
fn only_a_published_frame_is_planned_again() {
    let recorded = Recorded::new(SPEC);
    recorded
        .expctl(&["report", PUBLISHED, "--replan"])
        .exits(2)
        .stderr_has("names no place to publish");
    let planned = "name: planned\ndefaults: { stack: torch, model: tiny }\nreport: { publish: planned.md }\n";
    recorded.write("planned.yaml", planned);
    recorded
        .expctl(&["report", "planned.yaml", "--replan"])
        .exits(2)
        .stderr_has("has no frame to plan again");
}

#[test]
fn a_spec_that_publishes_nothing_says_what_to_add() {
    let recorded = Recorded::new(SPEC);
    recorded
        .expctl(&["report", PUBLISHED, "--publish"])
        .exits(2)
        .stderr_has("names no place to publish; add `publish: reports/rank_sweep.md`");
    for report in [
        "output: x.md, publish: x.md",
        "output: ./x.html, publish: x.md",
        "publish: results/same/report.md",
    ] {
        recorded.write("same.yaml", format!("name: same\nreport: {{ {report} }}\n"));
        recorded
            .expctl(&["validate", "same.yaml"])
            .exits(2)
            .stderr_has("report.publish: a run would replace the published report");
    }
}

#[test]
fn of_several_specs_those_without_results_are_named_and_skipped() {
    let recorded = recorded();
    recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
    recorded.write("not_run.yaml", "name: not_run\ndefaults: { model: tiny }\n");
    recorded.write(
        "planned.yaml",
        "name: planned\ndefaults: { stack: torch, model: tiny }\n",
    );
    let checked = recorded
        .expctl(&["report", "not_run.yaml", "planned.yaml", PUBLISHED, "--check=pages"])
        .exits(0);
    checked.stderr_has("skipped: `results/not_run` holds no study");
    checked.stderr_has("skipped: the `report` of `planned.yaml` names no `output`");
    checked.stdout_has("reports/rank_sweep.md is up to date");
    recorded.expctl(&["report", "not_run.yaml", "--check=pages"]).exits(2);
    recorded
        .expctl(&["report", "not_run.yaml", "planned.yaml", "--check=pages"])
        .exits(2)
        .stderr_has("none of these has anything to report");
}

#[test]
fn published_frames_are_listed_and_shown() {
    let recorded = recorded();
    recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
    let listed = recorded.expctl(&["list"]).exits(0).stdout;
    fs::remove_dir_all(recorded.path("results")).unwrap();
    assert_eq!(recorded.expctl(&["list"]).exits(0).stdout, listed);
    assert_eq!(
        recorded.expctl(&["list", "reports/rank_sweep.parquet"]).exits(0).stdout,
        listed
    );

    let id = &recorded.study.cells[0].id;
    let shown = recorded.expctl(&["show", &id[..6]]).exits(0);
    shown.stdout_has(&format!("cell {id}: ok\nreports/rank_sweep.parquet\n"));
    shown.stdout_has("\n  max_steps                    3\n");
    shown.stdout_has("allocated_peak_bytes                  471.0 MiB (493,887,488 B)");
    let json = recorded.expctl(&["show", id, "--format", "json"]).exits(0).json();
    assert_eq!(json["row"]["allocated_peak_bytes"], 493_887_488_u64);
    recorded
        .expctl(&["show", id, "--format", "csv"])
        .exits(2)
        .stderr_has("keeps no steps");
    recorded
        .expctl(&["show", "zz"])
        .exits(2)
        .stderr_has("no cell has an id that begins with `zz`");
    recorded
        .expctl(&["show", ""])
        .exits(2)
        .stderr_has("is 8 cells; name one:\n");
}

#[test]
fn a_run_with_overrides_is_not_published() {
    let recorded = recorded();
    recorded.expctl(&["report", PUBLISHED, "--publish"]).exits(0);
    let overrides = Overrides::new([], vec!["max_steps=3".to_owned()]);
    let mut study = spec::load(&recorded.path(PUBLISHED), &overrides).unwrap();
    study.invocation.spec = PUBLISHED.to_owned();
    study.write(recorded.dir.path()).unwrap();
    recorded
        .expctl(&["report", PUBLISHED, "--publish"])
        .exits(2)
        .stderr_has("is not of the spec as it is written, but with max_steps=3; run it again without");
}
