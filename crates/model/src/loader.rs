//! Builds a model's layers from its source, tensor by tensor: rows are read into one buffer, and stored in their format
//! before the next ones are read. So loading holds one chunk in float32 and the finished weights.

use std::sync::Arc;

use arch::{Kind, ModelConfig, Module, ModuleName, WeightName};
use candle_core::{DType, Device};
use half::{bf16, f16};
use memory::{Buffer, tiers::Slot};
use nn::{
    adapter::{Adapters, SharedFactors},
    dropout::Dropout,
    head::Head,
    linear::{Linear, Projection},
    param::Param,
    tensor::{Float, Shape, Tensor, floating},
    weight::Weight,
};
use options::{AdapterOptions, Attention, Autocast, Bias, Dtype, Loss, ModelOptions, OffloadedBlocks};
use quant::{Quantized, device::OnDevice};
use trace::Category;

use super::error::LoadError;
use super::host_blocks::HostBlocks;
use super::source::Source;

/// Elements that are read at a time (4 MiB in float32).
const CHUNK_ELEMENTS: usize = 1 << 20;

/// Builds the layers that models share; each kind of model adds its own.
pub(super) struct Loader<'a> {
    options: &'a ModelOptions,
    config: &'a ModelConfig,
    /// `None` in a dry run, which reads nothing.
    source: Option<&'a Source>,
    device: &'a Device,
    /// Makes the adapters, if there are to be some.
    adapters: Option<Adapters<'a>>,
    /// The rows that were read last, in float32.
    buffer: Buffer<f32>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        options: &'a ModelOptions,
        config: &'a ModelConfig,
        source: Option<&'a Source>,
        device: &'a Device,
    ) -> Self {
        let adapters = options.adapter.as_ref().map(|adapter| Adapters {
            options: adapter,
            config,
            seed: options.seed,
            hidden: floating(options.hidden_dtype()),
            device,
            shared: None,
        });
        Self {
            options,
            config,
            source,
            device,
            adapters,
            buffer: Buffer::zeros(0),
        }
    }

    /// The factors that the adapters made so far share.
    pub(super) fn shared_factors(&self) -> Option<Arc<SharedFactors>> {
        self.adapters.as_ref()?.shared.clone()
    }

    /// A module outside the blocks.
    pub(super) fn outside(&self, module: &Module) -> ModuleName {
        ModuleName::new(module.path)
    }

    /// A linear layer, with its bias, and its adapter if it is one of the targets.
    pub(super) fn linear(&mut self, name: ModuleName, module: &Module) -> Result<Linear, LoadError> {
        let shape = (module.shape[0].of(self.config), module.shape[1].of(self.config));
        // PEFT trains the head beside adapters whole (`modules_to_save`).
        let is_whole = module.kind == Kind::Classifier;
        let weight_name = name.part("weight");
        let mut weight = match self.format().filter(|_| !is_whole) {
            None => Weight::Dense(self.param(weight_name, shape.into(), is_whole || self.trains(weight_name))?),
            Some(format) => {
                let matrix = self.quantized(weight_name, shape, format)?;
                let products = floating(self.options.products_dtype());
                if self.device.is_cpu() {
                    Weight::Quantized { matrix, products }
                } else {
                    let matrix = OnDevice::new(&matrix, self.device)?;
                    Weight::OnDevice { matrix, products }
                }
            }
        };
        let adapter = match &mut self.adapters {
            Some(adapters) if !is_whole => {
                let _module = memory::whole(name);
                adapters.adapter(name, &mut weight)?
            }
            _ => None,
        };
        let bias = if module.bias.of(self.config) {
            let name = name.part("bias");
            let trained = self.options.adapter.as_ref().map(|options| options.bias());
            let beside_adapter = adapter.is_some() && trained == Some(Bias::LoraOnly);
            Some(self.param(name, shape.0.into(), is_whole || beside_adapter || self.trains(name))?)
        } else {
            None
        };
        Ok(Linear { weight, bias, adapter })
    }

    /// The head over its weight, with its adapter if it is one of the targets.
    pub(super) fn head(&mut self, module: &Module, weight: Param) -> Result<Head, LoadError> {
        let Some(adapters) = &mut self.adapters else {
            return Ok(Head::Plain(weight));
        };
        let name = ModuleName::new(module.path);
        let mut weight = Weight::Dense(weight);
        let adapter = {
            let _module = memory::whole(name);
            adapters.adapter(name, &mut weight)?
        };
        Ok(match (weight, adapter) {
            (Weight::Dense(weight), None) => Head::Plain(weight),
            (weight, adapter) => Head::Adapted(Projection::of(Linear {
                weight,
                bias: None,
                adapter,
            })),
        })
    }

    /// A linear layer by itself.
    pub(super) fn projection(&mut self, name: ModuleName, module: &Module) -> Result<Projection<1>, LoadError> {
        self.linear(name, module).map(Projection::of)
    }

    /// A dense weight `part` of a module.
    pub(super) fn dense(&mut self, name: ModuleName, module: &Module, part: &'static str) -> Result<Param, LoadError> {
        let weight = name.part(part);
        let is_tuned = |adapter: &AdapterOptions| self.config.tunes_norm(adapter, &name.to_string());
        let is_tuned = self.adapter().is_some_and(is_tuned);
        let mut param = self.param(weight, self.shape(module), is_tuned || self.trains(weight))?;
        if is_tuned {
            param.name = name.part(options::methods::tuned(part));
        }
        param.is_embedding = module.kind.is_embedding();
        Ok(param)
    }

    fn shape(&self, module: &Module) -> Shape {
        match module.shape {
            [rows, cols] => Shape::from((rows.of(self.config), cols.of(self.config))),
            _ => Shape::from(module.shape[0].of(self.config)),
        }
    }

    /// The table of an embedding or a head, which may wait in the host's memory.
    pub(super) fn table(&mut self, name: ModuleName, module: &Module) -> Result<Param, LoadError> {
        let (module_name, name, shape) = (name, name.part("weight"), self.shape(module));
        if !self.options.offloads_embeddings || self.trains(name) {
            return self.dense(module_name, module, "weight");
        }
        let mut value = self.value(name, shape, Category::Offloaded, &Device::Cpu)?;
        if !self.device.is_cpu() {
            // The device's ops read it, not the kernels.
            value = Tensor::from_candle(value.to_candle()?)?;
        }
        Ok(Param::offloaded(name, value))
    }

    /// Moves the frozen weights of block `index` to the host if they shall wait there.
    pub(super) fn place(
        &self,
        index: usize,
        frozen: Vec<&mut dyn Slot>,
        host_blocks: &mut HostBlocks,
    ) -> Result<(), LoadError> {
        let blocks = self.config.num_hidden_layers;
        let leaves = |blocks_that_leave: &OffloadedBlocks| blocks_that_leave.contains(index, blocks);
        if self.options.offloaded_blocks.as_ref().is_some_and(leaves) {
            host_blocks.push(frozen)?;
        } else {
            host_blocks.push_resident();
        }
        Ok(())
    }

    /// The dropout that is called `name`.
    pub(super) fn dropout(&self, name: impl std::fmt::Display, probability: f64) -> Dropout {
        Dropout::new(self.options.seed, name, probability)
    }

    /// The format of hidden states and of what is not quantised.
    pub(super) fn hidden(&self) -> DType {
        floating(self.options.hidden_dtype())
    }

    /// The format of products and of what lies between them, if it is not that of hidden states.
    pub(super) fn products(&self) -> Option<DType> {
        match self.options.autocast {
            Autocast::None => None,
            Autocast::Bfloat16 => Some(DType::BF16),
            Autocast::Float16 => Some(DType::F16),
        }
    }

    /// True if the head has a table of its own.
    pub(super) fn has_own_head(&self) -> bool {
        self.config.head_table(self.options) != self.config.family.description().embeddings[0].path
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    /// How the causal loss is computed.
    pub(super) fn loss(&self) -> Loss {
        self.options.loss
    }

    /// The implementation of attention.
    pub(super) fn attention(&self) -> Attention {
        self.options.attn_implementation
    }

    /// The most tokens that a sequence has, virtual ones included.
    pub(super) fn positions(&self) -> usize {
        self.options.virtual_tokens() + self.options.max_seq_length
    }

    /// The adapters' options, if there are to be some.
    pub(super) fn adapter(&self) -> Option<&AdapterOptions> {
        self.options.adapter.as_ref()
    }

    /// What random values follow from.
    pub(super) fn seed(&self) -> u64 {
        self.options.seed
    }

    fn trains(&self, name: WeightName) -> bool {
        self.options.trains(&name.module, name.part)
    }

    /// The format of matrices that are not dense.
    fn format(&self) -> Option<quant::Format> {
        match self.options.dtype {
            Dtype::Int4 => Some(quant::Format::Int4(quant::Int4Format {
                quant_type: self.options.bnb_4bit_quant_type,
                block_size: self.options.bnb_4bit_blocksize,
                double_quant: self.options.bnb_4bit_use_double_quant,
            })),
            Dtype::Int8 => Some(match self.options.llm_int8_threshold {
                None => quant::Format::Int8,
                Some(threshold) => quant::Format::LlmInt8 { threshold },
            }),
            Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16 => None,
        }
    }

    fn param(&mut self, name: WeightName, shape: Shape, trainable: bool) -> Result<Param, LoadError> {
        let value = self.value(name, shape, Category::Parameter, self.device)?;
        let mut param = Param::base(name, value, trainable);
        if let ([_], Some(adapter)) = (shape.dims(), &self.options.adapter) {
            param.lr_ratio = adapter.lr_ratio();
        }
        Ok(param)
    }

    /// The value of a dense weight, of category `category` on `device`.
    fn value(
        &mut self,
        name: WeightName,
        shape: Shape,
        category: Category,
        device: &Device,
    ) -> Result<Tensor, LoadError> {
        let _module = memory::whole(name.in_timeline());
        match self.hidden() {
            DType::F16 => self.collect::<f16>(name, shape, category, device),
            DType::BF16 => self.collect::<bf16>(name, shape, category, device),
            _ => self.collect::<f32>(name, shape, category, device),
        }
    }

    fn collect<E: Float>(
        &mut self,
        name: WeightName,
        shape: Shape,
        category: Category,
        device: &Device,
    ) -> Result<Tensor, LoadError> {
        let mut values = {
            let _scope = memory::scope(category);
            Buffer::<E>::unwritten(shape.len())
        };
        // A vector is read as one row.
        let rows = match *shape.dims() {
            [rows, _] => rows,
            _ => 1,
        };
        let mut done = 0;
        self.chunks(name, (rows, shape.len() / rows), |chunk| {
            let stored = &mut values.values_mut()[done..][..chunk.len()];
            kernels::convert::narrow(chunk, stored);
            if let Some(at) = kernels::convert::first_not_finite(stored) {
                return Err(LoadError::NotFinite {
                    name: name.to_string(),
                    row: (done + at) * rows / shape.len(),
                    value: chunk[at],
                    dtype: E::NAME,
                });
            }
            done += chunk.len();
            Ok(())
        })?;
        Ok(Tensor::on_device(values, shape, device)?)
    }

    fn quantized(
        &mut self,
        name: WeightName,
        (rows, cols): (usize, usize),
        format: quant::Format,
    ) -> Result<Quantized, LoadError> {
        let _module = memory::whole(name.in_timeline());
        let fail = |error| LoadError::Quantise {
            name: name.to_string(),
            error,
        };
        let mut builder = {
            let _scope = memory::scope(Category::Parameter);
            quant::Builder::new(format, rows, cols)
        };
        self.chunks(name, (rows, cols), |chunk| builder.push(chunk).map_err(fail))?;
        let _scope = memory::scope(Category::Parameter);
        builder.finish().map_err(fail)
    }

    /// The name that a weight is stored by: a tied head is the embedding.
    fn stored_name(&self, name: WeightName) -> String {
        let family = self.config.family.description();
        let head = family.token_head();
        let is_head = head.is_some_and(|head| name.module == ModuleName::new(head.path));
        match is_head && self.config.tie_word_embeddings {
            true => ModuleName::new(family.embeddings[0].path).part(name.part).to_string(),
            false => name.to_string(),
        }
    }

    /// Calls `take` with consecutive parts of the flattened tensor.
    fn chunks(
        &mut self,
        name: WeightName,
        (rows, cols): (usize, usize),
        mut take: impl FnMut(&[f32]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let step = (CHUNK_ELEMENTS / cols).clamp(1, rows);
        if self.buffer.len() < step * cols {
            self.buffer = Buffer::zeros(0);
            self.buffer = Buffer::unwritten(step * cols);
        }
        let Some(source) = self.source else { return Ok(()) };
        let name = self.stored_name(name);
        for start in (0..rows).step_by(step) {
            let end = rows.min(start + step);
            let chunk = &mut self.buffer.values_mut()[..(end - start) * cols];
            source.read_rows(&name, start..end, chunk)?;
            take(chunk)?;
        }
        Ok(())
    }
}
