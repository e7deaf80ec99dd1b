//! The choice of charts: each shows what varies, or says why there is nothing to draw.

use base::text::format::ByteUnit;
use chart::Colour;

use super::testing::study;
use super::view::View;
use super::{allocator, categories, growth, heat_map, scatter, waterfall};
use crate::group::Group;
use crate::labels::Labels;
use crate::speeds::speeds;

fn view<'a>(groups: &'a [Group], axes: &'a [String]) -> View<'a> {
    View::new(groups, axes, ByteUnit::MiB)
}

fn axes(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

const MIB_100: &str = "104857600";
const MIB_200: &str = "209715200";
const MIB_300: &str = "314572800";

/// Measured cells over the allocator, with the same allocated memory.
fn allocators() -> Vec<Group> {
    let row = |backend: &'static str, reserved: &'static str, speed: &'static str| {
        vec![
            ("status", "ok"),
            ("allocator.backend", backend),
            ("allocated_peak_bytes", MIB_100),
            ("allocated_peak_parameter_bytes", MIB_100),
            ("reserved_peak_bytes", reserved),
            ("process_peak_bytes", MIB_300),
            ("tokens_per_second", speed),
        ]
    };
    let rows = [row("system", MIB_200, "100"), row("mimalloc", MIB_300, "120")];
    study(&rows, &["allocator.backend"])
}

#[test]
fn a_constant_quantity_is_not_drawn() {
    let (groups, axes) = (allocators(), axes(&["allocator.backend"]));
    let view = view(&groups, &axes);
    assert_eq!(
        categories::categories(&view).unwrap_err(),
        "every category is the same in all cells, within 0.5 % of the peak"
    );
    let speed = scatter::memory_speed(&view, &speeds(&groups)).unwrap();
    assert_eq!(speed.y_title, "Peak reserved (MiB)");
    assert_eq!(speed.title, "Peak reserved memory against speed");
    let held = allocator::allocator(&view).unwrap();
    let names: Vec<&str> = held.legend.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Peak reserved"], "process memory is the same");
    assert_eq!(held.line, Some((100.0, "allocated in all cells: 100.0 MiB".into())));
}

#[test]
fn what_was_not_measured_is_the_reason() {
    let (groups, axes) = (allocators(), axes(&["allocator.backend"]));
    let loss = scatter::memory_loss(&view(&groups, &axes), "loss_eval");
    assert_eq!(loss.unwrap_err(), "no loss was measured");
    let failed = study(&[vec![("status", "oom")], vec![("status", "failed")]], &[]);
    let view = view(&failed, &[]);
    for reason in [
        scatter::memory_speed(&view, &speeds(&groups)).unwrap_err(),
        categories::categories(&view).unwrap_err(),
        growth::growth(&view).unwrap_err(),
        waterfall::waterfall(&view).unwrap_err(),
        allocator::allocator(&view).unwrap_err(),
    ] {
        assert_eq!(reason, "no cell was measured");
    }
}

#[test]
fn a_plan_has_charts_that_say_so() {
    let row = |rank: &'static str, peak: &'static str| {
        vec![
            ("rank", rank),
            ("predicted_allocated_peak_bytes", peak),
            ("predicted_allocated_peak_adapter_bytes", peak),
        ]
    };
    let groups = study(&[row("4", MIB_100), row("8", MIB_200), row("16", MIB_300)], &["rank"]);
    let axes = axes(&["rank"]);
    let view = view(&groups, &axes);
    let grown = growth::growth(&view).unwrap();
    assert_eq!(grown.title, "Predicted memory over rank");
    assert_eq!(grown.panels, ["Peak allocated (MiB)"], "a plan has no speed");
    let held = categories::categories(&view).unwrap();
    assert!(held.title.starts_with("Predicted ") && held.subtitle.starts_with("Computed from shapes, not measured."));
    assert_eq!(
        scatter::memory_speed(&view, &speeds(&groups)).unwrap_err(),
        "no speed was measured"
    );
}

#[test]
fn predictions_do_not_stand_in_for_cells_that_failed() {
    let row = vec![
        ("status", "oom"),
        ("rank", "4"),
        ("predicted_allocated_peak_bytes", MIB_100),
    ];
    let groups = study(&[row], &["rank"]);
    let axes = axes(&["rank"]);
    assert_eq!(
        categories::categories(&view(&groups, &axes)).unwrap_err(),
        "no cell was measured"
    );
}

