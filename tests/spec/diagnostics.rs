//! Each mistake, and the report that a user sees of it.

use std::path::Path;

use expctl::spec::{self, Overrides};

use crate::{parse, sweep};

/// A spec with these defaults.
fn defaults(keys: &str) -> String {
    format!("name: example\ndefaults:\n  model: tiny\n  {keys}\n")
}

/// Compares the report of what is wrong with `text` with the stored one.
fn shows(name: &str, text: &str, settings: &[&str]) {
    match parse(text.trim_start_matches('\n'), settings) {
        Ok(study) => panic!("{name}: {} cells and no error", study.cells.len()),
        Err(error) => insta::assert_snapshot!(name, error.to_string()),
    }
}

#[test]
fn misspelt_and_misplaced_keys() {
    shows("misspelt_key", &defaults("gradient_checkpoint: full"), &[]);
    shows(
        "misspelt_nested_key",
        &defaults("data: {synthetic: {length: fixed}}"),
        &[],
    );
    shows(
        "key_of_another_program",
        &defaults("per_device_train_batch_size: 4"),
        &[],
    );
    shows("one_key_for_both_betas", &defaults("adam_betas: [0.9, 0.99]"), &[]);
    shows("key_of_a_cell_at_the_top", "name: example\nrank: 4\n", &[]);
    shows(
        "section_of_the_sweep_at_the_top",
        "name: example\ngrid: {rank: [4]}\n",
        &[],
    );
    shows("key_of_a_cell_in_the_sweep", &sweep("rank: [4, 8]"), &[]);
    shows(
        "section_in_the_defaults",
        &defaults("on_oom: {ladder: [halve_batch]}"),
        &[],
    );
    shows("misspelt_axis", &sweep("grid: {rnak: [4, 8]}"), &[]);
    shows("misspelt_section", "nmae: example\n", &[]);
    shows("duplicate_key", &defaults("rank: 4\n  batch_size: 2\n  rank: 8"), &[]);
    shows("missing_name", "defaults: {rank: 4}\n", &[]);
    shows(
        "missing_name_and_more",
        "report: {baseline: {rnak: 4}}\nclaims:\n- {claim: '', source: x, holds: a, measured: {a: {value: '1'}}}\n",
        &[],
    );
    shows("dotted_key", &defaults("torch.use_cache: true"), &[]);
    shows("no_format_by_true", &defaults("dtype: true"), &[]);
}

