//! The built-in templates and their charts.

use expctl::report::{self, About, Template};
use expctl::results::collect::collect;
use polars_core::prelude::{IntoColumn, NamedFrom, Series};

use crate::{Recorded, SPEC};

#[test]
fn comparison() {
    let recorded = Recorded::new(SPEC);
    let rendered = recorded.render(&Template::named("comparison")).unwrap();
    insta::assert_snapshot!(rendered.markdown);
    let files: Vec<&String> = rendered.files.keys().collect();
    assert_eq!(files, ["rank_sweep-categories.svg", "rank_sweep-growth.svg"]);
}

#[test]
fn method_comparison() {
    let recorded = Recorded::new(SPEC);
    let rendered = recorded.render(&Template::named("method_comparison")).unwrap();
    insta::assert_snapshot!(rendered.markdown);
    assert!(rendered.files.is_empty(), "random weights: no chart of losses");
    assert!(!rendered.markdown.contains('★'), "and no front");
}

#[test]
fn held_out_losses_of_real_weights_rank_methods() {
    let recorded = Recorded::new(SPEC);
    let mut frame = collect(&recorded.dir, &recorded.study, false).unwrap().frame().unwrap();
    let weights = Series::new("weights".into(), vec!["pretrained"; frame.height()]);
    frame.with_column(weights.into_column()).unwrap();
    let template = Template::named("method_comparison");
    let rendered = report::render(&About::new(&recorded.study), &frame, &template, "x").unwrap();
    let rows = |has: &str| rendered.markdown.lines().filter(|line| line.contains(has)).count();
    // Of memory and of file, behind the method, two axes and the status.
    let starred = |at: usize| -> Vec<&str> {
        let lines = rendered.markdown.lines().filter(|line| line.starts_with('|'));
        let is_starred = |line: &&str| line.split('|').nth(at).is_some_and(|cell| cell.contains('★'));
        lines.filter(is_starred).collect()
    };
    let (memory, file) = (starred(5), starred(6));
    assert_eq!((memory.len(), file.len()), (3, 5), "{}", rendered.markdown);
    assert!(memory.iter().all(|line| line.starts_with("| QLoRA ")), "{memory:?}");
    assert_eq!(rows("On the Pareto front of the file's size and held-out loss"), 1);
    assert_eq!(rows("On the Pareto front of peak memory and held-out loss"), 1);
    let charts: Vec<_> = rendered.files.keys().collect();
    assert_eq!(charts, ["x-file-loss.svg", "x-memory-loss.svg"]);
}

#[test]
fn what_classifies_has_its_accuracy() {
    let recorded = Recorded::new(
        "name: labels\ndefaults: { task: sequence_classification, model: distilbert-base, dtype: bfloat16, eval_fraction: 0.1 }\n\
         sweep: { grid: { rank: [0, 32] } }\n",
    );
    for (template, head) in [
        ("comparison", "| Held-out accuracy |"),
        ("method_comparison", "| Eval accuracy |"),
    ] {
        let markdown = recorded.markdown(template);
        let table: Vec<&str> = markdown
            .lines()
            .skip_while(|line| !line.contains(&head[1..head.len() - 1]))
            .collect();
        assert!(
            table[2].contains(" 87.5% |") && table[3].contains(" 90.6% |"),
            "{markdown}"
        );
        for row in &table[1..4] {
            assert_eq!(row.matches('|').count(), table[0].matches('|').count(), "{markdown}");
        }
    }
    let markdown = Recorded::new(SPEC).markdown("comparison");
    assert!(!markdown.contains("accuracy"), "{markdown}");
}

#[test]
fn one_cell_needs_no_axes_and_no_comparison() {
    let recorded = Recorded::new("name: one\ndefaults: { rank: 16, max_steps: 3 }\n");
    let rendered = recorded.render(&Template::named("comparison")).unwrap();
    insta::assert_snapshot!(rendered.markdown);
}

/// A profile, and trainings with and without accumulation.
const TWO_WAYS: &str = "\
name: two_ways
defaults: { batch_size: 4 }
sweep:
  zip: { measure: [profile, epoch, epoch], gradient_accumulation_steps: [1, 1, 4], max_steps: [null, 3, 3] }
";

