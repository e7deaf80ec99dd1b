//! An optimizer step over an effective batch.

use candle_core::Device;
use data::{DataError, EffectiveBatch, MicroBatch};
use kernels::Sequences;
use memory::timeline;
use model::Model;
use nn::optim::{self, Optimizer, clip_gradients};
use nn::{DropoutPass, Pass, param::Param, tensor::Tensor};
use options::{LossScaling, TrainOptions};
use trace::Phase;

use super::{
    TrainError,
    loss_scaler::LossScaler,
    segments::{self, Keeping},
};

/// A model with its optimizer.
pub struct Trainer {
    options: TrainOptions,
    model: Model,
    optimizer: Box<dyn Optimizer>,
    /// `None` if the loss is not scaled.
    scaler: Option<LossScaler>,
    /// Steps whose gradients overflowed.
    skipped_steps: usize,
}

/// The figures of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Mean over the predicted tokens, or labels, of the effective batch.
    pub loss: f64,
    /// Global L2 norm before clipping.
    pub gradient_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Factor of the loss in the backward pass; `None` if it was not scaled.
    pub loss_scale: Option<f64>,
    /// True if the scaled gradients were not finite, and the weights stayed as they were.
    pub is_skipped: bool,
}

/// Figures of held-out samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Mean over the predicted tokens, or labels.
    pub loss: f64,
    /// Part of the samples whose label is the likeliest; `None` without labels.
    pub accuracy: Option<f64>,
}

impl Trainer {
    /// Takes a loaded model.
    ///
    /// # Errors
    /// If our trainer does not have the optimizer.
    pub fn new(options: &TrainOptions, model: Model) -> Result<Self, TrainError> {
        Ok(Self {
            options: options.clone(),
            model,
            optimizer: optim::new(&options.optimizer)?,
            scaler: (options.loss_scaling == LossScaling::Dynamic).then(LossScaler::new),
            skipped_steps: 0,
        })
    }

    /// Runs the micro-batches, clips the gradients and updates the weights. The gradients stay for the caller to read
    /// and to release. `step` counts from 0; `on_checkpoint` is called between segments.
    ///
    /// # Errors
    /// If the loss is not finite, or the gradients' norm where the loss is not scaled, and errors of candle.
    pub fn step(
        &mut self,
        batch: &EffectiveBatch,
        step: usize,
        steps: usize,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<StepOutcome, TrainError> {
        let loss = self.forward_backward(batch, step, on_checkpoint)?;
        memory::set_phase(Phase::Optimizer);
        let (_entered, _module) = (memory::enter("optimizer"), memory::module("optimizer"));
        let loss_scale = self.loss_scale();
        let mut params = self.model.trainable();
        let gradient_norm = clip_gradients(&mut params, self.options.max_grad_norm, loss_scale.unwrap_or(1.0))?;
        let is_skipped = self.scaler.is_some() && !gradient_norm.is_finite();
        if let Some(scaler) = &mut self.scaler {
            scaler.update(is_skipped);
        }
        for (what, value) in [("loss", loss), ("gradient's norm", gradient_norm)] {
            let is_overflow = is_skipped && what != "loss";
            if !value.is_finite() && !is_overflow {
                return Err(TrainError::NotFinite {
                    step: step + 1,
                    what,
                    value,
                });
            }
        }
        // A skipped step is none of the schedule's, as in transformers.
        let learning_rate = optim::learning_rate(&self.options.schedule, step - self.skipped_steps, steps);
        if is_skipped {
            self.skipped_steps += 1;
            self.optimizer.prepare(&mut params)?;
        } else {
            self.optimizer.step(&mut params, learning_rate)?;
        }
        // A GPU computes asynchronously; a step ends with its last kernel.
        self.model.device().synchronize()?;
        on_checkpoint();
        Ok(StepOutcome {
            loss,
            gradient_norm,
            learning_rate,
            loss_scale,
            is_skipped,
        })
    }

    /// The mean loss of an effective batch. Adds its gradients, scaled as the loss is, to the trained parameters.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn forward_backward(
        &mut self,
        batch: &EffectiveBatch,
        step: usize,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<f64, TrainError> {
        let mean = 1.0 / batch.counted as f64;
        let scale = mean * self.loss_scale().unwrap_or(1.0);
        let mut sum = 0.0;
        let keeping = Keeping {
            checkpointing: &self.options.gradient_checkpointing,
            inputs_on_host: self.options.offloads_checkpoints,
            gradients_on_host: self.options.optimizer.is_offloaded,
        };
        for micro in &batch.micro {
            let pass = self.pass(micro, Some(step));
            sum += segments::forward_backward(&mut self.model, micro, &pass, keeping, scale, on_checkpoint)?;
        }
        Ok(sum * mean)
    }

    /// Factor of the loss in the backward pass; `None` if it is not scaled.
    pub fn loss_scale(&self) -> Option<f64> {
        self.scaler.as_ref().map(LossScaler::scale)
    }

    /// The global L2 norm of the gradients.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn gradient_norm(&mut self) -> Result<f64, TrainError> {
        let loss_scale = self.loss_scale().unwrap_or(1.0);
        Ok(clip_gradients(&mut self.model.trainable(), 0.0, loss_scale)?)
    }

