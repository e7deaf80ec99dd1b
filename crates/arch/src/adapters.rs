//! The linear layers of a model that get an adapter.

use options::{AdapterMethod, AdapterOptions, Ia3Options, is_in};

use super::config::ModelConfig;
use super::ia3::Ia3Modules;
use super::module::Kind;

impl ModelConfig {
    /// True if the linear layer called `module` in full gets an adapter.
    pub fn adapts(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let is_target = match (&adapter.target_modules, &adapter.method) {
            (Some(targets), _) => targets.contains(module),
            (_, AdapterMethod::PromptTuning(_) | AdapterMethod::PrefixTuning(_) | AdapterMethod::LnTuning) => false,
            (None, AdapterMethod::Ia3(_)) => self.ia3().is_some_and(|ia3| ends_in(module, ia3.targets)),
            (None, _) => true,
        };
        let is_meant = is_target && is_in(adapter.layers_to_transform.as_deref(), self.block_of(module));
        is_meant && !adapter.saves_whole(module)
    }

    /// The linear layers that get an adapter, by their names in full.
    pub fn adapted(&self, adapter: &AdapterOptions) -> Vec<String> {
        let linear = self.modules().filter(|(_, module)| module.kind == Kind::Linear);
        let names = linear.map(|(name, _)| name);
        names.filter(|name| self.adapts(adapter, name)).collect()
    }

    /// The most outputs and the most inputs of the linear layers that get an adapter.
    pub fn largest_adapted(&self, adapter: &AdapterOptions) -> (usize, usize) {
        let linear = self.modules().filter(|(_, module)| module.kind == Kind::Linear);
        let adapted = linear.filter(|(name, _)| self.adapts(adapter, name));
        let dims = adapted.map(|(_, module)| module.dims(self));
        dims.fold((0, 0), |(rows, cols), dims| (rows.max(dims[0]), cols.max(dims[1])))
    }

    /// True if IA3 scales the inputs of the layer called `module` in full, and not its outputs.
    pub fn is_feedforward(&self, options: &Ia3Options, module: &str) -> bool {
        match &options.feedforward_modules {
            Some(names) => ends_in(module, names),
            None => self.ia3().is_some_and(|ia3| ends_in(module, ia3.feedforward)),
        }
    }

    /// PEFT's choice for IA3, if it has one for the family.
    pub(super) fn ia3(&self) -> Option<Ia3Modules> {
        self.family.description().ia3
    }
}

/// True if the name of a module ends in one of `names`.
fn ends_in(module: &str, names: &[impl AsRef<str>]) -> bool {
    let ends = |name: &str| module == name || module.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    names.iter().any(|name| ends(name.as_ref()))
}
