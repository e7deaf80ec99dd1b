//! A study with cells of both stacks: ours are trained, PyTorch's are planned, and claims are judged on each.

use serde_json::Value;

use crate::common::project::Project;

const BOTH: &str = "\
name: both
defaults: { model: tiny, batch_size: 2, max_seq_length: 64, max_steps: 2 }
sweep:
  include:
  - { stack: candle, instruction_set: avx2, gradient_checkpointing: none }
  - { stack: candle, instruction_set: avx2, gradient_checkpointing: full }
  - { stack: torch, gradient_checkpointing: none }
  - { stack: torch, gradient_checkpointing: full }
report: { template: claims, output: both.md }
claims:
- claim: Checkpointing saves 1 to 10 % of the peak.
  source: Somebody
  measured:
    saved:
      value: 1 - mean('allocated_peak_bytes', gradient_checkpointing='full') / mean('allocated_peak_bytes', gradient_checkpointing='none')
      unit: '%'
  holds: between(saved, 0.01, 0.10)
  exceeds: saved > 0.10
  expect: { candle: exceeded }
- claim: PyTorch trains as many weights as we do.
  source: Somebody
  holds: means('trainable_count') | unique | list | length == 1
- claim: 4 × 4 = 1 × 8.
  source: Somebody
  holds: 4 * 4 == 1 * 8
  expect: refuted
- claim: Training keeps its quality.
  source: Somebody
  untested: These are random weights.
- claim: Two steps see 256 tokens.
  source: Somebody
  cells: { stack: candle }
  holds: (means('tokens') | min) == 256
- claim: It needs more than a gigabyte.
  source: Somebody
  holds: (means('allocated_peak_bytes') | min) > 1e9
  expect: { torch: refuted, candle: refuted }
";

#[test]
fn torch_cells_are_planned_and_the_others_trained() {
    let project = Project::new(BOTH);
    let dry = project.run(&["--dry-run"]).exits(0);
    assert!(dry.stdout.contains("4 cells, 2 to run, 0 kept, 2 planned"), "{dry}");
    let run = project.run(&["--check"]).exits(0);
    assert!(
        run.stdout
            .contains("both: 2 of 2 cells have a result in out; 2 cells planned"),
        "{run}"
    );
    let counts = "6 claims: PyTorch, predicted: 2 supported, 1 refuted; \
                  our trainer, measured: 2 supported, 1 exceeded, 1 refuted; computed: 1 refuted; not judged: 1 untested";
    assert!(run.stdout.contains(counts), "{run}");

    let cells = project.expctl(&["list", "out", "--format", "json"]).exits(0);
    let cells: Vec<Value> = serde_json::from_str(&cells.stdout).unwrap();
    let of = |stack: &'static str| cells.iter().filter(move |cell| cell["stack"] == stack);
    assert!(of("candle").all(|cell| cell["status"] == "ok" && cell["allocated_peak_bytes"].is_u64()));
    assert!(of("torch").all(|cell| cell["status"] == "planned" && cell["allocated_peak_bytes"].is_null()));
    assert_eq!((of("candle").count(), of("torch").count()), (2, 2));

    let report = project.read("both.md");
    let (_, claims) = report.split_once("## Claims").unwrap();
    assert!(!report.contains("did not finish"), "{report}");
    assert!(
        report.contains("* The stacks differ in their verdict on claim 1.\n"),
        "{report}"
    );
    let (claims, cells) = claims.split_once("\n## Cells: PyTorch, predicted").unwrap();
    insta::assert_snapshot!("claims_on_both_stacks", claims);
    assert!(cells.contains("\n## Cells: our trainer, measured"), "{cells}");
    // From study.yaml, which keeps the claims, too.
    project.expctl(&["report", "out", "--check"]).exits(0);
    let again = project.run(&[]).exits(0);
    assert!(again.stderr.contains("4 cells, 0 to run, 2 kept, 2 planned"), "{again}");
    assert_eq!(project.read("both.md"), report);
}

