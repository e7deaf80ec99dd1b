//! Questions as people type them: the first line answers.

use serde_json::Value;

use crate::common::project::{Output, Project};

fn expctl(arguments: &str) -> Output {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Project::empty().expctl(&arguments)
}

/// The first sentence in one line.
fn answer(output: &Output) -> String {
    let sentence = output.stdout.split("\n\n").next().unwrap_or_default();
    sentence.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_line_says_whose_memory_it_is_and_whether_it_fits() {
    for (arguments, code, begins, has) in [
        (
            "plan --model llama-3.1-8b --gpu 4090 --set max_seq_length=4096",
            0,
            "llama-3.1-8b on rtx-4090, PyTorch",
            "fits, 15.10 GiB of 23.52 GiB",
        ),
        (
            "plan --model llama-3.1-8b --gpu 3060 --set max_seq_length=2048",
            0,
            "llama-3.1-8b on rtx-3060-12gb, PyTorch",
            "with prepare_model_for_kbit_training 14.11 GiB, it does not fit",
        ),
        (
            "plan --model llama-3.1-8b --gpu rtx-4060 --recipe unsloth-comparison --set max_seq_length=512",
            3,
            "llama-3.1-8b on rtx-4060",
            "does not fit",
        ),
        ("plan --model gemma-3-4b --gpu t4", 0, "gemma-3-4b on t4", "fits"),
        (
            "plan --model google/gemma-3-1b-it --gpu t4",
            0,
            "google/gemma-3-1b-it on t4",
            "fits",
        ),
        (
            "fit --model llama-3.1-8b --budget 12GB",
            0,
            "llama-3.1-8b on a GPU, PyTorch",
            "fits",
        ),
        (
            "fit --model llama-3.2-1b --gpu rtx-4080 --set rank=0",
            0,
            "llama-3.2-1b on rtx-4080, PyTorch",
            "fits",
        ),
        (
            "fit --model llama-3.1-70b --smallest-gpu",
            0,
            "llama-3.1-70b on a GPU, PyTorch",
            "",
        ),
        (
            "plan --model tiny --stack candle --budget 6MiB",
            0,
            "tiny by our trainer on the CPU: fits",
            "",
        ),
    ] {
        let output = expctl(arguments);
        let answer = answer(&output);
        assert_eq!(output.code, code, "{arguments}: {output}");
        assert!(
            answer.starts_with(begins) && answer.contains(has),
            "{arguments}: {answer}"
        );
        let longest = output.stdout.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(82), "{arguments}: {output}");
    }
}

#[test]
fn parts_add_up() {
    let output = expctl("plan --model llama-3.2-1b --gpu t4");
    let (_, parts) = output.stdout.split_once("at the peak").unwrap();
    let number = |line: &str| line.split_whitespace().rev().nth(1)?.parse::<f64>().ok();
    let parts = parts.lines().skip(1).take_while(|line| line.starts_with("  "));
    let numbers: Vec<f64> = parts.filter_map(number).collect();
    let (together, parts) = numbers.split_last().unwrap();
    let sum: f64 = parts.iter().sum();
    assert!(parts.len() >= 6 && (sum - together).abs() < 0.05, "{output}");
}

#[test]
fn the_headroom_makes_words() {
    let word = |budget: &str, headroom: &str| {
        let output = expctl(&format!(
            "plan --model tiny --budget {budget} --format json --headroom {headroom}"
        ));
        output.json()[0]["judgement"].as_str().unwrap().to_owned()
    };
    // The context of a GPU that nobody named has a wide range.
    assert_eq!(word("600MiB", "0"), "may not fit");
    assert_eq!(word("1300MiB", "0"), "fits");
    assert_eq!(word("1300MiB", "50%"), "tight");
    assert_eq!(word("100MiB", "0"), "does not fit");
    let nothing_tight = expctl("fit --model qwen2.5-0.5b --gpu t4 --largest batch_size");
    nothing_tight.stdout_has("fits (");
    assert!(!nothing_tight.stdout.contains("tight"), "{nothing_tight}");
}

