//! Differences of older releases of the libraries, as far as they move the peak.
//!
//! Read from the released sources of transformers 4.37 to 5.23, PEFT 0.19 to 0.21, bitsandbytes 0.41 to 0.50 and PyTorch 1.10
//! to 2.15; named beside each behaviour are the file and the function, and the first release that no longer has it. What
//! differs by a few tensors of a token's or a layer's size at most is left out. A release after those that were read is taken
//! to behave as the last of them.

use std::fmt;
use std::str::FromStr;

use crate::arch::Family;
use crate::text::Mistake;
use crate::torch::caching_allocator::TieBreak;
use crate::torch::loading::{LoadOrder, WarmUp};

/// A release: major, minor and patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) u32, pub(super) u32, pub(super) u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = Mistake;

    /// `4.38` or `4.38.2`; also `0.41.2.post2` and `2.13.0+cu130`, which are as `0.41.2` and `2.13.0`.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let malformed = || {
            let message = format!("{text:?} is not a version");
            Mistake::new(message).help("a version is a text such as \"4.38.2\"")
        };
        let public = text.split_once('+').map_or(text, |(public, _)| public);
        let (numbers, post) = public.split_once(".post").unwrap_or((public, "0"));
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        number(post)?;
        match numbers.split('.').map(number).collect::<Result<Vec<u32>, _>>()?[..] {
            [major, minor] => Ok(Self(major, minor, 0)),
            [major, minor, patch] => Ok(Self(major, minor, patch)),
            _ => Err(malformed()),
        }
    }
}

/// The version that `text` names, if it is one of `library` that has been studied.
fn studied(library: &str, text: &str, oldest: Version) -> Result<Version, Mistake> {
    let version: Version = text.parse()?;
    if version < oldest {
        let message = format!("{library} {text} is older than any whose memory has been studied");
        return Err(Mistake::new(message).help(format!("the oldest is {oldest}")));
    }
    Ok(version)
}

/// The origin of the cosines and sines of a layer's rotary embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryTables {
    /// From the model, which computes them once for all layers.
    Shared,
    /// It computes them itself.
    Computed,
    /// It takes them out of tables that it keeps for all positions.
    TakenOut,
}

/// How a release of transformers computes the decoders of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transformers {
    /// The loss takes the last token's logits away, which copies the others, and gives them a gradient of 0, which is another
    /// copy; later the labels are shifted. Until 4.49.0: `ForCausalLMLoss` in `loss/loss_utils.py`, before 4.46.0 (Mistral:
    /// 4.48.0) `LlamaForCausalLM.forward` and its like.
    pub shifts_logits: bool,
    /// The outputs hold the logits in float32 and not in the model's format. Until 4.46.0 (Mistral: 4.48.0): `logits =
    /// logits.float()` in `LlamaForCausalLM.forward`.
    pub returns_float32_logits: bool,
    /// Until Llama's 4.43.0, Qwen2's 4.45.0 and Mistral's 4.48.0 each layer has its own: `self.rotary_emb(…)` in
    /// `LlamaSdpaAttention.forward`. Llama (until 4.38.0), Qwen2 and Mistral (until 4.42.0) took them out of their tables.
    pub angles: RotaryTables,
    /// Each layer keeps cosines and sines for all positions: `cos_cached` of `LlamaRotaryEmbedding`, until Llama's 4.41.0,
    /// Mistral's 4.42.0 and Qwen2's 4.45.0.
    pub keeps_angles: bool,
    /// `sdpa` is given keys and values repeated for the queries that share them, for every kernel. Until 4.54.0:
    /// `use_gqa_in_sdpa` in `integrations/sdpa_attention.py`.
    pub repeats_heads: bool,
    /// flash_attention_2 is given keys and values repeated for the queries that share them, except in Llama. Until 4.48.0:
    /// `repeat_kv` in `MistralFlashAttention2.forward` and its like.
    pub repeats_flash_heads: bool,
    /// `sdpa` is given queries, keys and values that are contiguous by heads, and so is its output, which is then copied. From
    /// 4.48.0 until 4.56.0: `sdpa_attention_forward` in `integrations/sdpa_attention.py`.
    pub copies_heads: bool,
    /// The mask of padded batches for `sdpa` is made of numbers, once, and not of booleans that each layer turns into numbers.
    /// Nor are samples searched for that are packed into a row. Until 4.53.0, which has `masking_utils.py`; before,
    /// `modeling_attn_mask_utils.py` or the model's `_update_causal_mask`.
    pub masks_are_numbers: bool,
    /// Keys and values are copied into the cache, behind nothing. From 4.56.0: `DynamicLayer.update` in `cache_utils.py`.
    pub copies_into_cache: bool,
    /// Positions times frequencies are a product by cuBLAS. Until 5.19.0: `LlamaRotaryEmbedding.forward` and its like.
    pub multiplies_angles: bool,
    /// `gradient_checkpointing_enable()` asks for reentrant checkpointing. Until 5.0.0: `modeling_utils.py`.
    pub use_reentrant: bool,
    /// The order in which weights that are quantised arrive. From 5.0.0 until 5.4.0 a `ThreadPoolExecutor` brings them:
    /// `convert_and_load_state_dict_in_model` in `core_model_loading.py`; before, `_load_state_dict_into_meta_model` in
    /// `modeling_utils.py` takes one after the other.
    pub load_order: LoadOrder,
    /// The block that warms the allocator up: none until 4.50.0, all weights as they are until 4.52.0, half of that until 5.0.0.
    pub warm_up: WarmUp,
}

