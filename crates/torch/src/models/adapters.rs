//! Adapters put on the layers of a model, and modules that are trained beside them.

use options::{AdapterMethod, AdapterOptions, Bias, LoraATraining, LoraOptions, TargetModules, VeraOptions};
use trace::Category;

use super::loader::{Loader, SavedTensor};
use super::norm::Norm;
use crate::dtype::Dtype;
use crate::peft::{Adapter, Base, Ia3, Linear, Lora, Miss, Prefix, Prompt, Vera, VirtualTokens};
use crate::tape::Tensor;

impl<'t> Loader<'t, '_> {
    /// True if the layer called `name` in full gets an adapter.
    fn is_target(&self, adapter: &AdapterOptions, name: &str) -> bool {
        // PEFT leaves the head out unless it is named.
        let is_open = adapter.target_modules != Some(TargetModules::AllLinear) || name != "lm_head";
        is_open && self.configuration.model.adapts(adapter, name)
    }

    /// Trains a copy of a norm's weight in its own format, if LayerNorm tuning tunes it (`tuners/ln_tuning/layer.py`)
    /// or it is saved whole.
    pub(crate) fn train_norm(&mut self, norm: &mut Norm<'t>, block: Option<usize>) {
        let (model, adapter) = (&self.configuration.model, self.configuration.adapter.as_ref());
        if adapter.is_some_and(|adapter| model.tunes_norm(adapter, &self.name(norm.path, block))) {
            self.is_adapted = true;
            self.train_copy(&mut norm.weight, norm.path, block, peft::tuned("weight"));
        } else {
            self.save_whole(&mut norm.weight, norm.path, block);
        }
    }

    /// Trains a copy of a weight that is not a linear layer's, if its module is saved whole (`ModulesToSaveWrapper` in
    /// `utils/other.py`).
    pub(crate) fn save_whole(&mut self, weight: &mut Tensor<'t>, module: &'static str, block: Option<usize>) {
        if self.saves_whole(module, block) {
            self.train_copy(weight, module, block, "weight");
        }
    }

    /// Copies a tensor that is no weight of the module, if the module is saved whole.
    pub(crate) fn save_buffer(&mut self, buffer: &Tensor<'t>, module: &str, block: Option<usize>) {
        if self.saves_whole(module, block) {
            let copy = self
                .tape
                .empty_as(buffer.view.layout, buffer.dtype(), Category::Adapter);
            self.originals.push(copy);
        }
    }

    fn saves_whole(&self, module: &str, block: Option<usize>) -> bool {
        let adapter = self.configuration.adapter.as_ref();
        adapter.is_some_and(|adapter| adapter.saves_whole(&self.name(module, block)))
    }

    /// What the method puts before the tokens of a sequence, if anything.
    pub(crate) fn virtual_tokens(&mut self) -> Option<VirtualTokens<'t>> {
        let (model, adapter) = (&self.configuration.model, self.configuration.adapter.as_ref()?);
        let heads = model.num_key_value_heads;
        let (tokens, width) = match &adapter.method {
            AdapterMethod::PromptTuning(prompt) => (prompt.num_virtual_tokens, model.hidden_size),
            AdapterMethod::PrefixTuning(prefix) => (
                prefix.num_virtual_tokens,
                2 * model.num_hidden_layers * heads * model.head_dim,
            ),
            AdapterMethod::Lora(_)
            | AdapterMethod::Dora(_)
            | AdapterMethod::Ia3(_)
            | AdapterMethod::Miss(_)
            | AdapterMethod::Vera(_)
            | AdapterMethod::LnTuning => return None,
        };
        let dtype = Dtype::floating(adapter.dtype);
        let normal = self.tape.factor(&[tokens as u32, width as u32], dtype, dtype);
        self.is_adapted = true;
        let embedding = self.train("", None, peft::PROMPT_EMBEDDINGS, normal);
        Some(match adapter.method {
            AdapterMethod::PromptTuning(_) => VirtualTokens::Prompt(Prompt { embedding }),
            _ => VirtualTokens::Prefix(Prefix {
                embedding,
                blocks: model.num_hidden_layers as u32,
                heads: heads as u32,
            }),
        })
    }

    /// Puts an adapter on the layer if it is one of the targets, or trains a copy if it is saved whole. `block` is the
    /// one it is in, if any.
    pub(crate) fn adapt(&mut self, linear: &mut Linear<'t>, block: Option<usize>) {
        let configuration = self.configuration;
        let Some(options) = &configuration.adapter else {
            return;
        };
        if self.saves_whole(linear.path, block) {
            return self.train_layer_copy(linear, block);
        }
        let name = self.name(linear.path, block);
        let is_target = self.is_target(options, &name);
        let trains_bias = match options.bias() {
            Bias::None => false,
            Bias::All => true,
            Bias::LoraOnly => is_target,
        };
        if let Some(bias) = linear.base.bias.take_if(|_| trains_bias) {
            let bias = self.tape.leaf(bias);
            let part = if is_target { peft::BASE_BIAS } else { "bias" };
            self.trainable.push(bias.clone(), "bias");
            self.record(block, linear.path, part, &bias);
            linear.base.bias = Some(bias);
        }
        if !is_target {
            return;
        }
        self.is_adapted = true;
        let dtype = Dtype::floating(options.dtype);
        let ([rows, columns], start) = (linear.base.dims, linear.base.start_dtype(dtype));
        linear.adapter = Some(match &options.method {
            // No layer is their target.
            AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning => return,
            AdapterMethod::Lora(lora) => Adapter::Lora(self.lora(linear, block, (lora, lora.rank_of(&name)), dtype)),
            AdapterMethod::Dora(lora) => {
                let mut dora = self.lora(linear, block, (lora, lora.rank_of(&name)), dtype);
                let magnitude = dora.dora_magnitude(&linear.base, self.tape);
                dora.magnitude = Some(self.train(linear.path, block, peft::MAGNITUDE, magnitude));
                Adapter::Lora(dora)
            }
            AdapterMethod::Ia3(ia3) => {
                let scales_inputs = configuration.model.is_feedforward(ia3, &name);
                let dims = if scales_inputs { [1, columns] } else { [rows, 1] };
                let factors = self.tape.factor(&dims, dtype, start);
                Adapter::Ia3(Ia3 {
                    factors: self.train(linear.path, block, peft::IA3, factors),
                    scales_inputs,
                })
            }
            AdapterMethod::Miss(miss) => {
                let columns = miss.mini_r.map_or(rows, |mini_r| mini_r as u32);
                let zeros = self.tape.factor(&[miss.rank as u32, columns], dtype, start);
                Adapter::Miss(Miss {
                    block: self.train(linear.path, block, peft::MISS, zeros),
                    is_repeated: miss.mini_r.is_some(),
                    dropout: miss.dropout > 0.0,
                })
            }
            AdapterMethod::Vera(vera) => {
                let [b, d] = [rows, vera.rank as u32].map(|len| self.tape.factor(&[len], dtype, start));
                Adapter::Vera(Vera {
                    b: self.train(linear.path, block, peft::VERA_B, b),
                    d: self.train(linear.path, block, peft::VERA_D, d),
                    shared: self.shared_factors(options, vera, (dtype, start)),
                    dropout: vera.dropout > 0.0,
                })
            }
        });
    }

    /// LoRA's factors for the layer, of this rank.
    fn lora(
        &mut self,
        linear: &mut Linear<'t>,
        block: Option<usize>,
        (options, rank): (&LoraOptions, usize),
        dtype: Dtype,
    ) -> Lora<'t> {
        let lora_a = self.configuration.lora_a;
        let lora = self
            .tape
            .lora(&linear.base, rank as u32, dtype, lora_a, options.dropout > 0.0);
        lora.take_out(&mut linear.base, options.init, self.tape);
        match lora_a {
            LoraATraining::Trained => self.trainable.push(lora.a.clone(), peft::LORA_A),
            LoraATraining::Frozen => {}
            LoraATraining::Unstepped => self.unstepped.push(lora.a.clone()),
        }
        self.trainable.push(lora.b.clone(), peft::LORA_B);
        for (part, factor) in [(peft::LORA_A, &lora.a), (peft::LORA_B, &lora.b)] {
            self.record(block, linear.path, part, factor);
        }
        lora
    }

    /// VeRA's factors, which are made for the first layer, of a format and the one that they have before.
    fn shared_factors(
        &mut self,
        adapter: &AdapterOptions,
        vera: &VeraOptions,
        (dtype, start): (Dtype, Dtype),
    ) -> [Tensor<'t>; 2] {
        if let Some(shared) = &self.shared {
            return shared.clone();
        }
        let model = &self.configuration.model;
        let (mut rows, mut columns) = model.largest_adapted(adapter);
        if self.is_target(adapter, "lm_head") && self.has("lm_head") {
            rows = rows.max(model.vocab_size);
            columns = columns.max(model.hidden_size);
        }
        let shared = [[vera.rank, columns], [rows, vera.rank]].map(|dims| {
            let dims = dims.map(|dim| dim as u32);
            self.tape.factor(&dims, dtype, start)
        });
        if vera.save_projection {
            for (part, factor) in peft::VERA_SHARED.into_iter().zip(&shared) {
                self.record(None, "", part, factor);
            }
        }
        self.shared.insert(shared).clone()
    }

    /// Trains and saves `tensor`, which is `part` of the module.
    fn train(
        &mut self,
        module: &'static str,
        block: Option<usize>,
        part: &'static str,
        tensor: Tensor<'t>,
    ) -> Tensor<'t> {
        let leaf = self.leaf(tensor, module, part);
        self.record(block, module, part, &leaf);
        leaf
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

    /// Trains and saves a copy of `weight`, which is `part` of the module, in its place.
    fn train_copy(&mut self, weight: &mut Tensor<'t>, module: &'static str, block: Option<usize>, part: &'static str) {
        let copy = self
            .tape
            .empty_as(weight.view.layout, weight.dtype(), Category::Adapter);
        let copy = self.train(module, block, part, copy);
        self.originals.push(std::mem::replace(weight, copy));
    }

    /// Trains a copy of the layer beside the adapters, as PEFT does with a classifier.
    pub(crate) fn train_layer_copy(&mut self, linear: &mut Linear<'t>, block: Option<usize>) {
        if self.configuration.adapter.is_none() {
            return;
        }
        if let Base::Dense(weight) = &mut linear.base.weight {
            self.train_copy(weight, linear.path, block, "weight");
        }
        if let Some(bias) = &mut linear.base.bias {
            self.train_copy(bias, linear.path, block, "bias");
        }
    }
}
