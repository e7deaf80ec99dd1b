//! The trainer with kernels and with plain ops, and its losses in formats.

use candle_core::Device;
use model::Source;
use nn::with_plain_ops;
use options::{
    AdamwOptions, AdapterOptions, Attention, Autocast, Checkpointing, DEFAULT_BLOCK_SIZE, Data, DataOptions,
    Device as DeviceName, Dtype, Lengths, Loss, LowRankOptions, LrScheduler, LrSchedulerKwargs, Measure, ModelOptions,
    Optimizer as OptimizerName, OptimizerOptions, Padding, QuantType, ScheduleOptions, Synthetic, Task, TrainingLength,
    Upcast, Weights,
};

use super::*;

/// Three steps of two micro-batches, with dropout and checkpointing.
fn options(dtype: Dtype, rank: usize) -> TrainOptions {
    TrainOptions {
        model: ModelOptions {
            name: "tiny".into(),
            weights: Weights::Random,
            task: Task::CausalLm,
            num_labels: 2,
            dtype,
            bnb_4bit_quant_type: QuantType::Nf4,
            bnb_4bit_blocksize: DEFAULT_BLOCK_SIZE,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            llm_int8_threshold: None,
            upcast: Upcast::None,
            autocast: Autocast::None,
            attn_implementation: Attention::Sdpa,
            loss: Loss::Chunked,
            adapter: (rank > 0).then_some(AdapterOptions {
                lora_dropout: 0.1,
                ..AdapterOptions::lora(rank, 2.0 * rank as f64)
            }),
            trainable: None,
            offloaded_blocks: None,
            offloads_embeddings: false,
            max_seq_length: 140,
            seed: 0,
        },
        init_adapter: None,
        data: DataOptions {
            data: Data::Synthetic(Synthetic {
                lengths: Lengths::List(vec![140, 3, 70]),
                samples: 16,
                between: None,
            }),
            model: "tiny".into(),
            max_seq_length: 140,
            padding: Padding::MaxLength,
            pad_to_multiple_of: 1,
            packing: None,
            batch_size: 2,
            gradient_accumulation_steps: 2,
            max_tokens_per_batch: None,
            length_groups: None,
            longest_first: false,
            holds_scores: false,
            length: TrainingLength::Steps(3),
            eval_fraction: 0.2,
            seed: 0,
        },
        optimizer: OptimizerOptions {
            optimizer: OptimizerName::Adamw,
            adamw: AdamwOptions {
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
                weight_decay: 0.0,
            },
            low_rank: LowRankOptions {
                rank: 4,
                update_proj_gap: 200,
                galore_scale: 0.25,
                seed: 0,
            },
            is_offloaded: false,
        },
        schedule: ScheduleOptions {
            learning_rate: 1e-3,
            scheduler: LrScheduler::Linear,
            warmup_ratio: 0.0,
            warmup_steps: None,
            kwargs: LrSchedulerKwargs::default(),
        },
        max_grad_norm: 1.0,
        loss_scaling: LossScaling::None,
        gradient_checkpointing: Checkpointing::Every(2),
        empty_cache_steps: 0,
        offloads_checkpoints: false,
        measure: Measure::Epoch,
        device: DeviceName::Cpu,
    }
}

/// Losses and gradient norms of some steps, and the loss on what was held out.
fn train(options: &TrainOptions) -> Vec<f64> {
    let source = Source::open(&options.model, &"".into()).unwrap();
    let config = source.config();
    let dataset = data::load(&options.data, config, &"".into(), "".as_ref()).unwrap();
    let mut trainer = Trainer::new(options, model::load(&options.model, &source, &Device::Cpu).unwrap()).unwrap();
    let steps = dataset.sampler().steps(&options.data);
    let mut numbers = Vec::new();
    for (index, batch) in dataset.batches(&options.data, config).enumerate() {
        let outcome = trainer.step(&batch.unwrap(), index, steps, &mut || ()).unwrap();
        trainer.release_gradients();
        numbers.extend([outcome.loss, outcome.gradient_norm]);
    }
    numbers.push(
        trainer
            .evaluate(dataset.eval_batches(&options.data, config))
            .unwrap()
            .loss,
    );
    numbers
}

