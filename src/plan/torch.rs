//! A cell as a configuration of PyTorch's stack.

use crate::arch::ModelConfig;
use crate::spec::cell::{Cell, Checkpointing, ZeroGrad};
use crate::text::Mistake;
use crate::torch::gpu::{ComputeCapability, Gpu};
use crate::torch::{Backend, Bitsandbytes, Configuration, Dtype, Peft, Pytorch, Transformers};

impl Configuration {
    /// The configuration of `cell`, for a model of this shape.
    ///
    /// # Errors
    /// The release of a library that it names has not been studied with such a model.
    pub fn from_cell(cell: &Cell, model: ModelConfig, gpu: Option<&Gpu>) -> Result<Self, Mistake> {
        let compute = Dtype::floating(cell.bnb_4bit_compute_dtype);
        let mut transformers = match &cell.torch.transformers_version {
            Some(version) => Transformers::of(version, model.family)?,
            None => Transformers::TODAY,
        };
        transformers.use_reentrant = cell.torch.use_reentrant.unwrap_or(transformers.use_reentrant);
        let peft = match &cell.torch.peft_version {
            Some(version) => Peft::of(version)?,
            None => Peft::TODAY,
        };
        let bitsandbytes = match &cell.torch.bitsandbytes_version {
            Some(version) => Bitsandbytes::of(version)?,
            None => Bitsandbytes::TODAY,
        };
        let pytorch = match &cell.torch.torch_version {
            Some(version) => Pytorch::of(version)?,
            None => Pytorch::TODAY,
        };
        check_reentrant(cell, &model, &transformers)?;
        Ok(Self {
            model,
            dtype: cell.dtype,
            torch_dtype: compute,
            adapter: cell.model_options().adapter,
            trainable: cell.trainable.clone(),
            lora_a: cell.lora_fa,
            bnb_4bit_blocksize: cell.bnb_4bit_blocksize as u64,
            bnb_4bit_use_double_quant: cell.bnb_4bit_use_double_quant,
            bnb_4bit_compute_dtype: compute,
            finds_outliers: cell.finds_outliers(),
            attn_implementation: cell.attn_implementation,
            sdpa_kernel: None,
            upcast: cell.upcast,
            autocast: cell.autocast,
            use_cache: cell.torch.use_cache,
            empty_cache_steps: cell.empty_cache_steps as u32,
            gradient_checkpointing: cell.gradient_checkpointing.clone(),
            // PEFT asks for it where the model checkpoints, and newer releases of transformers.
            enable_input_require_grads: cell.gradient_checkpointing != Checkpointing::None
                && (cell.rank > 0 || transformers.requires_input_grads),
            optim: cell.optim,
            optim_rank: cell.optim_rank() as u32,
            update_proj_gap: cell.update_proj_gap() as u32,
            weight_decay: cell.weight_decay,
            max_grad_norm: cell.max_grad_norm,
            loss: cell.loss(),
            outputs: cell.torch.keep_outputs,
            zero_grad: match cell.torch.zero_grad {
                // Only an emptied cache lies between the two.
                ZeroGrad::BeforeForward if cell.empty_cache_steps == 0 => ZeroGrad::AfterStep,
                other => other,
            },
            capability: gpu.map_or(ComputeCapability(8, 0), |gpu| gpu.capability),
            transformers,
            peft,
            bitsandbytes,
            pytorch,
            device_map: cell.torch.device_map == Some(true),
            free_bytes: gpu.map(|gpu| gpu.total_bytes - gpu.context.map_or(0, |context| context.bytes)),
            backend: Backend::Cuda,
        })
    }
}

/// Checks that gradients come to the blocks. Reentrant checkpoints give none to a block whose input wants none.
fn check_reentrant(cell: &Cell, model: &ModelConfig, transformers: &Transformers) -> Result<(), Mistake> {
    let options = cell.model_options();
    let mut embeddings = model.family.description().embeddings.iter();
    let is_partial = cell.rank == 0 && cell.trainable.is_some();
    let is_reentrant = transformers.use_reentrant
        && !transformers.requires_input_grads
        && cell.gradient_checkpointing != Checkpointing::None;
    if !is_partial || !is_reentrant || embeddings.any(|module| options.trains(&module.path, "weight")) {
        return Ok(());
    }
    let message =
        "reentrant checkpoints give no gradient to blocks whose input wants none, and no embedding is trained";
    Err(Mistake::new(message).help("use `torch: { use_reentrant: false }`"))
}
