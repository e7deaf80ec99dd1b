//! Which cells a spec comes to.

use std::path::Path;

use expctl::cell::{AllocatorBackend, InstructionSet, InstructionSetChoice};
use expctl::spec::{self, Overrides};
use expctl::text::to_flow_yaml;

use crate::{parse, study, sweep};

#[test]
fn a_sweep_is_grid_times_zip_without_excluded_with_included() {
    let study = study(
        "
name: rank_sweep
defaults: {model: tiny, dtype: int4}
sweep:
  grid: {rank: [4, 8, 64], dtype: [bfloat16, int4]}
  zip: {batch_size: [4, 1], gradient_accumulation_steps: [1, 4]}
  exclude: rank == 64 and dtype == 'bfloat16'
  include: [{rank: 0, dtype: float32}]
",
    );
    assert_eq!(
        study.axes,
        ["rank", "dtype", "batch_size", "gradient_accumulation_steps"]
    );
    let row = |index: usize| {
        study.cells[index]
            .axes
            .values()
            .map(to_flow_yaml)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(study.cells.len(), 2 * 2 * 2 + 2 + 1);
    assert_eq!(
        [row(0), row(1), row(2)],
        ["4 bfloat16 4 1", "4 bfloat16 1 4", "4 int4 4 1"]
    );
    assert_eq!([row(9), row(10)], ["64 int4 1 4", "0 float32 1 1"]);
}

#[test]
fn repeats_are_cells_with_seeds_of_their_own() {
    let study =
        study("name: x\ndefaults: {seed: 7}\nsweep: {grid: {rank: [4, 8]}, include: [{rank: 1}]}\nrepeats: 3\n");
    let seeds: Vec<u64> = study.cells.iter().map(|planned| planned.cell.seed).collect();
    assert_eq!(seeds, [7, 8, 9, 7, 8, 9, 7, 8, 9]);
    let groups: std::collections::BTreeSet<String> =
        study.cells.iter().map(|planned| planned.cell.group_id()).collect();
    assert_eq!(groups.len(), 3);
}

#[test]
fn a_spec_without_a_sweep_is_one_cell_and_includes_alone_are_all() {
    assert_eq!(study("name: x\n").cells.len(), 1);
    let study = study("name: x\nsweep: {include: [{rank: 4}, {rank: 8, data.synthetic.samples: 16}]}\n");
    assert_eq!(study.cells.len(), 2);
    assert_eq!(study.axes, ["rank", "data.synthetic.samples"]);
}

#[test]
fn the_order_of_keys_and_the_way_they_are_given_do_not_change_an_id() {
    let id = |text: &str, settings: &[&str]| parse(text, settings).unwrap().cells[0].id.clone();
    let written = id(
        "name: x\ndefaults: {rank: 8, learning_rate: 1e-3, env: {A: '1', B: null}}\n",
        &[],
    );
    let reordered = "defaults:\n  env: {B: ~, A: 1}\n  learning_rate: 0.001\n  rank: 8\nrepeats: 1\nname: y\n";
    assert_eq!(id(reordered, &[]), written);
    let swept =
        "name: z\ndefaults: {env: {B: null}, learning_rate: 1.0e-3}\nsweep: {grid: {env.A: ['1'], rank: [8]}}\n";
    assert_eq!(id(swept, &[]), written);
    assert_eq!(
        id(
            "name: x\n",
            &["learning_rate=1e-3", "env.A='1'", "env.B=null", "rank=8"]
        ),
        written
    );
    assert_ne!(id("name: x\ndefaults: {rank: 8}\n", &[]), written);
}

#[test]
fn set_is_above_variables_which_are_above_the_file() {
    let text =
        "name: x\ndefaults: {rank: 1, batch_size: 1, max_seq_length: 16, data: {path: a.txt}}\nlimits: {timeout: 1m}\n";
    let variables = [
        ("EXPCTL_RANK", "2"),
        ("EXPCTL_BATCH_SIZE", "2"),
        ("EXPCTL_LIMITS__TIMEOUT", "2m"),
        ("HOME", "/"),
    ]
    .into_iter()
    .chain([
        ("EXPCTL_INSTRUCTION_SET", "avx2"),
        ("EXPCTL_ALLOCATOR__BACKEND", "system"),
        ("EXPCTL_ALLOCATOR__ENV__MALLOC_ARENA_MAX", "1"),
        ("EXPCTL_DATA__FORMAT", "jsonl"),
    ])
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = ["rank=3", "repeats=2", "data.column=text", "rank=4"]
        .map(str::to_owned)
        .to_vec();
    let study = spec::parse(Path::new("x.yaml"), text, &Overrides::new(variables, settings)).unwrap();
    let cell = &study.cells[0].cell;
    assert_eq!((cell.rank, cell.batch_size, cell.max_seq_length), (4, 2, 16));
    assert_eq!(cell.allocator.env["MALLOC_ARENA_MAX"].as_deref(), Some("1"));
    assert_eq!(cell.backend(), AllocatorBackend::System);
    assert_eq!(cell.instruction_set, InstructionSetChoice::Level(InstructionSet::Avx2));
    assert_eq!(
        to_flow_yaml(&cell.value("data")),
        "{path: a.txt, column: text, format: jsonl}"
    );
    assert_eq!(study.limits.timeout, Some(std::time::Duration::from_secs(120)));
    assert_eq!(study.cells.len(), 2);
}

#[test]
fn an_override_replaces_a_whole_value_and_a_dotted_one_reaches_inside() {
    let text = "name: x\ndefaults: {env: {A: '1', B: '2'}, data: {path: a.txt}, gradient_checkpointing: {every: 2}}\n";
    let value = |setting: &str, key: &str| {
        let study = parse(text, &[setting]).unwrap_or_else(|error| panic!("{error}"));
        to_flow_yaml(&study.cells[0].cell.value(key))
    };
    assert_eq!(value("env={C: '3'}", "env"), "{C: 3}");
    assert_eq!(value("env.A='3'", "env"), "{A: 3, B: 2}");
    assert_eq!(value("data=sample", "data"), "sample");
    assert_eq!(
        value("data={synthetic: {samples: 8}}", "data"),
        "{synthetic: {lengths: fixed, samples: 8}}"
    );
    assert_eq!(value("gradient_checkpointing=full", "gradient_checkpointing"), "full");
    assert_eq!(
        value("gradient_checkpointing.every=4", "gradient_checkpointing"),
        "{every: 4}"
    );
    assert_eq!(value("lora_alpha=", "lora_alpha"), "null");
}

#[test]
fn an_override_of_a_swept_key_fixes_its_axis_and_says_so() {
    let text = sweep(
        "grid: {rank: [4, 8], dtype: [bfloat16, int4]}\ninclude: [{rank: 0, dtype: float32}, {rank: 4, dtype: float32}]",
    );
    let text = format!("{text}report: {{baseline: {{rank: 4, dtype: int4}}}}\n");
    let study = parse(&text, &["rank=2"]).unwrap();
    assert_eq!(study.axes, ["dtype"]);
    assert_eq!(study.cells.len(), 3);
    assert!(study.cells.iter().all(|planned| planned.cell.rank == 2));
    let notes = "--set rank=2 fixes the axis rank; --set rank=2 fixes rank in include[0]; \
        --set rank=2 fixes rank in include[1]; 1 cell merged with an equal one";
    assert_eq!(study.notes.join("; "), notes);
    assert_eq!(
        parse(&text, &["rank=3", "rank=2"]).unwrap().notes,
        study.notes,
        "the last one wins"
    );
    let baseline: Vec<bool> = study.cells.iter().map(|planned| study.is_baseline(planned)).collect();
    assert_eq!(baseline, [false, true, false]);
}

#[test]
fn a_dotted_axis_reaches_inside_a_map_and_null_unsets() {
    let study = study(
        "
name: x
defaults: {allocator: {backend: system, env: {MALLOC_TRIM_THRESHOLD_: '0'}}}
sweep:
  grid:
    allocator.env.MALLOC_ARENA_MAX: ['1', null]
    gradient_checkpointing: [none, {every: 2}]
",
    );
    let variables = |index: usize| to_flow_yaml(&study.cells[index].cell.value("allocator.env"));
    assert_eq!(variables(0), "{MALLOC_ARENA_MAX: 1, MALLOC_TRIM_THRESHOLD_: 0}");
    assert_eq!(variables(3), "{MALLOC_ARENA_MAX: null, MALLOC_TRIM_THRESHOLD_: 0}");
    assert_eq!(study.cells[3].cell.environment()["MALLOC_ARENA_MAX"], None);
}

#[test]
fn what_the_axes_exclude_need_not_make_sense() {
    let text = sweep("grid: {rank: [0, 4], dtype: [bfloat16, int4]}\nexclude: [rank == 0 and dtype == 'int4']");
    assert_eq!(study(&text).cells.len(), 3);
    let text = sweep("grid: {lora_alpha: [null, 64], rank: [4, 8]}\nexclude: lora_alpha > 2 * rank");
    assert_eq!(study(&text).cells.len(), 2);
}

#[test]
fn anchors_and_merge_keys_are_yaml_as_everywhere() {
    let study = study(
        "
name: x
defaults: &base
  model: tiny
  env: {A: '1'}
  allocator: {backend: system, env: &env {MALLOC_B: '1', MALLOC_C: '1'}}
sweep:
  include:
  - <<: *base
    allocator: {backend: system, env: {<<: *env, MALLOC_C: '2', MALLOC_D: '3'}}
",
    )
    .cells[0]
        .cell
        .clone();
    assert_eq!(
        to_flow_yaml(&study.value("allocator.env")),
        "{MALLOC_B: 1, MALLOC_C: 2, MALLOC_D: 3}"
    );
}

#[test]
fn an_expression_that_excludes_nothing_is_noted() {
    let study = study(&sweep(
        "grid: {rank: [4, 8]}\nexclude: [rank == 8, rank > 8 and dtype == 'int4']",
    ));
    assert_eq!(study.cells.len(), 1);
    assert_eq!(study.notes, ["`rank > 8 and dtype == 'int4'` excludes nothing"]);
}

#[test]
fn a_sample_says_nothing_of_what_it_did_not_look_at() {
    let text = |sample: usize| {
        sweep(&format!(
            "grid: {{rank: [4, 8], seed: [1, 2, 3]}}\nexclude: [rank == 8 and seed == 3]\nsample: {{count: {sample}}}"
        ))
    };
    let samples: Vec<_> = (1..6).map(|count| study(&text(count)).notes).collect();
    assert!(samples.iter().all(Vec::is_empty), "{samples:?}");
    let idle = text(6).replace("seed == 3", "seed == 4");
    assert_eq!(study(&idle).notes, ["`rank == 8 and seed == 4` excludes nothing"]);
}

/// The cells of a sweep, each with its values of these keys.
fn values(text: &str, settings: &[&str], keys: &[&str]) -> Vec<String> {
    let study = parse(text, settings).unwrap_or_else(|error| panic!("{error}"));
    let value = |cell: &expctl::spec::StudyCell, key: &&str| to_flow_yaml(&cell.cell.value(key));
    let of = |cell| keys.iter().map(|key| value(cell, key)).collect::<Vec<_>>().join(" ");
    study.cells.iter().map(of).collect()
}

#[test]
fn a_default_need_not_suit_every_cell() {
    let adapters = |defaults: &str, adapters: &str| {
        format!("name: x\ndefaults: {{model: tiny, {defaults}}}\nsweep: {{grid: {{adapter: [{adapters}]}}}}\n")
    };
    let text = adapters("rank: 8", "lora, ia3");
    let keys = ["adapter", "rank"];
    assert_eq!(values(&text, &[], &keys), ["lora 8", "ia3 16"]);
    let alone = study("name: x\ndefaults: {model: tiny, adapter: ia3}\n");
    assert_eq!(
        study(&text).cells[1].id,
        alone.cells[0].id,
        "the same cell as without the default"
    );
    // An override of the axis leaves a default without a cell, and the file is right.
    assert_eq!(values(&text, &["adapter=ia3"], &keys), ["ia3 16"]);
    let error = parse(&text, &["adapter=ia3", "rank=4"]).unwrap_err().to_string();
    assert!(error.contains("rank: has no effect with `adapter: ia3`"), "{error}");
    for (defaults, axis, of_key, expected) in [
        ("upcast: peft", "dtype: [int4, bfloat16]", "upcast", ["peft", "none"]),
        (
            "lora: {use_rslora: true}",
            "adapter: [lora, ln_tuning]",
            "lora.use_rslora",
            ["true", "false"],
        ),
        (
            "lora_alpha: 4, dtype: float32",
            "rank: [8, 0]",
            "lora_alpha",
            ["4.0", "null"],
        ),
        ("optim_rank: 4", "optim: [galore, adamw]", "optim_rank", ["4", "null"]),
        (
            "gpu: t4, dtype: float16",
            "stack: [torch, candle]",
            "gpu",
            ["t4", "null"],
        ),
        (
            "pad_to_multiple_of: 8, max_seq_length: 64",
            "packing: [false, true]",
            "pad_to_multiple_of",
            ["8", "null"],
        ),
        (
            "allocator: {env: {MALLOC_ARENA_MAX: '1'}}",
            "allocator.backend: [system, mimalloc]",
            "allocator.env",
            ["{MALLOC_ARENA_MAX: 1}", "{}"],
        ),
    ] {
        let text = format!("name: x\ndefaults: {{model: tiny, {defaults}}}\nsweep: {{grid: {{{axis}}}}}\n");
        assert_eq!(values(&text, &[], &[of_key]), expected, "{defaults}");
    }
    let error = parse(&adapters("rank: 8", "ia3, ln_tuning"), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("rank: has no effect with `adapter: ia3`"), "{error}");
    assert!(error.contains("the same holds for 1 more cell"), "{error}");
    let excluded = adapters("rank: 8", "lora, ia3").replace("grid:", "exclude: adapter == 'lora', grid:");
    assert!(parse(&excluded, &[]).is_err(), "no cell that is left heeds it");
    // A value of the sweep itself is not left out.
    let swept = "name: x\ndefaults: {model: tiny}\nsweep: {grid: {rank: [4, 8], adapter: [lora, ia3]}}\n";
    assert!(parse(swept, &[]).is_err());
}

#[test]
fn a_part_of_a_default_is_enough_to_heed_it() {
    let head = "name: x\ndefaults: {model: tiny, lora: {init_lora_weights: gaussian}}\n";
    let keys = ["adapter", "lora.init_lora_weights", "lora.use_rslora"];
    let part = format!("{head}sweep: {{include: [{{lora.use_rslora: true}}, {{adapter: ia3}}]}}\n");
    assert_eq!(values(&part, &[], &keys), ["lora gaussian true", "ia3 default false"]);
    let replaced = format!("{head}sweep: {{include: [{{lora.init_lora_weights: default}}, {{adapter: ia3}}]}}\n");
    let error = parse(&replaced, &[]).unwrap_err().to_string();
    assert!(error.contains("has no effect with `adapter: ia3`"), "{error}");
}

#[test]
fn cells_that_leave_a_default_out_are_noted() {
    let text = "name: x\nrepeats: 2\ndefaults: {model: tiny, rank: 8}\nsweep: {grid: {adapter: [lora, ia3]}}\n";
    assert_eq!(
        study(text).notes,
        ["left out where they have no effect: `rank` of 2 of 4 cells"]
    );
}

#[test]
fn cells_that_differ_in_what_they_do_not_heed_are_one() {
    let text = "name: x\ndefaults: {model: smollm2-135m, stack: torch}\nsweep: {grid: {dtype: [float32, int4], \
                torch.bitsandbytes_version: [0.49.2, 0.45.0]}}\n";
    let keys = ["dtype", "torch.bitsandbytes_version"];
    assert_eq!(
        values(text, &[], &keys),
        ["float32 0.49.2", "int4 0.49.2", "int4 0.45.0"]
    );
    assert_eq!(study(text).notes, ["1 cell merged with an equal one"]);
    let same = "name: x\ndefaults: {model: tiny}\nsweep: {include: [{rank: 8}, {rank: 8}]}\n";
    assert!(parse(same, &[]).is_err());
}

#[test]
fn null_in_a_row_leaves_the_key_out() {
    let text = "name: x\ndefaults: {model: tiny, rank: 8, lora: {use_rslora: true}}\n\
                sweep: {include: [{seed: 1}, {rank: null}, {lora.use_rslora: null}]}\n";
    assert_eq!(
        values(text, &[], &["rank", "lora.use_rslora"]),
        ["8 true", "16 true", "8 false"]
    );
    let axis = "name: x\ndefaults: {model: tiny, rank: 8}\nsweep: {grid: {rank: [4, null]}}\n";
    assert_eq!(values(axis, &[], &["rank"]), ["4", "16"]);
}

#[test]
fn a_budget_on_the_host_without_offload_is_noted() {
    let notes = |keys: &str| {
        study(&format!(
            "name: x\ndefaults: {{model: tiny, host_memory: 1GiB{keys}}}\n"
        ))
        .notes
    };
    assert_eq!(
        notes(""),
        ["host_memory: no cell has `offload`, so the budget is for `expctl fit` alone"]
    );
    assert!(notes(", offload: {optimizer: true}").is_empty());
    assert!(notes("}\non_oom: {ladder: [offload]").is_empty());
}

/// 10^8 combinations, of which half are excluded.
fn millions(sample: &str) -> String {
    let list = |count: usize| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    sweep(&format!(
        "grid: {{rank: [{0}], max_seq_length: [{1}], batch_size: [{0}], seed: [{0}]}}\nexclude: rank > 50\n\
         sample: {sample}\ninclude: [{{rank: 500}}]",
        list(100),
        (2..=101).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
    ))
}

#[test]
fn a_sample_is_a_function_of_its_seed() {
    let ids = |sample: &str, settings: &[&str]| -> Vec<String> {
        let study = parse(&millions(sample), settings).unwrap_or_else(|error| panic!("{error}"));
        study.cells.into_iter().map(|cell| cell.id).collect()
    };
    let drawn = ids("{count: 200, seed: 1}", &[]);
    assert_eq!(drawn.len(), 201, "the included cell comes on top");
    assert_eq!(ids("{count: 200, seed: 1}", &[]), drawn);
    assert_ne!(ids("{count: 200, seed: 2}", &[]), drawn);
    assert_eq!(ids("{count: 200}", &[]), ids("{count: 200, seed: 0}", &[]));
    let fewer = ids("{count: 50, seed: 1}", &[]);
    assert!(fewer.iter().all(|id| drawn.contains(id)), "a larger sample only adds");
}

#[test]
fn a_sample_is_in_the_order_of_the_sweep_and_spread_over_it() {
    let study = study(&millions("{count: 200, seed: 1}"));
    let ranks: Vec<usize> = study.cells[..200].iter().map(|cell| cell.cell.rank).collect();
    assert!(
        ranks.is_sorted() && ranks[0] < 5 && ranks[199] > 45 && ranks[199] <= 50,
        "{ranks:?}"
    );
}

#[test]
fn an_override_fixes_an_axis_of_a_sample() {
    let text = sweep("grid: {rank: [4, 8], dtype: [bfloat16, int4], seed: [1, 2, 3]}\nsample: {count: 6, seed: 1}");
    assert_eq!(study(&text).cells.len(), 6);
    let fixed = parse(&text, &["rank=2"]).unwrap();
    assert_eq!(fixed.cells.len(), 6, "there are 6 without the axis");
    assert!(fixed.cells.iter().all(|cell| cell.cell.rank == 2));
    let fewer = parse(&text, &["rank=2", "dtype=int4"]).unwrap();
    assert_eq!(fewer.cells.len(), 3);
    assert!(
        fewer
            .notes
            .iter()
            .any(|note| note.contains("6 combinations are asked for, and there are 3"))
    );
}

/// Asserts that the specs `parts` of our trainer have 200 cells in all, with at least so many values of each key.
fn range_over(parts: &[&str], keys: &[(&str, usize)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/published");
    let mut cells = Vec::new();
    for part in parts {
        let path = folder.join(format!("our_trainer_{part}.yaml"));
        let study = spec::load(&path, &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
        cells.extend(study.cells.into_iter().map(|cell| cell.cell));
    }
    assert_eq!(cells.len(), 200);
    for (key, least) in keys {
        let values: std::collections::BTreeSet<String> =
            cells.iter().map(|cell| to_flow_yaml(&cell.value(key))).collect();
        assert!(values.len() >= *least, "{key}: {values:?}");
    }
}

#[test]
fn the_samples_of_our_trainer_range_over_all_axes() {
    let keys = [
        ("model", 7),
        ("dtype", 5),
        ("rank", 6),
        ("target_modules", 10),
        ("lora_dropout", 2),
        ("bnb_4bit_use_double_quant", 2),
        ("batch_size", 5),
        ("gradient_accumulation_steps", 3),
        ("gradient_checkpointing", 3),
        ("max_seq_length", 8),
        ("padding", 2),
        ("data", 3),
        ("optim", 3),
        ("optim_rank", 3),
        ("measure", 2),
    ];
    range_over(&["tiny", "medium", "large", "full"], &keys);
}

#[test]
fn the_samples_of_techniques_range_over_their_keys() {
    let keys = [
        ("model", 4),
        ("dtype", 5),
        ("rank", 5),
        ("adapter", 2),
        ("adapter_dtype", 2),
        ("upcast", 2),
        ("autocast", 3),
        ("loss_scaling", 3),
        ("bnb_4bit_compute_dtype", 3),
        ("attn_implementation", 2),
        ("loss", 2),
        ("auto_batch_size", 4),
        ("gradient_checkpointing", 7),
        ("offload", 6),
        ("max_tokens_per_batch", 3),
        ("pad_to_multiple_of", 3),
        ("packing", 2),
        ("packing_separator", 2),
        ("packing_attention", 2),
        ("group_by_length", 2),
        ("length_buckets", 2),
        ("longest_first", 2),
        ("optim", 4),
        ("empty_cache_steps", 2),
        ("allocator.backend", 3),
    ];
    range_over(&["techniques", "techniques_full", "techniques_encoders"], &keys);
}
