//! The rotary embedding (Su et al. 2021, arXiv:2104.09864), and the keys of `config.json` that describe it.

use serde_json::{Map, Value};

use super::error::ConfigError;
use super::keys::Keys;

/// The rotary embedding of a decoder's queries and keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// How the frequencies are stretched to longer contexts.
    pub scaling: Option<RopeScaling>,
    /// Share of a head's width that is rotated.
    pub partial_factor: f64,
}

/// A way to stretch the rotary embedding's frequencies.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Llama 3's.
    Llama3(Llama3Scaling),
    /// LongRoPE.
    LongRope(LongRopeScaling),
    /// YaRN.
    Yarn(YarnScaling),
    /// All wavelengths are stretched by one factor (transformers' `rope_type: linear`).
    Linear(f64),
    /// None up to the model's positions, beyond which the base grows with the sequence (transformers' `rope_type:
    /// dynamic`).
    Dynamic,
    /// Another, by transformers' `rope_type`.
    Other(String),
}

/// Llama 3's scaling of rotary frequencies (transformers' `rope_type: llama3`): wavelengths above
/// `original_max_position_embeddings / low_freq_factor` are stretched by `factor`, those below
/// `original_max_position_embeddings / high_freq_factor` are kept, and those between are interpolated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Llama3Scaling {
    /// How far long wavelengths are stretched.
    pub factor: f64,
    /// Bounds the wavelengths that are stretched in full.
    pub low_freq_factor: f64,
    /// Bounds the wavelengths that are kept.
    pub high_freq_factor: f64,
    /// Positions that the model was trained on before its context was stretched.
    pub original_max_position_embeddings: usize,
}

/// LongRoPE (Ding et al. 2024, arXiv:2402.13753; transformers' `rope_type: longrope`): each wavelength is stretched by
/// a factor of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct LongRopeScaling {
    /// A factor for each pair of rotated dimensions, for sequences of up to `original_max_position_embeddings`.
    pub short_factor: Vec<f64>,
    /// A factor for each pair of rotated dimensions, for longer sequences.
    pub long_factor: Vec<f64>,
    /// Positions that the model was trained on before its context was stretched; at least 2.
    pub original_max_position_embeddings: usize,
    /// Multiplies the cosines and sines.
    pub attention_factor: f64,
}

/// YaRN (Peng et al. 2023, arXiv:2309.00071; transformers' `rope_type: yarn`): wavelengths that turn at least
/// `beta_fast` times in the original context are kept, those that turn at most `beta_slow` times are stretched by
/// `factor`, and those between are interpolated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct YarnScaling {
    /// How far long wavelengths are stretched.
    pub factor: f64,
    /// Turns from which on wavelengths are kept.
    pub beta_fast: f64,
    /// Turns up to which wavelengths are stretched in full.
    pub beta_slow: f64,
    /// Positions that the model was trained on before its context was stretched.
    pub original_max_position_embeddings: usize,
    /// True if the bounds between the pairs of dimensions are whole numbers.
    pub truncate: bool,
    /// Multiplies the cosines and sines.
    pub attention_factor: f64,
}

impl YarnScaling {
    /// How much of each pair's stretching is done, 0 to 1, of `rotary_dim` rotated dimensions
    /// (`modeling_rope_utils._compute_yarn_parameters`).
    pub fn ramp(&self, theta: f64, rotary_dim: usize) -> impl Iterator<Item = f64> + use<> {
        let dims = rotary_dim as f64;
        let original = self.original_max_position_embeddings as f64;
        let pair = |turns: f64| dims * (original / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * theta.ln());
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(dims - 1.0));
        // As transformers does, so that nothing is divided by 0.
        let width = if low == high { 0.001 } else { high - low };
        (0..rotary_dim / 2).map(move |pair| ((pair as f64 - low) / width).clamp(0.0, 1.0))
    }
}

impl LongRopeScaling {
    /// True for a sequence with the factors of long ones.
    pub fn is_long(&self, positions: usize) -> bool {
        positions > self.original_max_position_embeddings
    }

    /// The factors of the wavelengths in a sequence of `positions`.
    pub fn factors(&self, positions: usize) -> &[f64] {
        match self.is_long(positions) {
            true => &self.long_factor,
            false => &self.short_factor,
        }
    }
}

impl Default for Rope {
    fn default() -> Self {
        Self {
            theta: 10_000.0,
            scaling: None,
            partial_factor: 1.0,
        }
    }
}

impl Rope {
    /// Width of the part that is rotated of a head of the width `head_dim`.
    pub fn rotary_dim(&self, head_dim: usize) -> usize {
        (head_dim as f64 * self.partial_factor) as usize
    }