#[test]
fn a_waterfall_goes_from_the_first_total_to_the_last() {
    let row = |dtype: &'static str, rank: &'static str, peak: &'static str| {
        vec![
            ("dtype", dtype),
            ("rank", rank),
            ("predicted_allocated_peak_bytes", peak),
        ]
    };
    let rows = [
        row("float32", "8", MIB_300),
        row("bfloat16", "8", MIB_100),
        row("bfloat16", "64", MIB_200),
    ];
    let groups = study(&rows, &["dtype", "rank"]);
    let axes = axes(&["dtype", "rank"]);
    let chart = waterfall::waterfall(&view(&groups, &axes)).unwrap();
    let said: Vec<String> = chart
        .rows
        .iter()
        .map(|row| row.bars[0].parts[0].says.replace('\u{a0}', " "))
        .collect();
    assert_eq!(
        said,
        [
            "start: 300.0 MiB",
            "dtype float32 → bfloat16: 300.0 MiB to 100.0 MiB, −200.0 MiB (−67 %)",
            "rank 8 → 64: 100.0 MiB to 200.0 MiB, +100.0 MiB (+100 %)",
            "end: 200.0 MiB",
        ]
    );
    let places: Vec<(f64, f64)> = chart
        .rows
        .iter()
        .map(|row| (row.bars[0].start, row.bars[0].parts[0].length))
        .collect();
    assert_eq!(places, [(0.0, 300.0), (100.0, 200.0), (100.0, 100.0), (0.0, 200.0)]);
}

#[test]
fn a_waterfall_with_a_gap_says_so() {
    let row = |dtype: &'static str, rank: &'static str| vec![("dtype", dtype), ("rank", rank)];
    let known = |mut row: Vec<(&'static str, &'static str)>, peak| {
        row.push(("predicted_allocated_peak_bytes", peak));
        row
    };
    let rows = [
        known(row("float32", "8"), MIB_300),
        row("bfloat16", "8"),
        known(row("bfloat16", "64"), MIB_200),
    ];
    let groups = study(&rows, &["dtype", "rank"]);
    let axes = axes(&["dtype", "rank"]);
    let reason = waterfall::waterfall(&view(&groups, &axes)).unwrap_err();
    assert_eq!(reason, "peak allocated memory is not known of every cell");
}

#[test]
fn an_axis_that_some_leave_unset_stands_with_its_name() {
    let env = "allocator.env.MALLOC_ARENA_MAX";
    let row = |backend: &'static str, dtype: &'static str, arenas: Option<&'static str>| {
        let mut row = vec![("allocator.backend", backend), ("dtype", dtype)];
        row.extend(arenas.map(|arenas| (env, arenas)));
        row
    };
    let all = axes(&["allocator.backend", "dtype", env]);
    let labels = |rows: &[Vec<(&str, &str)>]| {
        let groups = study(rows, &["allocator.backend", "dtype", env]);
        let groups: Vec<&Group> = groups.iter().collect();
        let labels = Labels::new(&groups, &all);
        let texts: Vec<String> = groups
            .iter()
            .map(|group| labels.of(group).replace('\u{a0}', " "))
            .collect();
        (texts, labels.explained())
    };
    let (texts, explained) = labels(&[row("system", "int4", None), row("retain", "int8", Some("1"))]);
    assert_eq!(texts, ["system · int4", "retain · int8 · MALLOC_ARENA_MAX 1"]);
    assert_eq!(explained, " Labels: backend · dtype.");
    let (texts, explained) = labels(&[row("system", "int4", None), row("retain", "int4", Some("1"))]);
    assert_eq!(texts, ["backend system", "backend retain · MALLOC_ARENA_MAX 1"]);
    assert_eq!(explained, "");
    let (texts, _) = labels(&[row("system", "int4", None), row("system", "int4", Some("1"))]);
    assert_eq!(texts, ["MALLOC_ARENA_MAX unset", "MALLOC_ARENA_MAX 1"]);
}

