//! `adapter_config`: what PEFT's files stand for, and what is wrong with some.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use expctl::arch::{ModelConfig, Preset};
use expctl::options::Adapter;
use expctl::options::methods::{HADA, IA3, LOKR_W1, OFT_R, VERA_SHARED};
use expctl::peft;
use expctl::spec::{self, Overrides, SpecError, Study};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Reads a spec in `folder`.
fn parse_in(folder: &Path, text: &str, settings: &[&str]) -> Result<Study, SpecError> {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    spec::parse(&folder.join("x.yaml"), text, &Overrides::new([], settings))
}

/// A spec with these defaults.
fn defaults(keys: &str) -> String {
    format!("name: x\ndefaults: {{dtype: float32, {keys}}}\n")
}

/// The names of PEFT's adapters, with their base models.
fn adapters() -> Vec<(String, String)> {
    let names = fs::read_dir(fixtures()).unwrap();
    let names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let base = |adapter: &str| {
        let bases = names
            .iter()
            .filter(|name| adapter.starts_with(*name) && fixtures().join(name).is_dir());
        let bases = bases.filter(|name| fixtures().join(name).join("config.json").exists());
        bases.max_by_key(|name| name.len()).unwrap().clone()
    };
    let mut adapters: Vec<_> = names.iter().filter(|name| name.ends_with("_adapter")).collect();
    adapters.sort_unstable();
    adapters.into_iter().map(|name| (name.clone(), base(name))).collect()
}

/// A spec of PEFT's adapter over its base model, with these keys as well.
fn of_adapter(adapter: &str, base: &str, file: &peft::Config, keys: &str) -> Result<Study, SpecError> {
    let task = match file.task_type() {
        Some("SEQ_CLS") => "task: sequence_classification, num_labels: 3",
        _ => "task: causal_lm",
    };
    let text = defaults(&format!("model: ./{base}, {task}, adapter_config: {adapter}{keys}"));
    parse_in(&fixtures(), &text, &[])
}

#[test]
fn the_adapters_of_peft_are_those_of_their_files() {
    let adapters = adapters();
    assert!(adapters.len() > 30, "{}", adapters.len());
    for (adapter, base) in adapters {
        let folder = fixtures().join(&adapter);
        let (file, tensors) = peft::read(&folder).expect(&adapter);
        let study = of_adapter(&adapter, &base, &file, "").unwrap_or_else(|error| panic!("{adapter}: {error}"));
        let [cell] = &study.cells[..] else { panic!("one cell") };
        assert_eq!(cell.cell.adapter_config.as_deref(), Some(adapter.as_str()));
        let ours = cell.cell.model_options().adapter.expect("an adapter");
        let theirs = file.options().expect(&adapter);
        assert_eq!(ours.method, theirs.method, "{adapter}");
        assert_eq!(ours.layers_to_transform, theirs.layers_to_transform, "{adapter}");
        assert_eq!(ours.modules_to_save, theirs.modules_to_save, "{adapter}");

        // The modules are those that PEFT saved tensors of.
        let config = fs::read(fixtures().join(&base).join("config.json")).expect("a configuration");
        let config = ModelConfig::from_json(&config).expect(&base);
        let parts = [
            "lora_A.weight",
            IA3,
            "miss_block",
            "vera_lambda_b",
            OFT_R,
            HADA[0],
            LOKR_W1[0],
            LOKR_W1[1],
        ];
        let module = |name: &str| {
            let part = parts.iter().find_map(|part| name.strip_suffix(part))?;
            part.strip_suffix('.').map(str::to_owned)
        };
        let saved: BTreeSet<String> = tensors.iter().filter_map(|tensor| module(&tensor.name)).collect();
        let adapted: BTreeSet<String> = config.adapted(&ours).map(|(name, _)| name).collect();
        assert_eq!(adapted, saved, "{adapter}");
        if ours.adapter() == Adapter::Ia3 {
            for tensor in tensors.iter().filter(|tensor| tensor.name.ends_with(IA3)) {
                let name = module(&tensor.name).expect("a module");
                assert_eq!(
                    config.is_feedforward(&ours, &name),
                    tensor.shape[0] == 1,
                    "{adapter}: {name}"
                );
            }
        }
        assert!(
            tensors
                .iter()
                .all(|tensor| !VERA_SHARED.contains(&tensor.name.as_str()))
                || adapter.contains("vera")
        );
    }
}

