//! Cells at random, over every key that decides what our trainer allocates.

use expctl::cell::{Cell, Optimizer};
use expctl::kernels::Dispatch as _;
use expctl::kernels::InstructionSet;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

/// Cells without repetition, always the same for a seed and a CPU.
pub struct Sample {
    random: ChaCha8Rng,
    pub cells: Vec<Value>,
}

impl Sample {
    pub fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            cells: Vec::new(),
        }
    }

    /// Adds so many small decoders of this model, which takes samples of these lengths.
    pub fn decoders(&mut self, model: &str, modules: &[&str], lengths: &[usize], count: usize) {
        self.add(count, |random| {
            let mut cell = common(random, modules, &[1, 2, 3, 5, 8], lengths);
            cell.insert("model".into(), json!(model));
            let has_norms = !["tiny_phi3", "tiny_ministral"].iter().any(|name| model.ends_with(name));
            if !has_norms && cell.get("adapter").is_some_and(|adapter| adapter == "ln_tuning") {
                // PEFT chooses no norms of it.
                cell.insert("adapter".into(), json!("lora"));
            }
            let sees_all = ["tiny", "tiny_qwen2", "tiny_qwen3", "tiny_gemma"]
                .into_iter()
                .any(|name| model.ends_with(name));
            if !sees_all && cell.get("adapter").is_some_and(|adapter| adapter == "prefix_tuning") {
                // Others may have a window.
                cell.insert("adapter".into(), json!("prompt_tuning"));
                cell.remove("prefix_tuning");
            }
            let adapter = cell.get("adapter").and_then(Value::as_str).unwrap_or_default();
            if model.contains('/') && ["prompt_tuning", "prefix_tuning"].contains(&adapter) {
                // The fixtures have 64 positions, of which up to 20 are taken; padding makes lengths even larger.
                let length = cell.get("max_seq_length").and_then(Value::as_u64);
                cell.insert("max_seq_length".into(), json!(length.map(|length| length.min(31))));
            }
            if let Some(lora) = cell.get_mut("lora").and_then(Value::as_object_mut) {
                let of_some = lora.get("bias").is_some_and(|bias| bias == "lora_only");
                if !model.ends_with("tiny_qwen2") {
                    lora.remove("bias");
                } else if of_some && cell["target_modules"] != "all-linear" {
                    // Few of its layers have a bias.
                    cell["lora"]["bias"] = json!("all");
                }
            }
            cell
        });
    }

    /// Adds so many encoders of this preset with few tokens: their weights are most of what they take.
    pub fn encoders(&mut self, model: &str, modules: &[&str], count: usize) {
        self.add(count, |random| {
            let mut cell = common(random, modules, &[1, 2], &[4, 17]);
            cell.insert("model".into(), json!(model));
            cell.insert("task".into(), json!("sequence_classification"));
            if cell.get("adapter").is_some_and(|adapter| adapter == "ln_tuning") {
                // PEFT chooses no norms of encoders.
                cell.insert("adapter".into(), json!("lora"));
            }
            cell.insert("max_steps".into(), json!(1));
            cell
        });
    }

    fn add(&mut self, count: usize, draw: impl Fn(&mut ChaCha8Rng) -> Map<String, Value>) {
        let enough = self.cells.len() + count;
        while self.cells.len() < enough {
            let cell = Value::from(draw(&mut self.random));
            let is_valid = serde_json::from_value::<Cell>(cell.clone()).is_ok_and(|cell| cell.validate().is_ok());
            if is_valid && !self.cells.contains(&cell) {
                self.cells.push(cell);
            }
        }
    }

    /// Adds one step of this cell. An optimizer that projects gets a rank.
    pub fn cell(&mut self, mut cell: Value) {
        cell["max_steps"] = json!(1);
        cell["max_seq_length"] = json!(12);
        let projects = |name: &str| Optimizer::with_key("optim_rank").any(|optimizer| optimizer.name() == name);
        if cell["optim"].as_str().is_some_and(projects) {
            cell["optim_rank"] = json!(4);
        }
        self.cells.push(cell);
    }

    /// A spec of them; JSON is YAML.
    pub fn spec(&self) -> String {
        json!({ "name": "sample", "sweep": { "include": self.cells } }).to_string()
    }
}