/// The libraries whose releases are told apart, each with the first release that does what today's does.
pub const TODAY_SINCE: [(&str, &str); 4] = [
    ("transformers", "5.19.0"),
    ("peft", "0.20.0"),
    ("bitsandbytes", "0.50.0"),
    ("torch", "2.15.0"),
];

impl Transformers {
    /// The newest release.
    pub const TODAY: Self = Self {
        shifts_logits: false,
        returns_float32_logits: false,
        angles: RotaryTables::Shared,
        keeps_angles: false,
        repeats_heads: false,
        repeats_flash_heads: false,
        copies_heads: false,
        masks_are_numbers: false,
        copies_into_cache: true,
        multiplies_angles: false,
        use_reentrant: false,
        load_order: LoadOrder::InTurn,
        warm_up: WarmUp::Quantised,
    };

    const OLDEST: Version = Version(4, 37, 0);

    /// Checks that `text` names a release that can be planned.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn check(text: &str) -> Result<(), Mistake> {
        studied("transformers", text, Self::OLDEST).map(drop)
    }

    /// The behaviour of the release `text` with models of `family`.
    ///
    /// # Errors
    /// The text is not a version, or the two together have not been studied.
    pub fn of(text: &str, family: Family) -> Result<Self, Mistake> {
        let version = studied("transformers", text, Self::OLDEST)?;
        if version >= Version(5, 0, 0) {
            return Ok(Self {
                multiplies_angles: version < Version(5, 19, 0),
                load_order: match version < Version(5, 4, 0) {
                    true => LoadOrder::THREADS,
                    false => LoadOrder::InTurn,
                },
                ..Self::TODAY
            });
        }
        // The first of the studied releases that has the family, then the minor releases from which layers share their
        // tables and until which they keep them.
        let (oldest, shared_from, tables_until) = match family {
            Family::Llama => (Self::OLDEST, 43, 41),
            Family::Mistral => (Self::OLDEST, 48, 42),
            Family::Qwen2 => (Self::OLDEST, 45, 45),
            Family::Qwen3 => (Version(4, 51, 0), 48, 0),
            Family::Phi3 => (Version(4, 48, 0), 48, 0),
            Family::DistilBert | Family::Bert => {
                let message = format!("what transformers {text} does with encoders has not been studied");
                return Err(Mistake::new(message).help("leave the key out for today's"));
            }
        };
        if version < oldest {
            let message = format!("transformers {text} is older than any that has been studied with {family:?}");
            return Err(Mistake::new(message).help(format!("the oldest is {oldest}")));
        }
        let before = |minor| version < Version(4, minor, 0);
        // A mask of all positions, for every batch, that later releases are without.
        if family == Family::Llama && !before(38) && before(40) {
            let message = format!("the causal mask that transformers {text} makes for Llama has not been studied");
            return Err(Mistake::new(message).help("4.37.2 and 4.40.0 are the nearest that have been"));
        }
        let taken_out = before(if family == Family::Llama { 38 } else { tables_until });
        Ok(Self {
            shifts_logits: before(49),
            returns_float32_logits: before(if family == Family::Mistral { 48 } else { 46 }),
            angles: match before(shared_from) {
                false => RotaryTables::Shared,
                true if taken_out => RotaryTables::TakenOut,
                true => RotaryTables::Computed,
            },
            keeps_angles: before(tables_until),
            repeats_heads: before(54),
            repeats_flash_heads: before(48) && family != Family::Llama,
            copies_heads: !before(48) && before(56),
            masks_are_numbers: before(53),
            copies_into_cache: !before(56),
            multiplies_angles: true,
            use_reentrant: true,
            load_order: LoadOrder::InTurn,
            warm_up: match () {
                () if before(50) => WarmUp::None,
                () if before(52) => WarmUp::Unquantised,
                () => WarmUp::Half,
            },
        })
    }
}