/// The budget lies within what may be needed.
#[test]
fn what_may_not_fit_is_told_what_would() {
    let plan = expctl("plan --model llama-3.1-8b --gpu 4090 --recipe axolotl --set max_seq_length=4352");
    assert!(answer(&plan).contains("may not fit"), "{plan}");
    plan.stdout_has("it would fit with");
}

#[test]
fn searches_for_limits_answer_in_the_first_line() {
    let answer = |arguments: &str| answer(&expctl(arguments));
    let smallest = answer("fit --model llama-3.1-8b --smallest-gpu");
    assert!(smallest.contains(" is the smallest GPU that is enough"), "{smallest}");
    let largest = answer("fit --model smollm2-135m --gpu t4 --largest batch_size");
    assert!(largest.contains("the largest batch_size that fits is "), "{largest}");
    let none = answer("fit --model llama-3.1-70b --gpu t4 --largest batch_size");
    assert!(none.contains("no batch_size fits as it is"), "{none}");
}

/// What the allocator holds falls between its jumps: a search that ends at the first would find less with more memory.
#[test]
fn more_memory_leaves_no_less_room() {
    let largest = |headroom: &str| {
        let of = "fit --model llama-3.1-8b --gpu a100-40gb --recipe unsloth-comparison --largest max_seq_length --format json";
        let output = expctl(&format!("{of} --headroom {headroom}"));
        let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
        [0, 1].map(|row: usize| rows[row]["value"].as_u64().unwrap_or_else(|| panic!("{output}")))
    };
    let [less, more] = ["5%", "0"].map(largest);
    assert!(
        less.iter().zip(more).all(|(less, more)| *less <= more),
        "{less:?} {more:?}"
    );
}

#[test]
fn every_recipe_is_planned() {
    let recipes = expctl("list --recipes --format json").json();
    for recipe in recipes.as_array().unwrap() {
        let name = recipe["recipe"].as_str().unwrap();
        let output = expctl(&format!(
            "plan --model llama-3.2-1b --gpu a100-80gb --recipe {name} --format json"
        ));
        assert!([0, 3].contains(&output.code), "{name}: {output}");
        assert!(output.json()[0]["predicted_needed_bytes"].is_u64(), "{name}");
        assert!(!recipe["by"].as_str().unwrap().is_empty());
    }
    assert_eq!(recipes.as_array().unwrap()[0]["recipe"], "qlora");
}

#[test]
fn losses_of_other_packages_hold_less_than_the_logits() {
    let loss = |loss: &str| {
        let set =
            format!("plan --model llama-3.2-1b --gpu a100-80gb --format json --set max_seq_length=4096 --set {loss}");
        let output = expctl(&set).exits(0);
        output.json()[0]["predicted_allocated_peak_bytes"].as_u64().unwrap()
    };
    let full = loss("loss=full");
    // Float32 logits and their gradient are 4.2 GB here.
    for other in ["tiled", "liger", "cut_cross_entropy"] {
        assert!(loss(&format!("loss={other}")) + 4_000_000_000 < full, "{other}");
    }
    assert_eq!(loss("torch.trl_version=1.16.0"), loss("loss=tiled"));
    assert_eq!(loss("torch.trl_version=1.14.0"), loss("loss=chunked"));
    assert_eq!(loss("torch.trl_version=1.6.0"), full);
    expctl("plan --model tiny --stack candle --set loss=liger")
        .exits(2)
        .stderr_has("a fused kernel of PyTorch's stack");
}

