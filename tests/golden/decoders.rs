//! Golden numbers that decoders alone have: schedules, quantised weights, and long sequences.

use std::collections::HashMap;

use candle_core::{Device, Tensor};
use expctl::cell::{Cell, Dtype, LrScheduler};
use expctl::data::MicroBatch;
use expctl::kernels::Sequences;
use expctl::peft;
use tokenizers::Tokenizer;

use crate::common::training::{self, values};
use crate::fixtures::{Tensors, assert_close};
use crate::runs::{DECODERS, Golden, adapter_cell, assert_run, cell, set_adapter, trainer, with_adapter};

#[test]
fn twenty_steps_with_schedule_decay_and_clipping() {
    for (name, lr_scheduler_type) in [("linear", LrScheduler::Linear), ("cosine", LrScheduler::Cosine)] {
        for model in DECODERS {
            let cell = Cell {
                lr_scheduler_type,
                warmup_ratio: 0.1,
                weight_decay: 0.1,
                max_grad_norm: 0.5,
                ..adapter_cell(model)
            };
            assert_run(model, name, &cell, 1e-4);
        }
    }
}

#[test]
fn twenty_steps_on_quantised_weights() {
    for model in DECODERS {
        let int4 = Cell {
            dtype: Dtype::Int4,
            ..adapter_cell(model)
        };
        assert_run(model, "int4", &int4, 2e-2);
        assert_run(
            model,
            "int4_single",
            &Cell {
                bnb_4bit_use_double_quant: false,
                ..int4
            },
            2e-2,
        );
        assert_run(
            model,
            "int8",
            &Cell {
                dtype: Dtype::Int8,
                ..adapter_cell(model)
            },
            2e-2,
        );
    }
}

/// LongRoPE has other factors in sequences beyond the original context, whether the model sees shorter ones or not.
#[test]
fn logits_of_a_long_sequence_are_those_of_transformers() {
    let model = "tiny_phi3";
    let golden = Golden::of(model);
    let (long, short) = (golden.long(), golden.sampled(model).micro.remove(0));
    let cell = Cell {
        max_seq_length: long.sequences.longest(),
        ..adapter_cell(model)
    };
    let mut trainer = trainer(model, &cell);
    for (file, batch) in [("tiny_phi3_long", long), ("tiny_phi3", short)] {
        let theirs = Tensors::open(&format!("{file}.safetensors")).f32("logits");
        let ours = values(&trainer.logits(&batch).expect("logits"));
        let vocabulary = theirs.len() / batch.sequences.tokens();
        let counted = batch.lengths[0] as usize * vocabulary;
        assert_close(&ours[..counted], &theirs[..counted], 1e-5, file);
    }
}

/// Writes what python/real_input/check_adapter.py compares with PEFT's: our float32 logits of the first tokens of a text, from
/// a checkpoint with an adapter that a run wrote.
///
///     BASE=checkpoint ADAPTER=.../adapter TEXT=prose.txt OUT=logits.safetensors \
///         cargo test --release --test golden -- --ignored writes_logits
#[test]
#[ignore = "used by hand, on a checkpoint and an adapter of one's own"]
fn writes_logits_for_check_adapter() {
    let path = |name: &str| {
        let value = std::env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        std::path::absolute(value).expect("a path")
    };
    let (base, adapter) = (path("BASE"), path("ADAPTER"));
    let tokenizer = Tokenizer::from_file(base.join("tokenizer.json")).expect("the tokenizer");
    let text: String = std::fs::read_to_string(path("TEXT"))
        .expect("the text")
        .chars()
        .take(4_000)
        .collect();
    let ids: Vec<u32> = tokenizer
        .encode(text, true)
        .expect("tokens")
        .get_ids()
        .iter()
        .copied()
        .take(256)
        .collect();

    let (config, _) = peft::read(&adapter).expect("the adapter");
    let cell = Cell {
        model: base.display().to_string(),
        max_seq_length: ids.len(),
        ..with_adapter(cell("tiny_llama", Cell::default().rank), &config)
    };
    let len = ids.len();
    let input_ids = Tensor::new(ids.as_slice(), &Device::Cpu)
        .and_then(|ids| ids.reshape((1, len)))
        .expect("a row");
    let batch = MicroBatch {
        ids,
        lengths: vec![len as u32],
        separators: Vec::new(),
        targets: None,
        labels: Vec::new(),
        sample_ids: vec![0],
        sequences: Sequences::even(1, len),
    };
    let (mut trainer, _) = training::trainer(&cell, "/".as_ref());
    set_adapter(&mut trainer, &adapter);
    let logits = trainer
        .logits(&batch)
        .and_then(|logits| Ok(logits.to_candle()?.unsqueeze(0)?));
    let logits = logits.expect("a batch of one");
    let tensors = HashMap::from([("input_ids", input_ids), ("logits", logits)]);
    candle_core::safetensors::save(&tensors, path("OUT")).expect("the file is written");
}