#[test]
fn rows_of_one_change_after_another_are_named_by_the_change() {
    let row = |dtype: &'static str, rank: &'static str, peak: &'static str| {
        let column = "predicted_allocated_peak_rounding_bytes";
        vec![
            ("dtype", dtype),
            ("rank", rank),
            ("predicted_allocated_peak_bytes", peak),
            (column, peak),
        ]
    };
    let rows = [
        row("float32", "8", MIB_300),
        row("bfloat16", "8", MIB_100),
        row("bfloat16", "64", MIB_200),
    ];
    let groups = study(&rows, &["dtype", "rank"]);
    let axes = axes(&["dtype", "rank"]);
    let chart = categories::categories(&view(&groups, &axes)).unwrap();
    let labels: Vec<String> = chart.rows.iter().map(|row| row.label.replace('\u{a0}', " ")).collect();
    assert_eq!(labels, ["start", "dtype float32 → bfloat16", "rank 8 → 64"]);
    assert_eq!(chart.legend[0].0, "rounding");
}

#[test]
fn noisy_speeds_are_not_drawn() {
    let row = |dtype: &'static str, speed: &'static str, spread: &'static str| {
        vec![
            ("status", "ok"),
            ("dtype", dtype),
            ("allocated_peak_bytes", if dtype == "int4" { MIB_100 } else { MIB_200 }),
            ("tokens_per_second", speed),
            ("step_seconds_spread", spread),
        ]
    };
    let axes = axes(&["dtype"]);
    let drawn = |spread| {
        let groups = study(
            &[row("int4", "100", "0.01"), row("bfloat16", "120", spread)],
            &["dtype"],
        );
        scatter::memory_speed(&view(&groups, &axes), &speeds(&groups)).map(|_| ())
    };
    assert_eq!(drawn("0.05"), Ok(()));
    assert_eq!(
        drawn("0.2").unwrap_err(),
        "Speeds are not to be compared: the steps or the repeats of a configuration differ by up to 20.0%."
    );
}

/// Plans of two models on some numbers of GPUs, each with the share of its budget that it needs.
fn shares(cells: &[(&'static str, &'static str, &'static str, &'static str)]) -> Vec<Group> {
    let row = |&(model, world_size, needed, verdict)| {
        vec![
            ("model", model),
            ("world_size", world_size),
            ("predicted_needed_bytes", needed),
            ("predicted_budget_bytes", MIB_200),
            ("predicted_verdict", verdict),
            ("predicted_allocated_peak_parameter_bytes", "10"),
            ("predicted_allocated_peak_optimizer_state_bytes", "20"),
        ]
    };
    let rows: Vec<_> = cells.iter().map(row).collect();
    study(&rows, &["model", "world_size"])
}

#[test]
fn a_heat_map_has_a_square_for_each_plan() {
    let groups = shares(&[
        ("large", "2", MIB_300, "oversize"),
        ("large", "16", MIB_100, "fits"),
        ("small", "16", MIB_100, "fits"),
    ]);
    let axes = axes(&["model", "world_size"]);
    let map = heat_map::heat_map(&view(&groups, &axes)).unwrap();
    assert_eq!(
        (&map.columns[..], &*map.x_title),
        (&["2".to_owned(), "16".to_owned()][..], "world_size")
    );
    let lines = |at: usize| {
        let squares = map.rows[at].1.iter();
        squares
            .map(|square| square.as_ref().map(|square| square.lines.join(" ")))
            .collect::<Vec<_>>()
    };
    let said = |text: &str| Some(text.to_owned());
    assert_eq!(lines(0), [said("150% states"), said("50% states")]);
    assert_eq!(lines(1), [None, said("50% states")]);
    let colours: Vec<Colour> = map.rows[0].1.iter().flatten().map(|square| square.colour).collect();
    assert_eq!(colours, [Colour::More, Colour::Less]);
}

#[test]
fn a_heat_map_needs_budgets_and_two_axes() {
    let (groups, names) = (allocators(), axes(&["allocator.backend"]));
    let reason = heat_map::heat_map(&view(&groups, &names)).unwrap_err();
    assert_eq!(reason, "no cell has a budget");
    let groups = shares(&[("one", "2", MIB_300, "oversize"), ("one", "4", MIB_100, "fits")]);
    let reason = heat_map::heat_map(&view(&groups, &axes(&["model", "world_size"]))).unwrap_err();
    assert_eq!(reason, "only one axis varies");
}
