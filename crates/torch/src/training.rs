//! The loop: load, then steps of micro-batches, each a forward and a backward pass, and the optimizer.

use std::ops::Range;

use options::{Generation, OutputLifetime, ZeroGrad};
use trace::Trace;
use trace::{Category, Module, Phase};

use super::configuration::{Configuration, Fsdp, MicroBatchShape, Ranks};
use super::ddp::Reducer;
use super::dtype::Dtype;
use super::frames::Frame;
use super::groups::Groups;
use super::layout::Layout;
use super::model::Model;
use super::models::cache::Cache;
use super::models::decoder::Output;
use super::models::loader::Loader;
use super::optimizer::OptimizerState;
use super::tape::{Mode, Tape, Tensor};

/// An optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'m> {
    /// Its micro-batches.
    pub micro_batches: &'m [MicroBatchShape],
    /// True if the model generates after it ([`Configuration::generation`]).
    pub generates: bool,
    /// True if the allocator's cache is given back after it, and after the generation.
    pub empties_cache: bool,
}

/// Traces the memory of training: the load, then one optimizer step for each of `steps`, each of these micro-batches.
pub fn trace(configuration: &Configuration, steps: &[&[MicroBatchShape]]) -> Trace {
    let steps = steps.iter().map(|&micro_batches| Step {
        micro_batches,
        generates: false,
        empties_cache: false,
    });
    trace_parts(configuration, &[steps.collect::<Vec<_>>()])
}

/// Traces the memory of a training of which some parts are left out: the outputs of a part's last micro-batch do not
/// live on in the next part.
pub fn trace_parts<'m>(configuration: &Configuration, parts: &[impl AsRef<[Step<'m>]>]) -> Trace {
    let tape = Tape::new(configuration);
    run(&tape, configuration, parts)
}

/// Traces the memory of loading alone.
pub fn load_trace(configuration: &Configuration) -> Trace {
    let tape = Tape::new(configuration);
    tape.phase(Phase::Load);
    let mut loader = Loader::new(&tape, configuration);
    let model = Model::load(&mut loader, configuration);
    let trace = tape.take_trace();
    drop(model);
    trace
}

fn run<'m>(tape: &Tape, configuration: &Configuration, parts: &[impl AsRef<[Step<'m>]>]) -> Trace {
    tape.phase(Phase::Load);
    let mut loader = Loader::new(tape, configuration);
    let model = Model::load(&mut loader, configuration);
    let (mut trainable, unstepped, members) = (loader.trainable, loader.unstepped, loader.members);
    let leaves = trainable.len() + unstepped.len();
    let mut reducer = None;
    let mut masters = Vec::new();
    if let Some(ranks) = &configuration.ranks {
        // Accelerate wraps the model when the training begins.
        tape.phase(Phase::Idle);
        match ranks {
            Ranks::Ddp(ddp) => {
                let parameters: Vec<_> = trainable.iter().chain(&unstepped).collect();
                reducer = Some(Reducer::new(tape, *ddp, &parameters));
            }
            Ranks::Fsdp(fsdp) => {
                tape.shard(fsdp, &members, &configuration.model);
                trainable = tape.sharded(&trainable);
            }
            Ranks::Zero(zero) if zero.stage == 3 => {
                masters = tape.share_partitioned(configuration, *zero, &members, &trainable);
            }
            Ranks::Zero(zero) => masters = tape.share_flat(configuration, *zero, &trainable),
        }
    }
    let mut training = Training {
        tape,
        configuration,
        model,
        trainable,
        unstepped,
        leaves,
        reducer,
        masters,
        optimizer: OptimizerState::new(configuration),
        previous: None,
        saved: Vec::new(),
    };
    let mut last: Option<(&[MicroBatchShape], Range<usize>)> = None;
    let mut generated: Option<Range<usize>> = None;
    let mut number = 0;
    for part in parts {
        training.previous = None;
        for &Step {
            micro_batches: micros,
            generates,
            empties_cache,
        } in part.as_ref()
        {
            number += 1;
            tape.step(number);
            if number == 2 {
                training.rebuild_buckets();
            }
            match &last {
                Some((before, events)) if *before == micros && configuration.steps_end_clean() => {
                    tape.repeat(events.clone());
                }
                _ => {
                    let begin = tape.written();
                    training.step(micros);
                    let repeats = number > 1 || !configuration.first_step_differs();
                    last = repeats.then(|| (micros, begin..tape.written()));
                }
            }
            if number == 1 && configuration.saves {
                // What it leaves is there in all steps after it, and later saves leave no more.
                training.save();
            }
            if let Some(generation) = configuration.generation.as_ref().filter(|_| generates) {
                match &generated {
                    Some(events) => tape.repeat(events.clone()),
                    None => {
                        let begin = tape.written();
                        training.generate(generation);
                        generated = Some(begin..tape.written());
                    }
                }
            }
            if empties_cache {
                tape.empty_cache();
            }
        }
    }
    // The trace ends before everything is dropped.
    tape.take_trace()
}

