//! The plan of PyTorch's stack against PyTorch itself: steps on fake tensors, and steps measured on a GPU.

use expctl::arch::{ModelConfig, Preset};
use expctl::options::{
    self, AdapterOptions, Attention, Autocast, Checkpointing, Loss, Optimizer, TargetModules, Upcast,
};
use expctl::torch::caching_allocator::{DeviceMemory, Settings, replay};
use expctl::torch::gpu::ComputeCapability;
use expctl::torch::{Backend, Bitsandbytes, Configuration, Dtype, MicroBatchShape, Peft, Pytorch, Transformers, trace};
use expctl::trace::Account;
use expctl::trace::{Category, Phase};
use expctl::trace::{Event, Trace};

const MIB: f64 = 1024.0 * 1024.0;
/// Both PyTorch's allocator and the fake tensors' table count in multiples of this.
pub const GRANULARITY: u64 = 512;

/// A row of a table.
pub struct Row<'a> {
    keys: &'a [String],
    pub values: Vec<String>,
}

impl Row<'_> {
    pub fn get(&self, key: &str) -> &str {
        let column = self.keys.iter().position(|known| known == key);
        &self.values[column.unwrap_or_else(|| panic!("no column {key}"))]
    }

    pub fn number(&self, key: &str) -> f64 {
        let text = self.get(key);
        text.parse()
            .unwrap_or_else(|_| panic!("{key}: {text:?} is not a number"))
    }

    pub fn count(&self, key: &str) -> u32 {
        self.number(key) as u32
    }

    pub fn is(&self, key: &str) -> bool {
        self.get(key) == "true"
    }

    pub fn micro(&self, batch: &str, len: &str) -> [MicroBatchShape; 1] {
        [MicroBatchShape {
            batch: self.count(batch),
            len: self.count(len),
            padded: false,
            apart: 0,
            unpadded: 0,
        }]
    }
}

