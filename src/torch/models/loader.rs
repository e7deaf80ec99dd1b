//! What modules are made of: their weights, then the adapters. Quantised models were loaded before
//! ([`crate::torch::loading`]); others come to the GPU as their modules ask, as with `model.to("cuda")`. Names, shapes and
//! biases are the family's ([`crate::arch`]), which lists them in the order of a forward pass; the modelling code asks for
//! them by name in its own order.

use crate::arch::{Kind, ModelConfig, Module};
use crate::memory::Category;
use crate::options::{self, Bias, LoraATraining, TargetModules, Upcast, is_in, matching};
use crate::peft;
use crate::torch::configuration::Configuration;
use crate::torch::dtype::Dtype;
use crate::torch::groups::Groups;
use crate::torch::layout::{Dims, Layout};
use crate::torch::loading::{Loaded, Part, Weight};
use crate::torch::ops::rotary::Rotary;
use crate::torch::peft::{Adapter, Base, BaseLayer, Linear};
use crate::torch::tape::Tape;
use crate::torch::tape::Tensor;
use crate::torch::versions::RotaryTables;

/// Modules that TRL casts to bfloat16 after k-bit preparation: `peft_module_casting_to_bf16` in `trl/trainer/utils.py`.
const TRL_CASTS: [&str; 4] = ["lm_head", "embed_tokens", "wte", "wpe"];

/// Makes the weights of a model.
pub(crate) struct Loader<'t, 'c> {
    pub(crate) tape: &'t Tape,
    pub(crate) configuration: &'c Configuration,
    /// The tensors that the optimizer updates, in its order.
    pub(crate) trainable: Groups<'t>,
    /// The tensors with gradients that the optimizer does not update.
    pub(crate) unstepped: Vec<Tensor<'t>>,
    /// Weights of the base model so far.
    pub(crate) parameters: u64,
    /// The tensors that PEFT saves.
    pub(crate) saved: Vec<SavedTensor>,
    /// The weights that were loaded before their modules ask.
    loaded: Loaded<'t>,
    /// The block whose modules ask, if any.
    block: Option<usize>,
}

/// A tensor of an adapter's file.
pub(crate) struct SavedTensor {
    pub(crate) block: Option<usize>,
    pub(crate) module: &'static str,
    pub(crate) part: &'static str,
    pub(crate) dims: Dims,
    pub(crate) dtype: Dtype,
}

impl<'t, 'c> Loader<'t, 'c> {
    pub(crate) fn new(tape: &'t Tape, configuration: &'c Configuration) -> Self {
        Self {
            tape,
            configuration,
            trainable: Groups::new(configuration.loraplus),
            unstepped: Vec::new(),
            parameters: 0,
            saved: Vec::new(),
            loaded: Loaded::load(tape, configuration),
            block: None,
        }
    }

    /// Begins a block, or the modules outside of the blocks.
    pub(crate) fn enter(&mut self, block: Option<usize>) {
        self.block = block;
    }

    /// Ends the base model. PEFT's k-bit preparation has cast weights to float32 one by one and, in newer releases, gives the
    /// allocator's cache back at its end.
    pub(crate) fn end_base_model(&mut self) {
        self.block = None;
        if self.configuration.upcast != Upcast::None && self.configuration.peft.empties_cache {
            self.tape.empty_cache();
        }
    }

