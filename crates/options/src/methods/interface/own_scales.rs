//! Ranks and alphas of some modules, beside those of all.

use crate::invalid::{self, Invalid};
use crate::{Patterns, matching};

/// The patterns of one map of a spec.
#[derive(Debug, Clone, Copy)]
pub struct OwnScales<'a> {
    /// The map.
    pub(crate) map: &'static str,
    /// Other ranks.
    pub(crate) ranks: &'a Patterns<usize>,
    /// Other alphas.
    pub(crate) alphas: &'a Patterns<f64>,
    /// The key of the alpha of all modules.
    pub(crate) alpha_key: &'static str,
    /// That alpha, if it is not LoRA's.
    pub(crate) alpha: Option<f64>,
}

impl OwnScales<'_> {
    /// The alpha of the module called `module` in full.
    pub(crate) fn alpha_of(&self, module: &str, lora_alpha: f64) -> f64 {
        matching(self.alphas, module).unwrap_or(self.alpha.unwrap_or(lora_alpha))
    }

    /// Adds the values that are out of their range.
    pub(crate) fn check_values(&self, found: &mut Vec<Invalid>) {
        found.extend(self.alpha.and_then(|alpha| invalid::alpha(self.alpha_key, alpha).err()));
        for (pattern, rank) in self.ranks {
            let key = format!("{}.rank_pattern.{pattern}", self.map);
            found.extend(invalid::rank(&key, *rank).err());
        }
        for (pattern, alpha) in self.alphas {
            let key = format!("{}.alpha_pattern.{pattern}", self.map);
            found.extend(invalid::alpha(&key, *alpha).err());
        }
    }

    /// Adds the patterns that say what all modules have already.
    pub(crate) fn check_idle(&self, rank: usize, lora_alpha: f64, found: &mut Vec<Invalid>) {
        let alpha = self.alpha.unwrap_or(lora_alpha);
        let idle = |key: String, what: &str, with| {
            let invalid = Invalid::idle(key, format!("{what} of every module already"));
            invalid.with(with).help("leave the pattern out")
        };
        for (pattern, own) in self.ranks.iter().filter(|(_, own)| **own == rank) {
            let key = format!("{}.rank_pattern.{pattern}", self.map);
            found.push(idle(key, &format!("{own} is the rank"), "rank"));
        }
        for (pattern, own) in self.alphas.iter().filter(|(_, own)| **own == alpha) {
            let key = format!("{}.alpha_pattern.{pattern}", self.map);
            found.push(idle(key, &format!("{own} is the alpha"), self.alpha_key));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Adapter;

    #[test]
    fn patterns_have_the_same_rules_in_all_methods() {
        for (adapter, map, alpha_key) in [
            (Adapter::Lora, "lora", "lora_alpha"),
            (Adapter::Dora, "lora", "lora_alpha"),
            (Adapter::Loha, "loha", "loha.alpha"),
            (Adapter::Lokr, "lokr", "lokr.alpha"),
        ] {
            let of = |ranks, alphas| {
                let options = json!({ "rank_pattern": ranks, "alpha_pattern": alphas });
                adapter.with_options(options).expect("options")
            };
            let right = of(json!({"q_proj": 4, "v_proj": 8}), json!({"q_proj": 2.0, "o_proj": 8.0}));
            let mut found = Vec::new();
            right.options().check_values(&mut found);
            assert_eq!(found, [], "{map}");
            right.options().check_patterns(8, 8.0, &mut found);
            let found: Vec<_> = found
                .into_iter()
                .map(|found| (found.is_idle, found.with.clone(), found.to_string()))
                .collect();
            let idle = |with: &'static str, text: String| (true, vec![with], text);
            let help = "of every module already; leave the pattern out";
            let expected = [
                idle("rank", format!("{map}.rank_pattern.v_proj: 8 is the rank {help}")),
                idle(alpha_key, format!("{map}.alpha_pattern.o_proj: 8 is the alpha {help}")),
            ];
            assert_eq!(found, expected);

            let wrong = of(json!({"q_proj": 0, "v_proj": 65_537}), json!({"q_proj": 0.0}));
            let mut found = Vec::new();
            wrong.options().check_values(&mut found);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            let expected = [
                format!("{map}.rank_pattern.q_proj: must be at least 1, got 0"),
                format!("{map}.rank_pattern.v_proj: must be at most 65536, got 65537"),
                format!("{map}.alpha_pattern.q_proj: must be more than 0 and at most 1e6, got 0"),
            ];
            assert_eq!(found, expected);
        }
    }
}
