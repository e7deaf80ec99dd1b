//! What adapters are refused for.

use options::PromptInit;

use super::refused;
use crate::{Adapter, Cell, Dtype, LoraATraining, Optimizer, TargetModules, Task};

#[test]
fn keys_that_would_do_nothing_are_refused() {
    let full = |change: fn(&mut Cell)| {
        refused(|cell| {
            (cell.rank, cell.dtype) = (0, Dtype::Float32);
            change(cell);
        })
    };
    assert_eq!(full(|_| ()), None);
    assert_eq!(full(|cell| cell.lora_alpha = Some(8.0)).as_deref(), Some("lora_alpha"));
    assert_eq!(full(|cell| cell.lora_dropout = 0.1).as_deref(), Some("lora_dropout"));
    let modules = |cell: &mut Cell| cell.target_modules = Some(TargetModules::Names(vec!["q_proj".into()]));
    assert_eq!(full(modules).as_deref(), Some("target_modules"));
    assert_eq!(
        full(|cell| cell.bnb_4bit_use_double_quant = false).as_deref(),
        Some("bnb_4bit_use_double_quant")
    );
    assert_eq!(refused(|cell| cell.bnb_4bit_use_double_quant = false), None);
    let threads = |cell: &mut Cell| _ = cell.allocator.env.insert("RAYON_NUM_THREADS".into(), None);
    assert_eq!(refused(threads).as_deref(), Some("allocator.env.RAYON_NUM_THREADS"));
    let backend = |cell: &mut Cell| _ = cell.env.insert("CELL_ALLOCATOR".into(), Some("system".into()));
    assert_eq!(refused(backend).as_deref(), Some("env.CELL_ALLOCATOR"));
}

#[test]
fn an_adapter_has_its_keys() {
    let told = |change: fn(&mut Cell)| {
        let mut cell = Cell {
            adapter: Adapter::Ia3,
            ..Cell::default()
        };
        change(&mut cell);
        cell.validate().map_err(|invalid| invalid.0[0].to_string())
    };
    assert_eq!(told(|_| ()), Ok(()));
    for (key, change) in [
        ("rank", (|cell| cell.rank = 8) as fn(&mut Cell)),
        ("lora_alpha", |cell| cell.lora_alpha = Some(8.0)),
        ("lora_dropout", |cell| cell.lora_dropout = 0.1),
        ("lora_fa", |cell| cell.lora_fa = LoraATraining::Frozen),
        ("lora", |cell| cell.lora.use_rslora = true),
    ] {
        let told = told(change).unwrap_err();
        assert!(
            told.starts_with(&format!("{key}: has no effect with `adapter: ia3`")),
            "{told}"
        );
    }
    let given = |cell: &mut Cell| cell.ia3.feedforward_modules = Some(vec!["v_porj".into()]);
    assert!(told(given).unwrap_err().contains("did you mean `v_proj`?"));
    assert_eq!(refused(given).as_deref(), Some("ia3"));
    let galore = told(|cell| cell.optim = Optimizer::Galore).unwrap_err();
    assert!(galore.contains("nothing to project"), "{galore}");
}

#[test]
fn virtual_tokens_go_with_plain_samples_of_decoders() {
    let told = |change: fn(&mut Cell)| {
        let mut cell = Cell {
            adapter: Adapter::PromptTuning,
            ..Cell::default()
        };
        change(&mut cell);
        cell.validate().map_err(|invalid| invalid.0[0].to_string())
    };
    assert_eq!(told(|_| ()), Ok(()));
    for (expected, change) in [
        (
            "target_modules: has no effect with `adapter: prompt_tuning`",
            (|cell| cell.target_modules = Some(TargetModules::AllLinear)) as fn(&mut Cell),
        ),
        ("rank: has no effect", |cell| cell.rank = 8),
        ("modules_to_save: has no effect", |cell| {
            cell.modules_to_save = Some(vec!["lm_head".into()]);
        }),
        (
            "adapter: `prompt_tuning` puts virtual tokens before each sample",
            |cell| {
                cell.packing = true;
            },
        ),
        ("adapter: `prompt_tuning` is trained in decoders only", |cell| {
            (cell.model, cell.task) = ("bert-base".into(), Task::SequenceClassification);
        }),
        ("prompt_tuning.num_virtual_tokens", |cell| {
            cell.prompt_tuning.num_virtual_tokens = 0;
        }),
        (
            "prompt_tuning.init: the virtual tokens start from a text that is not there",
            |cell| {
                cell.prompt_tuning.init = PromptInit::Text;
            },
        ),
        ("prompt_tuning.init_text: only `init: text`", |cell| {
            cell.prompt_tuning.init_text = Some("Classify:".into());
        }),
    ] {
        let told = told(change).unwrap_err();
        assert!(told.starts_with(expected), "{told}");
    }
    let other = |cell: &mut Cell| cell.prompt_tuning.num_virtual_tokens = 8;
    assert_eq!(refused(other).as_deref(), Some("prompt_tuning"));
}
