//! Adapters put on the layers of a model, and modules that are trained beside them.

use options::{AdapterMethod, Bias};
use trace::Category;

use super::loader::{Loader, SavedTensor};
use super::norm::Norm;
use crate::dtype::Dtype;
use crate::peft::{Base, Linear, Place, Prefix, Prompt, Register, VirtualTokens, put};
use crate::tape::Tensor;

impl<'t> Loader<'t, '_> {
    /// Trains a copy of a norm's weight in its own format, if LayerNorm tuning tunes it (`tuners/ln_tuning/layer.py`)
    /// or it is saved whole.
    pub(crate) fn train_norm(&mut self, norm: &mut Norm<'t>, block: Option<usize>) {
        let (model, adapter) = (&self.configuration.model, self.configuration.adapter.as_ref());
        if adapter.is_some_and(|adapter| model.tunes_norm(adapter, &self.name(norm.path, block))) {
            self.is_adapted = true;
            self.train_copy(&mut norm.weight, norm.path, block, options::methods::tuned("weight"));
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
        let [tokens, width] = model.virtual_tokens(adapter)?;
        let dtype = Dtype::floating(adapter.dtype);
        let normal = self.tape.factor(&[tokens as u32, width as u32], dtype, dtype);
        self.is_adapted = true;
        let embedding = self.train("", None, options::methods::PROMPT_EMBEDDINGS, normal);
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
        let is_target = configuration.model.adapts(options, &name);
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
        let (tape, model) = (self.tape, &configuration.model);
        let dtype = Dtype::floating(options.dtype);
        let start = linear.base.start_dtype(dtype);
        let mut register = OfLayer {
            loader: self,
            module: linear.path,
            block,
        };
        linear.adapter = put(&mut Place {
            tape,
            options,
            model,
            layer: &mut linear.base,
            name: &name,
            dtype,
            start,
            release: configuration.peft,
            register: &mut register,
        });
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
        // A shard has its own format, and not that in which it is gathered.
        let adapter = self.configuration.adapter.as_ref().filter(|_| self.tape.is_sharded);
        self.saved.push(SavedTensor {
            block,
            module,
            part,
            dims: tensor.view.layout.dims,
            dtype: adapter.map_or(tensor.dtype(), |adapter| Dtype::floating(adapter.dtype)),
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

/// Takes the tensors of one layer's adapter.
struct OfLayer<'l, 't, 'c> {
    loader: &'l mut Loader<'t, 'c>,
    module: &'static str,
    block: Option<usize>,
}

impl<'t> Register<'t> for OfLayer<'_, 't, '_> {
    fn train(&mut self, part: &'static str, tensor: Tensor<'t>) -> Tensor<'t> {
        let mut leaf = self.loader.leaf(tensor, self.module, part);
        self.loader.share(&mut leaf, self.block, true, false);
        leaf
    }

    fn leave_unstepped(&mut self, tensor: Tensor<'t>) -> Tensor<'t> {
        let leaf = self.loader.tape.leaf(tensor);
        self.loader.unstepped.push(leaf.clone());
        leaf
    }

    fn save(&mut self, part: &'static str, tensor: &Tensor<'t>) {
        self.loader.record(self.block, self.module, part, tensor);
    }

    fn save_shared(&mut self, part: &'static str, tensor: &Tensor<'t>) {
        self.loader.record(None, "", part, tensor);
    }

    fn shared(&mut self) -> &mut Option<[Tensor<'t>; 2]> {
        &mut self.loader.shared
    }
}
