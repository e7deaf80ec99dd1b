//! What answers say of growth: slopes, their changes, and changes one after the other.

use super::sentence::Sentence;
use super::testing::{MIB, answers, cell, measured, of_rank, with};
use crate::entry::Entry;

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
         between 8 and 16 the peak rises by 9.9 MiB and moves within the backward pass from `lm_head` to `layers.0`, where 2.0 MiB \
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
    assert!(!slopes[0].text.contains("int4"), "{}", slopes[0].text);
    assert_eq!(slopes[0].cells.len(), 8);
    let ids: Vec<&str> = cells.iter().filter_map(|cell| cell.text("cell_id")).collect();
    assert!(slopes[0].cells.iter().all(|id| ids.contains(&id.as_str())));
}

#[test]
fn slopes_over_many_settings_say_nothing() {
    let of = |format: &str, slope: u64| {
        let at = |rank: u64| {
            let mut cell = of_rank(&format!("{format}{rank}"), rank, (100 + slope * rank) * MIB, 0);
            cell.set("dtype", format.into());
            cell
        };
        [at(4), at(8)]
    };
    let two = [of("int4", 1), of("int8", 2)].concat();
    with(&measured(&two, &["dtype", "rank"]), "over `rank`: with `int4` it rises");
    let three = [two, of("float32", 3).to_vec()].concat();
    let found = measured(&three, &["dtype", "rank"]);
    assert!(!found.iter().any(|text| text.contains("rises")), "{found:#?}");
}

#[test]
fn models_of_unlike_vocabularies_have_no_slope() {
    let of = |model: &str, parameters: u64| {
        let values = [
            ("status", "ok".into()),
            ("model", model.into()),
            ("parameter_count", parameters.into()),
            ("allocated_peak_bytes", parameters.into()),
        ];
        cell(model, values)
    };
    let alike = [of("smollm2-135m", 134_515_008), of("smollm2-360m", 361_821_120)];
    with(&measured(&alike, &["model"]), "1 bytes per parameter of the model");
    let unlike = [alike[0].clone(), of("tinyllama-1.1b", 1_100_048_384)];
    let unknown = [alike[0].clone(), of("./mine", 1_100_048_384)];
    for cells in [unlike, unknown] {
        let found = measured(&cells, &["model"]);
        assert!(!found.iter().any(|text| text.contains(" per ")), "{found:#?}");
    }
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
fn accumulation_costs_one_set_of_gradients() {
    let at = |id: &str, dtype: &str, steps: u64, peak: u64| {
        let mut cell = of_rank(id, 4, peak, if steps > 1 { 20 * MIB } else { 0 });
        cell.set("dtype", dtype.into());
        cell.set("gradient_accumulation_steps", steps.into());
        cell
    };
    let int4 = [
        at("a", "int4", 1, 100 * MIB),
        at("b", "int4", 2, 120 * MIB),
        at("c", "int4", 8, 120 * MIB),
    ];
    let axes = ["dtype", "gradient_accumulation_steps"];
    let told = "eak allocated memory rises by 20.0 MiB once (`gradient_accumulation_steps` from 1 to 2, the accumulated \
                gradients) and then stays the same (`gradient_accumulation_steps` from 2 to 8).";
    assert_eq!(with(&measured(&int4, &axes), "once"), format!("P{told}"));
    let alone = at("d", "bfloat16", 1, 300 * MIB);
    let found = measured(&[int4.to_vec(), vec![alone]].concat(), &axes);
    assert_eq!(with(&found, "once"), format!("With `int4`, p{told}"));
}

#[test]
fn a_number_that_is_no_quantity_has_no_slope() {
    let at = |id: &str, steps: u64, peak: u64| {
        cell(
            id,
            [
                ("status", "ok".into()),
                ("empty_cache_steps", steps.into()),
                ("allocated_peak_bytes", peak.into()),
            ],
        )
    };
    let found = measured(
        &[at("a", 0, MIB), at("b", 1, 2 * MIB), at("c", 4, 3 * MIB)],
        &["empty_cache_steps"],
    );
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn peaks_that_all_move_are_told_by_their_sizes() {
    let cells = [of_rank("a", 4, 100 * MIB, 0), of_rank("b", 8, 110 * MIB, 4 * MIB)];
    let found = measured(&cells, &["rank"]);
    assert_eq!(
        with(&found, "rises"),
        "Peak allocated memory rises from 100.0 MiB to 110.0 MiB (`rank` from 4 to 8); between 4 and 8 the peak moves within \
         the backward pass from `lm_head` to `layers.0`, where 4.0 MiB of gradients are alive."
    );
}

#[test]
fn noise_is_not_called_equality() {
    let at = |id: &str, group: &str, dtype: &str, rank: u64, peak: u64| {
        let mut cell = of_rank(id, rank, peak, 0);
        cell.set("group_id", group.into());
        cell.set("dtype", dtype.into());
        cell
    };
    let cells = [
        at("a", "x", "int4", 4, 100 * MIB),
        at("b", "x", "int4", 4, 110 * MIB),
        at("c", "y", "int4", 8, 101 * MIB),
        at("d", "y", "int4", 8, 111 * MIB),
    ];
    let other = [at("e", "z", "bfloat16", 4, 200 * MIB)];
    let found = measured(&[cells.to_vec(), other.to_vec()].concat(), &["dtype", "rank"]);
    assert_eq!(
        with(&found, "repeats"),
        "With `int4`, peak allocated memory differs by no more than its repeats do (`rank` from 4 to 8)."
    );
    let wide = [cells.to_vec(), vec![at("f", "w", "int4", 16, 108 * MIB)]].concat();
    with(
        &measured(&wide, &["rank"]),
        "Repeats differ by as much, so this is noise.",
    );
}
