//! The environment that a cell trains in: variables, allocator, instruction set.

use serde_json::Value;

use crate::QUICK;
use crate::common::project::{Output, Project};

#[test]
fn a_cell_sees_its_environment_and_says_so() {
    let environment = "max_steps: 2, env: { A_NUMBER: \"7\", GONE: null }, allocator: { backend: system, env: { MALLOC_ARENA_MAX: \"1\" } }";
    let project = Project::new(&QUICK.replace("max_steps: 2", environment));
    Output::of(project.run_command(&[]).env("GONE", "here")).exits(0);
    let seen = project.records()[0].clone().unwrap().provenance.environment;
    assert_eq!(seen["A_NUMBER"].as_deref(), Some("7"));
    assert_eq!(seen["MALLOC_ARENA_MAX"].as_deref(), Some("1"));
    assert_eq!(seen["GONE"], None);
}

#[test]
fn every_allocator_and_instruction_set_trains_what_the_others_train() {
    let project = Project::new(
        "
name: machines
defaults: { model: tiny, max_seq_length: 64, max_steps: 4 }
sweep:
  grid: { allocator.backend: [system, retain, mimalloc] }
  include:
    - { instruction_set: portable }
    - { allocator.backend: mimalloc, allocator.env.MIMALLOC_PURGE_DELAY: '0' }
",
    );
    project.run(&[]).exits(0);
    let records = project.records().into_iter().map(Option::unwrap);
    let (records, levels): (Vec<_>, Vec<_>) = records
        .map(|record| (record.measured.unwrap(), record.provenance.instruction_set))
        .unzip();
    for other in &records[1..3] {
        assert_eq!(other.loss_last, records[0].loss_last);
        assert_eq!(other.allocated_peak_bytes, records[0].allocated_peak_bytes);
    }
    let difference = (records[3].loss_last - records[0].loss_last).abs();
    assert!(difference < 1e-2, "{difference} by other instructions");
    assert_eq!(levels[3].as_deref(), Some("portable"));
    let purging = &records[4];
    assert_eq!(
        purging.reserved_peak_bytes, None,
        "mimalloc's counter keeps what it gave back"
    );
    assert_eq!(purging.allocated_peak_bytes, records[0].allocated_peak_bytes);
    for measured in &records[..4] {
        assert!(
            measured.reserved_peak_bytes > measured.allocated_peak_bytes,
            "{measured:?}"
        );
        assert!(measured.page_faults >= measured.page_faults_per_step_median.map(|faults| faults as u64));
    }
    // the second on: what the first mapped is there
    for keeps_pages in &records[1..3] {
        let faults = keeps_pages.page_faults_per_step_median.unwrap();
        assert!(faults < 100.0, "{faults} page faults a step");
    }
    let steps = project.read(project.cells()[0].join("steps.jsonl"));
    let first: Value = serde_json::from_str(steps.lines().next().unwrap()).unwrap();
    assert!(first["page_faults"].as_u64().is_some(), "{first}");
}

#[test]
fn a_cell_by_hand_needs_the_environment_that_a_run_gives() {
    let project = Project::new(QUICK);
    project.run(&[]).exits(0);
    let by_hand = |allocator: &str, threads: Option<&str>| {
        let mut command = project.command(&["cell"]);
        command
            .arg(&project.cells()[0])
            .env_remove("RAYON_NUM_THREADS")
            .envs(threads.map(|threads| ("RAYON_NUM_THREADS", threads)))
            .env_remove("CANDLE_NUM_THREADS")
            .env("CELL_ALLOCATOR", allocator)
            .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        Output::of(&mut command)
    };
    let mistake = by_hand("mimalloc", None).exits(2);
    mistake.stderr_has("CELL_ALLOCATOR must be retain");
    let mistake = by_hand("retain", Some("7")).exits(2);
    mistake.stderr_has("RAYON_NUM_THREADS must be unset in the environment");
    by_hand("retain", None).exits(0);
}

#[test]
fn the_cache_goes_back_to_the_system_every_so_many_steps() {
    let project = Project::new(
        "
name: emptied
defaults: { model: tiny, max_seq_length: 512, batch_size: 16, max_steps: 4 }
record: { log_interval: 2 }
sweep:
  grid: { allocator.backend: [system, mimalloc], empty_cache_steps: [0, 2] }
",
    );
    let output = project.run(&["--progress", "plain"]).exits(0);
    for (step, lines) in [(1, 0), (2, 4), (3, 0), (4, 4)] {
        assert_eq!(
            output.stderr.matches(&format!("  step {step}/4 ")).count(),
            lines,
            "{output}"
        );
    }
    output.stderr_has("KiB allocated, ");
    output.stderr_has("% used\n");
    let measured: Vec<_> = project
        .records()
        .into_iter()
        .map(|record| record.unwrap().measured.unwrap())
        .collect();
    for (pair, cells) in measured.chunks(2).zip(project.cells().chunks(2)) {
        let [kept, emptied] = pair else {
            panic!("two cells of each allocator")
        };
        assert_eq!(kept.loss_last, emptied.loss_last);
        assert_eq!(kept.allocated_peak_bytes, emptied.allocated_peak_bytes);
        assert_eq!(kept.emptied_mean_bytes, None);
        // The activations of a step alone are larger.
        let fell = emptied.emptied_mean_bytes.unwrap();
        assert!(fell > 4 << 20, "{fell}");
        assert!(emptied.page_faults > kept.page_faults);
        let steps = project.read(cells[1].join("steps.jsonl"));
        for (line, is_emptied) in steps.lines().zip([false, true, false, true]) {
            let step: Value = serde_json::from_str(line).unwrap();
            let bytes = |figure: &str| step["empty_cache"][figure].as_u64();
            assert_eq!(bytes("process_after_bytes").is_some(), is_emptied, "{line}");
            assert!(bytes("process_before_bytes") >= bytes("process_after_bytes"), "{line}");
        }
    }
    for measured in &measured {
        let (least, mean) = (
            measured.allocated_min_bytes.unwrap(),
            measured.allocated_mean_bytes.unwrap(),
        );
        assert!(0 < least && least <= mean, "{least} {mean}");
        assert!(
            measured
                .memory_efficiency
                .is_some_and(|share| share > 0.0 && share <= 1.0)
        );
        assert!(
            measured
                .system_used_peak_percent
                .is_some_and(|percent| percent > 0.0 && percent < 100.0)
        );
    }
    project.write(
        "spec.yaml",
        "name: kept\ndefaults: { model: tiny, empty_cache_steps: 1 }\n",
    );
    let refused = project.run(&[]).exits(2);
    refused.stderr_has("the allocator `retain` keeps freed pages on purpose");
}
