use std::path::Path;

use cell::{Cell, Dtype, OutputLifetime, Stack, Upcast};
use options::{ByteSize, InstructionSet, InstructionSetChoice};
use records::prediction::{PAST_HOST, Verdict};
use serde_json::json;
use spec::FitSpec;
use techniques::{Harm, TECHNIQUES};
use torch::gpu::Gpu;

use super::*;
use crate::{Options, PlanError, Planner, advice};

fn planner() -> Planner {
    Planner::new(Path::new(""), Options::default())
}

fn ours() -> Cell {
    Cell {
        model: "tiny".into(),
        dtype: Dtype::Float32,
        rank: 16,
        batch_size: 4,
        max_seq_length: 128,
        max_steps: Some(2),
        instruction_set: InstructionSetChoice::Level(InstructionSet::Avx2),
        ..Cell::default()
    }
}

fn torch() -> Cell {
    let mut cell = Cell {
        model: "qwen2.5-0.5b".into(),
        stack: Stack::Torch,
        upcast: Upcast::Peft,
        batch_size: 4,
        max_seq_length: 1024,
        gpu: Some("rtx-2060-6gb".into()),
        ..Cell::default()
    };
    cell.torch.keep_outputs = OutputLifetime::NextForward;
    cell
}

fn search<'p>(planner: &'p Planner, cell: &Cell, fit: &FitSpec) -> Search<'p> {
    let moves = Moves { fit, worst: Harm::Data };
    Search::new(planner, Space::new(cell, &planner.model(cell).unwrap(), moves).unwrap())
}

fn keys(found: &Found) -> Vec<(&'static str, serde_json::Value)> {
    found.keys().cloned().collect()
}

/// Few values, so that all of them can be tried.
fn few() -> FitSpec {
    vary(&[
        ("batch_size", json!([2, 1])),
        ("gradient_checkpointing", json!(["full"])),
        ("dtype", json!(["bfloat16", "int4"])),
        ("rank", json!([8, 4])),
        ("max_seq_length", json!([96, 64])),
    ])
}

/// Compares the search with every combination. Returns the limits for which it found the least price, and those tried.
fn try_all(cell: &Cell, fit: &FitSpec, count: usize) -> (usize, usize) {
    let planner = planner();
    let search = search(&planner, cell, fit);
    let points: Vec<_> = (0..search.space().combinations() as u64)
        .map(|number| search.space().nth(number))
        .collect();
    assert_eq!(points.len(), count);
    let needed = |point: &Point| Some(planner.predict(&search.space().cell(point)?).ok()?.needed_bytes);
    let all: Vec<_> = points
        .iter()
        .filter_map(|point| Some((point, needed(point)?)))
        .collect();
    let mut sizes: Vec<u64> = all.iter().map(|(_, bytes)| *bytes).collect();
    sizes.sort_unstable();
    assert!(search.likely(sizes[0] - 1).is_none());
    let limits: Vec<u64> = sizes.iter().step_by(5).copied().collect();
    let is_least = |limit: &&u64| {
        let fitting = all.iter().filter(|(_, bytes)| bytes <= *limit);
        let least = fitting.map(|(point, _)| search.space().price(point)).min().unwrap();
        let found = search.likely(**limit).unwrap();
        assert!(
            found.prediction.needed_bytes <= **limit && found.price >= least,
            "{limit}"
        );
        found.price == least
    };
    (limits.iter().filter(is_least).count(), limits.len())
}

fn vary(values: &[(&str, serde_json::Value)]) -> FitSpec {
    let mut fit = FitSpec::default();
    for (key, values) in values {
        fit.vary.insert((*key).to_owned(), values.as_array().cloned());
    }
    fit
}

