//! Classifiers: their adapter's file with a head, checkpoints without a head, and what does not fit the task.

use std::path::Path;

use candle_core::Device;
use expctl::cell::{Cell, TargetModules, Task};
use expctl::model::Source;
use expctl::options::AdapterOptions;
use expctl::peft;

use crate::fixtures::{Tensors, fixture};
use crate::runs::{ENCODERS, LABELS, adapter_cell, cell, trainer};

/// The same tensors under the same names as PEFT's.
#[test]
fn an_adapter_is_saved_as_peft_saves_it() {
    for model in ENCODERS {
        let theirs = Tensors::open(&format!("{model}_adapter/adapter_model.safetensors"));
        let (config, tensors) = peft::read(&fixture(&format!("{model}_adapter"))).expect("PEFT's adapter");
        let dir = tempfile::tempdir().expect("a folder");
        let read = config.options().expect("LoRA");
        let lora = AdapterOptions::lora(read.rank, read.lora_alpha);
        let ours = peft::Config::new(Task::SequenceClassification, model, &lora);
        peft::write(dir.path(), &ours, &tensors).expect("the adapter");
        let written = std::fs::read(dir.path().join(peft::WEIGHTS_FILE)).expect("the weights");
        let written = safetensors::SafeTensors::deserialize(&written).expect("a safetensors file");
        assert_eq!(written.len(), tensors.len());
        for (name, tensor) in written.iter() {
            assert_eq!(tensor.data(), theirs.u8(name), "{name}");
        }
        let (read, _) = peft::read(dir.path()).expect("our adapter");
        assert_eq!(read.modules_to_save, config.modules_to_save);
        // PEFT writes the whole names where it is asked for all linear layers; their last parts are the same modules.
        assert_eq!(
            read.target_modules.expect("names").last_components(),
            config.target_modules.expect("names").last_components()
        );
        let trained: Vec<String> = trainer(model, &adapter_cell(model))
            .trainable()
            .iter()
            .map(|param| param.name.to_string())
            .collect();
        assert!(tensors.iter().all(|tensor| trained.contains(&tensor.name)));
    }
}

/// A checkpoint of the encoder alone, without the family's prefix and with the old names of norms: the head is new.
#[test]
fn a_bare_encoder_gets_a_new_head() {
    for (model, prefix) in [("tiny_distilbert", "distilbert."), ("tiny_bert", "bert.")] {
        let dir = tempfile::tempdir().expect("a folder");
        let tensors =
            candle_core::safetensors::load(fixture(model).join("model.safetensors"), &Device::Cpu).expect("weights");
        let bare = tensors.into_iter().filter_map(|(name, tensor)| {
            let name = name
                .strip_prefix(prefix)?
                .replace("LayerNorm.weight", "LayerNorm.gamma");
            Some((name.replace("LayerNorm.bias", "LayerNorm.beta"), tensor))
        });
        let bare: std::collections::HashMap<_, _> = bare.collect();
        candle_core::safetensors::save(&bare, dir.path().join("model.safetensors")).expect("the file");
        let config = std::fs::read_to_string(fixture(model).join("config.json")).expect("the configuration");
        let bare_config = config.replace("ForSequenceClassification", "Model");
        std::fs::write(dir.path().join("config.json"), bare_config).expect("the file");

        let open = |cell: &Cell, dir: &Path| {
            let cell = Cell {
                model: ".".into(),
                ..cell.clone()
            };
            Source::open(&cell.model_options(), &dir.into())
        };
        let cell = Cell {
            num_labels: 5,
            ..cell(model, 0)
        };
        let source = open(&cell, dir.path()).expect("the bare encoder");
        let mut weights = vec![0.0; 5 * source.shape("classifier.weight").expect("a head")[1]];
        source
            .read_rows("classifier.weight", 0..5, &mut weights)
            .expect("new weights");
        assert!(weights.iter().all(|weight| *weight != 0.0 && weight.abs() < 0.2));
        let known = format!("{prefix}embeddings.LayerNorm.weight");
        let mut norm = vec![0.0; source.shape(&known).expect("a norm")[0]];
        source.read_rows(&known, 0..1, &mut norm).expect("known weights");
        assert_ne!(norm, vec![1.0; norm.len()], "the checkpoint's, not a new one's");

        std::fs::write(dir.path().join("config.json"), &config).expect("the file");
        let message = open(&cell, dir.path())
            .expect_err("another number of labels")
            .to_string();
        assert!(message.contains("has 3 labels; write `num_labels: 3`"), "{message}");
        let cell = Cell {
            num_labels: LABELS,
            ..cell
        };
        let message = open(&cell, dir.path())
            .expect_err("a classifier without its head")
            .to_string();
        assert!(message.contains("is missing"), "{message}");
    }
}

#[test]
fn a_model_is_for_its_task_and_has_its_modules() {
    let error = |cell: &Cell| {
        Source::open(&cell.model_options(), &(&fixture("")).into())
            .expect_err("a wrong cell")
            .to_string()
    };
    let bert = cell("tiny_bert", 4);
    let decoder = Cell {
        task: Task::CausalLm,
        num_labels: 2,
        ..bert.clone()
    };
    assert_eq!(
        error(&decoder),
        "`task: causal_lm`: the model is for sequence_classification; write `task: sequence_classification`"
    );
    let llama = Cell {
        model: "./tiny_llama".into(),
        ..bert.clone()
    };
    assert!(error(&llama).ends_with("write `task: causal_lm`"), "{}", error(&llama));
    for other in ["q_lin", "layer.9.attention.self.query"] {
        let modules = TargetModules::Names(vec!["layer.0.attention.self.query".into(), other.into()]);
        let foreign = Cell {
            target_modules: Some(modules),
            ..bert.clone()
        };
        assert_eq!(
            error(&foreign),
            format!("`target_modules`: the model has no linear layer `{other}`; it has query, key, value, dense")
        );
    }
}
