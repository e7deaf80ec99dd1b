//! The methods of fine-tuning with adapters: a file each, and a line here. A method's struct is its map in a spec, the
//! trainer's options and the content of PEFT's `adapter_config.json`; its facts are beside it.

mod dora;
mod ia3;
pub mod interface;
mod ln_tuning;
mod loha;
mod lokr;
mod lora;
mod miss;
mod oft;
mod prefix_tuning;
mod prompt_tuning;
mod vera;

pub use ia3::{IA3, Ia3};
use interface::{Facts, Method, OF_LAYERS, Of};
pub use ln_tuning::{LnTuning, tuned};
pub use loha::{HADA, Loha};
pub use lokr::{LOKR_W1, LOKR_W2, Lokr, LokrShape};
pub use lora::{InitLoraWeights, LORA_A, LORA_B, Lora, MAGNITUDE};
pub use miss::{MISS, Miss, MissInit};
pub use oft::{OFT_R, Oft};
pub use prefix_tuning::PrefixTuning;
pub use prompt_tuning::{PROMPT_EMBEDDING, PROMPT_EMBEDDINGS, PROMPT_ENCODER, PromptInit, PromptTuning};
pub use vera::{VERA_B, VERA_D, VERA_SHARED, Vera};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Declares the methods: the name of the variant with its options, the name in specs, and the facts.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($options:ty) = $word:literal, $facts:path;)+) => {
        /// The method of the adapters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Adapter {
            $($(#[$doc])* $name,)+
        }

        /// A method with its own options.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum AdapterMethod {
            $($(#[$doc])* $name($options),)+
        }

        impl Adapter {
            /// All methods.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$name),+];

            /// The name in specs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            /// What is known of it.
            pub fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$name => &$facts,)+
                }
            }

            /// The method with the options of its map in a spec.
            ///
            /// # Errors
            /// If a value is not one of its key.
            pub fn with_options(self, map: Value) -> Result<AdapterMethod, serde_json::Error> {
                match self {
                    $(Self::$name => serde_json::from_value(map).map(AdapterMethod::$name),)+
                }
            }
        }

        impl AdapterMethod {
            /// The method without its options.
            pub fn adapter(&self) -> Adapter {
                match self {
                    $(Self::$name(_) => Adapter::$name,)+
                }
            }

            /// Its options, as any method has them.
            pub fn options(&self) -> &dyn Method {
                match self {
                    $(Self::$name(options) => options,)+
                }
            }
        }
    };
}

methods! {
    /// LoRA (Hu et al. 2021, arXiv:2106.09685): a product of two low-rank factors is added to the weight.
    Lora(Lora) = "lora", lora::FACTS;
    /// DoRA (Liu et al. 2024, arXiv:2402.09353): LoRA, and a trained magnitude for each row of the sum.
    Dora(Lora) = "dora", dora::FACTS;
    /// IA3 (Liu et al. 2022, arXiv:2205.05638): a trained factor for each output of a layer, or each input.
    Ia3(Ia3) = "ia3", ia3::FACTS;
    /// MiSS (Kang & Yin 2024, arXiv:2409.15371): the sum of the input's shards is multiplied with a trained block.
    Miss(Miss) = "miss", miss::FACTS;
    /// VeRA (Kopiczko et al. 2023, arXiv:2310.11454): trained vectors between and after frozen factors that all layers share.
    Vera(Vera) = "vera", vera::FACTS;
    /// OFT (Qiu et al. 2023, arXiv:2306.07280): inputs are rotated block by block, by trained orthogonal matrices.
    Oft(Oft) = "oft", oft::FACTS;
    /// LoHa (Hyeon-Woo et al. 2021, arXiv:2108.06098): the element-wise product of two low-rank products is added to the weight.
    Loha(Loha) = "loha", loha::FACTS;
    /// LoKr (Yeh et al. 2023, arXiv:2309.14859): the Kronecker product of a small matrix and a low-rank product is added to the weight.
    Lokr(Lokr) = "lokr", lokr::FACTS;
    /// Prompt tuning (Lester et al. 2021, arXiv:2104.08691): trained embeddings of virtual tokens before those of the text.
    PromptTuning(PromptTuning) = "prompt_tuning", prompt_tuning::FACTS;
    /// Prefix tuning (Li & Liang 2021, arXiv:2101.00190): trained keys and values of virtual tokens before those of the text.
    PrefixTuning(PrefixTuning) = "prefix_tuning", prefix_tuning::FACTS;
    /// LayerNorm tuning (Zhao et al. 2023, arXiv:2312.11420): the norms that PEFT chooses are trained.
    LnTuning(LnTuning) = "ln_tuning", ln_tuning::FACTS;
}