#[test]
fn the_least_change_is_that_of_all_combinations() {
    let (least, all) = try_all(&ours(), &few(), 3 * 2 * 3 * 3 * 3);
    assert_eq!(least, all);
    let cell = Cell {
        model: "smollm2-135m".into(),
        dtype: Dtype::Bfloat16,
        batch_size: 2,
        max_seq_length: 512,
        ..torch()
    };
    // Axes with steps of several harms, and a loss that saves only where there are many tokens.
    let fit = vary(&[
        ("batch_size", json!([1])),
        ("torch.keep_outputs", json!(["none"])),
        ("loss", json!(["chunked"])),
        ("gradient_checkpointing", json!(["full"])),
        (
            "optim",
            json!(["adamw_torch_fused", "adamw_8bit", "paged_adamw_8bit", "lion"]),
        ),
        ("dtype", json!(["int4"])),
        ("max_seq_length", json!([128])),
    ]);
    let cell = Cell {
        upcast: Upcast::None,
        rank: 64,
        ..cell
    };
    let (least, all) = try_all(&cell, &fit, 2 * 2 * 2 * 2 * 5 * 2 * 2);
    assert_eq!(least, all);
}

#[test]
fn mild_changes_come_before_harsh_ones() {
    let (planner, fit) = (planner(), FitSpec::default());
    let search = search(&planner, &ours(), &fit);
    let front = search.front(None).unwrap();
    assert!(front[0].changes.is_empty());
    for pair in front.windows(2) {
        assert!(pair[1].prediction.needed_bytes < pair[0].prediction.needed_bytes);
        assert!(pair[0].price < pair[1].price);
    }
    // The mildest first, and the harshest at the end alone.
    assert_eq!(front[1].keys().next(), Some(&("batch_size", json!(2))));
    let cut = |found: &Found| found.price.amount(Harm::Data) > 0.0;
    assert!(front.iter().skip_while(|found| !cut(found)).all(cut));
    assert!(!cut(&front[front.len() / 2]) && cut(&front[front.len() - 1]));
}

#[test]
fn what_is_kept_stays_and_what_may_vary_varies() {
    let (planner, cell) = (planner(), ours());
    let keep = FitSpec {
        keep: [
            "batch_size",
            "gradient_checkpointing",
            "offload",
            "autocast",
            "adapter_dtype",
        ]
        .map(Into::into)
        .into(),
        ..FitSpec::default()
    };
    let search_kept = search(&planner, &cell, &keep);
    let given = search_kept.given().unwrap().prediction.needed_bytes;
    let least = search_kept.least(given - 1).unwrap();
    assert_eq!(keys(&least), [("dtype", json!("bfloat16"))]);
    let mut only = FitSpec::default();
    only.vary.insert("rank".into(), Some(vec![json!(3)]));
    let found = search(&planner, &cell, &only).least(given - 1).unwrap();
    assert_eq!(keys(&found), [("rank", json!(3))]);
    assert_eq!(
        found.cell,
        Cell {
            rank: 3,
            ..cell.clone()
        }
    );
    let nothing = FitSpec {
        keep: TECHNIQUES.iter().map(|technique| technique.key.to_owned()).collect(),
        ..FitSpec::default()
    };
    let moves = Moves {
        fit: &nothing,
        worst: Harm::Data,
    };
    let space = Space::new(&cell, &planner.model(&cell).unwrap(), moves);
    assert!(matches!(space, Err(PlanError::NothingToVary)));
}

#[test]
fn other_ways_go_without_what_the_first_uses() {
    let (planner, cell) = (planner(), ours());
    let fit = few();
    let search = search(&planner, &cell, &fit);
    let given = search.given().unwrap().prediction.needed_bytes;
    let least = search.least(given - 1).unwrap();
    assert_eq!(keys(&least)[0].0, "batch_size");
    let others = search.others(&least, given - 1);
    assert_eq!(others.len(), 1);
    assert_eq!(keys(&others[0]), [("gradient_checkpointing", json!("full"))]);
    assert!(least.price < others[0].price);
}

#[test]
fn what_leaves_the_device_must_fit_into_the_host() {
    let planner = planner();
    let fit = vary(&[("offload", json!([{ "optimizer": true }]))]);
    let less = planner.predict(&ours()).unwrap().needed_bytes - 1;
    let within = |host| {
        let host_memory = Some(ByteSize(host));
        let cell = Cell { host_memory, ..ours() };
        search(&planner, &cell, &fit).least(less)
    };
    let found = within(1 << 40).unwrap();
    let host = found.prediction.host_allocated_peak_bytes.unwrap();
    assert_eq!(within(host).unwrap().cell.offload, found.cell.offload);
    assert_eq!(within(host - 1), None);

    // A cell beyond the host's budget fits into no device.
    let beyond = Cell {
        host_memory: Some(ByteSize(host - 1)),
        ..found.cell
    };
    let any = FitSpec::default();
    assert!(!search(&planner, &beyond, &any).given().unwrap().fits(PAST_HOST - 1));
    let advised = advice::predict(&planner, &beyond, &any).unwrap();
    assert!(!advised.fits_with.is_empty(), "{advised:?}");
}