/// A plan has no tokens: what it cannot know of our trainer is untested, and no failure.
#[test]
fn a_plan_judges_claims_by_predictions() {
    let project = Project::new(BOTH);
    project.expctl(&["plan", "spec.yaml", "--report"]).exits(0);
    let report = project.read("both.md");
    assert!(report.contains("| PyTorch, predicted"), "{report}");
    assert!(report.contains("| Our trainer, predicted"), "{report}");
    assert!(
        !report.contains("easured here") && !report.contains("trainer, measured"),
        "{report}"
    );
    assert!(report.contains("has no tokens"), "{report}");
    assert!(!report.contains("did not finish"), "{report}");
}

/// The status of a planned cell is what its budget predicts.
#[test]
fn a_plans_verdict_is_its_status() {
    let project = Project::new(
        "name: x\ndefaults: { stack: torch, model: smollm2-135m, weights: random, rank: 8, max_seq_length: 512,\n\
         \x20 data: { synthetic: { samples: 1024 } } }\n\
         sweep: { include: [{ batch_size: 1, gpu: t4 }, { batch_size: 256, gpu: t4 }, { batch_size: 4 }] }\n\
         report: { template: claims, output: x.md }\n\
         claims:\n\
         - { claim: A, source: B, holds: \"status(batch_size=1) == 'ok'\" }\n\
         - { claim: A, source: B, holds: \"status(batch_size=256) == 'oom'\" }\n\
         - { claim: A, source: B, holds: \"status(batch_size=4) == 'ok'\" }\n",
    );
    project.expctl(&["plan", "spec.yaml", "--report"]).exits(0);
    let checked = project.expctl(&["plan", "spec.yaml", "--report", "--check"]).exits(1);
    checked.stdout_has("3 claims: 2 supported, 1 untested");
    checked.stderr_has("has no budget");
}

#[test]
fn a_study_of_torch_alone_is_planned() {
    let project = Project::new("name: x\ndefaults: { model: tiny, stack: torch, max_seq_length: 64 }\n");
    let output = project.run(&[]).exits(2);
    output.stderr_has("cells of this stack are planned and not run, and there are no others; `expctl plan");
}

#[test]
fn a_torch_cell_that_cannot_be_planned_stops_the_run_before_it_trains() {
    // The model has no such layers.
    let project = Project::new(
        "name: x\ndefaults: { model: tiny, max_seq_length: 64, max_steps: 1 }\n\
         sweep: { include: [{ stack: candle }, { stack: torch, target_modules: [qkv_proj] }] }\n",
    );
    let output = project.run(&[]).exits(2);
    output.stderr_has("a cell of `stack: torch` cannot be planned; nothing was run");
    assert!(project.records().iter().all(Option::is_none));
}

#[test]
fn claims_ask_their_stacks_for_what_they_have() {
    let claim = |keys: &str| {
        let (spec, _) = BOTH.split_once("claims:").unwrap();
        let spec = format!("{spec}claims:\n- claim: A\n  source: B\n  {keys}\n");
        let mistake = Project::new(&spec).expctl(&["validate", "spec.yaml"]).exits(2);
        mistake.stderr.strip_prefix("error: ").unwrap().to_owned()
    };
    let speed = claim("holds: (means('tokens_per_second') | min) > 1");
    assert!(
        speed.starts_with("claims[0].holds: `tokens_per_second` is measured and not predicted; "),
        "{speed}"
    );
    assert!(speed.contains(" more"), "{speed}");
    for (name, keys) in [
        (
            "misspelt_column_of_planned_cells",
            "cells: { stack: torch }\n  holds: (means('alocated_peak_bytes') | min) > 1",
        ),
        (
            "need_of_measured_cells",
            "cells: { stack: candle }\n  holds: (means('needed_bytes') | min) > 1",
        ),
        (
            "expectation_of_another_stack",
            "cells: { stack: candle }\n  holds: (means('steps') | min) > 1\n  expect: { torch: refuted }",
        ),
        (
            "expectation_of_no_stack",
            "holds: (means('parameter_count') | min) > 1\n  expect: { tensorflow: refuted }",
        ),
        (
            "exceeds_that_is_no_condition",
            "holds: (means('parameter_count') | min) > 1\n  exceeds: (means('parameter_count') | min)",
        ),
        ("untested_with_condition", "holds: 1 > 0\n  untested: no reason"),
        ("untested_with_expectation", "untested: no reason\n  expect: refuted"),
    ] {
        insta::assert_snapshot!(name, claim(keys));
    }
}
