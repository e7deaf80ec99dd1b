//! What a GPU can do of what a cell asks for.

use torch::gpu::{Gpu, NATIVE_BFLOAT16, Technique, autocasts_to_bfloat16, wheels};

use super::super::{Attention, Autocast, Cell, Dtype, FloatDtype};
use options::invalid::{Checked, Invalid};

impl Cell {
    /// Checks that `gpu` has kernels for everything the cell asks for.
    ///
    /// # Errors
    /// The key whose value it cannot compute.
    pub fn check_gpu(&self, gpu: &Gpu) -> Checked {
        let flash = self.attn_implementation == Attention::FlashAttention2;
        let int8 = self.dtype == Dtype::Int8;
        for (key, is_used, technique, help) in [
            (
                "attn_implementation",
                flash,
                Technique::FlashAttention2,
                "use `attn_implementation: sdpa`",
            ),
            ("dtype", int8, Technique::LlmInt8, "use `dtype: int4`"),
        ] {
            if is_used && gpu.capability < technique.needs() {
                let (name, needs) = (technique.name(), technique.needs());
                let first = needs.architecture().name();
                let message = format!(
                    "{name} needs {first} or newer (compute capability {needs}); `{gpu}` has {}",
                    gpu.capability
                );
                return Err(Invalid::new(key, message).with("gpu").help(help));
            }
        }
        if self.autocast == Autocast::Bfloat16 && !autocasts_to_bfloat16(gpu.capability, self.torch_version()) {
            let message = format!("this release of PyTorch has no autocast to bfloat16 on `{gpu}`");
            return Err(Invalid::new("autocast", message)
                .with("torch.torch_version")
                .help("use `autocast: float16`"));
        }
        Ok(())
    }

    /// Facts to know about a plan of the cell for `gpu`.
    pub fn notes_on(&self, gpu: &Gpu) -> Vec<String> {
        let mut notes = Vec::new();
        if gpu.total_source.is_estimate() {
            notes.push(format!(
                "the memory of `{gpu}` is {}: nobody has published it",
                gpu.total_source
            ));
        }
        notes.extend(wheels(gpu.capability, self.torch_version()));
        if self.computes_in_bfloat16() && gpu.capability < NATIVE_BFLOAT16 {
            let generation = gpu.capability.architecture().name();
            notes.push(format!(
                "bfloat16 is emulated on {generation}, which is slow: float16 is not"
            ));
            if self.attn_implementation == Attention::Sdpa {
                notes.push(format!(
                    "sdpa has no fused kernel for bfloat16 on {generation} and holds all scores"
                ));
            }
        }
        notes
    }

    fn torch_version(&self) -> Option<&str> {
        self.torch.torch_version.as_deref()
    }

    /// True if hidden states are in bfloat16, or products are.
    fn computes_in_bfloat16(&self) -> bool {
        match self.autocast {
            Autocast::Bfloat16 => true,
            Autocast::Float16 => false,
            Autocast::None if self.dtype.is_quantised() => self.bnb_4bit_compute_dtype == FloatDtype::Bfloat16,
            Autocast::None => self.dtype == Dtype::Bfloat16,
        }
    }
}