#[test]
fn pytorchs_cells_are_replayed_before_they_fit() {
    let (planner, cell, fit) = (planner(), torch(), FitSpec::default());
    let given = planner.predict(&cell).unwrap();
    assert_eq!(given.verdict, Some(Verdict::Oversize));
    let budget = planner.budget(&cell).unwrap();
    let found = search(&planner, &cell, &fit).least(budget).unwrap();
    assert_eq!(found.prediction, planner.predict(&found.cell).unwrap());
    assert_eq!(found.prediction.verdict, Some(Verdict::Fits));
    assert!(found.prediction.reserved_peak_bytes.is_some());
    // Smaller products are enough; nothing that changes the results is touched.
    assert!(found.price.worst().keeps_results(), "{:?}", found.changes);
}

#[test]
fn the_largest_value_fits_and_the_next_does_not() {
    let (planner, cell, fit) = (planner(), ours(), FitSpec::default());
    let limit = 3 * planner.predict(&cell).unwrap().needed_bytes;
    let needed = |cell: &Cell| planner.predict(cell).unwrap().needed_bytes;
    for key in [Largest::BatchSize, Largest::MaxSeqLength, Largest::Rank] {
        let [most, cheaply] = largest(&planner, &cell, key, limit, Harm::Transfers, &fit)
            .unwrap()
            .map(Option::unwrap);
        assert!(most.found.changes.is_empty());
        assert!(needed(&most.found.cell) <= limit);
        if most.bound != Bound::Memory {
            continue;
        }
        let next = most.found.cell.with(key.key(), &json!(most.value + 1)).unwrap();
        assert!(needed(&next) > limit, "{key:?} {}", most.value);
        assert!(cheaply.value > most.value, "{key:?}");
        assert!(cheaply.found.price.worst().keeps_results() && !cheaply.found.changes.is_empty());
    }
    let of_rank = |cell: &Cell, limit| largest(&planner, cell, Largest::Rank, limit, Harm::Transfers, &fit);
    assert_eq!(of_rank(&cell, 1000).unwrap(), [None, None]);
    let without_rank = cell.with("adapter", &json!("ia3")).unwrap();
    let error = of_rank(&without_rank, limit).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`rank` has no effect with `adapter: ia3`, so no value of it is the largest"
    );
    let loha = cell.with("adapter", &json!("loha")).unwrap();
    let [most, _] = of_rank(&loha, limit).unwrap().map(Option::unwrap);
    let scale = |cell: &Cell| cell.loha.alpha / cell.rank as f64;
    assert_eq!(scale(&most.found.cell), scale(&loha));
}

#[test]
fn a_smaller_gpu_is_enough_with_changes() {
    let (planner, cell, fit) = (planner(), torch(), FitSpec::default());
    let (gpu, found) = smallest_gpu(&planner, &cell, None, &fit).unwrap().unwrap();
    assert!(found.prediction.needed_bytes <= gpu.total_bytes);
    let smaller = Gpu::all().iter().filter(|other| other.total_bytes < gpu.total_bytes);
    for other in smaller {
        let on = Cell {
            gpu: Some(other.name.into()),
            ..cell.clone()
        };
        assert!(
            planner
                .predict(&on)
                .is_ok_and(|on| on.possible_bytes()[1] > other.total_bytes)
        );
    }
    let (less, _) = smallest_gpu(&planner, &cell, Some(Harm::Transfers), &fit)
        .unwrap()
        .unwrap();
    assert!(less.total_bytes < gpu.total_bytes);
    assert!(matches!(
        smallest_gpu(&planner, &ours(), None, &fit),
        Err(PlanError::NoGpu)
    ));
}
