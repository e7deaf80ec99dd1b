//! Answers of hand-made groups.

use base::text::Unit;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use results::datum::Datum;
use spec::Evidence;

use super::answers::Answers;
use super::sentence::{Sentence, most_important};
use super::testing::{MIB, answers, answers_beside, cell, measured, of_rank, of_speed, with};
use crate::entry::Entry;
use crate::group::{Stat, groups};
use crate::published::ComparedFigure;

#[test]
fn memory_is_bought_with_speed() {
    let cells = |spread| {
        [
            of_speed("a", "none", 100 * MIB, 1000.0, spread),
            of_speed("b", "full", 42 * MIB, 780.0, spread),
            of_speed("c", "half", 120 * MIB, 700.0, spread),
        ]
    };
    let axes = ["gradient_checkpointing"];
    let compared = "Compared with the fastest, `gradient_checkpointing none` with 1,000 tokens/s, `gradient_checkpointing full` \
                    takes 0.42× the allocated memory at 0.78× the speed.";
    let found = measured(&cells(Some(0.01)), &axes);
    assert_eq!(with(&found, "fastest"), compared);
    with(
        &measured(&cells(None), &axes),
        "The spread of these speeds is not known.",
    );
    let noisy = measured(&cells(Some(0.2)), &axes);
    with(
        &noisy,
        "Speeds are not to be compared: the steps or the repeats of a configuration differ by up to 20.0%.",
    );
    assert!(!noisy.iter().any(|text| text.contains("fastest")));
    let alike = [
        of_speed("a", "none", 100 * MIB, 1000.0, Some(0.03)),
        of_speed("b", "full", 42 * MIB, 960.0, Some(0.03)),
    ];
    with(
        &measured(&alike, &axes),
        "`gradient_checkpointing full` is the cheapest in allocated memory and, within noise, as fast as any",
    );
    let best = [
        of_speed("a", "none", 100 * MIB, 900.0, Some(0.0)),
        of_speed("b", "full", 42 * MIB, 960.0, Some(0.0)),
    ];
    with(
        &measured(&best, &axes),
        "`gradient_checkpointing full` is both the cheapest in allocated memory and the fastest",
    );
}

#[test]
fn repeats_that_differ_as_much_are_noise() {
    let at = |id: &str, group: &str, backend: &str, seed: u64, reserved: u64| {
        let mut cell = cell(
            id,
            [
                ("status", "ok".into()),
                ("allocator.backend", backend.into()),
                ("seed", seed.into()),
                ("allocated_peak_bytes", MIB.into()),
                ("reserved_peak_bytes", reserved.into()),
            ],
        );
        cell.set("group_id", group.into());
        cell
    };
    let noise = [
        at("a", "x", "system", 0, 2 * MIB),
        at("b", "x", "system", 1, 4 * MIB),
        at("c", "y", "mimalloc", 0, 3 * MIB),
    ];
    assert!(
        !measured(&noise, &["allocator.backend"])
            .iter()
            .any(|text| text.contains("noise") && text.contains("2.0 MiB"))
    );
    let noise = [noise.to_vec(), vec![at("d", "y", "mimalloc", 1, 4 * MIB)]].concat();
    with(
        &measured(&noise, &["allocator.backend"]),
        "Repeats differ by as much, so this is noise.",
    );
    let single = [at("a", "x", "system", 0, 2 * MIB), at("c", "y", "mimalloc", 0, 3 * MIB)];
    with(&measured(&single, &["allocator.backend"]), "Each is a single run.");
}

#[test]
fn a_failure_has_its_reason_and_its_remedy() {
    let oom = cell(
        "a",
        [
            ("status", "oom".into()),
            ("dtype", "float32".into()),
            ("oom_phase", "forward".into()),
            ("oom_category", "activation".into()),
            ("oom_requested_bytes", (2 * MIB).into()),
            ("oom_allocated_bytes", (7 * MIB).into()),
            ("oom_budget_bytes", (8 * MIB).into()),
            (
                "predicted_fits_with",
                "batch_size: 1, gradient_accumulation_steps: 4".into(),
            ),
            ("predicted_fits_with_bytes", (6 * MIB).into()),
        ],
    );
    let broken = cell(
        "b",
        [
            ("status", "failed".into()),
            ("dtype", "int4".into()),
            ("reason", "no_such file".into()),
        ],
    );
    let waiting = cell("c", [("dtype", "int8".into())]);
    let found = answers(&[oom, broken, waiting], &["dtype"]).comparison;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].text,
        "`float32` ran out of memory in the forward pass: it asked for 2.0 MiB of activations on top of 7.0 MiB, with a budget of 8.0 \
         MiB; it would fit with `batch_size: 1` and `gradient_accumulation_steps: 4` (6.0 MiB predicted). `int4` failed: \
         no\\_such file. 1 cell did not run."
    );
    assert_eq!(found[0].cells, ["a", "b", "c"]);
}

