//! An optimizer step over an effective batch.

use candle_core::Device;
use data::{DataError, EffectiveBatch, MicroBatch};
use kernels::Sequences;
use memory::timeline;
use model::Model;
use nn::optim::{self, Optimizer, clip_gradients};
use nn::{Carrier, DropoutPass, Pass, param::Param, tensor::Tensor};
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

    /// Saves or restores all that a step leaves to the next one.
    ///
    /// # Errors
    /// Those of the carrier, and of candle.
    pub(super) fn carry(&mut self, carrier: &mut dyn Carrier) -> Result<(), TrainError> {
        let mut params = self.model.trainable();
        self.optimizer.prepare(&mut params)?;
        for param in params {
            carrier.elements(param.value.slot().as_bytes_mut())?;
        }
        self.optimizer.carry(carrier)?;
        if let Some(scaler) = &mut self.scaler {
            scaler.carry(carrier)?;
        }
        carrier.count(&mut self.skipped_steps)?;
        Ok(())
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
            first_tokens: Vec::new(),
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
mod tests;
