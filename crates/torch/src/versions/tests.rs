use arch::Family;

use super::version::Version;
use super::*;
use crate::caching_allocator::TieBreak;
use crate::loading::{LoadOrder, WarmUp};

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
        for text in ["5.23.0", "5.24.1", "6.1"] {
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

/// The last release that had a behaviour, and the first without it; of one that came and went its first, and the last
/// before.
#[test]
fn behaviours_end_with_the_releases_that_dropped_them() {
    type Has = fn(Transformers) -> bool;
    let ends: [(Family, &str, &str, Has); 55] = [
        (Family::Llama, "4.30.2", "4.31.0", |t| {
            t.clamps_scores && t.casts_norms_late
        }),
        (Family::Llama, "4.30.2", "4.31.0", |t| {
            !t.upcasts_logits && !t.returns_float32_logits && !t.groups_heads
        }),
        (Family::Llama, "4.30.2", "4.31.0", |t| t.keeps_float32_angles),
        (Family::Llama, "4.35.2", "4.36.0", |t| !t.has_sdpa),
        (Family::Mistral, "4.36.2", "4.37.0", |t| !t.has_sdpa),
        (Family::Mistral, "4.34.1", "4.35.0", |t| {
            t.makes_flash_mask && !t.chooses_reentrant
        }),
        (Family::DistilBert, "4.30.2", "4.31.0", |t| !t.checkpoints),
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
        (Family::Gemma2, "4.42.2", "4.42.3", |t| !t.caps_scores),
        (Family::Gemma2, "4.42.3", "4.42.4", |t| t.exchanges_windows),
        (Family::Phi3, "4.47.1", "4.48.0", |t| t.holds_attention),
        (Family::Gemma2, "4.44.0", "4.43.4", |t| t.unpads_whole_batches),
        (Family::Gemma3, "4.52.4", "4.53.0", |t| t.unpads_whole_batches),
        (Family::Gemma2, "4.51.3", "4.52.0", |t| {
            t.window_masks == WindowMasks::Own
        }),
        (Family::Gemma3, "4.52.4", "4.53.0", |t| {
            t.window_masks == WindowMasks::Copied
        }),
        (Family::Gemma2, "5.3.0", "5.4.0", |t| t.scales_in_model),
        (Family::Gemma2, "4.57.6", "5.0.0", |t| !t.caches_in_training),
        (Family::Mistral, "4.44.2", "4.45.0", |t| !t.caches_in_training),
        (Family::Mistral, "4.43.0", "4.42.4", |t| !t.caches_in_training),
        (Family::Gemma3, "4.57.6", "5.0.0", |t| t.gives_all_angles),
        (Family::Phi3, "4.44.2", "4.45.0", |t| !t.has_sdpa),
        (Family::Phi3, "4.47.1", "4.48.0", |t| t.masks_in_place),
        (Family::Phi3, "4.48.3", "4.49.0", |t| !t.rotates_shares),
        (Family::Llama, "4.55.4", "4.56.0", |t| t.copies_heads),
        (Family::Llama, "4.48.0", "4.47.1", |t| t.copies_heads),
        (Family::Qwen3, "4.55.4", "4.56.0", |t| !t.copies_into_cache),
        (Family::Phi3, "4.57.6", "5.0.0", |t| t.use_reentrant),
        (Family::Phi3, "5.18.0", "5.19.0", |t| t.multiplies_angles),
        (Family::Bert, "5.18.0", "5.19.0", |t| t.multiplies_angles),
        (Family::Llama, "5.22.2", "5.23.0", |t| !t.packs_heads_of_one_token),
        (Family::Bert, "5.3.0", "5.4.0", |t| t.load_order == LoadOrder::THREADS),
        (Family::Llama, "4.49.0", "4.50.0", |t| t.warm_up == WarmUp::None),
        (Family::Llama, "4.51.3", "4.52.0", |t| t.warm_up == WarmUp::Unquantised),
        (Family::Phi3, "4.51.3", "4.52.0", |t| !t.embedding_states_32bit),
        (Family::Llama, "4.57.6", "5.0.0", |t| t.warm_up == WarmUp::Half),
        (Family::Bert, "4.40.2", "4.41.0", |t| !t.has_sdpa),
        (Family::DistilBert, "4.45.2", "4.46.0", |t| !t.has_sdpa),
        (Family::Bert, "4.52.4", "4.53.0", |t| !t.checkpoints_within),
        (Family::Bert, "4.57.6", "5.0.0", |t| t.has_own_encoders),
        (Family::DistilBert, "4.57.6", "5.0.0", |t| t.fills_scores),
        (Family::Bert, "4.53.3", "4.54.0", |t| {
            t.attention_weights == AttentionWeights::Dropped
        }),
        (Family::Bert, "4.57.6", "5.0.0", |t| {
            t.attention_weights == AttentionWeights::Returned
        }),
        (Family::DistilBert, "4.57.6", "5.0.0", |t| {
            t.attention_weights == AttentionWeights::Dropped
        }),
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
    assert_eq!((heeds("0.40.2"), heeds("0.41.0")), (Ok(true), Ok(false)));
    let halves = |text| Bitsandbytes::of(text).map(|of| of.quantises_float16);
    assert_eq!((halves("0.42.0"), halves("0.43.0")), (Ok(true), Ok(false)));
    let tiles = |text| Bitsandbytes::of(text).map(|of| of.has_tiled_int8);
    assert_eq!((tiles("0.44.1"), tiles("0.45.0")), (Ok(true), Ok(false)));
    let copies = |text| Bitsandbytes::of(text).map(|of| of.copies_int8_to_save);
    assert_eq!((copies("0.37.2"), copies("0.38.0")), (Ok(false), Ok(true)));
    assert_eq!((copies("0.39.0"), copies("0.39.1")), (Ok(true), Ok(false)));
    let of_int8 = |text| Bitsandbytes::of(text).map(|of| (of.keeps_int8_inputs, of.has_int4));
    assert_eq!(
        (of_int8("0.38.1"), of_int8("0.39.0")),
        (Ok((false, false)), Ok((true, true)))
    );
    let of_peft = |text| Peft::of(text).map(|of| (of.returns_input_format, of.has_int4));
    assert_eq!(
        (of_peft("0.3.0"), of_peft("0.4.0"), of_peft("0.9.0")),
        (Ok((true, false)), Ok((true, true)), Ok((false, true)))
    );
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
    let softmax = |text| Pytorch::of(text).map(|of| of.attention_softmax);
    assert_eq!(
        (softmax("2.4.1"), softmax("2.5.1"), softmax("2.6.0")),
        (
            Ok(AttentionSoftmax::Plain),
            Ok(AttentionSoftmax::Copied),
            Ok(AttentionSoftmax::InPlace)
        )
    );
    let prefers = |text| Pytorch::of(text).map(|of| of.prefers_cudnn_attention);
    assert_eq!(
        (prefers("2.10.0"), prefers("2.11.0"), prefers("2.11.0+cu128")),
        (Ok(false), Ok(true), Ok(false))
    );
}

#[test]
fn today_begins_with_the_releases_that_are_named() {
    let [transformers, peft, bitsandbytes, torch, deepspeed] = TODAY_SINCE.map(|(_, release)| release);
    assert_eq!(Transformers::of(transformers, Family::Llama), Ok(Transformers::TODAY));
    assert_eq!(Peft::of(peft), Ok(Peft::TODAY));
    assert_eq!(Bitsandbytes::of(bitsandbytes), Ok(Bitsandbytes::TODAY));
    assert_eq!(Pytorch::of(torch), Ok(Pytorch::TODAY));
    assert_eq!(Deepspeed::of(deepspeed), Ok(Deepspeed::TODAY));
}

#[test]
fn releases_of_deepspeed_differ() {
    type Has = fn(Deepspeed) -> bool;
    let begins: [(&str, &str, Has); 7] = [
        ("0.18.2", "0.18.3", |of| of.buckets_with_first_gradient),
        ("0.18.9", "0.19.0", |of| of.flattens_on_gpu),
        ("0.19.2", "0.19.3", |of| of.checks_bfloat16),
        ("0.19.2", "0.19.3", |of| of.keeps_recomputed),
        ("0.19.1", "0.19.2", |of| of.leaves_adapters),
        ("0.19.5", "0.19.6", |of| of.looks_at_extremes),
        ("0.19.7", "0.19.8", |of| of.copies_large_gradients),
    ];
    for (last, first, has) in begins {
        let has = |text| Deepspeed::of(text).map(has);
        assert_eq!((has(last), has(first)), (Ok(false), Ok(true)), "{last} {first}");
    }
    assert!(Deepspeed::of("0.13.5").is_err());
    assert_eq!(Deepspeed::planned("nearest 0.9.5").as_deref(), Some("0.14.0"));
}

#[test]
fn the_nearest_release_stands_for_one_that_has_not_been_studied() {
    for (asked, family, planned) in [
        ("nearest 4.28.1", Family::Llama, "4.30.0"),
        ("nearest 4.38.2", Family::Llama, "4.37.2"),
        ("nearest 4.39.3", Family::Llama, "4.40.0"),
        ("nearest 4.44.2", Family::Llama, "4.44.2"),
        ("nearest 4.40.2", Family::Phi3, "4.41.0"),
        ("nearest 4.29.2", Family::Bert, "4.30.0"),
        ("nearest 4.40.1", Family::DistilBert, "4.40.1"),
        ("nearest 4.49.0", Family::Gemma3, "4.50.0"),
        ("nearest 4.50.0", Family::Ministral, "5.0.0"),
    ] {
        assert_eq!(
            Transformers::planned(asked, family).as_deref(),
            Some(planned),
            "{asked}"
        );
        assert_eq!(
            Transformers::of(asked, family),
            Transformers::of(planned, family),
            "{asked}"
        );
    }
    assert_eq!(Transformers::planned("4.44.2", Family::Llama), None);
    assert_eq!(Bitsandbytes::planned("nearest 0.35.0").as_deref(), Some("0.37.0"));
    assert_eq!(Peft::of("nearest 0.2.0"), Peft::of("0.3.0"));
    assert_eq!(Pytorch::of("nearest 1.9"), Pytorch::of("1.10.0"));
    assert!(Trl::of("nearest newest").is_err());
}

#[test]
fn what_has_not_been_studied_is_refused() {
    let message = |text, family| Transformers::of(text, family).unwrap_err().message;
    assert!(message("4.29.2", Family::Llama).contains("older than any"));
    assert!(message("4.33.3", Family::Mistral).contains("older than any"));
    assert!(message("4.38.2", Family::Llama).contains("causal mask"));
    assert!(Transformers::of("4.38.2", Family::Mistral).is_ok());
    assert!(message("4.40.2", Family::Phi3).contains("Phi3"));
    assert!(message("4.41.2", Family::Gemma2).contains("Gemma2"));
    assert!(message("4.50.3", Family::Qwen3).contains("Qwen3"));
    assert!(message("4.29.2", Family::Bert).contains("older than any"));
    assert!(Transformers::of("4.38.2", Family::Bert).is_ok());
    assert!(
        Bitsandbytes::of("0.36.0")
            .unwrap_err()
            .message
            .contains("older than any")
    );
    assert!(Pytorch::of("1.9.1").unwrap_err().message.contains("older than any"));
}