#[test]
fn values_of_the_wrong_type() {
    shows("wrong_type", &defaults("rank: sixteen"), &[]);
    shows("misspelt_rung", "name: example\non_oom: {ladder: [half_batch]}\n", &[]);
    shows("quoted_number", &defaults("rank: \"16\""), &[]);
    shows("leading_zero", &defaults("rank: 08"), &[]);
    shows("no_is_no_string", &defaults("gradient_checkpointing: no"), &[]);
    shows(
        "blocks_of_no_map",
        &defaults("gradient_checkpointing: {blocks: 2}"),
        &[],
    );
    shows(
        "two_ways_to_choose_blocks",
        &defaults("gradient_checkpointing: {every: 2, first: 2}"),
        &[],
    );
    shows(
        "no_such_block",
        &defaults("gradient_checkpointing: {layers: [3, 30]}"),
        &[],
    );
    shows(
        "a_block_twice",
        &defaults("gradient_checkpointing: {layers: [3, 1, 3]}"),
        &[],
    );
    shows("offload_by_a_word", &defaults("offload: weights"), &[]);
    shows("offload_of_what", &defaults("offload: {gradients: true}"), &[]);
    shows(
        "offload_of_less_than_a_block",
        &defaults("offload: {weights: {ratio: 0.01}}"),
        &[],
    );
    shows("offload_past_all", &defaults("offload: {weights: {ratio: 1.5}}"), &[]);
    shows(
        "offload_of_an_unknown_block",
        &defaults("offload: {weights: [3, 30, 3]}"),
        &[],
    );
    shows(
        "offload_of_nothing",
        &defaults("rank: 0\n  dtype: bfloat16\n  offload: {weights: [0], embeddings: true, checkpoints: true}"),
        &[],
    );
    shows("no_is_no_truth_value", &defaults("bnb_4bit_use_double_quant: no"), &[]);
    shows(
        "no_is_no_variable",
        &defaults("env: {TOKENIZERS_PARALLELISM: false}"),
        &[],
    );
    shows("list_for_a_number", &defaults("rank: [4, 8]"), &[]);
    shows("map_for_a_number", &defaults("rank:\n    value: 4"), &[]);
    shows("unknown_word", &defaults("dtype: bf16"), &[]);
    shows("misspelt_word", &defaults("dtype: bfloat61"), &[]);
    shows("misspelt_allocator", &defaults("allocator: {backend: mimaloc}"), &[]);
    shows(
        "allocator_by_another_name",
        &sweep("grid: {allocator.backend: [glibc, retain]}"),
        &[],
    );
    shows(
        "misspelt_instruction_set",
        &defaults("instruction_set: avx512bf16"),
        &[],
    );
    shows("null_where_none_is_meant", &defaults("gradient_checkpointing: ~"), &[]);
    shows("one_module_without_a_list", &defaults("target_modules: q_proj"), &[]);
    shows("wrong_module", &defaults("target_modules: [q_proj, v_porj]"), &[]);
    shows("size_without_unit", &defaults("device_memory: 2G"), &[]);
    shows("timeout_without_unit", "name: example\nlimits: {timeout: 600}\n", &[]);
    shows("data_without_path", &defaults("data: {column: text}"), &[]);
    shows("value_of_an_axis", &sweep("grid: {rank: [4, eight]}"), &[]);
    shows(
        "value_of_a_zipped_axis",
        &sweep("zip: {data: [sample, {pth: a.txt}]}"),
        &[],
    );
}

#[test]
fn values_that_make_no_sense() {
    shows("out_of_range", &defaults("lora_dropout: 1.5"), &[]);
    shows(
        "steps_and_epochs",
        &defaults("max_steps: 3\n  num_train_epochs: 1"),
        &[],
    );
    shows(
        "misspelt_preset",
        "name: example\ndefaults: {model: smolm2-135m}\n",
        &[],
    );
    shows(
        "hub_model",
        "name: example\ndefaults: {model: hf://HuggingFaceTB/SmolLM2/135M}\n",
        &[],
    );
    shows("pretrained_preset", &defaults("weights: pretrained"), &[]);
    shows(
        "not_on_this_stack",
        &defaults("attn_implementation: flash_attention_2"),
        &[],
    );
    shows("device", &defaults("device: cuda"), &[]);
    shows(
        "budget_on_a_gpu",
        &defaults("device: cuda:0\n  device_memory: 2GiB"),
        &[],
    );
    shows(
        "adapter_key_without_adapter",
        &defaults("dtype: float32\n  rank: 0\n  lora_alpha: 8"),
        &[],
    );
    shows(
        "batch_of_more_than_all",
        &defaults("batch_size: 512\n  gradient_accumulation_steps: 3"),
        &[],
    );
    shows(
        "variable_of_another_allocator",
        &defaults("allocator: {backend: mimalloc, env: {MALLOC_ARENA_MAX: '1'}}"),
        &[],
    );
    shows(
        "variable_of_an_axis_with_the_default_allocator",
        &sweep("grid: {allocator.env.MALLOC_ARENA_MAX: [null, '1']}"),
        &[],
    );
    shows("backend_variable", &defaults("env: {CELL_ALLOCATOR: system}"), &[]);
    shows(
        "instruction_set_on_a_gpu",
        &defaults("device: cuda:0\n  instruction_set: avx2"),
        &[],
    );
    shows("threads_variable", &defaults("env: {RAYON_NUM_THREADS: \"4\"}"), &[]);
    shows("file_of_no_format", &defaults("data: {path: texts.docx}"), &[]);
    shows("file_without_a_path", &defaults("data: texts.txt"), &[]);
    shows("lengths_without_synthetic", &defaults("data: {lengths: fixed}"), &[]);
    shows("budget_without_unit", &defaults("device_memory: 2"), &[]);
    shows("unsafe_name", "name: ../rank sweep\n", &[]);
    shows("template", "name: example\nreport: {template: comparision}\n", &[]);
}

