//! An optimizer step over an effective batch.

use candle_core::{Device, Tensor};

use super::{TrainError, segments};
use crate::{
    data::{EffectiveBatch, MicroBatch},
    memory::{self, Category, Phase},
    model::Model,
    nn::{DropoutPass, Pass, param::Param},
    optim::{self, Optimizer, clip_gradients},
    spec::cell::Cell,
};

/// A model with its optimizer.
pub struct Trainer {
    cell: Cell,
    model: Model,
    optimizer: Box<dyn Optimizer>,
}

/// What a step computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepOutcome {
    /// Mean over what counts of the effective batch: predicted tokens, or labels.
    pub loss: f64,
    /// Before clipping.
    pub gradient_norm: f64,
    pub learning_rate: f64,
}

/// What a model makes of held-out samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    pub loss: f64,
    /// Part of the samples whose label is the likeliest; only where there are labels.
    pub accuracy: Option<f64>,
}

impl Trainer {
    /// # Errors
    /// Where the cell's optimizer is none that is trained with.
    pub fn new(cell: &Cell, model: Model) -> Result<Self, TrainError> {
        Ok(Self {
            cell: cell.clone(),
            model,
            optimizer: optim::new(&cell.optimizer_options())?,
        })
    }

    /// Runs the micro-batches, clips, and moves the weights. The gradients are left for the caller to look at and to
    /// release. `step` is from 0; `between` is called between segments.
    pub fn step(
        &mut self,
        batch: &EffectiveBatch,
        step: usize,
        steps: usize,
        between: &mut dyn FnMut(),
    ) -> Result<StepOutcome, TrainError> {
        let loss = self.forward_backward(batch, step, between)?;
        memory::set_phase(Phase::Optimizer);
        let (_scope, _module) = (memory::scope(Category::Temporary), memory::module("optimizer"));
        let mut params = self.model.trainable();
        let gradient_norm = clip_gradients(&mut params, self.cell.max_grad_norm)?;
        for (what, value) in [("loss", loss), ("gradient's norm", gradient_norm)] {
            if !value.is_finite() {
                return Err(TrainError::NotFinite {
                    step: step + 1,
                    what,
                    value,
                });
            }
        }
        let learning_rate = optim::learning_rate(&self.cell.schedule_options(), step, steps);
        self.optimizer.step(&mut params, learning_rate)?;
        // A GPU computes while the CPU goes on; a step's time is that of its last kernel.
        self.model.device().synchronize()?;
        between();
        Ok(StepOutcome {
            loss,
            gradient_norm,
            learning_rate,
        })
    }

    /// The mean loss of an effective batch; its gradients are added to what is trained.
    pub fn forward_backward(
        &mut self,
        batch: &EffectiveBatch,
        step: usize,
        between: &mut dyn FnMut(),
    ) -> Result<f64, TrainError> {
        let _scope = memory::scope(Category::Temporary);
        let scale = 1.0 / batch.counted as f64;
        let mut sum = 0.0;
        for micro in &batch.micro {
            let pass = self.pass(micro, Some(step));
            sum += segments::forward_backward(
                &mut self.model,
                micro,
                &pass,
                self.cell.gradient_checkpointing,
                scale,
                between,
            )?;
        }
        Ok(sum * scale)
    }

    /// The global L2 norm of the gradients that are held.
    pub fn gradient_norm(&mut self) -> Result<f64, TrainError> {
        let _scope = memory::scope(Category::Temporary);
        Ok(clip_gradients(&mut self.model.trainable(), 0.0)?)
    }