    /// The mean loss over all batches, and the accuracy if there are labels.
    ///
    /// # Errors
    /// Errors of the batches and of candle.
    pub fn evaluate(
        &mut self,
        batches: impl Iterator<Item = Result<MicroBatch, DataError>>,
    ) -> Result<Evaluation, TrainError> {
        let (mut sum, mut counted, mut correct) = (0.0, 0, None);
        for micro in batches {
            let micro = micro?;
            let evaluated = {
                let pass = self.pass(&micro, None);
                segments::evaluate(&mut self.model, &micro, &pass)?
            };
            timeline::write_out();
            sum += evaluated.loss_sum;
            counted += micro.counted();
            if let Some(found) = evaluated.correct {
                *correct.get_or_insert(0) += found;
            }
        }
        Ok(Evaluation {
            loss: sum / counted as f64,
            accuracy: correct.map(|correct| correct as f64 / counted as f64),
        })
    }

    /// The mean loss and the accuracy without virtual tokens: with new ones, a model is not its base any more.
    ///
    /// # Errors
    /// Those of [`evaluate`](Self::evaluate).
    pub fn evaluate_without_virtual_tokens(
        &mut self,
        batches: impl Iterator<Item = Result<MicroBatch, DataError>>,
    ) -> Result<Evaluation, TrainError> {
        let tokens = self.model.virtual_tokens().and_then(Option::take);
        let evaluation = self.evaluate(batches);
        if let Some(place) = self.model.virtual_tokens() {
            *place = tokens;
        }
        evaluation
    }

    /// The logits of a micro-batch, float32: `[tokens, vocabulary]` of a decoder, `[batch, labels]` of an encoder.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn logits(&mut self, micro: &MicroBatch) -> Result<Tensor, TrainError> {
        let pass = self.pass(micro, None);
        Ok(segments::logits(&mut self.model, micro, &pass)?)
    }

    /// The trained parameters, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        self.model.trainable()
    }

    /// What is saved of the trained adapters, in a fixed order.
    pub fn saved(&mut self) -> Vec<&mut Param> {
        self.model.saved()
    }

    /// The factors that adapters share, as they are saved.
    pub fn saved_factors(&self) -> Vec<(&'static str, &Tensor)> {
        self.model.saved_factors(&self.options.model)
    }

    /// Number of trained elements.
    pub fn trainable_count(&mut self) -> u64 {
        self.trainable().iter().map(|param| param.value.len() as u64).sum()
    }

    /// Frees the gradients.
    pub fn release_gradients(&mut self) {
        for param in self.trainable() {
            param.release_gradient();
        }
    }

    /// Frees the optimizer's state.
    pub fn release_optimizer(&mut self) {
        self.optimizer.release();
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        self.model.device()
    }

    fn pass(&self, micro: &MicroBatch, step: Option<usize>) -> Pass {
        let (lengths, has_dropout) = match &self.model {
            Model::Decoder(_) => (Vec::new(), false),
            Model::Encoder(model) => (micro.lengths.clone(), model.has_dropout),
        };
        let adapter = self.options.model.adapter.as_ref();
        let drops = has_dropout || adapter.is_some_and(|adapter| adapter.dropout() > 0.0);
        let dropout = step.filter(|_| drops).map(|step| DropoutPass {
            step: step as u64,
            samples: micro.sample_ids.iter().map(|&sample| u64::from(sample)).collect(),
        });
        Pass {
            sequences: self.sequences(micro),
            lengths,
            dropout,
        }
    }

    /// The sequences that go through the blocks: the micro-batch's, with virtual tokens before each.
    pub(super) fn sequences(&self, micro: &MicroBatch) -> Sequences {
        match self.model.prompt_tokens() {
            0 => micro.sequences.clone(),
            own => Sequences::of(micro.sequences.iter().map(|tokens| own + tokens.len())),
        }
    }
}

#[cfg(test)]
mod tests {

    use candle_core::Device;
    use model::Source;
    use nn::with_plain_ops;
    use options::{
        AdamwOptions, AdapterMethod, AdapterOptions, Attention, Autocast, Checkpointing, DEFAULT_BLOCK_SIZE, Data,
        DataOptions, Device as DeviceName, Dtype, Lengths, LoraOptions, Loss, LowRankOptions, LrScheduler, Measure,
        ModelOptions, Optimizer as OptimizerName, OptimizerOptions, Padding, QuantType, ScheduleOptions, Synthetic,
        Task, TrainingLength, Upcast, Weights,
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
                adapter: (rank > 0).then_some(AdapterOptions::new(AdapterMethod::Lora(LoraOptions {
                    dropout: 0.1,
                    ..LoraOptions::new(rank, 2.0 * rank as f64)
                }))),
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
}