#[test]
fn a_cell_is_named_for_what_its_file_says() {
    let keys = "rank: 4, lora_alpha: 8, target_modules: [down_proj, o_proj, q_proj], layers_to_transform: [1]";
    let by = |keys: &str| parse_in(&fixtures(), &defaults(&format!("model: ./tiny_llama, {keys}")), &[]).unwrap();
    let written = by(keys);
    let config = "adapter_config: tiny_llama_layers_adapter";
    let path = "adapter_config: tiny_llama_layers_adapter/adapter_config.json";
    for keys in [config, path, &format!("{config}, {keys}")] {
        let study = by(keys);
        assert_eq!(study.cells[0].cell.id(), written.cells[0].cell.id(), "{keys}");
    }
    let study = by(config);
    let dir = tempfile::tempdir().unwrap();
    study.write(dir.path()).unwrap();
    let read = Study::read(dir.path()).unwrap();
    assert_eq!(read.cells[0].cell, study.cells[0].cell);
    let alone = study.spec_of(&study.cells[0].cell, "", dir.path());
    assert!(!alone.contains("adapter_config"), "{alone}");
    let alone = parse_in(dir.path(), &alone, &[]).unwrap();
    assert_eq!(alone.cells[0].cell.rank, 4);
}

#[test]
fn files_are_an_axis() {
    let sweep = "sweep: {grid: {adapter_config: [tiny_llama_layers_adapter, tiny_llama_ia3_adapter, null]}}\n";
    let text = defaults("model: ./tiny_llama") + sweep;
    let study = parse_in(&fixtures(), &text, &[]).unwrap();
    let methods: Vec<_> = study
        .cells
        .iter()
        .map(|cell| (cell.cell.adapter.name(), cell.cell.rank))
        .collect();
    assert_eq!(methods, [("lora", 4), ("ia3", 16), ("lora", 16)]);
    assert_eq!(study.axes, ["adapter_config"]);
    let set = parse_in(&fixtures(), &text, &["adapter_config=tiny_llama_vera_adapter"]).unwrap();
    assert_eq!(set.cells[0].cell.vera.projection_prng_key, 3);
}

#[test]
fn they_are_those_of_their_files_on_pytorchs_stack() {
    for (adapter, base) in adapters() {
        let (file, _) = peft::read(&fixtures().join(&adapter)).expect(&adapter);
        let study = of_adapter(&adapter, &base, &file, ", stack: torch");
        // Its plans have no modules of encoders that are saved whole.
        if adapter.contains("bert_save_") {
            let error = study.unwrap_err().to_string();
            assert!(error.contains("modules_to_save"), "{error}");
            assert!(error.contains("adapter_config.json:"), "{error}");
            continue;
        }
        let study = study.unwrap_or_else(|error| panic!("{adapter}: {error}"));
        let ours = study.cells[0].cell.model_options().adapter.expect("an adapter");
        let theirs = file.options().expect(&adapter);
        assert_eq!(ours.method, theirs.method, "{adapter}");
        assert_eq!(ours.layers_to_transform, theirs.layers_to_transform, "{adapter}");
        assert_eq!(ours.modules_to_save, theirs.modules_to_save, "{adapter}");
        let has_layers = theirs.method.adapter().is_of_layers();
        assert!(!has_layers || ours.target_modules == theirs.target_modules, "{adapter}");
    }
}