/// The same, with a profile for each cause by which one of a single sample differs from the training.
const ONE_CAUSE_AT_A_TIME: &str = "\
name: one_cause
defaults: { batch_size: 4 }
sweep:
  include:
    - { measure: profile, batch_size: 1 }
    - { measure: profile }
    - { measure: profile, gradient_accumulation_steps: 4 }
    - { measure: epoch, num_train_epochs: 3 }
    - { measure: epoch, num_train_epochs: 3, gradient_accumulation_steps: 4 }
";

#[test]
fn profiler_vs_epoch() {
    let rendered = Recorded::new(ONE_CAUSE_AT_A_TIME)
        .render(&Template::named("profiler_vs_epoch"))
        .unwrap();
    insta::assert_snapshot!(rendered.markdown);
    assert_eq!(rendered.files.keys().collect::<Vec<_>>(), ["rank_sweep-categories.svg"]);
}

/// With an `adam_epsilon` of 1e-6 the made-up training does what the sentence says.
#[test]
fn what_is_said_of_accumulation_follows_from_the_numbers() {
    let said = |text: &str| {
        let markdown = Recorded::new(text).markdown("profiler_vs_epoch");
        let lines = markdown.lines().filter(|line| line.contains("ccumulation "));
        lines.map(str::to_string).collect::<Vec<_>>().join("\n")
    };
    let keeps_one = said(TWO_WAYS);
    for text in [
        "* Accumulation adds up the gradients of 4 micro-batches in one set: 20.0 MiB at the peak, not 80.0 MiB.",
        "alive\": **false**. At the training's peak gradients take 20.0 MiB, 1.00× what one micro-batch leaves (20.0 MiB); \
         those of 4 would take 80.0 MiB. Micro-batches are added up",
    ] {
        assert!(keeps_one.contains(text), "{keeps_one}");
    }
    let keeps_all = said(&TWO_WAYS.replace("batch_size: 4", "batch_size: 4, adam_epsilon: 1e-6"));
    for text in [
        "* Accumulation keeps the gradients of all 4 micro-batches: 80.0 MiB at the peak.",
        "alive\": **true**. At the training's peak gradients take 80.0 MiB, 4.00× what",
    ] {
        assert!(keeps_all.contains(text), "{keeps_all}");
    }
}

#[test]
fn the_rows_from_a_profile_to_a_training_add_up() {
    let template = "{% for path in paths %}{% for row in path.rows %}{{ row.kind }} {{ row.sum | int }} \
                    {{ row.parts | select('ne', none) | sum | int }} {{ row.causes | join('+') }}\n{% endfor %}{% endfor %}";
    let causes = |text: &str| {
        let recorded = Recorded::new(text);
        let path = recorded.path("sums.md.j2");
        recorded.write(&path, template);
        let markdown = recorded.render(&Template::File(path)).unwrap().markdown;
        let (mut level, mut causes) = (None, Vec::new());
        for line in markdown.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let sum: i64 = words[1].parse().unwrap();
            assert_eq!(words[1], words[2], "the parts of a row: {line}");
            match words[0] {
                "components" => level = Some(sum),
                "peak" => assert_eq!(level, Some(sum), "{markdown}"),
                _ => {
                    level = level.map(|level| level + sum);
                    causes.extend((words[0] == "change").then(|| words[3].to_string()));
                }
            }
        }
        causes
    };
    assert_eq!(causes(TWO_WAYS), ["training", "accumulation"]);
    assert_eq!(causes(ONE_CAUSE_AT_A_TIME), ["micro_batch", "accumulation", "training"]);
    let others_fail = ONE_CAUSE_AT_A_TIME.replace("    - { measure: profile }\n", "");
    assert_eq!(causes(&others_fail), ["micro_batch+accumulation", "training"]);
}

#[test]
fn a_study_without_a_profile_and_a_training_that_match_says_so() {
    let answer = |measures: &str| {
        let text = format!("name: unmatched\nsweep: {{ include: [{measures}] }}\n");
        let markdown = Recorded::new(&text).markdown("profiler_vs_epoch");
        assert!(!markdown.contains("## Why the difference"), "{markdown}");
        assert!(!markdown.contains("## Which number for what"), "{markdown}");
        markdown
            .lines()
            .find(|line| line.starts_with("* "))
            .unwrap()
            .to_string()
    };
    let profile = "{ measure: profile }";
    let training = "{ measure: epoch, learning_rate: 0.5, max_steps: 3 }";
    assert!(answer(profile).starts_with("* There are profiles, but no training"));
    assert!(answer(training).starts_with("* There are trainings, but no profile"));
    assert!(answer(&format!("{profile}, {training}")).starts_with("* No profile and training are equal"));
}

