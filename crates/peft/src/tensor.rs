//! A tensor of the weights' file.

use std::borrow::Cow;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView, View};

use options::methods::{PROMPT_EMBEDDINGS, VERA_SHARED};

use super::config::Config;

/// The bias of a layer that has an adapter.
pub const BASE_BIAS: &str = "base_layer.bias";

/// The model's name of a weight that an adapter's file has whole. Layers with an adapter, and tuned norms, are wrapped.
pub fn whole_name(saved: &str) -> String {
    saved.replace("base_layer.", "").replace("ln_tuning_layers.", "")
}

/// PEFT's prefix of a module's name.
const PREFIX: &str = "base_model.model.";
/// PEFT's prefix of a tensor that belongs to no module.
const SHARED_PREFIX: &str = "base_model.";

/// The name in a file.
pub fn file_name(name: &str) -> String {
    let prefix = match name {
        PROMPT_EMBEDDINGS => "",
        name if VERA_SHARED.contains(&name) => SHARED_PREFIX,
        _ => PREFIX,
    };
    format!("{prefix}{name}")
}

/// A tensor of one module's adapter, or a tensor of a module that is saved whole.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterTensor {
    /// The module's name in Hugging Face's model with the tensor's, such as
    /// `model.layers.0.self_attn.q_proj.lora_A.weight`.
    pub name: String,
    /// A: `[rank, input features]`; B: `[output features, rank]`; magnitudes: `[output features]`; a saved module has
    /// its own shape.
    pub shape: Vec<usize>,
    /// Elements, row-major.
    pub values: Vec<f32>,
}

impl AdapterTensor {
    /// A tensor of a file, or the mistake in it.
    pub(super) fn from_view(name: &str, view: &TensorView<'_>) -> Result<Self, String> {
        let shared = name
            .strip_prefix(SHARED_PREFIX)
            .filter(|name| VERA_SHARED.contains(name));
        let own = (name == PROMPT_EMBEDDINGS).then_some(name);
        let name = shared
            .or(own)
            .or_else(|| name.strip_prefix(PREFIX))
            .ok_or(format!("its name does not begin with {PREFIX}"))?;
        let data = view.data();
        let halves = || data.as_chunks::<2>().0.iter();
        let values = match view.dtype() {
            Dtype::F32 => data
                .as_chunks()
                .0
                .iter()
                .map(|&bytes| f32::from_le_bytes(bytes))
                .collect(),
            Dtype::F16 => halves().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect(),
            Dtype::BF16 => halves().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect(),
            other => return Err(format!("it is {other:?}; F32, F16 and BF16 can be read")),
        };
        Ok(Self {
            name: name.to_owned(),
            shape: view.shape().to_vec(),
            values,
        })
    }

    /// The module's name for a tensor of its adapter, `None` for a module that is saved whole, or the mistake.
    pub(super) fn check(&self, config: &Config) -> Result<Option<&str>, String> {
        let elements = self.shape.iter().product::<usize>();
        let saved = config.tensors();
        let found = saved.iter().find_map(|part| {
            let module = self.name.strip_suffix(part.name)?.strip_suffix('.')?;
            Some((module, part))
        });
        match found {
            Some((module, part)) => {
                let rank = config.rank_of(module);
                let has_rank = part.rank_at.is_none_or(|at| self.shape.get(at) == Some(&rank));
                if self.shape.len() == part.dims && has_rank && elements == self.values.len() {
                    return Ok(Some(module));
                }
                let (values, shape) = (self.values.len(), &self.shape);
                Err(format!(
                    "{values} values of the shape {shape:?} do not fit the rank {rank}"
                ))
            }
            None if !config.saves_whole(&self.name) => {
                let names: Vec<&str> = saved.iter().map(|part| part.name).collect();
                Err(format!("it is none of an adapter's tensors, {}", names.join(", ")))
            }
            None if elements == self.values.len() => Ok(None),
            None => {
                let (values, shape) = (self.values.len(), &self.shape);
                Err(format!("{values} values do not fill the shape {shape:?}"))
            }
        }
    }
}

impl View for &AdapterTensor {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect::<Vec<_>>()
            .into()
    }

    fn data_len(&self) -> usize {
        size_of_val(&self.values[..])
    }
}
