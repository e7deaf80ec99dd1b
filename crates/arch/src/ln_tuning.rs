//! The norms that LayerNorm tuning trains: PEFT's choice, by family.

use options::{AdapterOptions, ends_in};

use super::config::ModelConfig;
use super::family::Family;

/// PEFT's choices of norms for LayerNorm tuning, one for each family that has one.
pub fn norm_choices() -> impl Iterator<Item = &'static [&'static str]> {
    Family::ALL.iter().filter_map(|family| family.description().tuned_norms)
}

impl ModelConfig {
    /// The norms that PEFT tunes, by the ends of their names; `None` where it has no choice.
    pub fn tuned_norms(&self) -> Option<&'static [&'static str]> {
        self.family.description().tuned_norms
    }

    /// True if the norm called `module` in full is tuned.
    pub fn tunes_norm(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let is_tuned = |names: &[&str]| names.iter().any(|name| ends_in(module, name));
        let is_method = adapter.adapter().is_of_norms() && !adapter.saves_whole(module);
        is_method && self.tuned_norms().is_some_and(is_tuned)
    }
}