#[test]
fn a_message_of_pytorch_is_found_in_the_plan() {
    let message = "Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 11.72 GiB. Of the allocated memory 8.02 GiB is \
                   allocated by PyTorch";
    let plan = ["plan", "--model", "llama-3.1-8b", "--set", "max_seq_length=4096"];
    let found = Project::empty()
        .expctl(&[&plan[..], &["--oom", message]].concat())
        .exits(0);
    let answer =
        "the plan has this moment: the logits in float32, 1 × 4,096 tokens over 128,256,\n  in step 2's forward pass";
    assert!(found.stdout.starts_with(answer), "{found}");
    found
        .stdout_has("  logits and loss             0.98 GiB")
        .stdout_has("of 11.72 GiB, the message's");
    // Another setting is named where the plan's own does not agree.
    let wrong = message.replace("8.02", "11.74");
    let project = Project::empty();
    project.write("log.txt", format!("step 1\n{message}\n{wrong}\n"));
    let other = project.expctl(&[&plan[..], &["--oom", "log.txt"]].concat()).exits(0);
    other
        .stdout_has("the plan does not have this moment; with ")
        .stdout_has("the last of 2 messages")
        .stdout_has("upcast=peft: the logits in float32");
    let alone = Project::empty().expctl(&["plan", "--oom", message]).exits(0);
    alone.stdout_has("1.96 GiB may be logits of 1 × 4,096 tokens over 128,256 in float32");
    Project::empty()
        .expctl(&["plan", "--oom", "Killed"])
        .exits(2)
        .stderr_has("Tried to allocate");
    Project::empty()
        .expctl(&["plan", "--model", "tiny", "--stack", "candle", "--oom", message])
        .exits(2)
        .stderr_has("of our trainer");
    Project::empty()
        .expctl(&["plan", "--oom", message, "--gpu", "t4"])
        .exits(2)
        .stderr_has("--gpu goes with a spec or --model");
}

#[test]
fn the_length_of_a_message_is_read_off_its_bytes() {
    // 3,654 tokens × 152,064 × 4 bytes.
    let message = "Tried to allocate 2.07 GiB. 20.33 GiB is allocated by PyTorch";
    let set = "plan --model qwen2.5-7b --gpu rtx-3090 --recipe lora --set rank=8 --set batch_size=1 --set \
               gradient_checkpointing=full --set torch.keep_outputs=next_forward --oom";
    let plan: Vec<&str> = set.split_whitespace().chain([message]).collect();
    let found = Project::empty().expctl(&plan).exits(0);
    found
        .stdout_has(
            "with max_seq_length=3661 it has: the\n  gradient of the logits in float32, 1 × 3,661 tokens over 152,064",
        )
        .stdout_has("max_seq_length from 3645 to 3661")
        .stdout_has("logits of 1 × 3,645 to 3,661 tokens over 152,064 in float32");
    let alone = Project::empty().expctl(&["plan", "--oom", message]).exits(0);
    alone.stdout_has("logits of 1 × 3,645 to 3,661 tokens over 152,064 in float32");
}

#[test]
fn a_batch_is_read_off_a_message_too() {
    let message = "Tried to allocate 5.87 GiB. 20.40 GiB is allocated by PyTorch";
    let plan = "plan --model llama-3.1-8b --gpu a100-40gb --set max_seq_length=4096 --oom";
    let plan: Vec<&str> = plan.split_whitespace().chain([message]).collect();
    let found = Project::empty().expctl(&plan).exits(0);
    found.stdout_has("batch_size=3: the gradient of the logits in float32, 3 × 4,096 tokens over");
}