/// Runs `each` on every row of a table whose only quotes are around lists.
pub fn rows(table: &str, mut each: impl FnMut(&Row)) -> usize {
    let split = |line: &str| {
        let mut quoted = false;
        let fields = line.split(|c: char| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        fields
            .map(|field| field.trim_matches('"').to_string())
            .collect::<Vec<_>>()
    };
    let mut lines = table.lines();
    let keys = split(lines.next().unwrap_or_default());
    let rows = lines.map(|line| Row {
        keys: &keys,
        values: split(line),
    });
    rows.map(|row| each(&row)).count()
}

pub fn dtype(name: &str) -> (Dtype, options::Dtype) {
    match name {
        "float32" => (Dtype::Float32, options::Dtype::Float32),
        "float16" => (Dtype::Float16, options::Dtype::Float16),
        "bfloat16" => (Dtype::Bfloat16, options::Dtype::Bfloat16),
        "int4" => (Dtype::Bfloat16, options::Dtype::Int4),
        other => panic!("dtype {other}"),
    }
}

fn attention(name: &str) -> Attention {
    match name {
        "eager" => Attention::Eager,
        "sdpa" => Attention::Sdpa,
        other => panic!("attn_implementation {other}"),
    }
}

fn targets(list: &str, separator: char) -> TargetModules {
    match list {
        "all-linear" => TargetModules::AllLinear,
        list => TargetModules::Names(list.split(separator).map(Into::into).collect()),
    }
}

/// Live bytes at the end of the forward pass, at its and the backward pass' peak, at the step's, after the optimizer's step and
/// after its gradients are gone; of the last step. The inputs, which are made outside of the step, are left out.
pub fn figures(trace: &Trace) -> [u64; 5] {
    let mut sizes = vec![0; trace.blocks()];
    let mut live = 0;
    let mut phase = Phase::Idle;
    let [mut forward, mut peak_backward, mut peak, mut after] = [0; 4];
    for event in trace.events() {
        match *event {
            Event::Alloc { block, bytes, category } => {
                if category != Category::Input {
                    sizes[block.index()] = bytes.next_multiple_of(GRANULARITY);
                }
                live += sizes[block.index()];
                peak = peak.max(live);
            }
            Event::Free { block } => live -= sizes[block.index()],
            Event::Step(_) => peak = live,
            Event::Phase(next) => {
                match phase {
                    Phase::Forward => forward = live,
                    Phase::Backward => peak_backward = peak,
                    Phase::Optimizer => after = live,
                    Phase::Load | Phase::Idle => {}
                }
                phase = next;
            }
            _ => {}
        }
    }
    [forward, peak_backward, peak, after, live]
}

/// The names of [`figures`], in order.
pub const FIGURES: [&str; 5] = [
    "end_of_forward",
    "peak_forward_backward",
    "peak_step",
    "after_optimizer_step",
    "between_steps",
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// LoRA of this rank on these layers; none of rank 0.
pub fn lora(rank: u32, targets: TargetModules) -> Option<AdapterOptions> {
    (rank > 0).then(|| AdapterOptions {
        target_modules: Some(targets),
        ..AdapterOptions::lora(rank as usize, 2.0 * f64::from(rank))
    })
}

/// The configuration of a step in the columns of `make_torch_abstract.py`.
pub fn configuration(row: &Row) -> Configuration {
    let mut model = Preset::named(row.get("model")).expect("a preset").config();
    if !row.get("num_hidden_layers").is_empty() {
        model.num_hidden_layers = row.count("num_hidden_layers") as usize;
    }
    let checkpointing = row.is("gradient_checkpointing");
    Configuration {
        dtype: dtype(row.get("dtype")).1,
        adapter: lora(row.count("rank"), targets(row.get("target_modules"), ',')).map(|adapter| AdapterOptions {
            dtype: dtype(row.get("adapter_dtype")).1,
            ..adapter
        }),
        attn_implementation: attention(row.get("attn_implementation")),
        gradient_checkpointing: if checkpointing {
            Checkpointing::Full
        } else {
            Checkpointing::None
        },
        enable_input_require_grads: checkpointing,
        autocast: match row.is("autocast") {
            true => Autocast::Bfloat16,
            false => Autocast::None,
        },
        use_cache: row.is("use_cache"),
        optim: match row.get("optim") {
            "sgd" => Optimizer::Sgd,
            _ => Optimizer::Adamw,
        },
        max_grad_norm: 0.0,
        backend: Backend::Cpu,
        ..Configuration::new(model)
    }
}

#[test]
fn steps_on_fake_tensors_take_what_pytorch_says() {
    let keys = FIGURES;
    let mut errors = keys.map(|_| Vec::new());
    let mut exact = 0;
    let cases = rows(include_str!("../fixtures/torch_abstract/torch_abstract.csv"), |row| {
        let configuration = configuration(row);
        let micro = row.micro("batch", "len");
        let ours = figures(&trace(&configuration, &[&micro, &micro]));
        exact += usize::from(keys.iter().zip(ours).all(|(key, ours)| row.number(key) == ours as f64));
        for ((key, ours), errors) in keys.iter().zip(ours).zip(&mut errors) {
            let error = (ours as f64 / row.number(key) - 1.0).abs();
            if error > 1e-3 {
                println!(
                    "{:?}: {key} {ours}, {:+.3} %",
                    row.values,
                    100.0 * (ours as f64 / row.number(key) - 1.0)
                );
            }
            errors.push(error);
        }
    });
    println!("{exact} of {cases} cases exact");
    for (key, errors) in keys.iter().zip(errors) {
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let median = median(errors);
        println!("{key}: median {:.4} %, worst {:.3} %", 100.0 * median, 100.0 * worst);
        assert!(median == 0.0 && worst <= 1e-4, "{key}: median {median}, worst {worst}");
    }
    assert!(cases >= 120 && exact * 10 >= cases * 8, "{exact} of {cases} cases");
}

/// TRL's chunked loss.
#[test]
fn trls_chunked_loss_takes_what_it_takes() {
    let cases = rows(include_str!("../fixtures/torch_abstract/chunked_loss.csv"), |row| {
        let configuration = Configuration {
            loss: Loss::Chunked,
            ..configuration(row)
        };
        let micro = row.micro("batch", "len");
        let ours = figures(&trace(&configuration, &[&micro, &micro]));
        // The loss takes a slice of the ids, which shows them to the counter.
        let ids = (row.number("batch") * row.number("len")) as u64 * Dtype::Int64.size();
        for (key, ours) in FIGURES.iter().zip(ours) {
            let seen = ours + ids.next_multiple_of(GRANULARITY);
            // Truth values, and sums that are only for logging, are a block or two each.
            let more = row.number(key) - seen as f64;
            assert!(
                (0.0..=8.0 * GRANULARITY as f64).contains(&more),
                "{:?}: {key} {more}",
                row.values
            );
        }
    });
    assert_eq!(cases, 5);
}

/// Steps of older releases of transformers, and of bitsandbytes' and PEFT's layers as they were.
#[test]
fn steps_of_older_releases_take_what_they_took() {
    let mut wrong = Vec::new();
    let cases = rows(include_str!("../fixtures/torch_abstract/versions.csv"), |row| {
        let mut model = Preset::named(row.get("model")).expect("a preset").config();
        model.num_hidden_layers = row.count("num_hidden_layers") as usize;
        if !row.get("vocab_size").is_empty() {
            model.vocab_size = row.count("vocab_size") as usize;
        }
        let mut transformers = Transformers::of(row.get("transformers"), model.family).expect("a studied release");
        let checkpointing = row.get("gradient_checkpointing");
        transformers.use_reentrant &= checkpointing != "not_reentrant";
        let configuration = Configuration {
            dtype: match row.get("dtype") {
                "int4" => options::Dtype::Int4,
                "int8" => options::Dtype::Int8,
                other => dtype(other).1,
            },
            torch_dtype: dtype(row.get("torch_dtype")).0,
            bnb_4bit_use_double_quant: false,
            finds_outliers: row.number("llm_int8_threshold") > 0.0,
            adapter: lora(row.count("rank"), TargetModules::AllLinear),
            upcast: match row.get("upcast") {
                "peft" => Upcast::Peft,
                _ => Upcast::None,
            },
            autocast: match row.is("autocast") {
                true => Autocast::Bfloat16,
                false => Autocast::None,
            },
            attn_implementation: attention(row.get("attn_implementation")),
            gradient_checkpointing: match checkpointing {
                "none" => Checkpointing::None,
                _ => Checkpointing::Full,
            },
            enable_input_require_grads: checkpointing != "none",
            use_cache: row.is("use_cache"),
            optim: Optimizer::Adamw,
            max_grad_norm: 0.0,
            transformers,
            bitsandbytes: match row.get("bitsandbytes") {
                "" => Bitsandbytes::TODAY,
                release => Bitsandbytes::of(release).expect("a studied release"),
            },
            peft: match row.get("peft") {
                "" => Peft::TODAY,
                release => Peft::of(release).expect("a studied release"),
            },
            backend: Backend::Cpu,
            ..Configuration::new(model)
        };
        let micro = row.micro("batch", "len").map(|micro| MicroBatchShape {
            padded: row.is("padded"),
            ..micro
        });
        let micro: &[MicroBatchShape] = &micro;
        let ours = figures(&trace(&configuration, &vec![micro; row.count("steps") as usize]));
        for (key, ours) in FIGURES.iter().zip(ours) {
            let error = ours as f64 / row.number(key) - 1.0;
            let most = match *key {
                "after_optimizer_step" => 5e-3,
                _ => 5e-4,
            };
            if error.abs() > most {
                wrong.push(format!(
                    "{}: {key} {ours}, {:+.3} %",
                    row.values.join(","),
                    100.0 * error
                ));
            }
        }
    });
    assert!(wrong.is_empty(), "{} figures:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases >= 400, "{cases} cases");
}

/// LoRA and NF4 steps that FitCheck measured on a Tesla T4 (see `fixtures/README.md`).
#[test]
fn peaks_of_a_t4_are_predicted() {
    let keys = ["peak_forward_mib", "peak_backward_mib", "peak_optimizer_mib"];
    let mut errors = keys.map(|_| Vec::new());
    let mut exact = 0;
    let cases = rows(include_str!("../fixtures/fitcheck_t4.csv"), |row| {
        let model = Preset::of_hub_name(row.get("model_id")).expect("a preset").config();
        let nf4 = row.get("quantization") == "nf4";
        let configuration = Configuration {
            dtype: if nf4 {
                options::Dtype::Int4
            } else {
                options::Dtype::Float16
            },
            torch_dtype: Dtype::Float16,
            adapter: lora(row.count("lora_rank"), targets(row.get("lora_targets"), '+')),
            bnb_4bit_use_double_quant: false,
            bnb_4bit_compute_dtype: Dtype::Float16,
            attn_implementation: attention(row.get("attn_impl")),
            upcast: if nf4 { Upcast::Peft } else { Upcast::None },
            gradient_checkpointing: Checkpointing::Full,
            enable_input_require_grads: true,
            max_grad_norm: 0.0,
            capability: ComputeCapability(7, 5),
            // They ran PyTorch 2.10 and 2.14, and transformers before 5.18. Keys and values were repeated for the queries that
            // share them.
            transformers: Transformers {
                repeats_heads: true,
                ..Transformers::of("5.17.0", model.family).expect("a studied release")
            },
            pytorch: Pytorch::of("2.14.0").expect("a studied release"),
            ..Configuration::new(model)
        };
        let counts = configuration.counts();
        assert_eq!(
            (counts.parameters + counts.trainable) as f64,
            row.number("total_params")
        );
        assert_eq!(counts.trainable as f64, row.number("trainable_params"));
        let micro = row.micro("batch_size", "seq_len");
        let trace = trace(&configuration, &[&micro, &micro]);
        let settings = Settings {
            tie_break: configuration.pytorch.tie_break,
            ..Settings::default()
        };
        let reserved = replay(&trace, &settings, &DeviceMemory::UNLIMITED).peak.bytes as f64 / MIB;
        let error = reserved / row.number("peak_reserved_mib") - 1.0;
        // Runs of one model differ as soon as it is loaded and quantised: 1,070 to 1,078 MiB are allocated of TinyLlama.
        assert!(
            error.abs() < if nf4 { 0.07 } else { 0.003 },
            "{configuration:?}: {error}"
        );
        exact += usize::from(error == 0.0);
        let account = Account::of(&trace, GRANULARITY, 1);
        let phases = [Phase::Forward, Phase::Backward, Phase::Optimizer];
        for ((key, phase), errors) in keys.iter().zip(phases).zip(&mut errors) {
            errors.push(account.in_phase[phase] as f64 / MIB / row.number(key) - 1.0);
        }
        let state = account.peak.by_category[Category::OptimizerState] as f64 / MIB;
        assert!(
            (state / row.number("optimizer_state_mib") - 1.0).abs() < 1e-3,
            "{state}"
        );
    });
    assert_eq!(cases, 41);
    for (key, errors) in keys.iter().zip(errors) {
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
        println!("{key}: mean {:.3} %, worst {:.3} %", 100.0 * mean, 100.0 * worst);
        // The allocator counts the rest of a block that it does not split off, and we do not, so nothing is too high.
        assert!(mean <= 0.0075 && worst <= 0.02, "{key}: mean {mean}, worst {worst}");
        assert!(errors.iter().all(|&error| error < 1e-3), "{key}: too high");
    }
    // One other is 8 MiB high. The two of PyTorch 2.10, eager and sdpa, are 2 MiB high for a reason that is not known; neither
    // computes scores by `_safe_softmax`.
    assert!(exact >= 13, "{exact} rows reserve what was measured");
}

/// Weights as the models' cards give them, or safetensors' headers.
#[test]
fn every_weight_of_a_preset_is_loaded() {
    for preset in Preset::all() {
        let config = preset.config();
        let weights = config.parameter_count();
        let counts = Configuration::new(config).counts();
        assert_eq!(counts.parameters, weights, "{}", preset.name());
    }
}

/// A step's events, with blocks numbered from the step on; blocks of earlier steps have no number.
fn events_of_step(trace: &Trace, step: u32) -> Vec<String> {
    let mut events = trace
        .events()
        .skip_while(|event| **event != Event::Step(step))
        .skip(1)
        .peekable();
    let mut numbers = std::collections::HashMap::new();
    let mut described = Vec::new();
    while let Some(event) = events.next_if(|event| !matches!(event, Event::Step(_))) {
        described.push(match *event {
            Event::Alloc { block, bytes, category } => {
                numbers.insert(block, numbers.len());
                format!("{} {bytes} {category:?}", numbers[&block])
            }
            Event::Free { block } => format!("{:?} is free", numbers.get(&block)),
            Event::Label { block, category } => format!("{:?} is {category:?}", numbers.get(&block)),
            other => format!("{other:?}"),
        });
    }
    described
}

/// A step that is copied from an earlier one is the same as when it is traced: here the third.
#[test]
fn repeated_steps_are_what_they_would_be() {
    let model = ModelConfig {
        num_hidden_layers: 2,
        ..Preset::named("qwen2.5-0.5b").expect("a preset").config()
    };
    for gradient_checkpointing in [Checkpointing::None, Checkpointing::Full, Checkpointing::Every(2)] {
        let configuration = Configuration {
            gradient_checkpointing,
            enable_input_require_grads: true,
            ..Configuration::new(model.clone())
        };
        let micro = |len| MicroBatchShape {
            batch: 2,
            len,
            padded: false,
            apart: 0,
            unpadded: 0,
        };
        let (long, short) = ([micro(64), micro(48)], [micro(32)]);
        let repeated = trace(&configuration, &[&long, &long, &long]);
        let traced = trace(&configuration, &[&long, &short, &long]);
        assert_eq!(events_of_step(&repeated, 2), events_of_step(&traced, 3));
        assert_eq!(events_of_step(&repeated, 3), events_of_step(&traced, 3));
        assert_ne!(events_of_step(&traced, 1), events_of_step(&traced, 3));
    }
}

/// PEFT's published runs on MetaMathQA reserved this much at most; what is allocated must be a little less. The runs keep the
/// key-value cache, and their longest batch is four samples cut to 768 tokens.
#[test]
fn published_reservations_bound_what_is_allocated() {
    let published = [
        (32, 22_292_725_760_u64, 0.98),
        (64, 22_552_772_608, 0.975),
        (0, 38_868_615_168, 0.92),
    ];
    for (rank, reserved, share) in published {
        let configuration = Configuration {
            dtype: options::Dtype::Bfloat16,
            adapter: lora(rank, targets("q_proj,v_proj", ',')),
            use_cache: true,
            capability: ComputeCapability(8, 9),
            ..Configuration::new(Preset::named("llama-3.2-3b").expect("a preset").config())
        };
        let micro = [MicroBatchShape {
            batch: 4,
            len: 768,
            padded: false,
            apart: 0,
            unpadded: 0,
        }];
        let peak = Account::of(&trace(&configuration, &[&micro, &micro]), GRANULARITY, 1)
            .peak
            .bytes;
        let ratio = peak as f64 / reserved as f64;
        assert!(
            (share..1.0).contains(&ratio),
            "rank {rank}: {peak}, {ratio:.4} of what was reserved"
        );
    }
}

/// Sizes of the files of PEFT's published runs on MetaMathQA.
#[test]
fn adapters_are_as_large_as_those_that_peft_saved() {
    let size = |rank, names| {
        Configuration {
            dtype: options::Dtype::Bfloat16,
            adapter: lora(rank, targets(names, ',')),
            ..Configuration::new(Preset::named("llama-3.2-3b").expect("a preset").config())
        }
        .counts()
        .adapter_file_bytes
    };
    assert_eq!(size(32, "q_proj,v_proj"), Some(36_715_216));
    assert_eq!(size(10, "gate_proj,up_proj,down_proj"), Some(37_868_984));
    assert_eq!(size(0, "q_proj"), None);
}

/// A program's own count of its states; and its steps' highest point over what is there after them, from its optimizer in
/// torch 2.15 on fake tensors of DistilBERT's shapes, as `python/torch_abstract/live.py` counts. The first step makes the
/// projections, by decompositions whose workspaces are not traced.
#[test]
fn randomised_svd_takes_what_its_program_took() {
    for (rank, states, first, second) in [
        (4, 3_060_664, 92_853_248, 95_354_880),
        (8, 5_625_688, 90_872_832, 95_382_528),
        (16, 10_747_544, 87_944_704, 95_428_608),
        (64, 41_495_064, 70_399_488, 95_723_520),
        (128, 82_494_488, 47_023_104, 96_119_808),
    ] {
        let configuration = Configuration {
            dtype: options::Dtype::Float32,
            adapter: None,
            optim: Optimizer::Rsvd,
            optim_rank: rank,
            backend: Backend::Cpu,
            max_grad_norm: 0.0,
            ..Configuration::new(Preset::named("distilbert-base").unwrap().config())
        };
        let micro = [MicroBatchShape {
            batch: 1,
            len: 8,
            padded: false,
            apart: 0,
            unpadded: 0,
        }];
        let over = |account: &Account| account.in_phase[Phase::Optimizer] - account.after_steps.bytes();
        let one = Account::of(&trace(&configuration, &[&micro]), GRANULARITY, 1);
        assert!(over(&one).abs_diff(first) < 100_000, "rank {rank}: {}", over(&one));
        let last = Account::of(&trace(&configuration, &[&micro, &micro]), GRANULARITY, 2);
        assert_eq!(over(&last), second, "rank {rank}");
        assert_eq!(last.peak.by_category[Category::OptimizerState], states, "rank {rank}");
    }
}
