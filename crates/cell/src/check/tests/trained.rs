//! What `arch` says of the modules that a cell adapts and the weights that it trains.

use arch::Preset;
use arch::check::check_modules;
use options::{
    Adapter, AdapterMethod, AdapterOptions, Bias, Dtype, InitLoraWeights, LnTuning, NamePattern, Patterns, Stack,
    TargetModules,
};

use crate::{Cell, OffloadedBlocks};

/// The mistake in a cell of rank 4 of this preset; empty without one.
fn mistake(preset: &str, stack: Stack, change: impl FnOnce(&mut Cell)) -> String {
    let mut cell = Cell {
        model: preset.into(),
        dtype: Dtype::Float32,
        rank: 4,
        stack,
        ..Cell::default()
    };
    change(&mut cell);
    let config = Preset::named(preset).unwrap().config();
    let checked = check_modules(&config, &cell.model_options(), stack);
    checked.map_or_else(|error| error.to_string(), |()| String::new())
}

fn ours(change: impl FnOnce(&mut Cell)) -> String {
    mistake("tiny", Stack::Candle, change)
}

fn pattern(text: &str) -> NamePattern {
    NamePattern::new(text).unwrap()
}

fn target(text: &str) -> Option<TargetModules> {
    Some(TargetModules::Pattern(NamePattern::whole(text).unwrap()))
}

#[test]
fn a_module_has_one_pattern_and_a_pattern_a_module() {
    let ranks = |patterns: &[&str]| {
        let patterns: Patterns<usize> = patterns.iter().map(|text| (pattern(text), 2)).collect();
        ours(|cell| cell.lora.rank_pattern = patterns)
    };
    assert_eq!(ranks(&["q_proj", "v_proj"]), "");
    assert_eq!(
        ranks(&["q_proj", "[qv]_proj"]),
        "`lora.rank_pattern`: both `[qv]_proj` and `q_proj` match model.layers.0.self_attn.q_proj"
    );
    let none = "`lora.rank_pattern`: `query` matches no module that can have an adapter";
    assert_eq!(ranks(&["query"]), none);
    let alphas = ours(|cell| cell.lora.alpha_pattern = [(pattern("lm_head"), 2.0)].into());
    assert!(
        alphas.starts_with("`lora.alpha_pattern`: `lm_head` matches no"),
        "{alphas}"
    );
}

#[test]
fn trained_weights_are_there_and_dense() {
    let trainable = |dtype, text: &str| {
        ours(|cell| (cell.rank, cell.dtype, cell.trainable) = (0, dtype, Some(vec![pattern(text)])))
    };
    assert_eq!(trainable(Dtype::Int4, ".*norm"), "");
    assert_eq!(trainable(Dtype::Float32, "q_proj"), "");
    let none = "`trainable`: `bias` matches no weight of the model";
    assert_eq!(trainable(Dtype::Float32, "bias"), none);
    assert_eq!(
        trainable(Dtype::Int8, r"layers\.1\..*"),
        "`trainable`: model.layers.1.self_attn.q_proj is quantised, and only dense weights can be trained"
    );
}

#[test]
fn blocks_that_leave_have_something_that_stays_as_it_is() {
    let leaving = |trained: &str, blocks: &[usize]| {
        ours(|cell| {
            (cell.rank, cell.trainable) = (0, Some(vec![pattern(trained)]));
            cell.offload.weights = Some(OffloadedBlocks::Blocks(blocks.to_vec()));
        })
    };
    assert_eq!(leaving(r"layers\.1\..*", &[0]), "");
    assert_eq!(leaving(r"layers\.1\..*proj", &[1]), "", "its norms");
    assert_eq!(
        leaving(r"layers\.1\..*", &[0, 1]),
        "`offload.weights`: every weight of block 1 is trained, so none can wait in the host's memory; leave it out"
    );
    assert_eq!(
        ours(|cell| cell.offload.weights = Some(OffloadedBlocks::Ratio(1.0))),
        ""
    );
}

#[test]
fn adapters_have_their_blocks_and_layers() {
    assert_eq!(ours(|cell| cell.layers_to_transform = Some(vec![1, 0])), "");
    assert_eq!(
        ours(|cell| cell.layers_to_transform = Some(vec![0, 2])),
        "`layers_to_transform`: the model has no block 2; its 2 blocks are 0 to 1"
    );
    assert_eq!(
        ours(|cell| cell.target_modules = target(".*attn.query")),
        "`target_modules`: `.*attn.query` matches no module that can have an adapter"
    );
    assert_eq!(ours(|cell| cell.target_modules = target(r".*layers\.0\..*")), "");
}