    /// True if the family has the module.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.configuration.model.family.description().module(path).is_some()
    }

    #[expect(
        clippy::expect_used,
        reason = "modelling code names its families' modules; a test loads every preset"
    )]
    fn module(&self, path: &str) -> &'static Module {
        let family = self.configuration.model.family.description();
        family.module(path).expect("a module of the family")
    }

    fn dims(&self, path: &str) -> Vec<u32> {
        let dims = self.module(path).dims(&self.configuration.model);
        dims.into_iter().map(|dim| dim as u32).collect()
    }

    /// Rows and columns of a linear layer's weight.
    pub(crate) fn matrix(&self, path: &str) -> [u32; 2] {
        match self.dims(path)[..] {
            [rows, columns] => [rows, columns],
            _ => [1, 1],
        }
    }

    fn tensor(&mut self, path: &str, part: Part) -> Tensor<'t> {
        let configuration = self.configuration;
        let dtype = configuration.unquantised();
        let dims = self.dims(path);
        let layout = match part {
            Part::Weight => Layout::contiguous(&dims),
            Part::Bias => Layout::contiguous(&dims[..1]),
        };
        self.parameters += layout.numel();
        let make = |dtype| self.tape.empty_as(layout, dtype, Category::Parameter);
        let mut weight = match self.loaded.take(configuration, path, self.block, part) {
            Some(Weight::Plain(weight)) => weight,
            _ => make(dtype),
        };
        if configuration.upcast != Upcast::None && dtype != Dtype::Float32 {
            weight = make(Dtype::Float32);
        }
        if configuration.upcast == Upcast::Trl && TRL_CASTS.iter().any(|name| path.contains(name)) {
            weight = make(Dtype::Bfloat16);
        }
        let name = match part {
            Part::Weight => "weight",
            Part::Bias => "bias",
        };
        // A new head is always trained.
        let is_trained =
            || self.module(path).kind == Kind::Classifier || configuration.trains(&self.name(path, self.block), name);
        if configuration.rank == 0 && is_trained() {
            weight = self.tape.leaf(weight);
            self.trainable.push(weight.clone(), name);
        }
        weight
    }

    /// The name in full of a module in a block, if any.
    fn name(&self, path: &str, block: Option<usize>) -> String {
        match block {
            Some(block) => {
                let blocks = self.configuration.model.family.description().blocks;
                format!("{blocks}.{block}.{path}")
            }
            None => path.to_owned(),
        }
    }

    /// The weight of an embedding or a norm.
    pub(crate) fn weight(&mut self, path: &str) -> Tensor<'t> {
        self.tensor(path, Part::Weight)
    }

    /// The bias of a norm or a linear layer.
    pub(crate) fn bias(&mut self, path: &str) -> Tensor<'t> {
        self.tensor(path, Part::Bias)
    }

    /// A linear layer of the blocks, which may be quantised.
    pub(crate) fn linear(&mut self, path: &'static str) -> Linear<'t> {
        if !self.configuration.dtype.is_quantised() {
            return self.head(path);
        }
        let base = match self.loaded.take(self.configuration, path, self.block, Part::Weight) {
            Some(Weight::Quantised(base)) => {
                self.parameters += self.matrix(path).iter().map(|&dim| u64::from(dim)).product::<u64>();
                base
            }
            _ => Base::Dense(self.weight(path)),
        };
        self.with_bias(path, base)
    }

    /// A linear layer that is not quantised, as those outside of the blocks.
    pub(crate) fn head(&mut self, path: &'static str) -> Linear<'t> {
        let base = Base::Dense(self.weight(path));
        self.with_bias(path, base)
    }

    fn with_bias(&mut self, path: &'static str, base: Base<'t>) -> Linear<'t> {
        let has_bias = self.module(path).bias.of(&self.configuration.model);
        Linear {
            path,
            base: BaseLayer {
                weight: base,
                bias: has_bias.then(|| self.bias(path)),
                dims: self.matrix(path),
            },
            adapter: None,
        }
    }

    /// A layer's own embedding of positions, where the release has one in each.
    pub(crate) fn rotary(&mut self, config: &ModelConfig) -> Option<Rotary<'t>> {
        let transformers = self.configuration.transformers;
        let width = config.rotary_dim() as u32;
        let tables = transformers.keeps_angles.then(|| {
            let table = Layout::contiguous(&[config.max_position_embeddings as u32, width]);
            let dtype = self.configuration.unquantised();
            [0, 1].map(|_| self.tape.empty_as(table, dtype, Category::Parameter))
        });
        (transformers.angles != RotaryTables::Shared).then_some(Rotary {
            width,
            tables,
            takes_out: transformers.angles == RotaryTables::TakenOut,
        })
    }

    /// True if the layer is one of the targets. `block` is the one it is in, if any.
    fn is_target(&self, path: &str, block: Option<usize>) -> bool {
        let configuration = self.configuration;
        let is_meant = match &configuration.target_modules {
            TargetModules::AllLinear => block.is_some() || path != "lm_head",
            TargetModules::Names(names) => names.iter().any(|name| {
                let rest = path.strip_suffix(name.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
            TargetModules::Pattern(pattern) => pattern.matches(&self.name(path, block)),
        };
        is_meant && is_in(configuration.layers_to_transform.as_deref(), block)
    }

    /// Puts an adapter on the layer if it is one of the targets. `block` is the one it is in, if any.
    pub(crate) fn adapt(&mut self, linear: &mut Linear<'t>, block: Option<usize>) {
        let configuration = self.configuration;
        let is_target = configuration.rank > 0 && self.is_target(linear.path, block);
        let trains_bias = match configuration.bias {
            Bias::None => false,
            Bias::All => true,
            Bias::LoraOnly => is_target,
        };
        if let Some(bias) = linear.base.bias.take_if(|_| trains_bias) {
            let bias = self.tape.leaf(bias);
            self.trainable.push(bias.clone(), "bias");
            let part = if is_target { peft::BASE_BIAS } else { "bias" };
            self.record(block, linear.path, part, &bias);
            linear.base.bias = Some(bias);
        }
        if !is_target {
            return;
        }
        let name = self.name(linear.path, block);
        let rank = matching(&configuration.rank_pattern, &name);
        let mut lora = self.tape.lora(
            linear.base.dims,
            rank.map_or(configuration.rank, |rank| rank as u32),
            configuration.adapter_dtype,
            configuration.lora_a,
            configuration.lora_dropout > 0.0,
        );
        lora.take_out(&mut linear.base, configuration.init, self.tape);
        match configuration.lora_a {
            LoraATraining::Trained => self.trainable.push(lora.a.clone(), peft::LORA_A),
            LoraATraining::Frozen => {}
            LoraATraining::Unstepped => self.unstepped.push(lora.a.clone()),
        }
        self.trainable.push(lora.b.clone(), peft::LORA_B);
        for (part, factor) in [(peft::LORA_A, &lora.a), (peft::LORA_B, &lora.b)] {
            self.record(block, linear.path, part, factor);
        }
        if configuration.adapter == options::Adapter::Dora {
            let magnitude = self.tape.leaf(lora.dora_magnitude(&linear.base, self.tape));
            self.trainable.push(magnitude.clone(), peft::MAGNITUDE);
            self.record(block, linear.path, peft::MAGNITUDE, &magnitude);
            lora.magnitude = Some(magnitude);
        }
        linear.adapter = Some(Adapter::Lora(lora));
    }

    fn record(&mut self, block: Option<usize>, module: &'static str, part: &'static str, tensor: &Tensor<'t>) {
        self.saved.push(SavedTensor {
            block,
            module,
            part,
            dims: tensor.view.layout.dims,
            dtype: tensor.dtype(),
        });
    }

    /// Trains a copy of the layer beside the adapters, as PEFT does with a classifier; gives the frozen original.
    pub(crate) fn train_copy(&mut self, linear: &mut Linear<'t>) -> Vec<Tensor<'t>> {
        if self.configuration.rank == 0 {
            return Vec::new();
        }
        let path = linear.path;
        let mut copy = |part: &'static str, original: &Tensor<'t>| {
            let layout = original.view.layout;
            let empty = self.tape.empty_as(layout, original.dtype(), Category::Adapter);
            let copy = self.tape.leaf(empty);
            self.trainable.push(copy.clone(), part);
            self.record(None, path, part, &copy);
            copy
        };
        let mut originals = Vec::new();
        if let Base::Dense(weight) = &mut linear.base.weight {
            originals.push(std::mem::replace(weight, copy("weight", weight)));
        }
        if let Some(bias) = &mut linear.base.bias {
            originals.push(std::mem::replace(bias, copy("bias", bias)));
        }
        originals
    }
}
