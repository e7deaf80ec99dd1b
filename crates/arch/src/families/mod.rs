//! The families: a file each, with its facts as transformers and PEFT have them, and a line here. `base.rs` has what
//! families begin with.

mod base;
mod bert;
mod distilbert;
mod gemma;
mod gemma2;
mod gemma3;
mod llama;
mod ministral;
mod mistral;
mod phi3;
mod qwen2;
mod qwen3;

use super::description::Description;

/// Declares the families: the name of the variant, and the module with the facts.
macro_rules! families {
    ($($(#[$doc:meta])* $name:ident => $module:ident,)+) => {
        /// Kinds of models that differ in more than their sizes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Family {
            $($(#[$doc])* $name,)+
        }

        impl Family {
            /// Every family: decoders, then encoders.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The facts of the family.
            pub const fn description(self) -> &'static Description {
                match self {
                    $(Self::$name => &$module::FAMILY,)+
                }
            }
        }
    };
}

families! {
    /// Touvron et al. 2023, arXiv:2302.13971; Grattafiori et al. 2024, arXiv:2407.21783.
    Llama => llama,
    /// Jiang et al. 2023, arXiv:2310.06825.
    Mistral => mistral,
    /// Mistral AI 2024, "Un Ministral, des Ministraux".
    Ministral => ministral,
    /// Qwen 2 and 2.5: Yang et al. 2024, arXiv:2407.10671.
    Qwen2 => qwen2,
    /// Yang et al. 2025, arXiv:2505.09388.
    Qwen3 => qwen3,
    /// Phi 3 and 4: Abdin et al. 2024, arXiv:2404.14219.
    Phi3 => phi3,
    /// Gemma Team 2024, arXiv:2403.08295.
    Gemma => gemma,
    /// Gemma Team 2024, arXiv:2408.00118.
    Gemma2 => gemma2,
    /// The language model: Gemma Team 2025, arXiv:2503.19786.
    Gemma3 => gemma3,
    /// Sanh et al. 2019, arXiv:1910.01108.
    DistilBert => distilbert,
    /// Devlin et al. 2018, arXiv:1810.04805.
    Bert => bert,
}