#[test]
fn peft_adapts_a_named_head_and_no_norm() {
    let torch = |change: fn(&mut Cell)| mistake("tiny", Stack::Torch, change);
    assert_eq!(torch(|cell| cell.target_modules = target("lm_head")), "");
    assert_eq!(torch(|cell| cell.target_modules = target(r".*\.[qv]_proj")), "");
    let named = |cell: &mut Cell| {
        cell.target_modules = Some(TargetModules::Names(vec!["q_proj".into(), "lm_head".into()]));
        cell.lora.rank_pattern = [(pattern("lm_head"), 2)].into();
    };
    assert_eq!(torch(named), "");
    assert_eq!(
        torch(|cell| cell.target_modules = target(r".*layers\.0\..*proj|.*layers.0.*norm")),
        "`target_modules`: `.*layers\\.0\\..*proj|.*layers.0.*norm` also matches model.layers.0.input_layernorm, which \
         PEFT gives no adapter; end it in the names of linear layers"
    );
    let outer = torch(|cell| cell.target_modules = target(r"model.layers.0(\.mlp)?.*"));
    assert!(outer.contains("also matches model.layers.0, which"), "{outer}");
}

#[test]
fn a_rank_is_at_most_a_weights_smaller_side() {
    let with = |init, rank, narrow| {
        ours(|cell| {
            (cell.lora.init_lora_weights, cell.rank) = (init, rank);
            cell.lora.rank_pattern = narrow;
        })
    };
    assert_eq!(with(InitLoraWeights::Pissa, 32, Patterns::new()), "");
    assert_eq!(with(InitLoraWeights::Gaussian, 33, Patterns::new()), "");
    assert_eq!(
        with(InitLoraWeights::Olora, 33, Patterns::new()),
        "`lora.init_lora_weights`: olora finds 32 directions in model.layers.0.self_attn.k_proj, fewer than the rank 33"
    );
    assert_eq!(
        with(InitLoraWeights::Pissa, 33, [(pattern("[kv]_proj"), 32)].into()),
        ""
    );
}

#[test]
fn biases_that_are_trained_are_there() {
    let with = |preset, bias, names: &[&str]| {
        mistake(preset, Stack::Candle, |cell| {
            cell.lora.bias = bias;
            cell.target_modules = Some(TargetModules::Names(names.iter().map(ToString::to_string).collect()));
        })
    };
    let none = "`lora.bias`: the model has no bias, so the key would do nothing; leave it out";
    assert_eq!(with("tiny", Bias::All, &["q_proj"]), none);
    assert_eq!(with("qwen2.5-0.5b", Bias::All, &["o_proj"]), "");
    assert_eq!(with("qwen2.5-0.5b", Bias::LoraOnly, &["q_proj"]), "");
    let none = with("qwen2.5-0.5b", Bias::LoraOnly, &["o_proj"]);
    assert!(none.contains("the layers with an adapter have no bias"), "{none}");
}

#[test]
fn tuned_norms_are_those_of_peft() {
    let tuned = |preset| mistake(preset, Stack::Candle, |cell| cell.adapter = Adapter::LnTuning);
    assert_eq!(tuned("tiny"), "");
    let none = tuned("phi-3-mini");
    assert!(none.contains("PEFT has no norms of its own for phi3"), "{none}");
    let config = Preset::named("tiny").unwrap().config();
    let adapter = AdapterOptions::new(AdapterMethod::LnTuning(LnTuning {}));
    let norms = config.modules().filter(|(name, _)| config.tunes_norm(&adapter, name));
    assert_eq!(norms.count(), 2 * config.num_hidden_layers + 1);
    assert!(!config.tunes_norm(&AdapterOptions::lora(1, 1.0), "model.norm"));
}

#[test]
fn a_search_that_gives_up_is_an_error() {
    let long = r"(?:(?:\w|\.|_)+)+(?=~)~";
    let mistake = ours(|cell| cell.target_modules = target(long));
    assert_eq!(
        mistake,
        format!("`{long}`: the search in model.embed_tokens takes too many steps; write a simpler expression")
    );
}
