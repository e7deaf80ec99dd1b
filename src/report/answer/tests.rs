//! Answers of hand-made groups.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::answers::Answers;
use super::evidence::Evidence;
use super::sentence::Sentence;
use crate::report::entry::Entry;
use crate::report::group::groups;
use crate::report::methods::losses;
use crate::results::datum::Datum;
use crate::text::format::ByteUnit;

const MIB: u64 = 1 << 20;

/// A row with these values, of a group that its configuration names.
fn cell<const N: usize>(id: &str, values: [(&str, Datum); N]) -> Entry {
    let text = |name: &str, value: &str| (name.to_owned(), Datum::from(value));
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value));
    [text("cell_id", id), text("group_id", id)]
        .into_iter()
        .chain(values)
        .collect()
}

/// A measured cell of this rank.
fn of_rank(id: &str, rank: u64, peak: u64, gradient: u64) -> Entry {
    cell(
        id,
        [
            ("status", "ok".into()),
            ("rank", rank.into()),
            ("trainable_count", (rank * 1000).into()),
            ("allocated_peak_bytes", peak.into()),
            ("allocated_peak_phase", "backward".into()),
            (
                "allocated_peak_module",
                if gradient > 0 { "layers.0" } else { "lm_head" }.into(),
            ),
            ("allocated_peak_parameter_bytes", (peak - gradient).into()),
            ("allocated_peak_gradient_bytes", gradient.into()),
        ],
    )
}

/// A measured cell with a speed and the spread of its steps.
fn of_speed(id: &str, checkpointing: &str, peak: u64, speed: f64, spread: Option<f64>) -> Entry {
    cell(
        id,
        [
            ("status", "ok".into()),
            ("gradient_checkpointing", checkpointing.into()),
            ("allocated_peak_bytes", peak.into()),
            ("tokens_per_second", speed.into()),
            ("step_seconds_spread", spread.into()),
        ],
    )
}

fn answers(cells: &[Entry], axes: &[&str]) -> Answers {
    let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    let groups = groups(cells, &axes);
    Answers::new(&Evidence {
        groups: &groups,
        axes: &axes,
        published: &[],
        claims: &[],
        losses: &losses(&groups),
        paths: &[],
        twins: &[],
        memory_unit: ByteUnit::MiB,
    })
}

fn measured(cells: &[Entry], axes: &[&str]) -> Vec<String> {
    answers(cells, axes)
        .comparison
        .into_iter()
        .map(|sentence| sentence.text)
        .collect()
}

/// The sentence with these words; fails without one.
fn with<'t>(texts: &'t [String], words: &str) -> &'t str {
    texts
        .iter()
        .find(|text| text.contains(words))
        .unwrap_or_else(|| panic!("no `{words}` in {texts:#?}"))
}

fn ranks() -> [Entry; 4] {
    [
        of_rank("a", 4, 100 * MIB + 48_000, 0),
        of_rank("b", 8, 100 * MIB + 96_000, 0),
        of_rank("c", 16, 110 * MIB, 2 * MIB),
        of_rank("d", 32, 110 * MIB + 256_000, 2 * MIB),
    ]
}

#[test]
fn the_slope_changes_where_the_peak_moves() {
    let found = measured(&ranks(), &["rank"]);
    assert_eq!(
        with(&found, "per trainable parameter"),
        "Peak allocated memory rises by 12 bytes per trainable parameter (`rank` from 4 to 8) and by 16 bytes from 16 to 32; \
         between 8 and 16 the peak moves within the backward pass from `lm_head` to `layers.0`, where 2.0 MiB \
         of gradients are alive."
    );
    assert_eq!(
        with(&found, "is reached"),
        "The peak is reached in the backward pass at `lm_head` (2 of 4) and `layers.0` (2 of 4); the \
         largest part of it is parameters (98.2% to 100.0%)."
    );
}

#[test]
fn a_curve_is_not_called_a_line() {
    let at = |id: &str, length: u64| {
        let (status, peak) = ("ok".into(), (MIB + length * length * 100).into());
        cell(
            id,
            [
                ("status", status),
                ("max_seq_length", length.into()),
                ("allocated_peak_bytes", peak),
            ],
        )
    };
    let three = [at("a", 128), at("b", 256), at("c", 512)];
    assert_eq!(
        with(&measured(&three, &["max_seq_length"]), "per token"),
        "Peak allocated memory rises by 37.5 KiB per token (`max\\_seq\\_length` from 128 to 256) and by 75.0 KiB from 256 to 512."
            .replace("\\_", "_")
    );
    let many: Vec<Entry> = (1..8).map(|n| at(&n.to_string(), n * 128)).collect();
    let found = measured(&many, &["max_seq_length"]);
    assert!(
        with(&found, "by the interval").contains("37.5 to 162.5 KiB per token"),
        "{found:?}"
    );
}

