use arch::{ModelConfig, Preset};
use cell::keys::keys;
use cell::{Cell, Facts};
use options::{
    Attention, Checkpointing, Distributed, Dtype, OffloadDevice, OutputLifetime, Stack, TargetModules, Upcast,
};

use super::*;

fn model(cell: &Cell) -> ModelConfig {
    Preset::named(&cell.model).unwrap().config()
}

fn technique(key: &str) -> &'static Technique {
    TECHNIQUES.iter().find(|technique| technique.key == key).unwrap()
}

/// The values that a technique gives its keys.
fn values(key: &str, cell: &Cell) -> Vec<String> {
    let technique = technique(key);
    let steps = technique.steps(cell, &model(cell));
    let value = |step: &Step| {
        let values: Vec<String> = technique.keys().map(|key| step.cell.value(key).to_string()).collect();
        values.join(" ")
    };
    steps.iter().map(value).collect()
}

fn torch() -> Cell {
    Cell {
        stack: Stack::Torch,
        ..Cell::default()
    }
}

#[test]
fn every_key_saves_memory_or_does_not() {
    for key in keys().iter().map(|key| key.path.as_str()) {
        let is_technique = TECHNIQUES.iter().any(|technique| {
            technique.keys().any(|known| {
                known == key || known.starts_with(&format!("{key}.")) || key.starts_with(&format!("{known}."))
            })
        });
        let is_other = Facts::of(key).iter().any(|facts| facts.no_technique.is_some());
        assert!(
            is_technique != is_other,
            "{key}: a key that can save memory is a technique; any other has `no_technique` beside its field"
        );
    }
}

#[test]
fn every_technique_says_what_it_does_and_when_not() {
    for technique in TECHNIQUES {
        for sentence in [technique.does, technique.avoid] {
            let words = sentence.split_whitespace().count();
            assert!((3..=25).contains(&words) && sentence.ends_with('.'), "{sentence}");
            assert!(sentence.starts_with(char::is_uppercase), "{sentence}");
        }
    }
}

#[test]
fn a_technique_changes_its_own_keys_alone() {
    let cells = [
        Cell {
            batch_size: 4,
            rank: 8,
            lora_alpha: Some(4.0),
            lora_dropout: 0.1,
            ..Cell::default()
        },
        Cell {
            dtype: Dtype::Float32,
            rank: 0,
            ..torch()
        },
        Cell {
            upcast: Upcast::Peft,
            attn_implementation: Attention::Eager,
            batch_size: 6,
            ..torch()
        },
        Cell {
            dtype: Dtype::Bfloat16,
            world_size: 4,
            distributed: Distributed::Deepspeed,
            ..torch()
        },
    ];
    for cell in &cells {
        for technique in TECHNIQUES {
            for step in &technique.steps(cell, &model(cell))[1..] {
                let mut back = step.cell.clone();
                technique.apply(cell, &mut back);
                assert_eq!(&back, cell, "{technique:?}");
                let mut there = cell.clone();
                technique.apply(&step.cell, &mut there);
                assert_eq!(there, step.cell, "{technique:?}");
                assert!(!step.meaning.is_empty(), "{technique:?}");
                assert!(step.price != Price::NOTHING, "{technique:?}");
                assert!(
                    technique.keys().any(|key| cell.value(key) != step.cell.value(key)),
                    "{technique:?}"
                );
            }
        }
    }
}

#[test]
fn the_effective_batch_stays() {
    let cell = Cell {
        batch_size: 6,
        gradient_accumulation_steps: 2,
        ..Cell::default()
    };
    assert_eq!(values("batch_size", &cell), ["6 2", "4 3", "3 4", "2 6", "1 12"]);
    let prime = Cell { batch_size: 7, ..cell };
    assert_eq!(values("batch_size", &prime), ["7 2", "2 7", "1 14"]);
}

#[test]
fn a_smaller_rank_keeps_its_scale() {
    let cell = Cell {
        rank: 8,
        lora_alpha: Some(4.0),
        ..Cell::default()
    };
    assert_eq!(values("rank", &cell), ["8 4.0", "4 2.0", "2 1.0", "1 0.5"]);
    let full = Cell {
        rank: 0,
        dtype: Dtype::Float32,
        ..cell
    };
    assert_eq!(
        values(
            "rank",
            &Cell {
                lora_alpha: None,
                ..full
            }
        )[..2],
        ["0 null", "64 null"]
    );
}

/// What is sent in a micro-batch: nothing more with stage 2, all weights twice with stage 3, and more from and to the CPU.
#[test]
fn a_cell_of_deepspeed_shares_more_and_offloads() {
    let mut cell = Cell {
        dtype: Dtype::Bfloat16,
        world_size: 2,
        distributed: Distributed::Deepspeed,
        ..torch()
    };
    assert_eq!(values("distributed", &cell).len(), 1);
    cell.zero_optimization.stage = 1;
    let steps = technique("zero_optimization.stage").steps(&cell, &model(&cell));
    let known = steps[1..].iter().map(|step| {
        let zero = &step.cell.zero_optimization;
        let offloads =
            [zero.offload_optimizer_device, zero.offload_param_device].map(|device| device == OffloadDevice::Cpu);
        (zero.stage, offloads, step.price.amount(Harm::Transfers))
    });
    assert_eq!(
        known.collect::<Vec<_>>(),
        [
            (2, [false, false], 0.0),
            (3, [false, false], 1.0),
            (1, [true, false], 3.0),
            (2, [true, false], 3.0),
            (3, [true, false], 4.0),
            (3, [true, true], 6.0),
        ]
    );
    assert_eq!(values("zero_optimization.stage", &torch()).len(), 1);
}