/// The state that lives from step to step.
struct Training<'t, 'c> {
    tape: &'t Tape,
    configuration: &'c Configuration,
    model: Model<'t>,
    /// The parameters that the optimizer steps.
    trainable: Groups<'t>,
    /// Leaves whose gradients the optimizer does not step.
    unstepped: Vec<Tensor<'t>>,
    /// The number of leaves that are parameters.
    leaves: usize,
    reducer: Option<Reducer<'t>>,
    /// ZeRO's master weights, of each group that is stepped by itself.
    masters: Vec<Tensor<'t>>,
    optimizer: OptimizerState<'t>,
    previous: Option<StepOutputs<'t>>,
    /// What saving the model left.
    saved: Vec<Tensor<'t>>,
}

impl<'t> Training<'t, '_> {
    /// All parameters that want gradients.
    fn parameters(&self) -> Vec<&Tensor<'t>> {
        self.trainable.iter().chain(&self.unstepped).collect()
    }

    /// Saves the model between two steps. Tensors go to the CPU one after the other, but 8-bit ones of some releases.
    fn save(&mut self) {
        self.tape.enter(Module {
            name: "save",
            layer: None,
        });
        self.saved = self.tape.save_eight_bit();
    }

    /// After the first step DDP knows the order of the backward pass.
    fn rebuild_buckets(&mut self) {
        if let Some(mut reducer) = self.reducer.take() {
            reducer.rebuild(self.tape, &self.parameters());
            self.reducer = Some(reducer);
        }
    }
}

impl Training<'_, '_> {
    /// One optimizer step.
    fn step(&mut self, micros: &[MicroBatchShape]) {
        let zero_grad = self.configuration.zero_grad;
        if zero_grad == ZeroGrad::BeforeForward {
            self.zero_grad();
        }
        for (number, micro) in micros.iter().enumerate() {
            // The others are under `no_sync`.
            let is_last = number + 1 == micros.len();
            self.tape.reduces.set(self.reducer.is_some() && is_last);
            self.tape.sync_units(is_last);
            self.tape.syncs.set(is_last);
            self.micro_batch(micro);
        }
        let tape = self.tape;
        tape.phase(Phase::Optimizer);
        tape.enter(Module {
            name: "optimizer",
            layer: None,
        });
        if self.configuration.zero().is_some() {
            // It clips in place.
            tape.step_of_zero(self.configuration.optim, &mut self.optimizer, &self.masters);
            tape.step_end();
            tape.phase(Phase::Idle);
            return self.end_step(zero_grad);
        }
        if self.configuration.max_grad_norm > 0.0 {
            match self.configuration.fsdp().is_some_and(Fsdp::clips_shards) {
                true => tape.clip_sharded_grad_norm(self.trainable.len()),
                false => tape.clip_grad_norm(&self.gradients()),
            }
        }
        match self.configuration.fsdp().is_some_and(|fsdp| fsdp.offload_params) {
            true => self
                .optimizer
                .step_on_cpu(tape, &self.trainable, self.configuration.optim),
            false => self.optimizer.step(tape, &self.trainable),
        }
        tape.step_end();
        tape.phase(Phase::Idle);
        self.end_step(zero_grad);
    }