#[test]
fn kernels_and_plain_ops_train_alike() {
    let precision = |dtype, rank, upcast, autocast, adapter| {
        let mut options = options(dtype, rank);
        (options.model.upcast, options.model.autocast) = (upcast, autocast);
        if autocast == Autocast::Float16 {
            options.loss_scaling = LossScaling::Dynamic;
        }
        if let Some(lora) = &mut options.model.adapter {
            lora.dtype = adapter;
        }
        options
    };
    let same = |dtype, rank| options(dtype, rank);
    let computed = |dtype| {
        let mut options = options(Dtype::Int4, 4);
        options.model.bnb_4bit_compute_dtype = dtype;
        options
    };
    use options::{Autocast::Bfloat16, Upcast::Peft};
    for (options, tolerance) in [
        (same(Dtype::Float32, 4), 1e-4),
        (same(Dtype::Float32, 0), 1e-4),
        (same(Dtype::Float16, 4), 2e-3),
        (same(Dtype::Bfloat16, 4), 1e-2),
        (same(Dtype::Bfloat16, 0), 1e-2),
        (same(Dtype::Int8, 4), 1e-2),
        (same(Dtype::Int4, 4), 1e-2),
        (
            precision(Dtype::Int4, 4, Upcast::None, Autocast::None, Dtype::Bfloat16),
            1e-2,
        ),
        (precision(Dtype::Int4, 4, Peft, Autocast::None, Dtype::Float32), 1e-4),
        (computed(Dtype::Float16), 2e-3),
        (computed(Dtype::Float32), 1e-4),
        (precision(Dtype::Int8, 4, Peft, Bfloat16, Dtype::Bfloat16), 1e-2),
        (
            precision(Dtype::Float32, 0, Upcast::None, Bfloat16, Dtype::Float32),
            1e-2,
        ),
        (
            precision(Dtype::Float32, 4, Upcast::None, Autocast::Float16, Dtype::Float32),
            2e-3,
        ),
    ] {
        let (kernels, plain) = (train(&options), with_plain_ops(|| train(&options)));
        for (kernels, plain) in kernels.iter().zip(&plain) {
            assert!(
                (kernels - plain).abs() <= tolerance * kernels.abs(),
                "{:?}: {kernels} by kernels, {plain} by plain ops",
                options.model
            );
        }
    }
}

/// Mixed precision trains nearly as float32 does.
#[test]
fn formats_of_products_change_losses_little() {
    let losses = |dtype, upcast, autocast| {
        let mut options = options(dtype, 4);
        (options.model.upcast, options.model.autocast) = (upcast, autocast);
        train(&options)
    };
    for (dtype, upcast) in [(Dtype::Float32, Upcast::None), (Dtype::Int4, Upcast::Peft)] {
        let wide = losses(dtype, upcast, Autocast::None);
        for (autocast, tolerance) in [(Autocast::Bfloat16, 2e-2), (Autocast::Float16, 3e-3)] {
            for (wide, mixed) in wide.iter().zip(losses(dtype, upcast, autocast)) {
                let difference = (wide - mixed).abs();
                assert!(
                    difference > 0.0 && difference <= tolerance * wide,
                    "{autocast:?}: {wide}, {mixed}"
                );
            }
        }
    }
}

#[test]
fn a_step_whose_scaled_gradients_overflow_is_skipped() {
    let options = TrainOptions {
        loss_scaling: LossScaling::Dynamic,
        ..options(Dtype::Float16, 4)
    };
    let source = Source::open(&options.model, &"".into()).unwrap();
    let config = source.config();
    let dataset = data::load(&options.data, config, &"".into(), "".as_ref()).unwrap();
    let mut trainer = Trainer::new(&options, model::load(&options.model, &source, &Device::Cpu).unwrap()).unwrap();
    let batch = dataset.batches(&options.data, config).next().unwrap().unwrap();
    let values = |trainer: &mut Trainer| -> Vec<f32> {
        let params = trainer.trainable().into_iter();
        params.flat_map(|param| param.value.to_vec_f32().unwrap()).collect()
    };
    let before = values(&mut trainer);
    // A gradient that is left over from nowhere.
    let shape = trainer.trainable()[0].value.shape();
    let infinite = Tensor::from_f32(&vec![f32::INFINITY; shape.len()], shape, candle_core::DType::F32).unwrap();
    trainer.trainable()[0].accumulate(infinite).unwrap();
    let skipped = trainer.step(&batch, 0, 3, &mut || ()).unwrap();
    assert!(skipped.is_skipped && !skipped.gradient_norm.is_finite() && skipped.loss.is_finite());
    assert_eq!(
        (skipped.loss_scale, values(&mut trainer)),
        (Some(65536.0), before.clone())
    );
    trainer.release_gradients();
    let next = trainer.step(&batch, 1, 3, &mut || ()).unwrap();
    assert_eq!((next.is_skipped, next.loss_scale), (false, Some(32768.0)));
    assert_ne!(values(&mut trainer), before);
}
