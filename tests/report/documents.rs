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
    let is_starred = |line: &&str| line.starts_with('|') && line.contains('★');
    let starred: Vec<&str> = rendered.markdown.lines().filter(is_starred).collect();
    assert_eq!(starred.len(), 3, "{}", rendered.markdown);
    assert!(starred.iter().all(|line| line.starts_with("| QLoRA ")), "{starred:?}");
    assert_eq!(rows("On the Pareto front of peak memory and held-out loss"), 1);
    assert_eq!(rendered.files.keys().collect::<Vec<_>>(), ["x-memory-loss.svg"]);
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

#[test]
fn profiler_vs_epoch() {
    let rendered = Recorded::new(TWO_WAYS)
        .render(&Template::named("profiler_vs_epoch"))
        .unwrap();
    insta::assert_snapshot!(rendered.markdown);
    assert!(
        rendered.files.is_empty(),
        "the made-up categories are those of one cell"
    );
}

/// With an `adam_epsilon` of 1e-6 the made-up training does what the sentence says.
#[test]
fn what_is_said_of_accumulation_follows_from_the_numbers() {
    let said = |text: &str| {
        let markdown = Recorded::new(text).markdown("profiler_vs_epoch");
        let lines = markdown.lines().filter(|line| line.contains("\": **"));
        lines.map(str::to_string).collect::<Vec<_>>()
    };
    let starts = |text: &str, starts: [&str; 2]| {
        let said = said(text);
        assert_eq!(said.len(), 2, "{said:?}");
        for (said, start) in said.iter().zip(starts) {
            assert!(said.starts_with(start), "{said}");
        }
    };
    starts(
        TWO_WAYS,
        [
            "- \"Accumulation keeps the gradients of 4 micro-batches alive\": **false**. At the epoch's peak gradients take \
             20.00 MiB, which is 1.00 × what one micro-batch leaves (20.00 MiB); 4 would take 80.00 MiB. Micro-batches are \
             added up",
            "- \"Accumulation raises the peak\": **false**: 0 MiB, 1.00 ×.",
        ],
    );
    starts(
        &TWO_WAYS.replace("batch_size: 4", "batch_size: 4, adam_epsilon: 1e-6"),
        [
            "- \"Accumulation keeps the gradients of 4 micro-batches alive\": **true**. At the epoch's peak gradients take \
             80.00 MiB, which is 4.00 × what one micro-batch leaves (20.00 MiB); 4 would take 80.00 MiB.",
            "- \"Accumulation raises the peak\": **true**: +60.00 MiB,",
        ],
    );
}

#[test]
fn the_parts_between_two_peaks_add_up() {
    let recorded = Recorded::new(TWO_WAYS);
    let template = "{% for pair in profiles + accumulations %}{{ pair.parts | map(attribute='rise') | sum }} \
                    {{ pair.to.allocated_peak_bytes - pair.from.allocated_peak_bytes }}\n{% endfor %}";
    let path = recorded.path("sums.md.j2");
    recorded.write(&path, template);
    let markdown = recorded.render(&Template::File(path)).unwrap().markdown;
    assert_eq!(
        markdown.lines().count(),
        3,
        "two trainings against the profile, and against each other: {markdown}"
    );
    for line in markdown.lines() {
        let (parts, whole) = line.split_once(' ').unwrap();
        assert_eq!(parts.parse::<f64>().unwrap(), whole.parse::<f64>().unwrap());
    }
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
    assert!(markdown.contains("Base: int4 · 16 ("), "{markdown}");
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
    let row = allocator.lines().find(|line| line.contains("unset")).unwrap();
    assert!(row.contains(" 1,234 |                411 |"), "{row}");
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