    /// The mean loss over what counts of all batches, and how many of the labels are the likeliest.
    pub fn evaluate(&self, batches: impl Iterator<Item = MicroBatch>) -> Result<Evaluation, TrainError> {
        let _scope = memory::scope(Category::Temporary);
        let (mut sum, mut counted, mut correct) = (0.0, 0, None);
        for micro in batches {
            let evaluated = segments::evaluate(&self.model, &micro, &self.pass(&micro, None))?;
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

    /// The logits of a micro-batch, float32: `[tokens, vocabulary]` of a decoder, `[batch, labels]` of an encoder.
    pub fn logits(&self, micro: &MicroBatch) -> Result<Tensor, TrainError> {
        let _scope = memory::scope(Category::Temporary);
        Ok(segments::logits(&self.model, micro, &self.pass(micro, None))?)
    }

    /// Everything that is trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        self.model.trainable()
    }

    pub fn trainable_count(&mut self) -> u64 {
        self.trainable()
            .iter()
            .map(|param| param.value.elem_count() as u64)
            .sum()
    }

    pub fn release_gradients(&mut self) {
        for param in self.trainable() {
            param.release_gradient();
        }
    }

    /// Gives the optimizer's state back once training is done.
    pub fn release_optimizer(&mut self) {
        self.optimizer.release();
    }

    pub fn device(&self) -> &Device {
        self.model.device()
    }

    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    fn pass(&self, micro: &MicroBatch, step: Option<usize>) -> Pass {
        let (lengths, has_dropout) = match &self.model {
            Model::Llama(_) => (Vec::new(), false),
            Model::Encoder(model) => (micro.lengths.clone(), model.has_dropout),
        };
        let drops = has_dropout || self.cell.lora_dropout > 0.0;
        let dropout = step.filter(|_| drops).map(|step| DropoutPass {
            step: step as u64,
            samples: micro.sample_ids.iter().map(|&sample| u64::from(sample)).collect(),
        });
        Pass {
            batch: micro.batch,
            len: micro.len,
            lengths,
            dropout,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candle_core::Device;

    use super::*;
    use crate::{
        data,
        model::{self, Source},
        nn::testing::with_plain_ops,
        spec::cell::{Checkpointing, Data, Dtype, Lengths, Synthetic},
    };

    /// Losses and gradient norms of some steps, and the loss on what was held out.
    fn train(cell: &Cell) -> Vec<f64> {
        let source = Source::open(&cell.model_options(), Path::new("")).unwrap();
        let config = source.config();
        let dataset = data::load(cell, config, Path::new("")).unwrap();
        let mut trainer =
            Trainer::new(cell, model::load(&cell.model_options(), &source, &Device::Cpu).unwrap()).unwrap();
        let steps = dataset.steps(cell);
        let mut numbers = Vec::new();
        for (index, batch) in dataset.batches(cell, config).enumerate() {
            let outcome = trainer.step(&batch, index, steps, &mut || ()).unwrap();
            trainer.release_gradients();
            numbers.extend([outcome.loss, outcome.gradient_norm]);
        }
        numbers.push(trainer.evaluate(dataset.eval_batches(cell, config)).unwrap().loss);
        numbers
    }

    #[test]
    fn kernels_and_plain_ops_train_alike() {
        for (dtype, rank, tolerance) in [
            (Dtype::Float32, 4, 1e-4),
            (Dtype::Float32, 0, 1e-4),
            (Dtype::Bfloat16, 4, 1e-2),
            (Dtype::Bfloat16, 0, 1e-2),
            (Dtype::Int8, 4, 1e-2),
            (Dtype::Int4, 4, 1e-2),
        ] {
            let cell = Cell {
                model: "tiny".into(),
                dtype,
                rank,
                lora_dropout: 0.1,
                batch_size: 2,
                gradient_accumulation_steps: 2,
                gradient_checkpointing: Checkpointing::Every(2),
                max_seq_length: 140,
                max_steps: Some(3),
                learning_rate: 1e-3,
                data: Data::Synthetic(Synthetic {
                    lengths: Lengths::List(vec![140, 3, 70]),
                    samples: 16,
                }),
                eval_fraction: 0.2,
                ..Cell::default()
            };
            let (kernels, plain) = (train(&cell), with_plain_ops(|| train(&cell)));
            for (kernels, plain) in kernels.iter().zip(&plain) {
                assert!(
                    (kernels - plain).abs() <= tolerance * kernels.abs(),
                    "{dtype:?}, rank {rank}: {kernels} by kernels, {plain} by plain ops"
                );
            }
        }
    }
}