#[test]
fn what_the_axes_exclude_need_not_suit_the_file() {
    let axes = "sweep:\n  grid: {adapter_config: [tiny_llama_layers_adapter, null], rank: [4, 16]}\n";
    let with = |exclude: &str| parse_in(&fixtures(), &(defaults("model: ./tiny_llama") + axes + exclude), &[]);
    let error = with("").unwrap_err().to_string();
    assert!(error.contains("rank: another value than that of `r`"), "{error}");
    for exclude in [
        "  exclude: adapter_config == 'tiny_llama_layers_adapter' and rank == 16\n",
        "  exclude: lora_alpha == 8 and rank == 16\n",
    ] {
        let study = with(exclude).unwrap_or_else(|error| panic!("{error}"));
        let cells = study.cells.iter();
        let cells: Vec<_> = cells.map(|cell| (cell.cell.rank, cell.cell.lora_alpha)).collect();
        assert_eq!(cells, [(4, Some(8.0)), (4, None), (16, None)]);
    }
}

/// Its keys are open, so no condition can leave it out.
#[test]
fn a_row_without_adapters_leaves_the_file_of_the_defaults_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |text: &str| fs::write(folder.path().join("config.json"), text).unwrap();
    let text = defaults("model: tiny, adapter_config: config.json") + "sweep: {include: [{rank: 0}, {}]}\n";
    for (config, adapter) in [
        (
            r#"{"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"]}"#,
            Adapter::Lora,
        ),
        (
            r#"{"peft_type": "OFT", "oft_block_size": 8, "r": 0, "target_modules": ["q_proj"]}"#,
            Adapter::Oft,
        ),
    ] {
        file(config);
        let study = parse_in(folder.path(), &text, &[]).unwrap_or_else(|error| panic!("{error}"));
        let methods: Vec<_> = study.cells.iter().map(|cell| cell.cell.method()).collect();
        assert_eq!(methods, [None, Some(adapter)]);
        assert_eq!(
            study.notes,
            ["left out where they have no effect: `adapter_config` of 1 of 2 cells"]
        );
    }
    let alone = defaults("model: tiny, adapter_config: config.json") + "sweep: {include: [{rank: 0}]}\n";
    let error = parse_in(folder.path(), &alone, &[]).unwrap_err().to_string();
    assert!(error.contains("adapter_config: rank 0 trains every weight"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_not_excluded() {
    let text = "sweep: {grid: {adapter_config: [nowhere, null]}, exclude: rank == 16}\n";
    let error = parse_in(&fixtures(), &(defaults("model: ./tiny_llama") + text), &[]).unwrap_err();
    assert!(error.to_string().contains("adapter_config: cannot read"), "{error}");
}

/// The report of a spec with these keys, and a file with these fields beside the method, without the folder's name.
fn report(keys: &str, fields: &[&str], settings: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let fields = fields.join(",\n  ");
    fs::write(dir.path().join("adapter_config.json"), format!("{{\n  {fields}\n}}\n")).unwrap();
    let text = format!("name: x\ndefaults:\n  model: tiny\n  adapter_config: adapter_config.json\n{keys}");
    let report = parse_in(dir.path(), &text, settings).map_or_else(|error| error.to_string(), |_| "no mistake".into());
    report.replace(&format!("{}/", dir.path().display()), "")
}

const LORA: &str = r#""peft_type": "LORA", "target_modules": ["q_proj"]"#;

#[test]
fn mistakes_name_the_field_and_its_place() {
    let shows = |name: &str, keys: &str, fields: &[&str]| insta::assert_snapshot!(name, report(keys, fields, &[]));
    shows("field_that_is_not_done", "", &[LORA, r#""lora_bias": true"#]);
    shows("misspelt_field", "", &[LORA, r#""lora_alfa": 16"#]);
    shows("field_of_the_wrong_type", "", &[LORA, r#""r": "eight""#]);
    shows("unknown_method", "", &[r#""peft_type": "LOAR""#]);
    shows("method_that_is_not_done", "", &[r#""peft_type": "BOFT""#]);
    shows(
        "no_rank",
        "",
        &[r#""peft_type": "LOHA", "target_modules": ["q_proj"]"#, r#""r": 0"#],
    );
    shows(
        "rank_of_a_pattern",
        "",
        &[
            r#""peft_type": "LOKR", "target_modules": ["q_proj"]"#,
            r#""rank_pattern": {"q_proj": 0}"#,
        ],
    );
    shows("no_method", "", &[r#""r": 8"#]);
    shows("no_json", "", &[LORA, r#""r": 8,"#]);
    shows("other_start_values", "", &[LORA, r#""init_lora_weights": false"#]);
    shows("other_task", "", &[LORA, r#""task_type": "SEQ_CLS""#]);
    shows(
        "blocks_beside_a_text",
        "",
        &[
            r#""peft_type": "LORA", "target_modules": "all-linear""#,
            r#""layers_to_transform": [0]"#,
        ],
    );
    shows(
        "module_of_another_model",
        "",
        &[r#""peft_type": "LORA""#, r#""target_modules": ["c_attn"]"#],
    );
    shows(
        "norms_of_no_family",
        "",
        &[
            r#""peft_type": "LN_TUNING""#,
            r#""target_modules": ["input_layernorm"]"#,
        ],
    );
    let prompt = r#""peft_type": "PROMPT_TUNING""#;
    shows("no_virtual_tokens", "", &[prompt, r#""num_virtual_tokens": 0"#]);
    shows(
        "text_that_is_not_there",
        "",
        &[prompt, r#""num_virtual_tokens": 4"#, r#""prompt_tuning_init": "TEXT""#],
    );
    shows("key_beside_the_file", "  rank: 4\n", &[LORA, r#""r": 8"#]);
    shows(
        "axis_beside_the_file",
        "sweep:\n  grid: {rank: [8, 16]}\n",
        &[LORA, r#""r": 8"#],
    );
    let set = report("", &[LORA, r#""r": 8"#], &["rank=4"]);
    insta::assert_snapshot!("override_beside_the_file", set);
}

#[test]
fn what_is_neutral_or_agrees_is_no_mistake() {
    let neutral = r#""peft_version": "0.21.2", "revision": "main", "auto_mapping": null, "loftq_config": {}, "r": 8"#;
    let keys = "  rank: 8\n  lora_alpha: 8.0\n  target_modules: [q_proj]\n";
    assert_eq!(report(keys, &[LORA, neutral], &["batch_size=2"]), "no mistake");
    let open = r#""peft_type": "LORA", "target_modules": null"#;
    assert_eq!(report("  target_modules: [q_proj]\n", &[open], &[]), "no mistake");
}

#[test]
fn modules_that_are_left_open_are_those_that_peft_chooses() {
    let dir = tempfile::tempdir().unwrap();
    let trained = |fields: &str, model: &str, keys: &str| {
        fs::write(dir.path().join("adapter_config.json"), format!("{{{fields}}}")).unwrap();
        let text = defaults(&format!("model: {model}, adapter_config: adapter_config.json{keys}"));
        let study = parse_in(dir.path(), &text, &[]).unwrap();
        let options = study.cells[0].cell.model_options();
        let config = Preset::named(model).unwrap().config();
        expctl::arch::check::check_modules(&config, &options, study.cells[0].cell.stack)
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(config.adapter_elements(&options.adapter.unwrap()))
    };
    // PEFT's own counts on a model of this shape.
    for (fields, elements) in [
        (r#""peft_type": "LORA", "r": 8"#, 3584),
        (
            r#""peft_type": "LORA", "target_modules": null, "r": 8, "layers_to_transform": [0]"#,
            1792,
        ),
        (r#""peft_type": "LORA", "use_dora": true, "r": 4"#, 1984),
        (r#""peft_type": "MISS", "r": 4"#, 768),
        (r#""peft_type": "VERA", "r": 4"#, 208),
        (r#""peft_type": "OFT", "oft_block_size": 8"#, 896),
        (r#""peft_type": "LOHA", "r": 4"#, 3584),
        (r#""peft_type": "LOKR", "r": 4"#, 448),
        (r#""peft_type": "IA3""#, 448),
        (r#""peft_type": "LN_TUNING""#, 320),
    ] {
        assert_eq!(trained(fields, "tiny", ""), Ok(elements), "{fields}");
    }
    let lora = r#""peft_type": "LORA", "r": 8"#;
    assert_eq!(trained(lora, "tiny", ", target_modules: [q_proj]"), Ok(2048));
    let error = trained(lora, "phi-4-mini", "").unwrap_err();
    assert_eq!(
        error,
        "`target_modules: peft`: PEFT chooses no layers in models of type phi3, and fails; write the layers, or `all-linear`"
    );
}

#[test]
fn what_has_no_effect_in_a_file_is_no_mistake() {
    let target = r#""target_modules": ["q_proj"]"#;
    let terms = r#""use_cayley_neumann": false, "num_cayley_neumann_terms": 7"#;
    assert_eq!(report("", &[r#""peft_type": "OFT""#, target, terms], &[]), "no mistake");
    for kind in ["LORA", "LOHA", "LOKR"] {
        let kind = format!(r#""peft_type": "{kind}""#);
        let idle = r#""r": 4, "rank_pattern": {"q_proj": 4}"#;
        assert_eq!(report("", &[&kind, target, idle], &[]), "no mistake", "{kind}");
    }
}

#[test]
fn a_pattern_without_effect_is_left_out_of_the_cells_that_have_its_rank() {
    let dir = tempfile::tempdir().unwrap();
    let of = |adapter: &str, pattern: &str, ranks: &str| {
        let own = format!("model: tiny, adapter: {adapter}, {adapter}: {{rank_pattern: {{{pattern}}}}}");
        let text = format!("{}sweep: {{grid: {{rank: {ranks}}}}}\n", defaults(&own));
        parse_in(dir.path(), &text, &[])
    };
    for adapter in ["lora", "loha", "lokr"] {
        for pattern in ["q_proj", "layers.0.self_attn.q_proj"] {
            let study = of(adapter, &format!("{pattern}: 4"), "[4, 8]").unwrap_or_else(|error| panic!("{error}"));
            let patterns = study.cells.iter().map(|cell| {
                let options = cell.cell.model_options().adapter.expect("an adapter");
                let ranks = options.value(&format!("{adapter}.rank_pattern"));
                (options.rank, ranks.as_object().map_or(0, serde_json::Map::len))
            });
            assert_eq!(patterns.collect::<Vec<_>>(), [(4, 0), (8, 1)], "{adapter}");
            let plain = of(adapter, "", "[4]").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(
                study.cells[0].cell.id(),
                plain.cells[0].cell.id(),
                "one meaning has one id"
            );
        }
        let error = of(adapter, "q_proj: 4", "[4]").unwrap_err().to_string();
        assert!(error.contains("4 is the rank of every module already"), "{error}");
    }
}

#[test]
fn the_factor_of_lokr_is_left_out_for_that_of_peft() {
    let of = |factor: &str| {
        let keys = format!("model: tiny, adapter: lokr, lokr: {{decompose_factor: {factor}}}");
        parse_in(Path::new("/nowhere"), &defaults(&keys), &[])
    };
    assert_eq!(of("4").unwrap().cells[0].cell.lokr.decompose_factor, Some(4));
    assert_eq!(of("null").unwrap().cells[0].cell.lokr.decompose_factor, None);
    for wrong in ["-1", "0"] {
        let error = of(wrong).unwrap_err().to_string();
        assert!(error.contains(&format!("must be at least 1, got {wrong}")), "{error}");
        assert!(error.contains("leave the key out for PEFT's -1"), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_of_the_spec() {
    let error = parse_in(
        Path::new("/nowhere"),
        &defaults("model: tiny, adapter_config: a.json"),
        &[],
    )
    .unwrap_err();
    insta::assert_snapshot!("no_adapter_config", error.to_string());
}
