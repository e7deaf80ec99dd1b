//! How many GPUs share a training, and what FSDP changes of one.

use crate::common::project::{Output, Project};

fn fit(arguments: &str) -> Output {
    let arguments: Vec<&str> = std::iter::once("fit").chain(arguments.split(' ')).collect();
    Project::empty().expctl(&arguments)
}

/// The values of the rows: as the cell is, with changes that keep the results, and with others.
fn gpus(arguments: &str) -> Vec<Option<u64>> {
    let output = fit(&format!("{arguments} --fewest-gpus --format json"));
    let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    let rows = rows.as_array().unwrap_or_else(|| panic!("{output}"));
    assert!(rows.iter().all(|row| row["key"] == "world_size"), "{output}");
    rows.iter().map(|row| row["value"].as_u64()).collect()
}

#[test]
fn what_fits_on_one_gpu_needs_one() {
    assert_eq!(gpus("--model smollm2-135m --gpu 8xt4"), [Some(1); 3]);
}

/// What is trained is in float32 under autocast: weights, gradients and two moments of 7B are 100 GiB, of which each of 8
/// GPUs holds 13. With several micro-batches a step, which are shared out, each rank keeps whole gradients besides.
#[test]
fn a_model_is_shared_among_as_many_as_it_needs() {
    let full = "--model llama-2-7b --gpu 4090 --set rank=0 --set dtype=bfloat16";
    let of = |accumulation: &str| gpus(&format!("{full} --set gradient_accumulation_steps={accumulation}"));
    let [few, many] = ["1", "16"].map(of);
    assert_eq!(few[0], Some(8));
    assert_eq!(many[0], Some(16));
    assert!(few[1] <= few[0] && few[2] <= few[1], "{few:?}");
    let offloaded = fit(&format!("{full} --fewest-gpus"));
    offloaded.stdout_has("rtx-4090, PyTorch (transformers, PEFT): 16 GPUs are enough, or 2");
}

#[test]
fn a_search_shares_what_each_process_holds() {
    fit("--model llama-2-70b --gpu 8xa100-40gb --set dtype=bfloat16")
        .exits(0)
        .stdout_has("distributed: fsdp")
        .stdout_has("a process holds 1/8 of the model");
    fit("--model llama-2-70b --gpu 2x4090 --keep distributed")
        .exits(3)
        .stdout_has("18.85 GiB must go");
}

#[test]
fn what_cannot_be_shared_is_an_error() {
    fit("--model llama-2-70b --gpu 4090 --fewest-gpus --set adapter=ia3")
        .exits(2)
        .stderr_has("FSDP cannot share it: adapter");
    fit("--model llama-2-7b --fewest-gpus")
        .exits(2)
        .stderr_has("there is no budget");
    fit("--model tiny --stack candle --fewest-gpus --budget 1GiB")
        .exits(2)
        .stderr_has("of our own trainer");
    fit("--model llama-2-7b --gpu t4 --fewest-gpus --largest rank").exits(2);
}
