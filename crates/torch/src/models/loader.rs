//! What modules are made of: their weights. The adapters come after them ([`super::adapters`]). Quantised models were
//! loaded before ([`crate::loading`]); others come to the GPU as their modules ask, as with `model.to("cuda")`. Names,
//! shapes and biases are the family's ([`arch`]), which lists them in the order of a forward pass; the modelling code
//! asks for them by name in its own order.

use arch::{Kind, ModelConfig, Module};
use options::Upcast;
use trace::Category;

use crate::configuration::Configuration;
use crate::dtype::Dtype;
use crate::fsdp::init::Member;
use crate::groups::Groups;
use crate::layout::{Dims, Layout};
use crate::loading::{Loaded, Part, Weight};
use crate::ops::rotary::Rotary;
use crate::peft::{Base, BaseLayer, Linear};
use crate::tape::Tape;
use crate::tape::Tensor;
use crate::versions::RotaryTables;
use crate::view::{StorageId, Target};

/// Modules that TRL casts to bfloat16 after k-bit preparation: `peft_module_casting_to_bf16` in `trl/trainer/utils.py`.
const TRL_CASTS: [&str; 4] = ["lm_head", "embed_tokens", "wte", "wpe"];

/// Makes the weights of a model.
pub(crate) struct Loader<'t, 'c> {
    pub tape: &'t Tape,
    pub configuration: &'c Configuration,
    /// The tensors that the optimizer updates, in its order.
    pub trainable: Groups<'t>,
    /// The tensors with gradients that the optimizer does not update.
    pub unstepped: Vec<Tensor<'t>>,
    /// Weights of the base model so far.
    pub parameters: u64,
    /// The tensors that PEFT saves.
    pub saved: Vec<SavedTensor>,
    /// The factors that all layers share, of VeRA.
    pub(super) shared: Option<[Tensor<'t>; 2]>,
    /// Frozen weights of which copies are trained, and copies of buffers beside those.
    pub originals: Vec<Tensor<'t>>,
    /// True if a layer has an adapter.
    pub is_adapted: bool,
    /// All parameters, if they are to be sharded.
    pub members: Vec<Member>,
    /// The weights that were loaded before their modules ask.
    loaded: Loaded<'t>,
    /// The block whose modules ask, if any.
    block: Option<usize>,
}

/// A tensor of an adapter's file.
pub(crate) struct SavedTensor {
    pub block: Option<usize>,
    /// Its module, empty where it is of the whole model.
    pub module: &'static str,
    pub part: &'static str,
    pub dims: Dims,
    pub dtype: Dtype,
}

impl<'t, 'c> Loader<'t, 'c> {
    pub(crate) fn new(tape: &'t Tape, configuration: &'c Configuration) -> Self {
        Self {
            tape,
            configuration,
            trainable: Groups::new(configuration.has_groups()),
            unstepped: Vec::new(),
            parameters: 0,
            saved: Vec::new(),
            shared: None,
            originals: Vec::new(),
            is_adapted: false,
            members: Vec::new(),
            loaded: Loaded::load(tape, configuration),
            block: None,
        }
    }

    /// Begins a block, or the modules outside of the blocks.
    pub(crate) fn enter(&mut self, block: Option<usize>) {
        self.block = block;
    }

    /// Ends the base model. PEFT's k-bit preparation has cast weights to float32 one by one and, in newer releases,
    /// gives the allocator's cache back at its end.
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
        let make = |dtype| self.tape.weight(layout, dtype, Category::Parameter);
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
        if configuration.adapter.is_none() && is_trained() {
            weight = self.leaf(weight, path, name);
        }
        let is_embedding = self.module(path).kind.is_embedding();
        self.share(&mut weight, self.block, false, is_embedding);
        weight
    }

    /// Has the parameter of a sharded model shared, which then has the format that it is gathered in.
    pub(super) fn share(
        &mut self,
        parameter: &mut Tensor<'t>,
        block: Option<usize>,
        is_own_unit: bool,
        is_embedding: bool,
    ) {
        if !self.tape.is_sharded {
            return;
        }
        let leaf = match parameter.view.edge.target() {
            Target::Leaf(leaf) => Some(leaf),
            _ => None,
        };
        if self.tape.partitions_parameters {
            parameter.view.storage = StorageId::of_parameter(self.members.len());
        }
        let mut member = Member {
            block,
            is_own_unit,
            leaf,
            elements: parameter.numel(),
            rows: u64::from(parameter.dims().first().copied().unwrap_or(1)),
            dtype: parameter.dtype(),
            is_embedding,
            kept: StorageId::NOWHERE,
        };
        if let Some(zero) = self.configuration.zero() {
            member.kept = self.tape.arrive(zero, &member);
        }
        self.members.push(member);
        if let Some(dtype) = self.configuration.fsdp().and_then(|fsdp| fsdp.param_dtype) {
            parameter.view.dtype = dtype;
        }
    }

    /// Has the optimizer update the tensor, which is `part` of the module.
    pub(super) fn leaf(&mut self, tensor: Tensor<'t>, path: &str, part: &str) -> Tensor<'t> {
        let leaf = self.tape.leaf(tensor);
        match part == options::methods::PROMPT_EMBEDDINGS || self.module(path).kind.is_embedding() {
            true => self.trainable.push_embedding(leaf.clone()),
            false => self.trainable.push(leaf.clone(), part),
        }
        leaf
    }

    /// The name in full of a module in a block, if any.
    pub(super) fn name(&self, path: &str, block: Option<usize>) -> String {
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
                let elements = self.matrix(path).iter().map(|&dim| u64::from(dim)).product::<u64>();
                self.parameters += elements;
                // Two in a byte, and several bytes in a number of `bnb_4bit_quant_storage`: that of all others, which a
                // unit asks for.
                let dtype = self.configuration.unquantised();
                self.members.push(Member {
                    block: self.block,
                    is_own_unit: false,
                    leaf: None,
                    elements: elements.div_ceil(2 * dtype.size()),
                    rows: elements.div_ceil(2 * dtype.size()),
                    dtype,
                    is_embedding: false,
                    kept: StorageId::NOWHERE,
                });
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
            let dtype = match transformers.keeps_float32_angles {
                true => Dtype::Float32,
                false => self.configuration.unquantised(),
            };
            [0, 1].map(|_| self.tape.empty_as(table, dtype, Category::Parameter))
        });
        (transformers.angles != RotaryTables::Shared).then_some(Rotary {
            width,
            tables,
            takes_out: transformers.angles == RotaryTables::TakenOut,
        })
    }
}