#[test]
fn more_blocks_are_recomputed_step_by_step() {
    let tokens = |cell: &Cell| values("gradient_checkpointing", cell);
    let words = [
        r#""none""#,
        r#"{"first":4}"#,
        r#"{"first":8}"#,
        r#"{"first":10}"#,
        r#"{"first":15}"#,
        r#"{"first":23}"#,
        r#""full""#,
    ];
    assert_eq!(tokens(&Cell::default()), words);
    let every = Cell {
        gradient_checkpointing: Checkpointing::Every(3),
        ..Cell::default()
    };
    assert_eq!(
        tokens(&every),
        [r#"{"every":3}"#, r#"{"first":15}"#, r#"{"first":23}"#, r#""full""#]
    );
    let steps = technique("gradient_checkpointing").steps(&every, &model(&every));
    // Half of a step with adapters is forward; the head is not recomputed.
    let full = steps.last().unwrap().price.amount(Harm::Recomputation);
    assert!(0.1 < full && full < 0.5 * 2.0 / 3.0, "{full}");
}

#[test]
fn formats_optimizers_and_modules_lose_bits_and_weights() {
    let cell = Cell {
        dtype: Dtype::Bfloat16,
        ..torch()
    };
    assert_eq!(
        values("dtype", &cell),
        [
            r#""bfloat16" "bfloat16" null"#,
            r#""int8" "bfloat16" null"#,
            r#""int4" "bfloat16" null"#
        ]
    );
    let emulated = Cell {
        gpu: Some("t4".into()),
        ..cell.clone()
    };
    assert_eq!(
        values("dtype", &emulated),
        [
            r#""bfloat16" "bfloat16" null"#,
            r#""float16" "bfloat16" null"#,
            r#""int8" "bfloat16" null"#,
            r#""int4" "float16" null"#
        ]
    );
    let turing = Cell {
        dtype: Dtype::Float32,
        gpu: Some("t4".into()),
        ..torch()
    };
    assert_eq!(values("dtype", &turing)[1], r#""float16" "bfloat16" null"#);
    let optimizers = values("optim", &cell);
    assert!(optimizers.contains(&r#""paged_adamw_8bit""#.into()) && !optimizers.contains(&r#""lion""#.into()));
    let (paged, eight) = (r#""paged_adamw_32bit""#.to_owned(), r#""adamw_8bit""#.to_owned());
    let place = |name: &String| optimizers.iter().position(|there| there == name);
    assert!(place(&paged) < place(&eight), "{optimizers:?}");
    let modules = values("target_modules", &cell);
    assert_eq!(
        modules[1..],
        [r#"["q_proj","k_proj","v_proj","o_proj"]"#, r#"["q_proj","v_proj"]"#]
    );
    let fewer = Cell {
        target_modules: Some(TargetModules::Names(vec!["v_proj".into(), "up_proj".into()])),
        ..cell.clone()
    };
    assert_eq!(values("target_modules", &fewer)[1..], [r#"["v_proj"]"#]);
}

#[test]
fn the_loop_keeps_less() {
    let mut cell = torch();
    cell.torch.keep_outputs = OutputLifetime::NextForward;
    assert_eq!(values("torch.keep_outputs", &cell), [r#""next_forward""#, r#""none""#]);
    cell.torch.use_cache = true;
    assert_eq!(values("torch.use_cache", &cell), ["true", "false"]);
    let set = "allocator.env.PYTORCH_CUDA_ALLOC_CONF";
    assert_eq!(values(set, &cell), ["null", r#""expandable_segments:True""#]);
    cell.allocator
        .env
        .insert("PYTORCH_ALLOC_CONF".into(), Some("max_split_size_mb:64".into()));
    assert_eq!(values(set, &cell), ["null"]);
    assert_eq!(
        values(
            "max_seq_length",
            &Cell {
                max_seq_length: 128,
                ..cell
            }
        ),
        ["128", "96", "64", "48", "32"]
    );
}

/// Alpha over the rank, or over its root with rsLoRA.
#[test]
fn another_rank_keeps_the_adapters_scale() {
    let plain = Cell::default();
    assert_eq!(plain.alpha_at_rank(64), None, "alpha follows the rank");
    let mut given = Cell {
        rank: 16,
        lora_alpha: Some(32.0),
        ..Cell::default()
    };
    assert_eq!(given.alpha_at_rank(64), Some(128.0));
    given.lora.use_rslora = true;
    assert_eq!(given.alpha_at_rank(64), Some(64.0));
    given.lora_alpha = None;
    assert_eq!(given.alpha_at_rank(64), Some(64.0), "twice the rank of 16 by default");
}