#[test]
fn a_message_of_another_gpu_says_so() {
    let message = "Tried to allocate 1.96 GiB (GPU 0; 23.65 GiB total capacity; 8.02 GiB already allocated; 1.00 GiB free; 9.00 \
                   GiB reserved in total by PyTorch)";
    let project = Project::new(
        "name: x\ndefaults: { stack: torch, model: llama-3.1-8b, dtype: int4, batch_size: 1, autocast: bfloat16, \
         gradient_checkpointing: full, max_seq_length: 4096 }\nsweep: { grid: { gpu: [rtx-4060, rtx-4090] } }\n",
    );
    let of_both = project.plan(&["--oom", message]).exits(0);
    // The cell of the message's GPU comes first.
    let [first, other] =
        ["llama-3.1-8b on rtx-4090", "llama-3.1-8b on rtx-4060"].map(|subject| of_both.stdout.find(subject).unwrap());
    assert!(first < other, "{of_both}");
    of_both.stdout_has("of 23.65 GiB, the message's");
    let of_small = project.plan(&["--set", "gpu=rtx-4060", "--oom", message]).exits(0);
    of_small
        .stdout_has("gpu: rtx-4060 has 7.62 GiB, and the message's device 23.65 GiB")
        .stdout_has("of 23.65 GiB, the message's");
}

#[test]
fn a_segment_that_is_shared_names_no_tensor() {
    let message = "Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity; 4.73 GiB already allocated; 16.94 MiB free; \
                   5.00 GiB reserved in total by PyTorch)";
    let plan = ["plan", "--model", "llama-2-7b", "--oom", message];
    let found = Project::empty().expctl(&plan).exits(0);
    found
        .stdout_has("the plan has this moment: cuBLAS's workspace, 8,519,680 bytes")
        .stdout_has("20 MiB are the segment that PyTorch's allocator asks for if a tensor has 1 to 10\n  MiB");
    let alone = Project::empty().expctl(&["plan", "--oom", message]).exits(0);
    alone.stdout_has("20.0 MiB name no tensor");
}

#[test]
fn a_gpu_and_a_size_are_two_things() {
    let needed = |arguments: &str| {
        let plan = expctl(&format!("plan --model llama-3.2-1b --format json {arguments}")).exits(0);
        let plan = &plan.json()[0];
        (
            plan["predicted_context_bytes"].clone(),
            plan["predicted_budget_bytes"].clone(),
        )
    };
    // The GPU's context, within the size.
    let (context, budget) = needed("--gpu t4 --budget 8GiB");
    assert_eq!((context, budget), (needed("--gpu t4").0, (8u64 << 30).into()));
    let spec = "name: x\ndefaults: { stack: torch, model: tiny, gpu: a100-80gb, max_seq_length: 64 }\n";
    let project = Project::new(spec);
    let plan = project
        .plan(&["--gpu", "t4", "--budget", "8GiB", "--format", "json"])
        .exits(0);
    assert_eq!(
        plan.json()[0]["predicted_context_bytes"],
        needed("--gpu t4").0,
        "{plan}"
    );
    for (arguments, error) in [
        ("--gpu t4 --budget a100-40gb", "--gpu and --budget name two devices"),
        ("--gpu 8GB --budget 6GB", "--gpu and --budget name two sizes"),
        (
            "--gpu t4 --headroom 16GiB",
            "a headroom of 16.00 GiB leaves nothing of 14.76 GiB",
        ),
        ("--set max_seq_length=9999999", "live tensors come to 15,024 GiB"),
        ("--set r=64", "write `--set rank=64`"),
    ] {
        expctl(&format!("plan --model llama-3.2-1b {arguments}"))
            .exits(2)
            .stderr_has(error);
    }
    // A report can be made again with the same figures.
    project
        .plan(&["--budget", "8GiB", "--headroom", "1GiB", "--report=r.md"])
        .exits(0);
    assert!(project.read("r.md").contains("--headroom=1GiB"));
}

