//! What `arch` says of the modules that a cell adapts and the weights that it trains.

use std::path::Path;

use arch::Preset;
use arch::check::check_modules;
use options::{
    Adapter, AdapterMethod, AdapterOptions, Bias, Dtype, ExcludedModules, InitLoraWeights, LnTuning, NamePattern,
    Patterns, Stack, TargetModules,
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

/// The layers with an adapter in a cell of `tiny`, with their names behind their blocks.
fn adapted(change: impl FnOnce(&mut Cell)) -> Vec<String> {
    let mut cell = Cell {
        model: "tiny".into(),
        rank: 4,
        ..Cell::default()
    };
    change(&mut cell);
    let config = Preset::named("tiny").unwrap().config();
    let adapter = cell.model_options().adapter.unwrap();
    let names = config.adapted(&adapter).map(|(name, _)| name);
    names
        .map(|name| name.trim_start_matches("model.layers.").to_owned())
        .collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// As in PEFT 0.21.2 (`check_target_module_exists`).
#[test]
fn a_layer_that_is_named_in_full_is_adapted_in_any_block() {
    let of = |targets: &[&str], layers: &[usize]| {
        adapted(|cell| {
            cell.target_modules = Some(TargetModules::Names(names(targets)));
            cell.layers_to_transform = Some(layers.to_vec());
        })
    };
    assert_eq!(of(&["lm_head"], &[0]), ["lm_head"]);
    assert_eq!(of(&["q_proj", "lm_head"], &[1]), ["1.self_attn.q_proj", "lm_head"]);
    assert_eq!(of(&["model.layers.0.self_attn.q_proj"], &[1]), ["0.self_attn.q_proj"]);
    assert!(of(&["layers.0.self_attn.q_proj"], &[1]).is_empty());
    for stack in [Stack::Candle, Stack::Torch] {
        let none = mistake("tiny", stack, |cell| {
            cell.target_modules = Some(TargetModules::Names(names(&["layers.0.self_attn.q_proj"])));
            cell.layers_to_transform = Some(vec![1]);
        });
        assert!(
            none.starts_with("`layers_to_transform`: these blocks have none of `target_modules`"),
            "{none}"
        );
    }
}

#[test]
fn excluded_modules_have_no_adapter() {
    let of = |excluded| {
        adapted(|cell| {
            cell.target_modules = Some(TargetModules::Names(names(&["q_proj", "v_proj", "lm_head"])));
            cell.exclude_modules = Some(excluded);
        })
    };
    let listed = |excluded: &[&str]| of(ExcludedModules::Names(names(excluded)));
    let left = ["0.self_attn.q_proj", "1.self_attn.q_proj", "1.self_attn.v_proj"];
    assert_eq!(listed(&["layers.0.self_attn.v_proj", "lm_head"]), left);
    assert_eq!(listed(&["v_proj", "norm"]), [left[0], left[1], "lm_head"]);
    let pattern = NamePattern::whole(r".*\.0\..*|.*head").unwrap();
    assert_eq!(of(ExcludedModules::Pattern(pattern)), &left[1..]);
}

#[test]
fn what_is_excluded_is_there_and_leaves_something() {
    let told = |change: &dyn Fn(&mut Cell)| {
        let mut cell = Cell::default();
        change(&mut cell);
        cell.validate().map_err(|invalid| invalid.0[0].to_string())
    };
    let listed = |excluded: &[&str]| Some(ExcludedModules::Names(names(excluded)));
    // Nothing has an adapter less, and PEFT does not warn.
    assert_eq!(
        told(&|cell: &mut Cell| cell.exclude_modules = listed(&["lm_head"])),
        Ok(())
    );
    assert_eq!(
        told(&|cell: &mut Cell| cell.exclude_modules = listed(&["mlp", "norm", "embed_tokens"])),
        Ok(())
    );
    let wrong = |change: &dyn Fn(&mut Cell)| told(change).unwrap_err();
    let none = wrong(&|cell: &mut Cell| cell.exclude_modules = listed(&["q_proj", "q_porj"]));
    assert!(
        none.starts_with("exclude_modules: the model `smollm2-135m` has no module `q_porj`"),
        "{none}"
    );
    let of_file = |cell: &mut Cell| {
        cell.exclude_modules = listed(&["vision_tower", "", "norm", "norm"]);
        cell.adapter_config = Some("adapter_config.json".into());
    };
    assert_eq!(told(&of_file), Ok(()));
    let pattern = Some(ExcludedModules::Pattern(NamePattern::whole("layers").unwrap()));
    let none = wrong(&|cell: &mut Cell| cell.exclude_modules.clone_from(&pattern));
    assert!(none.contains("has no module `layers`"), "{none}");
    assert!(
        wrong(&|cell: &mut Cell| cell.exclude_modules = listed(&[])).starts_with("exclude_modules: the list is empty")
    );
    assert!(
        wrong(&|cell: &mut Cell| cell.exclude_modules = listed(&[""]))
            .starts_with("exclude_modules[0]: the name is empty")
    );
    let twice = wrong(&|cell: &mut Cell| cell.exclude_modules = listed(&["norm", "norm"]));
    assert!(twice.starts_with("exclude_modules[1]: `norm` is here twice"), "{twice}");
    let all = ours(|cell| {
        cell.target_modules = Some(TargetModules::Names(vec!["q_proj".into()]));
        cell.exclude_modules = listed(&["self_attn.q_proj"]);
    });
    assert!(
        all.starts_with("`exclude_modules`: no layer is left for an adapter"),
        "{all}"
    );
}

/// What `arch` says of the cell's model.
fn opened(model: &str, change: impl FnOnce(&mut Cell)) -> String {
    let mut cell = Cell {
        model: model.into(),
        rank: 4,
        target_modules: Some(TargetModules::Names(names(&["q_proj", "lm_head"]))),
        ..Cell::default()
    };
    change(&mut cell);
    let opened = arch::open(&cell.model_options(), Stack::Candle, &Path::new(".").into());
    opened.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn an_adapter_of_the_head_needs_its_weight_where_it_is() {
    for model in ["tiny", "mistral-7b-v0.3"] {
        assert_eq!(opened(model, |_| ()), "");
        let offloaded = opened(model, |cell| cell.offload.embeddings = true);
        assert!(
            offloaded.starts_with("`offload.embeddings`: the head has an adapter"),
            "{offloaded}"
        );
        let others = |cell: &mut Cell| {
            cell.offload.embeddings = true;
            cell.exclude_modules = Some(ExcludedModules::Names(names(&["lm_head"])));
        };
        assert_eq!(opened(model, others), "");
    }
    for init in [InitLoraWeights::Pissa, InitLoraWeights::Olora] {
        let tied = opened("tiny", |cell| cell.lora.init_lora_weights = init);
        assert!(tied.starts_with("`lora.init_lora_weights`: "), "{tied}");
        assert!(tied.contains("which is the embedding's, too"), "{tied}");
        assert_eq!(opened("mistral-7b-v0.3", |cell| cell.lora.init_lora_weights = init), "");
    }
    let gaussian = |cell: &mut Cell| cell.lora.init_lora_weights = InitLoraWeights::Gaussian;
    assert_eq!(opened("tiny", gaussian), "");
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
