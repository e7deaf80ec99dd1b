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