impl Adapter {
    /// The method of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|adapter| adapter.name() == name)
    }

    /// True if its adapters have a rank.
    pub fn has_rank(self) -> bool {
        self.facts().keys.contains(&"rank")
    }

    /// True if linear layers get it.
    pub fn is_of_layers(self) -> bool {
        self.facts().of == Of::Layers
    }

    /// True if all linear layers get it by default.
    pub fn is_of_all_layers(self) -> bool {
        self.is_of_layers() && !self.facts().is_chosen_by_family
    }

    /// True if it is one of virtual tokens before each sequence.
    pub fn has_virtual_tokens(self) -> bool {
        matches!(self.facts().of, Of::VirtualTokens | Of::CachedTokens)
    }

    /// True if what it trains is a key-value cache.
    pub fn is_cached(self) -> bool {
        self.facts().of == Of::CachedTokens
    }

    /// True if it trains norms of the model.
    pub fn is_of_norms(self) -> bool {
        self.facts().of == Of::Norms
    }

    /// The keys of a cell that only some methods have.
    pub fn own_keys() -> impl Iterator<Item = &'static str> {
        let keys = Self::ALL.into_iter().flat_map(|adapter| adapter.facts().keys);
        let mut own: Vec<&str> = OF_LAYERS.iter().chain(keys).copied().collect();
        own.sort_unstable();
        own.dedup();
        own.into_iter()
    }

    /// True if only some methods have the key `key` at the top of a cell.
    pub fn is_own_key(key: &str) -> bool {
        OF_LAYERS.contains(&key) || Self::ALL.iter().any(|adapter| adapter.facts().keys.contains(&key))
    }

    /// True unless `key` is one of those that only others have.
    pub fn heeds(self, key: &str) -> bool {
        let key = key.split('.').next().unwrap_or(key);
        if OF_LAYERS.contains(&key) {
            return self.is_of_layers();
        }
        self.facts().keys.contains(&key) || !Self::is_own_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::interface::Field;
    use super::*;

    #[test]
    fn names_in_specs_are_those_of_the_registry() {
        for adapter in Adapter::ALL {
            assert_eq!(serde_json::to_value(adapter).unwrap(), adapter.name());
        }
    }

    #[test]
    fn the_fields_of_a_method_stand_for_its_own_keys() {
        for adapter in Adapter::ALL {
            let facts = adapter.facts();
            let method = adapter.with_options(serde_json::json!({})).unwrap();
            let map = serde_json::to_value(&method).unwrap();
            for field in facts.fields.iter().filter_map(Field::key) {
                let top = field.key.split('.').next().unwrap();
                assert!(facts.keys.contains(&top), "{adapter:?}: {}", field.key);
                if let Some((_, own)) = field.key.split_once('.') {
                    assert!(map.get(own).is_some(), "{adapter:?}: {}", field.key);
                }
            }
        }
    }

    #[test]
    fn keys_are_heeded_by_the_methods_that_have_them() {
        let heeding = |key: &str| -> Vec<&str> {
            let heeding = Adapter::ALL.into_iter().filter(|adapter| adapter.heeds(key));
            heeding.map(Adapter::name).collect()
        };
        assert_eq!(heeding("rank"), ["lora", "dora", "miss", "vera", "loha", "lokr"]);
        assert_eq!(heeding("lora.use_rslora"), ["lora", "dora"]);
        assert_eq!(
            heeding("target_modules"),
            ["lora", "dora", "ia3", "miss", "vera", "oft", "loha", "lokr"]
        );
        assert_eq!(heeding("learning_rate").len(), Adapter::ALL.len());
        assert!(!heeding("adapter_dtype").contains(&"ln_tuning"));
    }
}
