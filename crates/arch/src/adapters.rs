//! The linear layers of a model that get an adapter.

use options::methods::interface::{Layer, Tensor};
use options::{AdapterMethod, AdapterOptions, TargetModules, is_in};

use super::config::ModelConfig;
use super::module::{Kind, Module};

impl ModelConfig {
    /// True if the linear layer called `module` in full gets an adapter. The head that predicts tokens gets one where it
    /// is named, as in PEFT.
    pub fn adapts(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let names = matches!(
            adapter.target_modules,
            Some(TargetModules::Names(_) | TargetModules::Pattern(_))
        );
        let head = self.family.description().token_head();
        if !names && head.is_some_and(|head| head.path == module) {
            return false;
        }
        let is_target = match (&adapter.target_modules, &adapter.method) {
            (Some(TargetModules::Peft), method) | (None, method @ AdapterMethod::Ia3(_)) => {
                let chosen = self.family.chosen_layers(method.adapter());
                chosen.is_some_and(|names| ends_in(module, names))
            }
            (Some(targets), _) => targets.contains(module),
            (None, method) => method.adapter().is_of_layers(),
        };
        let is_excluded = adapter.exclude_modules.as_ref();
        let is_target = is_target && !is_excluded.is_some_and(|excluded| excluded.contains(module));
        // A layer whose name is there in full is adapted wherever it is.
        let is_named = match &adapter.target_modules {
            Some(TargetModules::Names(names)) => names.iter().any(|name| name == module),
            _ => false,
        };
        let is_meant = is_named || is_in(adapter.layers_to_transform.as_deref(), self.block_of(module));
        is_target && is_meant && !adapter.saves_whole(module)
    }

    /// The layers that can have an adapter, with their names in full, in the order of a forward pass.
    pub fn layers_for_adapters(&self) -> impl Iterator<Item = (String, &'static Module)> {
        let linear = self.modules().filter(|(_, module)| module.kind == Kind::Linear);
        let head = self.family.description().token_head();
        linear.chain(head.map(|head| (head.path.to_owned(), head)))
    }

    /// The layers that get an adapter.
    pub fn adapted(&self, adapter: &AdapterOptions) -> impl Iterator<Item = (String, &'static Module)> {
        self.layers_for_adapters()
            .filter(move |(name, _)| self.adapts(adapter, name))
    }

    /// The most outputs and the most inputs of the linear layers that get an adapter.
    pub fn largest_adapted(&self, adapter: &AdapterOptions) -> (usize, usize) {
        let dims = self.adapted(adapter).map(|(_, module)| module.dims(self));
        dims.fold((0, 0), |(rows, cols), dims| (rows.max(dims[0]), cols.max(dims[1])))
    }

    /// The linear layer called `name` in full, as the adapter's method sees it.
    pub fn layer<'a>(&self, adapter: &AdapterOptions, name: &'a str, module: &Module) -> Layer<'a> {
        let dims = match module.dims(self)[..] {
            [rows, columns] => [rows, columns],
            _ => [0, 0],
        };
        adapter.layer(name, dims, self.is_feedforward(adapter, name))
    }

    /// The numbers of virtual tokens and of elements of each; `None` for a method without.
    pub fn virtual_tokens(&self, adapter: &AdapterOptions) -> Option<[usize; 2]> {
        match &adapter.method {
            AdapterMethod::PromptTuning(prompt) => Some([prompt.num_virtual_tokens, self.hidden_size]),
            AdapterMethod::PrefixTuning(prefix) => {
                let keys = self.num_key_value_heads * self.head_dim;
                Some([prefix.num_virtual_tokens, 2 * self.num_hidden_layers * keys])
            }
            _ => None,
        }
    }

    /// Elements of the adapters that are trained.
    pub fn adapter_elements(&self, adapter: &AdapterOptions) -> usize {
        if let Some([tokens, width]) = self.virtual_tokens(adapter) {
            return tokens * width;
        }
        let options = adapter.method.options();
        let trained = |tensors: Vec<Tensor>| {
            let trained = tensors.iter().filter(|tensor| tensor.is_trained);
            trained.map(Tensor::elements).sum::<usize>()
        };
        let of_layer =
            |(name, module): (String, &Module)| trained(options.tensors(&self.layer(adapter, &name, module)));
        let norms = self.modules().filter(|(name, _)| self.tunes_norm(adapter, name));
        let of_norm = |(_, module): (String, &Module)| module.dims(self).into_iter().product::<usize>();
        self.adapted(adapter).map(of_layer).sum::<usize>() + norms.map(of_norm).sum::<usize>()
    }

    /// True if IA3 scales the inputs of the layer called `module` in full, and not its outputs.
    pub fn is_feedforward(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let AdapterMethod::Ia3(options) = &adapter.method else {
            return false;
        };
        match &options.feedforward_modules {
            Some(names) => ends_in(module, names),
            None => self.ia3().is_some_and(|ia3| ends_in(module, ia3.feedforward)),
        }
    }
}

/// True if the name of a module ends in one of `names`.
fn ends_in(module: &str, names: &[impl AsRef<str>]) -> bool {
    let ends = |name: &str| module == name || module.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    names.iter().any(|name| ends(name.as_ref()))
}