    /// The most tokens of a sample of a model whose file says `max_position_embeddings`: published files leave it at the
    /// context before it was stretched by one factor, or by YaRN.
    pub(super) fn positions(&self, max_position_embeddings: usize) -> usize {
        match &self.scaling {
            Some(RopeScaling::Yarn(yarn)) => {
                let stretched = yarn.factor * yarn.original_max_position_embeddings as f64;
                max_position_embeddings.max(stretched as usize)
            }
            Some(RopeScaling::Linear(factor)) => {
                max_position_embeddings.max((factor * max_position_embeddings as f64) as usize)
            }
            _ => max_position_embeddings,
        }
    }

    /// Reads the rotary embedding of a decoder with heads of the width `head_dim` and so many positions.
    ///
    /// transformers 4 keeps the scaling in `rope_scaling`, transformers 5 in `rope_parameters` with the base.
    pub(super) fn read(keys: &Keys, head_dim: usize, positions: usize) -> Result<Self, ConfigError> {
        let theta = keys.positive("rope_theta", keys.family.defaults.rope_theta)?;
        let all = object(keys, &["rope_scaling", "rope_parameters"])?;
        let inner = match all {
            Some(all) => of_type(keys, all, "full_attention")?.or(Some(all)),
            None => None,
        };
        Self::of(keys, inner, theta, head_dim, positions)
    }

    /// Reads that of blocks with a window, in families where it is another.
    pub(super) fn read_local(keys: &Keys, head_dim: usize, positions: usize) -> Result<Option<Self>, ConfigError> {
        let Some(theta) = keys.family.defaults.local_rope_theta else {
            return Ok(None);
        };
        let theta = keys.positive("rope_local_base_freq", theta)?;
        let inner = match object(keys, &["rope_parameters"])? {
            Some(all) => of_type(keys, all, "sliding_attention")?,
            None => None,
        };
        Self::of(keys, inner, theta, head_dim, positions).map(Some)
    }

    /// `inner` is the object that describes the embedding, `keys` those of the file.
    fn of(
        keys: &Keys,
        inner: Option<&Map<String, Value>>,
        theta: f64,
        head_dim: usize,
        positions: usize,
    ) -> Result<Self, ConfigError> {
        let empty = Map::new();
        let inner = Keys {
            values: inner.unwrap_or(&empty),
            family: keys.family,
        };
        let share = inner.get("partial_rotary_factor");
        let rope = Self {
            theta: inner.positive("rope_theta", theta)?,
            scaling: None,
            partial_factor: partial_factor(keys, share.or(keys.get("partial_rotary_factor")))?,
        };
        // Old files call `rope_type` `type`; some have both.
        let kind = inner.text("rope_type")?.or(inner.text("type")?);
        let scaling = match kind.as_deref() {
            None | Some("default") => None,
            Some("llama3") => Some(RopeScaling::Llama3(llama3(&inner)?)),
            // The first checkpoints of Phi 3 call it su, after its author.
            Some("longrope" | "su") => {
                let pairs = rope.rotary_dim(head_dim) / 2;
                Some(RopeScaling::LongRope(long_rope(keys, &inner, pairs, positions)?))
            }
            Some("yarn") => Some(RopeScaling::Yarn(yarn(keys, &inner, positions)?)),
            Some("dynamic") => Some(RopeScaling::Dynamic),
            Some("linear") => Some(RopeScaling::Linear(needed(
                &inner,
                "linear",
                "factor",
                "`factor`, above 0",
            )?)),
            Some(other) => Some(RopeScaling::Other(other.into())),
        };
        Ok(Self { scaling, ..rope })
    }
}

/// The object under the first of `names` that the file has, unless it is empty.
fn object<'a>(keys: &'a Keys, names: &[&'static str]) -> Result<Option<&'a Map<String, Value>>, ConfigError> {
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let found = names.iter().map(|name| (*name, keys.get(name)));
    let mut found = found.filter_map(|(name, value)| Some((name, value.filter(|value| !is_empty(value))?)));
    match found.next() {
        Some((name, value)) => as_object(keys, name, value).map(Some),
        None => Ok(None),
    }
}

/// transformers 5 has an object for each type of layer in families with several rotary embeddings: that of
/// `layer_type`.
fn of_type<'a>(
    keys: &Keys,
    all: &'a Map<String, Value>,
    layer_type: &'static str,
) -> Result<Option<&'a Map<String, Value>>, ConfigError> {
    match all.get(layer_type).filter(|value| !value.is_null()) {
        Some(value) => as_object(keys, layer_type, value).map(Some),
        None => Ok(None),
    }
}

