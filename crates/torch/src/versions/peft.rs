//! Releases of PEFT.

use base::text::Mistake;

use super::version::{Version, planned, studied};

/// How a release of PEFT prepares a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peft {
    /// The k-bit preparation ends with `torch.cuda.empty_cache()`. From 0.20.0: `prepare_model_for_kbit_training` in
    /// `utils/other.py`.
    pub empties_cache: bool,
    /// A dense layer with LoRA gives its output the format of its input, and not that of the layer's own output, which
    /// under autocast has 16 bits. Until 0.9.0: `Linear.forward` in `tuners/lora/layer.py`.
    pub returns_input_format: bool,
    /// It knows 4-bit weights. From 0.4.0.
    pub has_int4: bool,
    /// Other methods than LoRA, and start values that are taken out of a weight, are computed as here. From 0.20.0 for DoRA,
    /// IA3, MiSS and VeRA; OFT, LoHa and LoKr were compared with 0.21.2 alone. What came before has not been studied, and
    /// older releases do not have all of them.
    pub has_methods: bool,
}

impl Peft {
    /// The newest release.
    pub const TODAY: Self = Self {
        empties_cache: true,
        returns_input_format: false,
        has_int4: true,
        has_methods: true,
    };

    const OLDEST: Version = Version(0, 3, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("peft", text, Self::OLDEST)?;
        Ok(Self {
            empties_cache: version >= Version(0, 20, 0),
            returns_input_format: version < Version(0, 9, 0),
            has_int4: version >= Version(0, 4, 0),
            has_methods: version >= Version(0, 20, 0),
        })
    }

    /// The release that is planned for `text`, if that is one with `nearest` before it.
    pub fn planned(text: &str) -> Option<String> {
        planned(text, || studied("peft", text, Self::OLDEST))
    }
}