#[test]
fn what_others_do_is_said_where_it_differs() {
    let classifier = expctl("plan --model bert-base --gpu t4").exits(0);
    assert!(!classifier.stdout.contains("TRL"), "{classifier}");
    let uneven = "plan --model llama-3.2-1b --set data.synthetic.lengths=[10,60]";
    let uneven = expctl(uneven).exits(0);
    assert!(!uneven.stdout.contains("twice the length"), "{uneven}");
    // What a GPU does slowly is said of the one that is found, too, and a length beyond the positions.
    expctl("fit --model llama-3.2-1b --smallest-gpu --set dtype=bfloat16")
        .exits(0)
        .stdout_has("bfloat16 is emulated");
    expctl("fit --model llama-2-7b --gpu 4090 --largest max_seq_length")
        .exits(0)
        .stdout_has("the model has 4,096 positions");
}

/// Transformers 4.34 makes a mask for flash_attention_2 and hands it to every checkpoint.
#[test]
fn an_unused_mask_is_kept_by_checkpoints() {
    let peak = |release: &str| {
        let plan = expctl(&format!(
            "plan --model llama-2-7b --format json --set attn_implementation=flash_attention_2 --set max_seq_length=4096 \
             --set torch.transformers_version={release}"
        ));
        plan.exits(0).json()[0]["predicted_allocated_peak_bytes"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(peak("4.34.0") - peak("4.35.0"), 2 * 4096 * 4096);
    expctl("plan --model llama-2-7b --set torch.transformers_version=4.30.2")
        .exits(2)
        .stderr_has("torch.transformers_version: transformers 4.30.2 has no sdpa for Llama");
}

/// Queries, keys, values and outputs are kept of the tokens that are no padding.
#[test]
fn flash_attention_2_takes_the_padding_out() {
    let kept = |attention: &str, lengths: &str| {
        let plan = expctl(&format!(
            "plan --model llama-3.2-1b --recipe lora --format json --set batch_size=2 --set max_seq_length=1024 --set \
             attn_implementation={attention} --set data.synthetic.lengths={lengths}"
        ));
        plan.exits(0).json()[0]["predicted_allocated_peak_activation_bytes"]
            .as_u64()
            .unwrap() as f64
    };
    let flash = |lengths: &str| kept("flash_attention_2", lengths);
    let (full, padded) = (flash("[1024]"), flash("[1024,24]"));
    let (layers, width) = (16.0, 2048.0 + 2.0 * 512.0 + 2048.0);
    let dropped = layers * 1000.0 * width * 2.0;
    assert!(((full - padded) / dropped - 1.0).abs() < 0.05, "{full} {padded}");
    assert!(kept("sdpa", "[1024,24]") >= kept("sdpa", "[1024]"));
}

#[test]
fn gates_read_sarif_and_junit() {
    let spec =
        "name: x\ndefaults: { model: tiny, dtype: float32, max_steps: 1 }\nsweep: { grid: { batch_size: [1, 16] } }\n";
    let project = Project::new(spec);
    let plan = |format: &str| project.expctl(&["plan", "spec.yaml", "--budget", "4MiB", "--format", format]);
    let sarif: Value = serde_json::from_str(&plan("sarif").exits(3).stdout).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["level"]), (1, &"error".into()), "{sarif}");
    assert_eq!(
        results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
        "spec.yaml"
    );
    // What may not fit is a warning; what likely does not is an error, and the exit code. A model's name is no file.
    for (budget, code, level) in [("600MiB", 0, "warning"), ("300MiB", 3, "error")] {
        let arguments = format!("plan --model tiny --budget {budget} --format");
        let sarif = expctl(&format!("{arguments} sarif")).exits(code).json();
        let result = &sarif["runs"][0]["results"][0];
        assert_eq!((&result["level"], &result["locations"]), (&level.into(), &Value::Null));
        let junit = expctl(&format!("{arguments} junit")).exits(code);
        assert_eq!(junit.stdout.contains("failures=\"1\""), code == 3, "{junit}");
        assert!(junit.stdout.contains("<testcase name=\"tiny\""), "{junit}");
    }
    let junit = plan("junit").exits(3).stdout;
    assert!(
        junit.contains("tests=\"2\"") && junit.contains("failures=\"1\""),
        "{junit}"
    );
}