fn as_object<'a>(keys: &Keys, name: &'static str, value: &'a Value) -> Result<&'a Map<String, Value>, ConfigError> {
    value.as_object().ok_or_else(|| keys.wrong(name, "an object", value))
}

/// A number above 0 without which there is no scaling of that kind.
fn needed(keys: &Keys, kind: &'static str, key: &'static str, needs: &'static str) -> Result<f64, ConfigError> {
    match keys.get(key) {
        Some(_) => keys.positive(key, 1.0),
        None => Err(ConfigError::Scaling { kind, needs }),
    }
}

fn partial_factor(keys: &Keys, value: Option<&Value>) -> Result<f64, ConfigError> {
    let Some(value) = value else { return Ok(1.0) };
    let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| keys.wrong("partial_rotary_factor", "a share from 0 to 1", value))
}

fn llama3(keys: &Keys) -> Result<Llama3Scaling, ConfigError> {
    let missing = |needs| ConfigError::Scaling { kind: "llama3", needs };
    let number = |key, needs| needed(keys, "llama3", key, needs);
    let original = keys.optional_size("original_max_position_embeddings")?;
    let scaling = Llama3Scaling {
        factor: number("factor", "`factor`, above 0")?,
        low_freq_factor: number("low_freq_factor", "`low_freq_factor`, above 0")?,
        high_freq_factor: number("high_freq_factor", "`high_freq_factor`, above 0")?,
        original_max_position_embeddings: original.ok_or(missing("`original_max_position_embeddings`"))?,
    };
    if scaling.high_freq_factor <= scaling.low_freq_factor {
        return Err(missing("`high_freq_factor` above `low_freq_factor`"));
    }
    Ok(scaling)
}

/// The positions before the context was stretched. `inner` has the keys of the scaling, `outer` those of the file, which
/// win (`RotaryEmbeddingConfigMixin.standardize_rope_params`).
fn original_positions(outer: &Keys, inner: &Keys) -> Result<Option<usize>, ConfigError> {
    let key = "original_max_position_embeddings";
    Ok(outer.optional_size(key)?.or(inner.optional_size(key)?))
}

fn long_rope(outer: &Keys, inner: &Keys, pairs: usize, positions: usize) -> Result<LongRopeScaling, ConfigError> {
    let missing = |needs| ConfigError::Scaling {
        kind: "longrope",
        needs,
    };
    let original = original_positions(outer, inner)?.filter(|original| *original > 1);
    let original = original.ok_or(missing("`original_max_position_embeddings`, above 1"))?;
    let factor = inner.positive("factor", positions as f64 / original as f64)?;
    Ok(LongRopeScaling {
        short_factor: inner.factors("short_factor", pairs)?.ok_or(missing("`short_factor`"))?,
        long_factor: inner.factors("long_factor", pairs)?.ok_or(missing("`long_factor`"))?,
        original_max_position_embeddings: original,
        attention_factor: inner.positive("attention_factor", attention_factor(factor, original))?,
    })
}

/// The model's positions stand for the original ones where none are called so.
fn yarn(outer: &Keys, inner: &Keys, positions: usize) -> Result<YarnScaling, ConfigError> {
    let original = original_positions(outer, inner)?.unwrap_or(positions);
    let factor = inner.positive("factor", positions as f64 / original as f64)?;
    // A 0 counts as none, as in transformers.
    let number = |key| {
        let is_right = |number: f64| number >= 0.0 && number.is_finite();
        inner.number(key, 0.0, is_right, "a number, 0 or above")
    };
    let scale = |by: f64| {
        if factor <= 1.0 {
            1.0
        } else {
            0.1 * by * factor.ln() + 1.0
        }
    };
    let attention_factor = match [number("mscale")?, number("mscale_all_dim")?] {
        [one, all] if one != 0.0 && all != 0.0 => scale(one) / scale(all),
        _ => scale(1.0),
    };
    let beta = |key, default| number(key).map(|beta| if beta == 0.0 { default } else { beta });
    Ok(YarnScaling {
        factor,
        beta_fast: beta("beta_fast", 32.0)?,
        beta_slow: beta("beta_slow", 1.0)?,
        original_max_position_embeddings: original,
        truncate: inner.flag("truncate")?.unwrap_or(true),
        attention_factor: inner.positive("attention_factor", attention_factor)?,
    })
}

/// transformers' default (`modeling_rope_utils._compute_longrope_parameters`) for a context that is stretched by
/// `factor`.
fn attention_factor(factor: f64, original: usize) -> f64 {
    match factor > 1.0 {
        true => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
        false => 1.0,
    }
}