    /// What the loop does once the step is counted.
    fn end_step(&mut self, zero_grad: ZeroGrad) {
        if zero_grad == ZeroGrad::AfterStep {
            self.zero_grad();
        }
        if self.configuration.outputs != OutputLifetime::NextForward {
            self.previous = None;
        }
    }

    /// Generation between two steps. Nothing of it stays.
    fn generate(&self, generation: &Generation) {
        let tape = self.tape;
        tape.autocast(self.configuration.autocast_dtype(), || {
            tape.evaluate(|| self.model.generate(tape, self.configuration, generation));
        });
    }

    /// The sizes of the parameters that want gradients.
    fn gradients(&self) -> Vec<u64> {
        self.parameters().into_iter().map(Tensor::numel).collect()
    }

    /// `optimizer.zero_grad()`.
    fn zero_grad(&self) {
        self.tape.zero_grad_of_units();
        for parameter in self.trainable.iter() {
            drop(self.tape.take_gradient(parameter));
        }
    }

    /// A forward and a backward pass.
    fn micro_batch(&mut self, micro: &MicroBatchShape) {
        let (tape, configuration, model) = (self.tape, self.configuration, &self.model);
        tape.phase(Phase::Forward);
        let unpads = configuration.transformers.unpads_whole_batches && !micro.padded && micro.apart == 0;
        tape.unpadded.set(if unpads {
            micro.batch * micro.len
        } else {
            micro.unpadded
        });
        tape.begin_forward_of_zero();
        let ids = tape.input(micro);
        let autocast = configuration.autocast_dtype();
        let output = tape.autocast(autocast, || {
            tape.within(Mode::Record, || {
                tape.in_unit(tape.root_unit(), false, || {
                    let looks_at = model.looks_at(configuration);
                    let work = || model.forward(tape, configuration, micro, &ids);
                    let forward = || tape.in_container(looks_at, false, work);
                    match configuration.adapter {
                        Some(_) => tape.in_container(None, false, forward),
                        None => forward(),
                    }
                })
            })
        });
        let output = match &self.reducer {
            Some(reducer) => tape.within(Mode::Record, || reducer.outputs(output)),
            None => output,
        };
        self.previous = None;
        let Output { loss, logits, cache } = output;
        let outputs = (configuration.outputs != OutputLifetime::None).then_some((logits, cache));
        tape.phase(Phase::Backward);
        tape.begin_backward_of_zero();
        loss.backward(&|frame: &Frame| tape.autocast(autocast, || model.recompute(tape, frame)));
        let history = tape.clear_graph(self.leaves);
        // Where outputs do not leave the forward pass, of the loss only a detached number does.
        self.previous = outputs.map(|outputs| StepOutputs {
            _outputs: outputs,
            _loss: loss,
            _history: history,
            _ids: ids,
        });
    }
}

/// The outputs of a micro-batch, which outlive its backward pass.
struct StepOutputs<'t> {
    _outputs: (Option<Tensor<'t>>, Cache<'t>),
    _loss: Tensor<'t>,
    _history: Vec<Tensor<'t>>,
    _ids: Tensor<'t>,
}

impl Tape {
    /// The token ids of a micro-batch, which are their own labels.
    fn input(&self, micro: &MicroBatchShape) -> Tensor<'_> {
        let layout = Layout::contiguous(&[micro.batch, micro.len]);
        self.empty_as(layout, Dtype::Int64, Category::Input)
    }
}
