//! The key, name or condition that an error blames.

use std::path::Path;

use expctl::spec::{self, Overrides};

use crate::{parse, sweep};

#[test]
fn a_key_is_not_a_part_of_another_that_begins_like_it() {
    let text = format!(
        "{}defaults: {{optim: adamw_hf}}\n",
        "name: x\nsweep: {grid: {optim_rank: [2, 4]}}\n"
    );
    let error = parse(&text, &[]).unwrap_err().to_string();
    let line = error.lines().find(|line| line.contains("optim: ")).unwrap_or_default();
    assert!(
        line.contains("defaults.optim: ") && !line.contains("optim_rank = "),
        "{error}"
    );
    let text = "name: x\nsweep: {grid: {device: [cpu, 'cuda:0']}}\ndefaults: {device_memory: 1GB}\n";
    let error = parse(text, &[]).unwrap_err().to_string();
    assert!(error.contains("defaults.device_memory: "), "{error}");
}

#[test]
fn the_first_unknown_name_of_a_condition_is_shown() {
    let error = parse(&sweep("grid: {rank: [4, 8]}\nexclude: zzz == 1 and aaa == 2"), &[]).unwrap_err();
    assert!(error.message().contains("`zzz`"), "{error}");
}

#[test]
fn a_sample_of_excluded_combinations_blames_the_condition() {
    let error = parse(
        &sweep("grid: {rank: [4, 8]}\nexclude: rank > 0\nsample: {count: 1}"),
        &[],
    )
    .unwrap_err();
    assert!(error.message().contains("sweep.exclude: all 2"), "{error}");
}

#[test]
fn the_sweep_is_set_by_neither_an_option_nor_a_variable() {
    let variable = ("EXPCTL_SWEEP__GRID__RANK".to_owned(), "[1]".to_owned());
    for overrides in [
        Overrides::new([variable], Vec::new()),
        Overrides::new([], vec!["sweep.grid.rank=[1]".to_owned()]),
    ] {
        let error = spec::parse(Path::new("x.yaml"), "name: x\n", &overrides).unwrap_err();
        assert_eq!(
            error.message(),
            "the sweep itself cannot be set; set a swept key to fix its axis"
        );
    }
}

#[test]
fn a_key_that_is_not_written_is_not_shown_as_one() {
    let text = "name: x\ndefaults:\n  adapter: prompt_tuning\n  prompt_tuning: {init: text}\n";
    let error = parse(text, &[]).unwrap_err().to_string();
    assert!(error.contains("prompt_tuning.init = text"), "{error}");
    assert!(!error.contains("init_text ="), "{error}");
}

#[test]
fn a_variable_of_a_moved_key_names_its_new_place() {
    let variable = ("EXPCTL_USE_CACHE".to_owned(), "true".to_owned());
    let error = spec::parse(
        Path::new("x.yaml"),
        "name: x\n",
        &Overrides::new([variable], Vec::new()),
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the key `use_cache` has moved"), "{text}");
    assert!(text.contains("write `EXPCTL_TORCH__USE_CACHE`"), "{text}");
}

#[test]
fn a_missing_space_behind_a_colon_is_named() {
    for (text, help) in [
        ("defaults: {rank:8, dtype: float32}\n", "a space is missing: `rank: 8`"),
        (
            "defaults: {world_size: 2, distributed: fsdp, fsdp_config: {offload_params:true}}\n",
            "a space is missing: `offload_params: true`",
        ),
        ("sweep: {include: [{rank:8}]}\n", "a space is missing: `rank: 8`"),
    ] {
        let error = parse(&format!("name: x\n{text}"), &[]).unwrap_err().to_string();
        assert!(error.contains(help), "{text}: {error}");
    }
    let error = parse("name: x\ndefaults: {colour:8}\n", &[]).unwrap_err().to_string();
    assert!(!error.contains("a space is missing"), "{error}");
}