#[test]
fn sweeps_without_cells() {
    shows("empty_grid", &sweep("grid: {}"), &[]);
    shows("empty_axis", &sweep("grid: {rank: []}"), &[]);
    shows("axis_without_list", &sweep("grid: {rank: 4}"), &[]);
    shows(
        "contradictory_zip",
        &sweep("zip:\n  batch_size: [4, 1]\n  gradient_accumulation_steps: [1, 4, 8]"),
        &[],
    );
    shows(
        "everything_excluded",
        &sweep("grid: {rank: [4, 8]}\nexclude: rank > 0"),
        &[],
    );
    shows("axis_twice", &sweep("grid: {rank: [4, 8]}\nzip: {rank: [1, 2]}"), &[]);
    shows(
        "axis_inside_an_axis",
        &sweep("grid:\n  data: [sample]\n  data.path: [a.txt]"),
        &[],
    );
    shows("equal_cells", &sweep("grid: {rank: [4, 8]}\ninclude: [{rank: 8}]"), &[]);
    shows(
        "too_many_cells",
        &sweep(&format!(
            "grid: {{seed: {0:?}, rank: {0:?}}}",
            (1..=400).collect::<Vec<_>>()
        )),
        &[],
    );
    shows(
        "seed_axis_and_repeats",
        &format!("{}repeats: 2\n", sweep("grid: {seed: [0, 1]}")),
        &[],
    );
    shows(
        "baseline_without_cell",
        &format!("{}report: {{baseline: {{rank: 16}}}}\n", sweep("grid: {rank: [4, 8]}")),
        &[],
    );
    let two_axes = sweep("grid: {rank: [4, 8], seed: [1, 2], batch_size: [1, 2]}");
    shows(
        "baseline_with_many_cells",
        &format!("{two_axes}report: {{baseline: {{rank: 4}}}}\n"),
        &[],
    );
}

#[test]
fn combinations_name_what_made_them() {
    shows(
        "combination",
        &sweep("grid:\n  dtype: [bfloat16, int4]\n  rank: [16, 0]"),
        &[],
    );
    shows(
        "combination_with_a_default",
        &sweep("grid:\n  rank: [16, 0]\n  dtype:\n  - float32\n  - int8"),
        &[],
    );
    shows(
        "included_combination",
        &sweep("grid: {rank: [16]}\ninclude: [{rank: 0, dtype: int4}]"),
        &[],
    );
    shows(
        "combination_by_override",
        &sweep("grid: {rank: [16, 0]}"),
        &["dtype=int4"],
    );
}