#[test]
fn one_cell_has_a_peak_and_nothing_to_compare() {
    let found = measured(&[of_rank("a", 4, MIB, 0)], &[]);
    assert_eq!(found[0], "The peak of allocated memory is 1.0 MiB.");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn numbers_that_are_not_finite_say_nothing() {
    let at = |id: &str, rank: u64, peak: f64| {
        cell(
            id,
            [
                ("status", "ok".into()),
                ("rank", rank.into()),
                ("allocated_peak_bytes", peak.into()),
            ],
        )
    };
    assert_eq!(
        measured(&[at("a", 4, f64::NAN), at("b", 8, f64::INFINITY)], &["rank"]),
        [""; 0]
    );
    assert_eq!(measured(&[], &["rank"]), [""; 0]);
}

#[test]
fn plans_are_judged_on_their_budgets() {
    let at = |id: &str, model: &str, verdict: &str, needed: u64| {
        let values = [
            ("model", model.into()),
            ("gpu", "t4".into()),
            ("predicted_verdict", verdict.into()),
            ("predicted_needed_bytes", needed.into()),
            ("predicted_budget_bytes", (16 * MIB).into()),
            ("predicted_allocated_peak_bytes", (needed - MIB).into()),
            (
                "predicted_fits_with",
                Datum::from((verdict != "fits").then_some("dtype: int4")),
            ),
        ];
        cell(id, values)
    };
    let cells = [
        at("a", "small", "fits", 8 * MIB),
        at("b", "large", "oversize", 20 * MIB),
    ];
    let found = answers(&cells, &["model"]).plan;
    assert_eq!(
        found[0].text,
        "1 of 2 configurations fits the t4 (16.0 MiB); the tightest is `small` with 8.0 MiB of 16.0 MiB. `large` needs 20.0 \
         MiB of 16.0 MiB; it would fit with `dtype: int4`."
    );
    assert_eq!(
        found[1].text,
        "Cheapest is `small` with a predicted peak of 7.0 MiB of allocated memory; dearest is `large` with 19.0 MiB, 2.71 \
         times as much."
    );
    assert_eq!(
        answers(&cells[..1], &["model"]).plan[0].text,
        "`small` fits the t4 (16.0 MiB): it needs 8.0 MiB."
    );
    assert_eq!(
        answers(&cells[1..], &["model"]).plan[0].text,
        "`large` does not fit the t4 (16.0 MiB): it needs 20.0 MiB; it would fit with `dtype: int4`."
    );
}

#[test]
fn every_sentence_names_cells_that_exist() {
    let mut rng = base::random::stream(0, "cells");
    for _ in 0..300 {
        let cells: Vec<Entry> = (0..rng.random_range(0..9)).map(|i| any_cell(i, &mut rng)).collect();
        let answers = answers(&cells, &["dtype", "rank", "batch_size"]);
        let Answers {
            comparison,
            methods,
            profiles,
            claims,
            plan,
        } = answers;
        for sentence in [comparison, methods, profiles, claims, plan].concat() {
            let exists = |id: &String| cells.iter().any(|cell| cell.text("cell_id") == Some(id));
            assert!(sentence.cells.iter().all(exists), "{sentence:?}");
            for word in ["NaN", "inf", "∞", "—", "..", "  "] {
                assert!(!sentence.text.contains(word), "{sentence:?}");
            }
            assert!(sentence.text.ends_with('.'), "{sentence:?}");
        }
    }
}

/// A cell of any outcome, with any columns missing.
fn any_cell(index: usize, rng: &mut ChaCha8Rng) -> Entry {
    let mut cell = cell(&format!("cell{index}"), []);
    let mut pick = |column: &str, values: &[Datum]| cell.set(column, values[rng.random_range(0..values.len())].clone());
    let numbers = [
        Datum::Null,
        0_u64.into(),
        1000_u64.into(),
        MIB.into(),
        (3 * MIB).into(),
        f64::NAN.into(),
    ];
    let phases = [Datum::Null, "forward".into(), "backward".into()];
    pick(
        "status",
        &[
            "ok".into(),
            "ok".into(),
            "oom".into(),
            "failed".into(),
            "oversize".into(),
            Datum::Null,
        ],
    );
    pick("dtype", &["int4".into(), "bfloat16".into()]);
    pick("rank", &[0_u64.into(), 4_u64.into(), 8_u64.into(), 16_u64.into()]);
    pick("batch_size", &[1_u64.into(), 2_u64.into(), Datum::Null]);
    pick("predicted_verdict", &[Datum::Null, "fits".into(), "oversize".into()]);
    for column in ["allocated_peak_phase", "predicted_binding_phase", "oom_phase"] {
        pick(column, &phases);
    }
    for column in [
        "allocated_peak_bytes",
        "reserved_peak_bytes",
        "allocated_peak_gradient_bytes",
        "allocated_peak_parameter_bytes",
        "tokens_per_second",
        "trainable_count",
        "predicted_allocated_peak_bytes",
        "predicted_needed_bytes",
        "predicted_budget_bytes",
        "predicted_allocated_peak_gradient_bytes",
    ] {
        pick(column, &numbers);
    }
    cell
}

#[test]
fn speeds_are_traded_for_memory_that_differs() {
    let at = |id: &str, backend: &str, reserved: u64, speed: f64| {
        let mut cell = of_speed(id, "none", MIB, speed, Some(0.01));
        cell.set("allocator.backend", backend.into());
        cell.set("reserved_peak_bytes", reserved.into());
        cell
    };
    let cells = [at("a", "system", 2 * MIB, 500.0), at("b", "mimalloc", 4 * MIB, 1000.0)];
    let found = measured(&cells, &["allocator.backend"]);
    with(
        &found,
        "`backend system` takes 0.50× the memory that the allocator holds at 0.50× the speed",
    );
}

#[test]
fn speeds_of_different_tasks_are_not_compared() {
    let at = |id: &str, length: u64, checkpointing: &str, peak: u64, speed: f64| {
        let mut cell = of_speed(id, checkpointing, peak, speed, Some(0.01));
        cell.set("max_seq_length", length.into());
        cell
    };
    let short = [
        at("a", 128, "none", 10 * MIB, 2000.0),
        at("b", 128, "full", 5 * MIB, 1900.0),
    ];
    let long = [
        at("c", 256, "none", 20 * MIB, 1000.0),
        at("d", 256, "full", 8 * MIB, 800.0),
    ];
    let found = measured(&[short, long].concat(), &["gradient_checkpointing", "max_seq_length"]);
    let price = with(&found, "fastest");
    assert!(
        price.contains("max_seq_length 256") && !price.contains("max_seq_length 128"),
        "{price}"
    );
}

#[test]
fn configurations_that_differ_have_names_that_differ() {
    let at = |id: &str, batch: u64, pattern: Option<&str>, fits: &str| {
        let mut cell = cell(
            id,
            [
                ("model", "phi".into()),
                ("dtype", "int4".into()),
                ("rank", 16_u64.into()),
                ("max_seq_length", 4096_u64.into()),
                ("batch_size", batch.into()),
                ("target", pattern.into()),
                ("predicted_verdict", fits.into()),
                ("predicted_needed_bytes", (batch * MIB).into()),
                ("predicted_budget_bytes", (4 * MIB).into()),
                ("predicted_allocated_peak_bytes", (batch * MIB).into()),
            ],
        );
        cell.set("gpu", "t4".into());
        cell
    };
    let cells = [
        at("a", 1, Some("q|v"), "fits"),
        at("b", 8, Some("q|v"), "oversize"),
        at("c", 8, None, "oversize"),
    ];
    let axes = ["model", "dtype", "rank", "max_seq_length", "batch_size", "target"];
    assert_eq!(
        answers(&cells, &axes).plan[0].text,
        "1 of 3 configurations fits the t4 (4.0 MiB); the tightest is `phi, int4, rank 16, max_seq_length 4096, batch_size 1` \
         with 1.0 MiB of 4.0 MiB. `phi, int4, rank 16, max_seq_length 4096, batch_size 8, target q|v` needs 8.0 MiB of 4.0 \
         MiB. `phi, int4, rank 16, max_seq_length 4096, batch_size 8, target unset` needs 8.0 MiB of 4.0 MiB."
    );
}

#[test]
fn speeds_at_equal_memory_are_no_trade() {
    let cells = |spread| {
        [
            of_speed("a", "none", 100 * MIB, 1000.0, Some(spread)),
            of_speed("b", "full", 100 * MIB, 950.0, Some(spread)),
        ]
    };
    let axes = ["gradient_checkpointing"];
    with(
        &measured(&cells(0.0), &axes),
        "Memory is alike; `gradient_checkpointing none` is the fastest with 1,000 tokens/s, and `gradient_checkpointing full` \
         has 0.95× its speed.",
    );
    with(
        &measured(&cells(0.05), &axes),
        "Memory and, within noise, speeds are alike",
    );
}

#[test]
fn the_least_important_sentences_are_left_out() {
    let sentence = |rank: u8| (rank, Sentence::with_ids(rank.to_string(), []));
    let texts: Vec<String> = most_important([3, 0, 2, 0, 1, 2, 0, 1].map(sentence).to_vec(), 6)
        .into_iter()
        .map(|sentence| sentence.text)
        .collect();
    assert_eq!(texts, ["0", "2", "0", "1", "0", "1"]);
}

#[test]
fn a_control_that_is_not_trained_is_in_no_extreme() {
    let at = |id: &str, rate: f64, peak: u64, loss: f64| {
        let values = [
            ("status", "ok".into()),
            ("weights", "pretrained".into()),
            ("learning_rate", rate.into()),
            ("allocated_peak_bytes", peak.into()),
            ("loss_eval", loss.into()),
            ("tokens_per_second", 100.0.into()),
        ];
        cell(id, values)
    };
    let control = at("a", 0.0, MIB, 1.0);
    let cells = [control.clone(), at("b", 0.1, 2 * MIB, 3.0), at("c", 0.2, 3 * MIB, 2.0)];
    let found = measured(&cells, &["learning_rate"]);
    assert!(
        with(&found, "Cheapest").starts_with("Cheapest is `learning_rate 0.1`"),
        "{found:#?}"
    );
    assert!(
        with(&found, "held-out loss").starts_with("`learning_rate 0.2` has the lowest"),
        "{found:#?}"
    );
    // A study of controls alone has nothing else.
    assert_eq!(
        measured(&[control], &["learning_rate"])[0],
        "The peak of allocated memory is 1.0 MiB."
    );
}

#[test]
fn published_figures_are_compared_with_measured_ones() {
    let peak = cell(
        "a",
        [("status", "ok".into()), ("allocated_peak_bytes", (3 * MIB).into())],
    );
    let groups = groups(std::slice::from_ref(&peak), &[]);
    let figure = |column: &str, metric: &'static str, value: &str, bytes: u64| ComparedFigure {
        name: None,
        column: column.into(),
        of: None,
        value: value.into(),
        unit: Unit::MiB,
        decimals: 0,
        is_rounded: false,
        distance: 0.0,
        metric: Some(metric),
        measured_metric: Some("allocated"),
        evidence: Evidence::default(),
        source: "a paper".into(),
        source_number: 1,
        note: None,
        group: groups[0].clone(),
        published: bytes as f64,
        measured: Stat::of(&[(3 * MIB) as f64]),
        predicted: None,
        unpredicted: None,
        difference: None,
        difference_share: None,
        agrees: false,
    };
    let told = |figures: &[ComparedFigure]| {
        let answers = answers_beside(std::slice::from_ref(&peak), &[], figures);
        let texts: Vec<String> = answers.comparison.into_iter().map(|sentence| sentence.text).collect();
        texts.into_iter().find(|text| text.contains("published"))
    };
    let stated = figure("a", "allocated", "2", 2 * MIB);
    let unstated = figure("b", "unstated", "12", 12 * MIB);
    assert_eq!(
        told(&[stated.clone(), unstated]).unwrap(),
        "Measurements differ from 2 published figures by 62.5% on average and by -75.0% at most: `b` of `` (1 figure \
         is of memory that the source does not name)."
    );
    assert_eq!(told(&[figure("c", "reserved", "2", 2 * MIB)]), None);
    let equal = ["a", "b"].map(|column| figure(column, "allocated", "3", 3 * MIB));
    assert_eq!(told(&equal).unwrap(), "Measurements meet all 2 published figures.");
    assert_eq!(
        told(&equal[..1]).unwrap(),
        "The published figure is as measured: `a` of ``."
    );
}
