//! The norms that LayerNorm tuning trains: PEFT's choice.

use options::{AdapterOptions, ends_in};

use super::config::ModelConfig;

impl ModelConfig {
    /// True if the norm called `module` in full is tuned.
    pub fn tunes_norm(&self, adapter: &AdapterOptions, module: &str) -> bool {
        let is_tuned = |names: &[&str]| names.iter().any(|name| ends_in(module, name));
        let is_method = adapter.adapter().is_of_norms() && !adapter.saves_whole(module);
        is_method && self.tuned_norms().is_some_and(is_tuned)
    }
}