#[test]
fn series_that_read_the_same_share_a_sentence() {
    let with_format = |format: &str, offset: u64| {
        let set = |(i, mut cell): (usize, Entry)| {
            cell.set("dtype", format.into());
            for column in ["cell_id", "group_id"] {
                cell.set(column, format!("{format}{i}").into());
            }
            let peak = cell.number("allocated_peak_bytes").unwrap() as u64;
            cell.set("allocated_peak_bytes", (peak + offset).into());
            cell
        };
        ranks().into_iter().enumerate().map(set).collect::<Vec<_>>()
    };
    let cells = [with_format("int4", 0), with_format("bfloat16", 50 * MIB)].concat();
    let answers = answers(&cells, &["dtype", "rank"]);
    let slopes: Vec<&Sentence> = answers
        .comparison
        .iter()
        .filter(|sentence| sentence.text.contains(" per "))
        .collect();
    assert_eq!(slopes.len(), 1);
    assert_eq!(slopes[0].cells.len(), 8);
    let ids: Vec<&str> = cells.iter().filter_map(|cell| cell.text("cell_id")).collect();
    assert!(slopes[0].cells.iter().all(|id| ids.contains(&id.as_str())));
}

#[test]
fn paired_axes_are_one_axis() {
    let at = |id: &str, batch: u64, steps: u64| {
        let values = [
            ("status", "ok".into()),
            ("batch_size", batch.into()),
            ("gradient_accumulation_steps", steps.into()),
            ("allocated_peak_bytes", (MIB * (10 + batch)).into()),
        ];
        cell(id, values)
    };
    let found = measured(
        &[at("a", 4, 1), at("b", 2, 2), at("c", 1, 4)],
        &["batch_size", "gradient_accumulation_steps"],
    );
    assert_eq!(found.iter().filter(|text| text.contains(" per ")).count(), 1);
    with(
        &found,
        "1.0 MiB per sample (`batch_size` from 1 to 4, `gradient_accumulation_steps` from 4 to 1).",
    );
}

#[test]
fn memory_that_an_axis_does_not_change_is_the_same() {
    let at = |id: &str, steps: u64| {
        cell(
            id,
            [
                ("status", "ok".into()),
                ("max_steps", steps.into()),
                ("allocated_peak_bytes", MIB.into()),
            ],
        )
    };
    let found = measured(&[at("a", 2), at("b", 4)], &["max_steps"]);
    assert_eq!(
        with(&found, "equal"),
        "All peaks of allocated memory are equal, 1.0 MiB."
    );
    assert!(!found.iter().any(|text| text.contains(" per ")), "{found:?}");
}

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
                    takes 0.42× the memory at 0.78× the speed.";
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
        "`gradient_checkpointing full` is the cheapest and, within noise, as fast as any",
    );
    let best = [
        of_speed("a", "none", 100 * MIB, 900.0, Some(0.0)),
        of_speed("b", "full", 42 * MIB, 960.0, Some(0.0)),
    ];
    with(
        &measured(&best, &axes),
        "`gradient_checkpointing full` is both the cheapest and the fastest",
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
    let mut rng = crate::random::stream(0, "cells");
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
    with(&found, "`backend system` takes 0.50× the memory at 0.50× the speed");
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
fn changes_one_after_the_other_say_what_each_is_worth() {
    let row = |id: &str, batch: u64, autocast: &str, setting: &str, peak: u64, reserved: u64| {
        cell(
            id,
            [
                ("batch_size", batch.into()),
                ("autocast", autocast.into()),
                ("allocator.env.X", setting.into()),
                ("predicted_allocated_peak_bytes", (peak * MIB).into()),
                ("predicted_reserved_peak_bytes", (reserved * MIB).into()),
            ],
        )
    };
    let cells = [
        row("a", 4, "none", "0", 800, 900),
        row("b", 1, "none", "0", 500, 600),
        row("c", 1, "bfloat16", "0", 600, 700),
        row("d", 1, "bfloat16", "1", 600, 800),
    ];
    let plan = answers(&cells, &["batch_size", "autocast", "allocator.env.X"]).plan;
    let texts: Vec<String> = plan
        .into_iter()
        .map(|sentence| sentence.text.replace('\u{a0}', " "))
        .collect();
    assert_eq!(
        texts[1],
        "Together the 3 changes take the predicted peak of allocated memory from 800.0 MiB to 600.0 MiB (−25.0%). \
         Most is saved by `batch_size 4 → 1` (300.0 MiB). \
         Not every change saves: `autocast none → bfloat16` adds 100.0 MiB and `X 0 → 1` has the allocator hold \
         100.0 MiB more. The peak is the same after `X 0 → 1`."
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
