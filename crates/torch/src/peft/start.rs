//! Start values that are taken out of the weight: PiSSA's and OLoRA's, as PEFT computes them while it puts the adapter
//! on the layer (`pissa_init` and `olora_init` in `tuners/lora/layer.py`).
//!
//! Workspaces of cuSOLVER, which decomposes the weights, are not counted.

use options::InitLoraWeights;

use super::base::{Base, BaseLayer};
use super::lora::Lora;
use crate::configuration::Backend;
use crate::dtype::Dtype;
use crate::tape::Tape;

impl<'t> Lora<'t> {
    /// Takes the factors out of the weight, which becomes another.
    pub(super) fn take_out(&self, layer: &mut BaseLayer<'t>, init: InitLoraWeights, tape: &'t Tape) {
        match init {
            InitLoraWeights::Default | InitLoraWeights::Gaussian => {}
            InitLoraWeights::Pissa => self.pissa(layer, tape),
            InitLoraWeights::Olora => self.olora(layer, tape),
        }
    }

    /// The factors from a singular value decomposition, and the rest of a dense weight.
    fn pissa(&self, layer: &mut BaseLayer<'t>, tape: &'t Tape) {
        let (Base::Dense(weight), [rows, columns]) = (&mut layer.weight, layer.dims) else {
            return;
        };
        let float = |dims: &[u32]| tape.empty(dims, Dtype::Float32);
        let wide = weight.to(Dtype::Float32).detach();
        // cuSOLVER gets a copy that it may write to.
        let copy = (tape.backend == Backend::Cuda).then(|| float(&layer.dims));
        let least = rows.min(columns);
        let decomposition = [float(&[rows, least]), float(&[least]), float(&[least, columns])];
        drop(copy);
        for factor in [&self.a, &self.b] {
            let values = float(&[self.rank(), 1]);
            let diagonal = float(&[self.rank(), self.rank()]);
            drop((tape.product(factor.dims(), Dtype::Float32), values, diagonal));
        }
        let scaled = float(self.b.dims());
        let product = tape.product(&layer.dims, Dtype::Float32);
        drop(scaled);
        let rest = float(&layer.dims);
        drop((product, wide));
        *weight = tape.parameter(&rest, weight.dtype());
        drop((rest, decomposition));
    }

    /// The factors from a QR decomposition, and the rest of the weight, quantised again if it was.
    fn olora(&self, layer: &mut BaseLayer<'t>, tape: &'t Tape) {
        let [rows, columns] = layer.dims;
        let float = |dims: &[u32]| tape.empty(dims, Dtype::Float32);
        let weight = layer.weight.dequantised(tape);
        let wide = weight.to(Dtype::Float32);
        drop(weight);
        let least = rows.min(columns);
        let decomposition = [float(&[rows, least]), float(&[least, columns])];
        let scaled = float(self.b.dims());
        let product = tape.product(&layer.dims, Dtype::Float32);
        drop((scaled, product));
        layer.weight = match &layer.weight {
            Base::Dense(weight) => Base::Dense(tape.parameter(&wide, weight.dtype())),
            Base::FourBit(weight) => Base::FourBit(weight.quantised_again(wide)),
            // Specs refuse it: PEFT does not quantise this weight again.
            Base::EightBit(weight) => Base::EightBit(weight.quantised_again(wide)),
        };
        drop(decomposition);
    }

    fn rank(&self) -> u32 {
        self.b.dim_from_last(0)
    }
}

#[cfg(test)]
mod tests {
    use arch::Preset;
    use trace::Account;
    use trace::Category;

    use super::*;
    use crate::configuration::Configuration;
    use crate::layout::Layout;

    /// What `python/torch_abstract/make_start_values.py` counted.
    const PEAKS: &str = include_str!("../../../../tests/fixtures/torch_abstract/start_values.csv");

    #[test]
    fn start_values_take_what_peft_takes() {
        let mut compared = 0;
        for row in PEAKS.lines().skip(1) {
            let [init, dtype, rows, columns, rank, peak, _] = row.split(',').collect::<Vec<_>>()[..] else {
                panic!("{row}");
            };
            let init = match init {
                "pissa" => InitLoraWeights::Pissa,
                "olora" => InitLoraWeights::Olora,
                _ => continue,
            };
            let [rows, columns, rank] = [rows, columns, rank].map(|size| size.parse().unwrap());
            let dtype = match dtype {
                "float32" => Dtype::Float32,
                _ => Dtype::Bfloat16,
            };
            let tape = Tape::new(&Configuration {
                backend: Backend::Cpu,
                ..Configuration::new(Preset::named("tiny").unwrap().config())
            });
            let layout = Layout::contiguous(&[rows, columns]);
            let weight = tape.empty_as(layout, dtype, Category::Parameter);
            let bytes = weight.numel() * dtype.size();
            let mut layer = BaseLayer {
                weight: Base::Dense(weight),
                bias: None,
                dims: [rows, columns],
            };
            let start = layer.start_dtype(Dtype::Float32);
            let factor = |dims: [u32; 2]| tape.factor(&dims, Dtype::Float32, start);
            let lora = Lora {
                returns_input_format: false,
                a: factor([rank, columns]),
                b: factor([rows, rank]),
                magnitude: None,
                dropout: false,
                dtype: Dtype::Float32,
            };
            tape.cast_adapters();
            lora.take_out(&mut layer, init, &tape);
            let account = Account::of(&tape.take_trace(), 512, 0);
            assert_eq!(
                account.peak.bytes - bytes.next_multiple_of(512),
                peak.parse::<u64>().unwrap(),
                "{row}"
            );
            compared += 1;
        }
        assert_eq!(compared, 16);
    }
}
