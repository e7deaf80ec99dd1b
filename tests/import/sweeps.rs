//! Sweeps of other programs as axes.

use crate::{AXOLOTL, with};

/// The `sweep` of the spec, and how many cells there are.
fn swept(sweep: &str, words: &[&str]) -> (String, String) {
    let project = with("a.yml", AXOLOTL);
    project.write("sweep.yaml", sweep);
    let mut arguments = vec!["import", "a.yml", "--output", "s.yaml"];
    if !sweep.is_empty() {
        arguments.extend(["--sweep", "sweep.yaml"]);
    }
    if !words.is_empty() {
        arguments.push("--");
        arguments.extend(words);
    }
    project.expctl(&arguments).exits(0);
    let validated = project.expctl(&["validate", "s.yaml"]).exits(0).stdout;
    let spec = project.read("s.yaml");
    let (_, sweep) = spec.split_once("sweep:\n").expect("a sweep");
    let lines = sweep.lines().take_while(|line| line.starts_with(' '));
    let cells = validated.lines().next().unwrap_or_default().to_owned();
    (lines.collect::<Vec<_>>().join("\n"), cells)
}

#[test]
fn axes_of_one_key_are_a_grid() {
    let grid = "  grid:\n    rank: [8, 16]\n    batch_size: [1, 2, 4]";
    let axolotl = swept("lora_r: [8, 16]\nmicro_batch_size: [1, 2, 4]\n", &[]);
    assert_eq!(axolotl, (grid.to_owned(), "a: 6 cells".to_owned()));
    let wandb = "method: grid\nparameters:\n  lora_r: {values: [8, 16]}\n  micro_batch_size: {values: [1, 2, 4]}\n  seed: {value: 7}\n";
    assert_eq!(swept(wandb, &[]), axolotl);
    assert_eq!(
        swept("", &["--multirun", "lora_r=8,16", "micro_batch_size=1,2,4"]),
        axolotl
    );
}

#[test]
fn keys_that_step_together_are_a_zip() {
    let sweep = "sequence_len: [128, 256]\n_:\n  - {lora_r: 4, lora_alpha: 8}\n  - {lora_r: 8, lora_alpha: 32}\n";
    let (keys, cells) = swept(sweep, &[]);
    assert!(keys.contains("grid:\n    max_seq_length: [128, 256]"), "{keys}");
    assert!(
        keys.contains("  zip:\n") && keys.contains("rank: [4, 8]") && keys.contains("lora_alpha: [8, 32]"),
        "{keys}"
    );
    assert_eq!(cells, "a: 4 cells");
}

#[test]
fn what_is_no_product_is_listed() {
    let (keys, cells) = swept("adapter: [lora, ~]\nlora_r: [4, 8]\n", &[]);
    assert!(keys.contains("include:"), "{keys}");
    assert_eq!(cells, "a: 3 cells");
}

#[test]
fn a_distribution_is_a_mistake() {
    let project = with("a.yml", AXOLOTL);
    project.write("sweep.yaml", "parameters:\n  learning_rate: {min: 1e-5, max: 1e-3}\n");
    let output = project.expctl(&["import", "a.yml", "--sweep", "sweep.yaml"]).exits(2);
    output.stderr_has("learning_rate: values that are drawn from a distribution are not planned");
    output.stderr_has("sweep.yaml:2:3");
}