#[test]
fn published_figures() {
    let figure = |keys: &str| {
        let text = sweep("grid: {rank: [4, 8], batch_size: [1, 2]}");
        format!("{text}published:\n- {{column: allocated_peak_bytes, {keys}}}\n")
    };
    let of = |cell: &str| {
        figure(&format!(
            "value: 5.9, unit: GB, metric: unstated, source: x, cell: {cell}"
        ))
    };
    shows("figure_without_cell", &of("{rank: 16, batch_size: 1}"), &[]);
    shows("figure_with_many_cells", &of("{rank: 4}"), &[]);
    shows("figure_with_misspelt_key", &of("{rnak: 4}"), &[]);
    shows("figure_with_wrong_value", &of("{rank: four}"), &[]);
    let at = |keys: &str| figure(&format!("{keys}, source: x, cell: {{rank: 4, batch_size: 1}}"));
    shows(
        "figure_with_unknown_unit",
        &at("value: 5.9, unit: Gib, metric: unstated"),
        &[],
    );
    shows(
        "figure_with_unit_in_value",
        &at("value: 5.9 GB, unit: GB, metric: unstated"),
        &[],
    );
    shows("figure_without_metric", &at("value: 5.9, unit: GB"), &[]);
    shows(
        "figure_with_misspelt_metric",
        &at("value: 5.9, unit: GB, metric: alocated"),
        &[],
    );
    shows(
        "figure_of_time_with_metric",
        &at("value: 5.9, unit: seconds, metric: process"),
        &[],
    );
    shows("figure_of_a_share_of_nothing", &at("value: 5.9, unit: '%'"), &[]);
    shows(
        "figure_without_source",
        &figure("value: 5.9, unit: GB, metric: unstated"),
        &[],
    );
    let outcomes = "name: example\npublished:\n\
        - {outcome: fits, value: 3, source: x}\n\
        - {outcome: out_of_memory, largest: batch_size, source: x}\n\
        - {outcome: oom, source: x}\n\
        - {largest: rank, column: allocated_peak_bytes, value: 1, unit: GB, metric: allocated, source: x}\n\
        - {value: 1, unit: GB, source: x}\n\
        - {column: allocated_peak_bytes, value: 1, source: x}\n";
    shows("published_outcomes", outcomes, &[]);
    shows("figures_that_are_no_list", "name: example\npublished: {rank: 4}\n", &[]);
}

#[test]
fn expressions() {
    let included = sweep("include: [{rank: 4}]\nexclude: rank == 4");
    shows("exclude_without_combinations", &included, &[]);
    shows(
        "expression_syntax",
        &sweep("grid: {rank: [4, 8]}\nexclude: rank = 4"),
        &[],
    );
    shows(
        "expression_with_unknown_key",
        &sweep("grid: {rank: [4, 8]}\nexclude: [rank == 4, rnk == 8]"),
        &[],
    );
    shows(
        "expression_without_quotes",
        &sweep("grid: {rank: [4, 8]}\nexclude: dtype == int4"),
        &[],
    );
    shows(
        "expression_that_is_no_condition",
        &sweep("grid: {rank: [4, 8]}\nexclude: rank"),
        &[],
    );
    shows(
        "expression_with_undefined",
        &sweep("grid: {rank: [4, 8]}\nexclude: data.path == 'x'"),
        &[],
    );
}

#[test]
fn overrides() {
    shows(
        "set_unknown_key",
        &sweep("grid: {rank: [4, 8]}"),
        &["lerning_rate=1e-4"],
    );
    shows("set_wrong_type", &sweep("grid: {rank: [4, 8]}"), &["batch_size=two"]);
    shows("set_without_value", &sweep("grid: {rank: [4, 8]}"), &["batch_size"]);
    shows(
        "set_inside_an_axis",
        &sweep("grid: {data: [sample, synthetic]}"),
        &["data.path=x.txt"],
    );
    shows(
        "set_the_sweep",
        &sweep("grid: {rank: [4, 8]}"),
        &["sweep.grid.rank=[4]"],
    );
    shows("hidden_by_an_override", &defaults("rank: four"), &["rank=4"]);
    let variables = |name: &str| Overrides::new([(name.to_owned(), "x".to_owned())], Vec::new());
    for (name, variable) in [
        ("unknown_variable", "EXPCTL_GRADIENT_CHECKPOINT"),
        ("variable_wrong_type", "EXPCTL_RANK"),
    ] {
        let error = spec::parse(
            Path::new("experiments/example.yaml"),
            &defaults("rank: 4"),
            &variables(variable),
        );
        insta::assert_snapshot!(name, error.unwrap_err().to_string());
    }
}

