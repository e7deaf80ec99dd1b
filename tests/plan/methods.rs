//! Plans of PEFT's methods, and of training some weights, against PEFT on fake tensors.

use expctl::arch::Preset;
use expctl::options::{
    Adapter, AdapterMethod, AdapterOptions, Bias, Dtype, Generation, Ia3, LnTuning, Loha, Lokr, Lora, Miss, MissInit,
    NamePattern, Oft, Optimizer, PrefixTuning, PromptTuning, TargetModules, Upcast, Vera,
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
    let rank_pattern = || words(row, "rank_pattern").iter().map(rank_of).collect();
    let lora = || Lora {
        rank_pattern: rank_pattern(),
        bias: match row.get("bias") {
            "all" => Bias::All,
            "lora_only" => Bias::LoraOnly,
            _ => Bias::None,
        },
        loraplus_lr_ratio: row.is("loraplus").then_some(16.0),
        ..Lora::default()
    };
    let (name, options) = row.get("adapter").split_once(' ').unwrap_or((row.get("adapter"), ""));
    let adapter = Adapter::named(name).expect("an adapter");
    let option = |key: &str| {
        let mut pairs = options.split(' ').filter_map(|option| option.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let number_of = |key: &str| option(key).map(|value| value.parse().expect("a number"));
    let method = || match adapter {
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
        Adapter::Oft => AdapterMethod::Oft(Oft {
            oft_block_size: if number_of("r").is_some() {
                0
            } else {
                row.count("rank") as usize
            },
            r: number_of("r").unwrap_or(0),
            block_share: option("block_share") == Some("True"),
            use_cayley_neumann: option("use_cayley_neumann") != Some("False"),
            num_cayley_neumann_terms: number_of("num_cayley_neumann_terms").unwrap_or(5),
        }),
        Adapter::Loha => AdapterMethod::Loha(Loha {
            rank_pattern: rank_pattern(),
            ..Loha::default()
        }),
        Adapter::Lokr => AdapterMethod::Lokr(Lokr {
            rank_pattern: rank_pattern(),
            decompose_both: option("decompose_both") == Some("True"),
            decompose_factor: number_of("decompose_factor"),
            ..Lokr::default()
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
    Configuration {
        adapter: plain.adapter.map(|plain| AdapterOptions {
            method: method(),
            rank: row.count("rank") as usize,
            lora_alpha: 32.0,
            lora_dropout: row.number("lora_dropout"),
            modules_to_save: words(row, "modules_to_save"),
            layers_to_transform: (!layers.is_empty()).then_some(layers),
            target_modules: match (row.get("pattern"), row.get("target_modules")) {
                _ if !adapter.is_of_layers() => None,
                ("", "default") => None,
                ("", _) => plain.target_modules.clone(),
                (text, _) => Some(TargetModules::Pattern(NamePattern::whole(text).expect("a pattern"))),
            },
            ..plain
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
    assert_eq!((cases, wrong), (525, 0));
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

/// The same of methods.
#[test]
fn adapters_of_methods_are_counted_as_peft_counts_them() {
    let mut model = Preset::named("smollm2-135m").expect("a preset").config();
    model.num_hidden_layers = 3;
    let some = || TargetModules::Names(vec!["q_proj".into(), "v_proj".into()]);
    let oft = |oft_block_size, r, block_share| {
        AdapterMethod::Oft(Oft {
            oft_block_size,
            r,
            block_share,
            ..Oft::default()
        })
    };
    let loha = AdapterMethod::Loha(Loha::default());
    let lokr = |decompose_both, decompose_factor| {
        AdapterMethod::Lokr(Lokr {
            decompose_both,
            decompose_factor,
            ..Lokr::default()
        })
    };
    for (method, rank, targets, trained, bytes) in [
        (oft(32, 0, false), 0, TargetModules::AllLinear, 232_128, 931_200),
        (oft(100, 0, false), 0, some(), 164_160, 657_448),
        (oft(0, 10, false), 0, some(), 108_864, 436_264),
        (oft(64, 0, true), 0, TargetModules::AllLinear, 42_336, 172_008),
        (loha, 8, TargetModules::AllLinear, 488_448, 1_964_216),
        (lokr(false, None), 8, TargetModules::AllLinear, 21_504, 93_552),
        (lokr(true, None), 8, TargetModules::AllLinear, 17_472, 79_936),
        (lokr(false, None), 64, some(), 5_472, 23_360),
        (lokr(true, Some(16)), 4, some(), 2_208, 11_728),
    ] {
        let adapter = AdapterOptions {
            target_modules: Some(targets),
            ..AdapterOptions::of_rank(method, rank)
        };
        let counts = Configuration {
            dtype: Dtype::Bfloat16,
            adapter: Some(adapter.clone()),
            ..Configuration::new(model.clone())
        }
        .counts();
        let counted = (counts.trainable, counts.adapter_file_bytes);
        assert_eq!(counted, (trained, Some(bytes)), "{adapter:?}");
    }
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
            unpadded: 0,
        };
        let step = Step {
            micro_batches: &[micro],
            generates: true,
            empties_cache: false,
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