#[test]
fn a_study_that_never_ran_has_a_report() {
    let recorded = Recorded::new("name: none\ndefaults: { dtype: int4, rank: 64, seed: 1 }\n");
    for template in ["comparison", "method_comparison", "profiler_vs_epoch", "claims"] {
        let rendered = recorded.render(&Template::named(template)).unwrap();
        assert!(rendered.markdown.contains("no record yet"), "{}", rendered.markdown);
        assert!(rendered.files.is_empty());
    }
}

#[test]
fn the_spec_names_the_baseline() {
    let text = SPEC.replace("report: {", "report: { baseline: { dtype: int4, rank: 16 },");
    let markdown = Recorded::new(&text).markdown("comparison");
    assert!(markdown.contains("Base: int4 · 16."), "{markdown}");
}

#[test]
fn axes_of_every_kind_are_read_as_written() {
    let recorded = Recorded::new(
        "name: kinds\ndefaults: { allocator: { backend: system } }\nsweep:\n  grid:\n    gradient_checkpointing: [none, {every: 2}]\n    allocator.env.MALLOC_ARENA_MAX: \
         [null, '1']\n  include:\n    - { learning_rate: 1e-3, data: { synthetic: { lengths: [16, 32] } } }\n",
    );
    let list = recorded.expctl(&["list", "results/kinds"]).exits(0);
    insta::assert_snapshot!(list.stdout, @r"
    cell_id       status  gradient_checkpointing  allocator.env.MALLOC_ARENA_MAX  learning_rate  data                                             seed  peak allocated  tokens/s
    6aafd1dee35e  ok      none                    unset                           1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    79178eb252e3  ok      none                    1                               1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    759f7144b063  ok      {every: 2}              unset                           1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    f9d42d66a77c  ok      {every: 2}              1                               1e-4           {synthetic: {lengths: fixed, samples: 1024}}        0  370.0 MiB       1,636
    b673bbc2638f  ok      none                    unset                           1e-3           {synthetic: {lengths: [16, 32], samples: 1024}}     0  370.0 MiB       1,636
    ");
    let rendered = recorded.render(&Template::named("comparison")).unwrap();
    let (_, allocator) = rendered.markdown.split_once("## What the allocator did").unwrap();
    let same = "Page faults 1,234 · Page faults a step 411.";
    assert!(allocator.contains(same), "{allocator}");
}

#[test]
fn charts_say_what_their_points_are() {
    let recorded = Recorded::new(SPEC);
    let template = recorded.path("own.md.j2");
    recorded.write(&template, r#"{{ chart("growth") }} {{ chart("memory_speed") }}"#);
    let rendered = recorded.render(&Template::File(template)).unwrap();
    let series = [
        "dtype bfloat16",
        "dtype int4",
        "Speed (tokens/s)",
        "Peak allocated (MiB)",
    ];
    for (name, texts) in [
        ("rank_sweep-memory-speed.svg", &["rank 4", "rank 64"][..]),
        ("rank_sweep-growth.svg", &["Memory and speed over rank"]),
    ] {
        let chart = &rendered.files[name];
        for text in texts.iter().chain(&series) {
            assert!(chart.contains(text), "{name}: {text}");
        }
        assert!(chart.contains("prefers-color-scheme: dark"));
    }
}

#[test]
fn rank_0_is_no_place_on_the_axis_of_ranks() {
    let grid = "dtype: [bfloat16, float32], rank: [0, 4, 16, 64]";
    let recorded = Recorded::new(&SPEC.replace("dtype: [bfloat16, int4], rank: [4, 16, 64, 256]", grid));
    let template = recorded.path("own.md.j2");
    recorded.write(&template, r#"{{ has_chart("growth") }} {{ chart("memory_speed") }}"#);
    let rendered = recorded.render(&Template::File(template)).unwrap();
    assert!(rendered.markdown.starts_with("False "), "{}", rendered.markdown);
    assert!(
        rendered.files.keys().eq(["rank_sweep-memory-speed.svg"]),
        "{:?}",
        rendered.files.keys()
    );
}