/// How a release of bitsandbytes computes with 4-bit weights, and what its optimizers keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitsandbytes {
    /// A product's context keeps its input, which the backward pass does not need, for as long as the loss is there; and
    /// checkpointing that is not reentrant does not see it there. Until 0.43.2: `ctx.tensors = (A, B)` in `MatMul4Bit.forward`,
    /// `autograd/_functions.py`.
    pub keeps_inputs: bool,
    /// Products of float32 or bfloat16 inputs are computed in that format, whatever was asked for. Until 0.47.0, which heeds
    /// `bnb_4bit_compute_dtype` if it is given, as transformers does: `compute_type_is_set` of `Linear4bit` in `nn/modules.py`.
    pub computes_in_input_format: bool,
    /// Weights that share a scale of an optimizer's 8-bit states: 2,048 until 0.44.0, then 256. `init_state` of
    /// `Optimizer2State` in `optim/optimizer.py`.
    pub optimizer_block: u64,
    /// The forward pass dequantises a weight to the format of the product at once, and holds its scales until then. From 0.50.0:
    /// `_dequant_linear_fallback` in `backends/cuda/ops.py`; before, `MatMul4Bit.forward` casts what was dequantised to the
    /// format that the weight was quantised from. Products of a few tokens, which have a kernel of their own, are left out.
    pub dequantises_to_compute_dtype: bool,
}

impl Bitsandbytes {
    /// The newest release.
    pub const TODAY: Self = Self {
        keeps_inputs: false,
        computes_in_input_format: false,
        optimizer_block: 256,
        dequantises_to_compute_dtype: true,
    };

    const OLDEST: Version = Version(0, 41, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("bitsandbytes", text, Self::OLDEST)?;
        Ok(Self {
            keeps_inputs: version < Version(0, 43, 2),
            computes_in_input_format: version < Version(0, 47, 0),
            optimizer_block: if version < Version(0, 44, 0) { 2048 } else { 256 },
            dequantises_to_compute_dtype: version >= Version(0, 50, 0),
        })
    }
}

/// How a release of PEFT prepares a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peft {
    /// The k-bit preparation ends with `torch.cuda.empty_cache()`. From 0.20.0: `prepare_model_for_kbit_training` in
    /// `utils/other.py`.
    pub empties_cache: bool,
}

impl Peft {
    /// The newest release.
    pub const TODAY: Self = Self { empties_cache: true };

    const OLDEST: Version = Version(0, 6, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("peft", text, Self::OLDEST)?;
        Ok(Self {
            empties_cache: version >= Version(0, 20, 0),
        })
    }
}

/// The memory that cuBLAS computes products with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspaces {
    /// Its own, which PyTorch's allocator does not have.
    Cublas,
    /// The first product of a thread makes one that stays.
    Kept,
    /// Each product has one for its time.
    Scoped,
}

/// How a release of PyTorch computes and allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pytorch {
    /// The tie break between equally large free blocks: by address until 2.15.0 (`BlockComparatorSize` in
    /// `c10/cuda/CUDACachingAllocator.cpp`).
    pub tie_break: TieBreak,
    /// cuBLAS' own until 2.0.0. They stay until 2.15.0, and later with `TORCH_CUBLAS_WORKSPACE_CACHE=1`:
    /// `getCurrentCUDABlasHandleWithWorkspace` in `aten/src/ATen/cuda/CublasHandlePool.cpp`.
    pub workspaces: Workspaces,
    /// Softmax and its logarithm keep their input besides their result. Until 1.11.0: `_softmax` and `_log_softmax` in
    /// `tools/autograd/derivatives.yaml`.
    pub saves_softmax_inputs: bool,
    /// Optimizers go over all parameters at once by default. From 2.0.0: `_default_to_fused_or_foreach` in
    /// `torch/optim/optimizer.py`.
    pub has_foreach: bool,
    /// It has `scaled_dot_product_attention`. From 2.0.0.
    pub has_sdpa: bool,
}