fn common(random: &mut ChaCha8Rng, modules: &[&str], batches: &[usize], lengths: &[usize]) -> Map<String, Value> {
    let mut cell = Map::new();
    let mut set = |key: &str, value: Value| cell.insert(key.into(), value);
    let dtype = *["float32", "float16", "bfloat16", "int8", "int4"]
        .choose(random)
        .unwrap();
    set("dtype", json!(dtype));
    let is_quantised = dtype.starts_with("int");
    let rank = *[0, 1, 4, 8, 16, 33][usize::from(is_quantised)..]
        .choose(random)
        .unwrap();
    set("rank", json!(rank));
    let (mut some_module, mut adapter) = (String::new(), "");
    if dtype == "int4" {
        let formats = ["bfloat16", "float16", "float32"];
        set("bnb_4bit_compute_dtype", json!(formats.choose(random)));
        set("bnb_4bit_use_double_quant", json!(random.random_bool(0.5)));
        set("bnb_4bit_quant_type", json!(["nf4", "fp4"].choose(random)));
        set("bnb_4bit_blocksize", json!([32, 64, 4096].choose(random)));
    }
    if dtype == "int8" {
        set("llm_int8_threshold", json!([None, Some(0.0), Some(2.0)].choose(random)));
    }
    if rank == 0 && random.random_bool(0.5) {
        // With matrices, which an optimizer may want to project.
        let blocks = [json!([r".*\.1\..*"]), json!([r".*\.0\..*", ".*[nN]orm.*"])];
        set("trainable", blocks.choose(random).cloned().unwrap_or_default());
    }
    if rank > 0 {
        let count = random.random_range(1..=modules.len());
        let some = modules.iter().choose_multiple(random, count);
        some_module = some[0].to_string();
        set(
            "target_modules",
            if random.random_bool(0.5) {
                json!("all-linear")
            } else {
                json!(some)
            },
        );
        if random.random_bool(0.2) {
            set("layers_to_transform", json!([random.random_range(0..2)]));
        }
        adapter = *[
            "lora",
            "dora",
            "ia3",
            "miss",
            "vera",
            "prompt_tuning",
            "prefix_tuning",
            "ln_tuning",
        ]
        .choose(random)
        .unwrap();
        set("adapter", json!(adapter));
        match adapter {
            "lora" => _ = set("lora_dropout", json!([0.0, 0.1].choose(random))),
            "ia3" => {
                // The default, which nothing heeds.
                set("rank", json!(16));
                let modules = if random.random_bool(0.5) {
                    vec![&some_module]
                } else {
                    Vec::new()
                };
                set("ia3", json!({ "feedforward_modules": modules }));
            }
            "miss" => {
                // A shard is no longer than any layer's input.
                set("rank", json!([1, 4, 16].choose(random)));
                let mini = json!({ "init_weights": "mini", "mini_r": 2 });
                let miss = [json!({ "miss_dropout": 0.1 }), json!({}), mini];
                set("miss", miss.choose(random).cloned().unwrap_or_default());
            }
            "ln_tuning" | "prefix_tuning" | "prompt_tuning" => {
                set("rank", json!(16));
                set("target_modules", json!(null));
                set("layers_to_transform", json!(null));
                if adapter != "ln_tuning" {
                    set(adapter, json!({ "num_virtual_tokens": ([1, 3, 20].choose(random)) }));
                }
            }
            "vera" => _ = set("vera", json!({ "vera_dropout": ([0.0, 0.1].choose(random)) })),
            _ => {}
        }
    }
    if ["lora", "dora"].contains(&adapter) && random.random_bool(0.4) {
        set("lora_fa", json!(["none", "frozen"].choose(random)));
        // Some of these weights have no more than 8 rows.
        let inits = ["default", "gaussian", "olora", "pissa"];
        let init = random.random_range(0..if rank > 4 { 2 } else { 4 });
        let mut lora = json!({ "use_rslora": random.random_bool(0.5), "init_lora_weights": inits[init] });
        if !modules.contains(&"dense") && !modules.contains(&"q_lin") {
            lora["bias"] = json!(["none", "all", "lora_only"].choose(random));
        }
        // More than an optimizer's rank.
        if init < 2 && random.random_bool(0.5) {
            lora["rank_pattern"] = json!({ some_module: 17 });
        }
        set("lora", lora);
    }
    if rank > 0 && adapter != "ln_tuning" {
        set("adapter_dtype", json!(["float32", "bfloat16"].choose(random)));
    }
    let upcast = is_quantised && random.random_bool(0.5);
    if upcast {
        set("upcast", json!("peft"));
    }
    if upcast || dtype == "float32" {
        set("autocast", json!(["none", "bfloat16", "float16"].choose(random)));
    }
    set("attn_implementation", json!(["sdpa", "eager"].choose(random)));
    if !modules.contains(&"dense") && !modules.contains(&"q_lin") {
        set("loss", json!(["chunked", "full"].choose(random)));
    }
    set("batch_size", json!(batches.choose(random)));
    set("max_seq_length", json!(lengths.choose(random)));
    let ways = [
        json!("none"),
        json!("full"),
        json!({"every": 2}),
        json!({"first": 1}),
        json!({"layers": [1]}),
    ];
    set(
        "gradient_checkpointing",
        ways.choose(random).cloned().unwrap_or_default(),
    );
    let optimizers = ["adamw", "adamw_8bit", "lion", "sgd", "adafactor", "galore", "rsvd"];
    let optimizer = *optimizers.choose(random).unwrap();
    set("optim", json!(optimizer));
    if ["galore", "rsvd"].contains(&optimizer) {
        set("optim_rank", json!([2, 4].choose(random)));
    }
    set("max_grad_norm", json!([0.0, 1.0].choose(random)));
    set("padding", json!(["max_length", "longest"].choose(random)));
    for key in ["group_by_length", "longest_first"] {
        set(key, json!(random.random_bool(0.2)));
    }
    if random.random_bool(0.2) {
        set("max_tokens_per_batch", json!([64, 100, 150].choose(random)));
    }
    if random.random_bool(0.2) {
        set("pad_to_multiple_of", json!([8, 16].choose(random)));
    } else if random.random_bool(0.3) {
        set("packing", json!(true));
        set("packing_separator", json!(["none", "eos"].choose(random)));
        set("packing_attention", json!(["block_diagonal", "full"].choose(random)));
    }
    let data = [
        json!("synthetic"),
        json!({"synthetic": {"lengths": "uniform", "samples": 64}}),
        json!({"synthetic": {"lengths": [3, 9, 50], "samples": 64}}),
    ];
    set("data", data.choose(random).cloned().unwrap_or_default());
    if random.random_bool(0.1) {
        set("measure", json!("profile"));
    } else {
        set("max_steps", json!(random.random_range(1..=4)));
        set("gradient_accumulation_steps", json!(random.random_range(1..=3)));
    }
    let weights = [json!(null), json!({"ratio": 0.5}), json!({"ratio": 1}), json!([0])];
    let mut offload = Map::new();
    for part in ["embeddings", "optimizer", "checkpoints"] {
        offload.insert(part.into(), json!(random.random_bool(0.3)));
    }
    offload.insert("weights".into(), weights.choose(random).cloned().unwrap_or_default());
    if random.random_bool(0.5) {
        set("offload", offload.into());
    }
    let sets = InstructionSet::ALL.into_iter().filter(|set| set.is_available());
    let names = sets.map(InstructionSet::name).chain(["auto"]);
    set("instruction_set", json!(names.choose(random)));
    cell
}
