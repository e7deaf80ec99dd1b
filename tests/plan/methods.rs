//! Plans of PEFT's methods, and of training some weights, against PEFT on fake tensors.

use expctl::arch::Preset;
use expctl::options::{
    Adapter, AdapterMethod, AdapterOptions, Bias, Dtype, Generation, Ia3, LnTuning, Lora, Miss, MissInit, NamePattern,
    Optimizer, PrefixTuning, PromptTuning, TargetModules, Upcast, Vera,
};
use expctl::torch::{Backend, Configuration, MicroBatchShape, Step, trace, trace_parts};
use expctl::trace::{Account, Event, Trace};
use expctl::trace::{Category, Phase};

use super::torch::{FIGURES, GRANULARITY, Row, configuration, figures, rows};

/// The words of a list.
fn words(row: &Row, key: &str) -> Vec<String> {
    let words = row.get(key).split(' ').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

fn pattern(text: &str) -> NamePattern {
    NamePattern::new(text).expect("a pattern")
}

/// The configuration of a step in the columns of `make_methods.py`.
fn with_method(row: &Row) -> Configuration {
    let rank_of = |pair: &String| {
        let (name, rank) = pair.split_once('=').expect("a name and a rank");
        (pattern(name), rank.parse().expect("a rank"))
    };
    let number = |word: &String| word.parse().expect("a block");
    let plain = configuration(row);
    let trainable: Vec<_> = words(row, "trainable").iter().map(|text| pattern(text)).collect();
    let layers: Vec<usize> = words(row, "layers_to_transform").iter().map(number).collect();
    let lora = || Lora {
        rank_pattern: words(row, "rank_pattern").iter().map(rank_of).collect(),
        bias: match row.get("bias") {
            "all" => Bias::All,
            "lora_only" => Bias::LoraOnly,
            _ => Bias::None,
        },
        loraplus_lr_ratio: row.is("loraplus").then_some(16.0),
        ..Lora::default()
    };
    let method = || match Adapter::named(row.get("adapter")).expect("an adapter") {
        Adapter::Lora => AdapterMethod::Lora(lora()),
        Adapter::Dora => AdapterMethod::Dora(lora()),
        Adapter::Ia3 => AdapterMethod::Ia3(Ia3 {
            feedforward_modules: (row.get("target_modules") != "default").then(|| vec!["down_proj".into()]),
        }),
        Adapter::Miss => AdapterMethod::Miss(Miss {
            init_weights: match row.count("mini_r") {
                0 => MissInit::Default,
                _ => MissInit::Mini,
            },
            mini_r: (row.count("mini_r") > 0).then(|| row.count("mini_r") as usize),
            miss_dropout: row.number("lora_dropout"),
        }),
        Adapter::Vera => AdapterMethod::Vera(Vera {
            vera_dropout: row.number("lora_dropout"),
            ..Vera::default()
        }),
        Adapter::PromptTuning => AdapterMethod::PromptTuning(PromptTuning {
            num_virtual_tokens: row.count("virtual_tokens") as usize,
            ..PromptTuning::default()
        }),
        Adapter::PrefixTuning => AdapterMethod::PrefixTuning(PrefixTuning {
            num_virtual_tokens: row.count("virtual_tokens") as usize,
        }),
        Adapter::LnTuning => AdapterMethod::LnTuning(LnTuning {}),
    };
    let is_of_layers = Adapter::named(row.get("adapter")).is_some_and(Adapter::is_of_layers);
    Configuration {
        adapter: plain.adapter.map(|adapter| AdapterOptions {
            method: method(),
            rank: row.count("rank") as usize,
            lora_alpha: 32.0,
            lora_dropout: row.number("lora_dropout"),
            modules_to_save: words(row, "modules_to_save"),
            layers_to_transform: (!layers.is_empty()).then_some(layers),
            target_modules: match (row.get("pattern"), row.get("target_modules")) {
                _ if !is_of_layers => None,
                ("", "default") => None,
                ("", _) => adapter.target_modules.clone(),
                (text, _) => Some(TargetModules::Pattern(NamePattern::whole(text).expect("a pattern"))),
            },
            ..adapter
        }),
        trainable: (!trainable.is_empty()).then_some(trainable),
        bnb_4bit_use_double_quant: false,
        upcast: match row.get("upcast") {
            "peft" => Upcast::Peft,
            _ => Upcast::None,
        },
        ..plain
    }
}

#[test]
fn steps_of_methods_take_what_pytorch_says() {
    let mut wrong = 0;
    let cases = rows(include_str!("../fixtures/torch_abstract/methods.csv"), |row| {
        let configuration = with_method(row);
        let [mut micro] = row.micro("batch", "len");
        micro.padded = row.is("padded");
        let micro = [micro];
        let ours = figures(&trace(&configuration, &[&micro, &micro]));
        for (key, ours) in FIGURES.iter().zip(ours) {
            let error = ours as f64 / row.number(key) - 1.0;
            if error.abs() > 1e-4 {
                println!("{}: {key} {ours}, {:+.4} %", row.values.join(","), 100.0 * error);
                wrong += 1;
            }
        }
    });
    assert_eq!((cases, wrong), (420, 0));
}

/// Trained numbers and bytes of `adapter_model.safetensors`, as `python/torch_abstract/count_saved.py` counts them of
/// SmolLM2 135M with 3 blocks.
#[test]
fn modules_saved_whole_are_counted_as_peft_counts_them() {
    let mut model = Preset::named("smollm2-135m").expect("a preset").config();
    model.num_hidden_layers = 3;
    let counted = |names: &[&str]| {
        let counts = Configuration {
            dtype: Dtype::Bfloat16,
            adapter: Some(AdapterOptions {
                target_modules: Some(TargetModules::Names(vec!["q_proj".into(), "v_proj".into()])),
                modules_to_save: names.iter().copied().map(str::to_owned).collect(),
                ..AdapterOptions::lora(8, 16.0)
            }),
            ..Configuration::new(model.clone())
        }
        .counts();
        (counts.trainable, counts.adapter_file_bytes)
    };
    assert_eq!(counted(&["embed_tokens"]), (28_357_632, Some(56_809_104)));
    assert_eq!(counted(&["embed_tokens", "lm_head"]), (56_669_184, Some(113_432_312)));
    assert_eq!(counted(&["mlp", "model.norm"]), (8_009_280, Some(16_113_504)));
    assert_eq!(counted(&["q_proj"]), (1_013_760, Some(2_065_552)));
}

/// AdamW on a GPU steps a group of parameters at once, and its temporaries are gone before the next group's.
#[test]
fn temporaries_of_groups_are_those_of_pytorch() {
    let cases = rows(include_str!("../fixtures/torch_abstract/foreach.csv"), |row| {
        let configuration = Configuration {
            backend: Backend::Cuda,
            ..with_method(row)
        };
        let micro = row.micro("batch", "len");
        let account = Account::of(&trace(&configuration, &[&micro, &micro]), GRANULARITY, 2);
        let ours = account.in_phase[Phase::Optimizer] - account.after_steps.bytes();
        assert_eq!(ours.to_string(), row.get("temporaries"), "{}", row.values.join(","));
    });
    assert_eq!(cases, 14);
}

/// The most that is alive while the model generates, weights included, within 0.05 %: a few copies of ids and masks are left
/// out. SGD has no state, so nothing else stays of the step before.
#[test]
fn generation_takes_what_pytorch_says() {
    let mut wrong = 0;
    let cases = rows(include_str!("../fixtures/torch_abstract/generation.csv"), |row| {
        let configuration = Configuration {
            optim: Optimizer::Sgd,
            generation: Some(Generation {
                eval_steps: 1,
                batch_size: row.count("batch") as usize,
                prompt_tokens: row.count("len") as usize,
                max_new_tokens: row.count("new_tokens") as usize,
            }),
            ..with_method(row)
        };
        let micro = MicroBatchShape {
            batch: 1,
            len: 1,
            padded: false,
            apart: 0,
        };
        let step = Step {
            micro_batches: &[micro],
            generates: true,
        };
        let ours = peak_of_generation(&trace_parts(&configuration, &[[step]]));
        let error = ours as f64 / row.number("peak") - 1.0;
        if error.abs() > 5e-4 {
            println!("{}: {ours}, {:+.4} %", row.values.join(","), 100.0 * error);
            wrong += 1;
        }
    });
    assert_eq!((cases, wrong), (58, 0));
}

/// The most that is alive from the ids of the prompts on, which are made behind the step.
fn peak_of_generation(trace: &Trace) -> u64 {
    let mut sizes = vec![0; trace.blocks()];
    let [mut live, mut peak] = [0; 2];
    let [mut step_ended, mut generates] = [false; 2];
    for event in trace.events() {
        match *event {
            Event::Alloc { block, bytes, category } => {
                sizes[block.index()] = bytes.next_multiple_of(GRANULARITY);
                live += sizes[block.index()];
                generates |= step_ended && category == Category::Input;
                peak = if generates { peak.max(live) } else { 0 };
            }
            Event::Free { block } => live -= sizes[block.index()],
            Event::StepEnd => step_ended = true,
            _ => {}
        }
    }
    peak
}