impl Pytorch {
    /// The newest release.
    pub const TODAY: Self = Self {
        tie_break: TieBreak::Age,
        workspaces: Workspaces::Scoped,
        saves_softmax_inputs: false,
        has_foreach: true,
        has_sdpa: true,
    };

    const OLDEST: Version = Version(1, 10, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let version = studied("torch", text, Self::OLDEST)?;
        let (is_first, is_todays) = (version < Version(2, 0, 0), version >= Version(2, 15, 0));
        Ok(Self {
            tie_break: if is_todays { TieBreak::Age } else { TieBreak::Address },
            workspaces: match (is_first, is_todays) {
                (true, _) => Workspaces::Cublas,
                (_, true) => Workspaces::Scoped,
                _ => Workspaces::Kept,
            },
            saves_softmax_inputs: version < Version(1, 11, 0),
            has_foreach: !is_first,
            has_sdpa: !is_first,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECODERS: [Family; 5] = [
        Family::Llama,
        Family::Mistral,
        Family::Qwen2,
        Family::Qwen3,
        Family::Phi3,
    ];

    #[test]
    fn versions_are_two_or_three_numbers() {
        let version = |text: &str| text.parse::<Version>().ok();
        assert_eq!(version("4.38.2"), Some(Version(4, 38, 2)));
        assert_eq!(version("0.43"), Some(Version(0, 43, 0)));
        assert_eq!(version("0.41.2.post2"), Some(Version(0, 41, 2)));
        assert_eq!(version("2.13.0+cu130"), Some(Version(2, 13, 0)));
        for malformed in [
            "",
            "4",
            "v4.38",
            "4.38.2.1",
            "4..2",
            "4.38rc1",
            "4.38.",
            "+4.38",
            "4.99999999999",
            "4.38.post",
        ] {
            assert_eq!(version(malformed), None, "{malformed}");
        }
        assert!(version("4.9.0") < version("4.10.0"));
    }

    #[test]
    fn newer_releases_are_as_todays() {
        for family in DECODERS {
            for text in ["5.19.0", "5.23.0", "6.1"] {
                assert_eq!(
                    Transformers::of(text, family),
                    Ok(Transformers::TODAY),
                    "{text} {family:?}"
                );
            }
        }
        for text in ["0.50.0", "0.50.2", "1.0.0"] {
            assert_eq!(Bitsandbytes::of(text), Ok(Bitsandbytes::TODAY), "{text}");
        }
    }

    /// The last release that had a behaviour, and the first without it; of one that came and went its first, and the last before.
    #[test]
    fn behaviours_end_with_the_releases_that_dropped_them() {
        type Has = fn(Transformers) -> bool;
        let ends: [(Family, &str, &str, Has); 23] = [
            (Family::Llama, "4.48.3", "4.49.0", |t| t.shifts_logits),
            (Family::Llama, "4.45.2", "4.46.0", |t| t.returns_float32_logits),
            (Family::Mistral, "4.47.1", "4.48.0", |t| t.returns_float32_logits),
            (Family::Llama, "4.37.2", "4.40.0", |t| {
                t.angles == RotaryTables::TakenOut
            }),
            (Family::Llama, "4.42.4", "4.43.0", |t| {
                t.angles == RotaryTables::Computed
            }),
            (Family::Qwen2, "4.44.2", "4.45.0", |t| {
                t.angles == RotaryTables::TakenOut
            }),
            (Family::Mistral, "4.41.2", "4.42.0", |t| {
                t.angles == RotaryTables::TakenOut
            }),
            (Family::Mistral, "4.47.1", "4.48.0", |t| {
                t.angles == RotaryTables::Computed
            }),
            (Family::Llama, "4.40.2", "4.41.0", |t| t.keeps_angles),
            (Family::Mistral, "4.41.2", "4.42.0", |t| t.keeps_angles),
            (Family::Qwen2, "4.52.4", "4.53.0", |t| t.masks_are_numbers),
            (Family::Qwen3, "4.53.3", "4.54.0", |t| t.repeats_heads),
            (Family::Mistral, "4.47.1", "4.48.0", |t| t.repeats_flash_heads),
            (Family::Llama, "4.55.4", "4.56.0", |t| t.copies_heads),
            (Family::Llama, "4.48.0", "4.47.1", |t| t.copies_heads),
            (Family::Qwen3, "4.55.4", "4.56.0", |t| !t.copies_into_cache),
            (Family::Phi3, "4.57.6", "5.0.0", |t| t.use_reentrant),
            (Family::Phi3, "5.18.0", "5.19.0", |t| t.multiplies_angles),
            (Family::Bert, "5.18.0", "5.19.0", |t| t.multiplies_angles),
            (Family::Bert, "5.3.0", "5.4.0", |t| t.load_order == LoadOrder::THREADS),
            (Family::Llama, "4.49.0", "4.50.0", |t| t.warm_up == WarmUp::None),
            (Family::Llama, "4.51.3", "4.52.0", |t| t.warm_up == WarmUp::Unquantised),
            (Family::Llama, "4.57.6", "5.0.0", |t| t.warm_up == WarmUp::Half),
        ];
        for (family, last, first_without, has) in ends {
            let at = |text| Transformers::of(text, family).map(has);
            assert_eq!(
                (at(last), at(first_without)),
                (Ok(true), Ok(false)),
                "{family:?} {last} {first_without}"
            );
        }
        let keeps = |text| Bitsandbytes::of(text).map(|of| of.keeps_inputs);
        assert_eq!((keeps("0.43.1"), keeps("0.43.2")), (Ok(true), Ok(false)));
        let heeds = |text| Bitsandbytes::of(text).map(|of| !of.computes_in_input_format);
        assert_eq!((heeds("0.46.1"), heeds("0.47.0")), (Ok(false), Ok(true)));
        let dequantises = |text| Bitsandbytes::of(text).map(|of| of.dequantises_to_compute_dtype);
        assert_eq!((dequantises("0.49.2"), dequantises("0.50.0")), (Ok(false), Ok(true)));
        let block = |text| Bitsandbytes::of(text).map(|of| of.optimizer_block);
        assert_eq!((block("0.43.3"), block("0.44.0")), (Ok(2048), Ok(256)));
        let pytorch = |text| Pytorch::of(text).map(|of| (of.tie_break, of.workspaces));
        assert_eq!(
            (pytorch("2.14.1"), pytorch("2.15.0")),
            (
                Ok((TieBreak::Address, Workspaces::Kept)),
                Ok((TieBreak::Age, Workspaces::Scoped))
            )
        );
        let first = |text| Pytorch::of(text).map(|of| (of.workspaces, of.has_foreach, of.has_sdpa));
        assert_eq!(
            (first("1.13.1"), first("2.0.0")),
            (
                Ok((Workspaces::Cublas, false, false)),
                Ok((Workspaces::Kept, true, true))
            )
        );
        let saves = |text| Pytorch::of(text).map(|of| of.saves_softmax_inputs);
        assert_eq!((saves("1.10.2"), saves("1.11.0")), (Ok(true), Ok(false)));
    }

    #[test]
    fn today_begins_with_the_releases_that_are_named() {
        let [transformers, peft, bitsandbytes, torch] = TODAY_SINCE.map(|(_, release)| release);
        assert_eq!(Transformers::of(transformers, Family::Llama), Ok(Transformers::TODAY));
        assert_eq!(Peft::of(peft), Ok(Peft::TODAY));
        assert_eq!(Bitsandbytes::of(bitsandbytes), Ok(Bitsandbytes::TODAY));
        assert_eq!(Pytorch::of(torch), Ok(Pytorch::TODAY));
    }

    #[test]
    fn what_has_not_been_studied_is_refused() {
        let message = |text, family| Transformers::of(text, family).unwrap_err().message;
        assert!(message("4.36.2", Family::Llama).contains("older than any"));
        assert!(message("4.38.2", Family::Llama).contains("causal mask"));
        assert!(Transformers::of("4.38.2", Family::Mistral).is_ok());
        assert!(message("4.47.1", Family::Phi3).contains("Phi3"));
        assert!(message("4.50.3", Family::Qwen3).contains("Qwen3"));
        assert!(message("4.57.6", Family::Bert).contains("encoders"));
        assert!(Transformers::of("5.0.0", Family::Bert).is_ok());
        assert!(
            Bitsandbytes::of("0.40.2")
                .unwrap_err()
                .message
                .contains("older than any")
        );
        assert!(Pytorch::of("1.9.1").unwrap_err().message.contains("older than any"));
    }
}