#[test]
fn texts_that_are_no_specs() {
    shows("empty", "", &[]);
    shows("only_a_comment", "# nothing yet\n", &[]);
    shows("a_list", "- name: example\n", &[]);
    shows("tab", "name: example\ndefaults:\n\trank: 4\n", &[]);
    shows("unclosed", "name: example\ndefaults: {rank: 4\n", &[]);
    shows("two_documents", "name: example\n---\nname: other\n", &[]);
    shows("tagged", "name: !!str example\n", &[]);
    shows("deep", &format!("name: {}{}\n", "[".repeat(500), "]".repeat(500)), &[]);
    shows("unknown_alias", "name: *nothing\n", &[]);
    shows("recursive_alias", "name: example\ndefaults: &a {env: *a}\n", &[]);
    let laughs: String = (1..12)
        .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", ")))
        .collect();
    shows("alias_bomb", &format!("a0: &a0 x\n{laughs}"), &[]);
    shows("merged_scalar", "name: example\ndefaults: {<<: 4}\n", &[]);
}

#[test]
fn all_mistakes_are_shown_at_once() {
    let text = "
name: two words
limit: {timeout: 1h}
limits: {timeout: 600}
record: {timeline: maybe, steps: 3}
report: {template: comparision, baseline: {rnak: 4}}
repeats: 0
defaults:
  model: smolm2-135m
  rank: '16'
  lora_dropout: 1.5
  learning_rte: 1e-4
  batch_size: 0
  data: {synthetic: {length: fixed}}
sweep:
  grid:
    dtype: [bfloat16, float16, bf16]
    rnak: [4, 8]
    gradient_checkpointing: full
  zip: {max_seq_length: [16, 32], seed: [1, 2, 3]}
  exclude: [dtype = 'float16', optm == 'adamw']
  include: [{seed: x}, 4]
  samples: 4
published:
- {column: a, value: 5 GB, unit: GB, source: '', cell: {rnk: 4}}
- {column: a, unit: s, source: x}
claims:
- {claim: '', source: x, holds: a > b, expect: maybe}
- {claim: x, source: x, holds: a, measured: {2x: {value: '1'}}}
";
    shows(
        "mistakes_in_every_section",
        text,
        &["rnak=4", "batch_size", "limits.timeout=x"],
    );
}

#[test]
fn one_mistake_is_shown_once() {
    shows(
        "one_value_of_an_axis_in_many_cells",
        &sweep("grid:\n  lora_dropout: [0.0, 1.5]\n  seed: [1, 2, 3]\n  batch_size: [1, 2]"),
        &[],
    );
    // Each of these would have more mistakes, if the first was not known.
    for text in [
        defaults("stack: troch\n  attn_implementation: eager\n  gpu: t4"),
        sweep("grid: {rnak: [4, 8]}\ninclude: [{rank: 4}]\nexclude: rank == 4"),
        sweep("grid: {rank: [4, 8]}\nexclude: rank = 4\ninclude: [{rank: 4}]"),
        defaults("dtpye: float32\n  rank: 0"),
        format!(
            "{}report: {{baseline: {{rank: 4}}}}\n",
            sweep("grid: {rank: [four, 8]}")
        ),
        "nmae: example\n".to_owned(),
    ] {
        let error = parse(&text, &[]).unwrap_err();
        assert_eq!(error.count(), 1, "{error}");
    }
}

#[test]
fn more_than_twenty_mistakes_are_counted() {
    let keys: String = (0..50).map(|n| format!("  key_{n}: 1\n")).collect();
    let error = parse(&format!("name: x\ndefaults:\n{keys}"), &[]).unwrap_err();
    let text = error.to_string();
    assert_eq!((error.count(), text.matches(": unknown key").count()), (50, 20));
    assert!(
        text.ends_with("50 mistakes in experiments/example.yaml; 30 more are not shown"),
        "{text}"
    );
}

#[test]
fn samples() {
    shows(
        "sample_of_more_than_all",
        &sweep("grid: {rank: [4, 8], seed: [1, 2, 3]}\nexclude: rank == 8 and seed == 1\nsample: {count: 6}"),
        &[],
    );
    shows(
        "sample_of_nothing",
        &sweep("sample: {count: 6}\ninclude: [{rank: 4}]"),
        &[],
    );
    shows(
        "sample_of_none",
        &sweep("grid: {rank: [4, 8]}\nsample: {count: 0, sed: 1}"),
        &[],
    );
}
