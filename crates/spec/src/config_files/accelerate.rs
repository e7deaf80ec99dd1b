//! The key `accelerate_config`: the file that `accelerate config` writes, with what `accelerate launch` of release 1.15
//! makes of it.

use std::collections::BTreeMap;

use base::text::{Mistake, either, nearest, quoted};
use serde_json::{Value as Json, json};
use yaml::diagnostic::Diagnostic;
use yaml::place::Place;
use yaml::tree::{Entry, Node};

use super::deepspeed::{self, BUCKET, CASTS, GATHERED};
use super::interface::{Config, Key, Kind, ReadFields, Text, part};

pub(super) const KIND: Kind = Kind {
    key: KEY,
    // As the launcher's own options have.
    yields: |_| true,
    file: |folder, path| Ok(folder.join(path)),
    read,
};

const KEY: &str = "accelerate_config";

/// Fields that decide memory.
const READ: [&str; 26] = [
    "compute_environment",
    "distributed_type",
    "num_processes",
    "num_machines",
    "mixed_precision",
    "use_cpu",
    "fsdp_config",
    VERSION,
    "fsdp_sharding_strategy",
    "fsdp_reshard_after_forward",
    "fsdp_offload_params",
    POLICY,
    "fsdp_transformer_layer_cls_to_wrap",
    "fsdp_backward_prefetch",
    "fsdp_forward_prefetch",
    "fsdp_limit_all_gathers",
    "fsdp_use_orig_params",
    CHECKPOINTS,
    "fp16",
    DEEPSPEED,
    CONFIG_FILE,
    STAGE,
    "offload_optimizer_device",
    "offload_param_device",
    "gradient_accumulation_steps",
    "gradient_clipping",
];

/// Fields that do not: where processes run and meet, how weights are read and saved.
const NOT_READ: [&str; 33] = [
    "debug",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "rdzv_backend",
    "same_network",
    "enable_cpu_affinity",
    "gpu_ids",
    "mpirun_config",
    "downcast_bf16",
    "tpu_name",
    "tpu_zone",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "tpu_env",
    "tpu_vm",
    "command_file",
    "commands",
    "fsdp_state_dict_type",
    "fsdp_cpu_ram_efficient_loading",
    "fsdp_sync_module_states",
    // Of units by size, which are not planned.
    "fsdp_min_num_params",
    // Read by older releases alone.
    "fsdp_backward_prefetch_policy",
    // transformers looks at the stage alone since accelerate tells it of DeepSpeed in any case.
    "zero3_init_flag",
    "zero3_save_16bit_model",
    "offload_optimizer_nvme_path",
    "offload_param_nvme_path",
    "deepspeed_hostfile",
    "deepspeed_multinode_launcher",
    "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter",
    // Of mixtures of experts, which no plan is of.
    "deepspeed_moe_layer_cls_names",
];

/// Options of what is not planned. Those that are empty, false or 1 ask for nothing.
const NOT_PLANNED: [(&str, &str); 7] = [
    ("megatron_lm_config", "Megatron-LM is not planned"),
    (
        "parallelism_config",
        "parallelism of tensors and of contexts, and replicas under FSDP2, are not planned",
    ),
    ("fp8_config", "training in 8-bit floating point is not planned"),
    ("dynamo_config", COMPILED),
    // Its older name.
    ("dynamo_backend", COMPILED),
    (
        "fsdp_activation_checkpointing_offload",
        "checkpoints on the CPU are not planned under FSDP",
    ),
    ("fsdp_ignored_modules", "modules that FSDP leaves whole are not planned"),
];

const COMPILED: &str = "code that torch.compile made is not planned";

/// The section of DeepSpeed's fields, and its file in their place.
const DEEPSPEED: &str = "deepspeed_config";
const CONFIG_FILE: &str = "deepspeed_config_file";
const STAGE: &str = "zero_stage";

/// Fields that accelerate refuses beside a file of DeepSpeed (`_deepspeed_config_checks`).
const NOT_BESIDE_FILE: [&str; 9] = [
    "gradient_accumulation_steps",
    "gradient_clipping",
    STAGE,
    "offload_optimizer_device",
    "offload_param_device",
    "offload_param_nvme_path",
    "offload_optimizer_nvme_path",
    "zero3_save_16bit_model",
    "mixed_precision",
];

const VERSION: &str = "fsdp_version";
const POLICY: &str = "fsdp_auto_wrap_policy";
const CHECKPOINTS: &str = "fsdp_activation_checkpointing";

/// Words of accelerate, which stand for our own in small letters, in the order of their numbers.
const STRATEGIES: [&str; 5] = [
    "FULL_SHARD",
    "SHARD_GRAD_OP",
    "NO_SHARD",
    "HYBRID_SHARD",
    "HYBRID_SHARD_ZERO2",
];
const PREFETCHES: [&str; 3] = ["BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"];
const POLICIES: [&str; 3] = ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"];

/// What a file says.
#[derive(Debug)]
struct Accelerate {
    keys: Vec<Key>,
    /// What it says of a model without adapters: PEFT wraps one with them.
    without_adapters: Option<Key>,
    zero: Option<Zero>,
}

/// What a file says of DeepSpeed, if it names no file of DeepSpeed.
#[derive(Debug)]
struct Zero {
    stage: usize,
    of_stage3: Vec<Key>,
    /// The format that the weights are cast to.
    format: Option<Key>,
}

impl Zero {
    fn keys(&self, cell: &Node) -> Vec<Key> {
        let own = deepspeed::count_of(cell, &["zero_optimization", "stage"]);
        let shared = self.of_stage3.iter().filter(|_| own.unwrap_or(self.stage) == 3);
        let format = self.format.iter().map(|format| deepspeed::format_key(format, cell));
        shared.cloned().chain(format).collect()
    }
}

impl Config for Accelerate {
    fn keys(&self, cell: &Node) -> Vec<Key> {
        let has_adapters = part(cell, &["adapter", "rank"]).is_none_or(|cell| cell.method().is_some());
        let wrapped = self.without_adapters.iter().filter(|_| !has_adapters);
        let mut keys: Vec<Key> = self.keys.iter().chain(wrapped).cloned().collect();
        keys.extend(self.zero.iter().flat_map(|zero| zero.keys(cell)));
        keys
    }

    fn other(&self) -> Option<(&'static str, String)> {
        let named = self.keys.iter().find(|key| key.name == deepspeed::KEY)?;
        Some((deepspeed::KEY, named.value.text()?.to_owned()))
    }

    fn unsuited(&self, cell: &Node, place: Place) -> Vec<Diagnostic> {
        let format = self.zero.iter().filter_map(|zero| zero.format.as_ref());
        format
            .filter_map(|format| deepspeed::uncast(KEY, format, cell, place))
            .collect()
    }
}

fn read(text: &Text) -> Result<Box<dyn Config>, Diagnostic> {
    let fields = Fields::new(text)?;
    let (mut keys, distributed) = (Vec::new(), fields.word("distributed_type"));
    fields.check()?;
    let processes = fields.processes()?;
    keys.extend(processes.map(|processes| fields.key("world_size", "num_processes", json!(processes))));
    let precision = fields.precision()?;
    let (mut without_adapters, mut zero) = (None, None);
    if distributed != Some("DEEPSPEED") {
        keys.extend(precision.map(|(format, field)| fields.key("autocast", field, json!(format))));
        fields.check_without_deepspeed()?;
    }
    match distributed {
        Some("NO") if processes.is_none_or(|processes| processes == 1) => {}
        Some("NO") => {
            let mistake = Mistake::new("one process alone, and `num_processes` says more");
            return Err(fields.mistake("distributed_type", mistake.help("use MULTI_GPU, FSDP or DEEPSPEED")));
        }
        Some("MULTI_GPU") => keys.push(fields.key("distributed", "distributed_type", json!("ddp"))),
        Some("FSDP") => {
            keys.push(fields.key("distributed", "distributed_type", json!("fsdp")));
            without_adapters = fields.fsdp(&mut keys)?;
        }
        Some("DEEPSPEED") => zero = fields.deepspeed(precision, &mut keys)?,
        Some(other) => {
            let mistake = Mistake::new(format!("{} is not planned", quoted(other)));
            let help = "planned are NO, MULTI_GPU, FSDP and DEEPSPEED";
            return Err(fields.mistake("distributed_type", mistake.help(help)));
        }
        None => {
            let message = format!("{KEY}: not a configuration of accelerate: it has no `distributed_type`");
            return Err(Diagnostic::new(message).at(fields.beginning));
        }
    }
    Ok(Box::new(Accelerate {
        keys,
        without_adapters,
        zero,
    }))
}

/// The fields by the launcher's names: those of `fsdp_config` begin with `fsdp_`, whether they are written so or not.
struct Fields {
    /// Those that have a value.
    written: BTreeMap<String, Entry>,
    beginning: Place,
}

impl Fields {
    fn new(text: &Text) -> Result<Self, Diagnostic> {
        let tree = text.tree.as_ref().map_err(Clone::clone)?;
        let Some(map) = tree.as_map() else {
            let message = format!("{KEY}: not a configuration of accelerate, but {}", tree.kind());
            return Err(Diagnostic::new(message).at(tree.place));
        };
        let outer = map.iter().map(|(name, entry)| (name.to_string(), entry));
        let fsdp = map.get("fsdp_config").and_then(|entry| entry.value.as_map());
        let inner = fsdp
            .into_iter()
            .flatten()
            .map(|(name, entry)| match name.starts_with("fsdp_") {
                true => (name.to_string(), entry),
                false => (format!("fsdp_{name}"), entry),
            });
        let deepspeed = map.get(DEEPSPEED).and_then(|entry| entry.value.as_map());
        let deepspeed = deepspeed
            .into_iter()
            .flatten()
            .map(|(name, entry)| (name.to_string(), entry));
        let written = outer
            .chain(inner)
            .chain(deepspeed)
            .filter(|(_, entry)| !entry.value.is_null());
        Ok(Self {
            written: written.map(|(name, entry)| (name, entry.clone())).collect(),
            beginning: text.place(""),
        })
    }

    /// Makes sure that accelerate has all fields, and that nothing else than what is planned is asked for.
    fn check(&self) -> Result<(), Diagnostic> {
        let not_planned = NOT_PLANNED.map(|(field, _)| field);
        let known: Vec<&str> = READ.into_iter().chain(NOT_READ).chain(not_planned).collect();
        if let Some(name) = self.written.keys().find(|name| !known.contains(&name.as_str())) {
            let near = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
            return Err(self.mistake(name, Mistake::new("unknown field").help_if(near)));
        }
        let kind = |entry: &Entry| entry.value.kind();
        let sections = ["fsdp_config", DEEPSPEED];
        let mut written = sections
            .iter()
            .filter_map(|name| Some((name, self.written.get(*name)?)));
        if let Some((name, entry)) = written.find(|(_, entry)| entry.value.as_map().is_none()) {
            let message = format!("a map of fields is expected, not {}", kind(entry));
            return Err(self.mistake(name, Mistake::new(message)));
        }
        let words = READ.iter().filter(|field| !sections.contains(field));
        let mut words = words.filter_map(|field| Some((field, self.written.get(*field)?)));
        if let Some((field, entry)) = words.find(|(_, entry)| entry.value.text().is_none()) {
            let message = format!("a word or a number is expected, not {}", kind(entry));
            return Err(self.mistake(field, Mistake::new(message)));
        }
        let asked = |(field, _): &&(&str, &str)| {
            let entry = self.written.get(*field);
            entry.is_some_and(|entry| asks(field, &entry.value))
        };
        if let Some((field, message)) = NOT_PLANNED.iter().find(asked) {
            return Err(self.mistake(field, Mistake::new(*message)));
        }
        if let Some(other) = self.word("compute_environment").filter(|word| *word != "LOCAL_MACHINE") {
            let mistake = Mistake::new(format!("{} is not planned", quoted(other)));
            return Err(self.mistake("compute_environment", mistake.help("use LOCAL_MACHINE")));
        }
        if self.flag("use_cpu")?.unwrap_or(false) {
            return Err(self.mistake("use_cpu", Mistake::new("PyTorch's training on the CPU is not planned")));
        }
        Ok(())
    }

    fn processes(&self) -> Result<Option<usize>, Diagnostic> {
        match self.word("num_processes") {
            // What the launcher is told.
            Some("-1") => Ok(None),
            _ => self.count("num_processes"),
        }
    }

    /// The format of mixed precision, with the field that says so.
    fn precision(&self) -> Result<Option<(&'static str, &'static str)>, Diagnostic> {
        let Some(word) = self.word("mixed_precision") else {
            // Its older name.
            let is_half = self.flag("fp16")?.unwrap_or(false);
            return Ok(is_half.then_some(("float16", "fp16")));
        };
        let format = match word.to_lowercase().as_str() {
            "no" | "false" => "none",
            "bf16" => "bfloat16",
            "fp16" => "float16",
            _ => {
                let mistake = Mistake::new(format!("{} is not planned", quoted(word)));
                return Err(self.mistake("mixed_precision", mistake.help("planned are 'no', bf16 and fp16")));
            }
        };
        Ok(Some((format, "mixed_precision")))
    }

    /// Makes sure that nothing is said of DeepSpeed, which the launcher does not use.
    fn check_without_deepspeed(&self) -> Result<(), Diagnostic> {
        let section = self.written.get(DEEPSPEED).and_then(|entry| entry.value.as_map());
        if section.is_none_or(|fields| fields.values().all(|entry| entry.value.is_null())) {
            return Ok(());
        }
        let mistake = Mistake::new("the launcher uses DeepSpeed with `distributed_type: DEEPSPEED` alone");
        Err(self.mistake(DEEPSPEED, mistake.help("write that, or leave the fields out")))
    }

    /// Adds the keys of DeepSpeed. Without a file of DeepSpeed, its options are those that the plugin makes
    /// (`DeepSpeedPlugin.__post_init__`): what it leaves out has DeepSpeed's defaults.
    fn deepspeed(
        &self,
        precision: Option<(&'static str, &'static str)>,
        keys: &mut Vec<Key>,
    ) -> Result<Option<Zero>, Diagnostic> {
        if let Some(file) = self.word(CONFIG_FILE).filter(|file| *file != "none") {
            if let Some(field) = NOT_BESIDE_FILE.iter().find(|field| self.written.contains_key(**field)) {
                let mistake = Mistake::new("accelerate refuses it beside `deepspeed_config_file`");
                return Err(self.mistake(field, mistake.help("write it in the file of DeepSpeed")));
            }
            keys.push(self.key(deepspeed::KEY, CONFIG_FILE, json!(file)));
            return Ok(None);
        }
        keys.push(self.key("distributed", "distributed_type", json!("deepspeed")));
        keys.extend(CASTS.map(|(name, value)| self.key(name, "distributed_type", json!(value))));
        let stage = match (self.word(STAGE), self.word(STAGE).and_then(|word| word.parse().ok())) {
            (None, _) => 2,
            (_, Some(stage @ 1..=3)) => stage,
            (_, Some(0)) => {
                let mistake = Mistake::new("with stage 0 DeepSpeed shares nothing, which is not planned");
                return Err(self.mistake(STAGE, mistake.help("use 1, 2 or 3, or `distributed_type: MULTI_GPU`")));
            }
            (Some(other), _) => {
                let mistake = Mistake::new(format!("ZeRO has no stage {}", quoted(other)));
                return Err(self.mistake(STAGE, mistake.help("use 1, 2 or 3")));
            }
        };
        keys.push(self.key("zero_optimization.stage", STAGE, json!(stage)));
        keys.extend(self.device("zero_optimization.offload_optimizer_device", "offload_optimizer_device")?);
        keys.push(self.key(BUCKET.0, STAGE, json!(BUCKET.1)));
        let mut of_stage3: Vec<Key> = GATHERED
            .map(|(name, default)| self.key(name, STAGE, json!(default)))
            .to_vec();
        let param = self.device("zero_optimization.offload_param_device", "offload_param_device")?;
        if param.is_some() && stage != 3 {
            let mistake = Mistake::new(format!(
                "weights are shared with stage 3 alone, and the stage is {stage}"
            ));
            return Err(self.mistake("offload_param_device", mistake.help("use none, or `zero_stage: 3`")));
        }
        of_stage3.extend(param);
        let steps = "gradient_accumulation_steps";
        if self.word(steps) != Some("auto") {
            let count = self.count(steps)?;
            keys.extend(count.map(|count| self.key(steps, steps, json!(count))));
        }
        let clipping = "gradient_clipping";
        if let Some(word) = self.word(clipping).filter(|word| *word != "auto") {
            let Some(norm) = word.parse().ok().filter(|norm: &f64| norm.is_finite()) else {
                let message = format!("a number is expected, not {}", quoted(word));
                return Err(self.mistake(clipping, Mistake::new(message)));
            };
            // The plugin leaves 0 out, so that DeepSpeed's default stays.
            let norm = if norm == 0.0 { 1.0 } else { norm };
            keys.push(self.key("max_grad_norm", clipping, json!(norm)));
        }
        let format = precision.map(|(format, field)| {
            let format = if format == "none" { "float32" } else { format };
            self.key("dtype", field, json!(format))
        });
        Ok(Some(Zero {
            stage,
            of_stage3,
            format,
        }))
    }

    /// The key of a device that something is offloaded to; none if nothing is.
    fn device(&self, name: &'static str, field: &'static str) -> Result<Option<Key>, Diagnostic> {
        match self.word(field).map(str::to_lowercase).as_deref() {
            None | Some("none") => Ok(None),
            Some("cpu") => Ok(Some(self.key(name, field, json!("cpu")))),
            Some("nvme") => {
                let mistake = Mistake::new("offloading to a disk (nvme) is not planned");
                Err(self.mistake(field, mistake.help("use cpu or none")))
            }
            Some(other) => {
                let mistake = Mistake::new(format!("there is no device {}", quoted(other)));
                Err(self.mistake(field, mistake.help("use cpu or none")))
            }
        }
    }

    /// Adds the keys of FSDP. Options that its version does not have are left out, as accelerate does. Returns the key of
    /// a model without adapters.
    fn fsdp(&self, keys: &mut Vec<Key>) -> Result<Option<Key>, Diagnostic> {
        let version = self.count(VERSION)?.unwrap_or(1);
        keys.push(self.key("fsdp_config.version", VERSION, json!(version)));
        keys.extend(self.flag_key("fsdp_config.offload_params", "fsdp_offload_params")?);
        if self.flag(CHECKPOINTS)? == Some(true) {
            keys.push(self.key("fsdp_config.activation_checkpointing", CHECKPOINTS, json!(true)));
            keys.push(self.key("gradient_checkpointing", CHECKPOINTS, json!("full")));
        }
        let class = "fsdp_transformer_layer_cls_to_wrap";
        let name = self.word(class).filter(|name| !name.is_empty());
        keys.extend(name.map(|name| self.key("fsdp_config.transformer_layer_cls_to_wrap", class, json!(name))));
        let policy = self.choice(POLICY, &POLICIES)?.unwrap_or("NO_WRAP");
        if policy == "SIZE_BASED_WRAP" {
            let mistake = Mistake::new("units by size are not planned");
            return Err(self.mistake(POLICY, mistake.help("use TRANSFORMER_BASED_WRAP")));
        }
        if version > 2 {
            // The cell's own check says which versions there are.
            return Ok(None);
        }
        if version == 2 {
            if policy == "NO_WRAP" {
                let mistake = Mistake::new("FSDP2 is planned with blocks as units");
                return Err(self.mistake(POLICY, mistake.help("use TRANSFORMER_BASED_WRAP")));
            }
            let reshards = "fsdp_reshard_after_forward";
            keys.extend(self.flag_key("fsdp_config.reshard_after_forward", reshards)?);
            return Ok(None);
        }
        // `fsdp_reshard_after_forward` is not heeded: the launcher has a strategy in any case.
        let field = "fsdp_sharding_strategy";
        let strategy = self.choice(field, &STRATEGIES)?.unwrap_or("FULL_SHARD");
        keys.push(self.key("fsdp_config.sharding_strategy", field, lower(strategy)));
        if strategy.starts_with("HYBRID") {
            let machines = self.count("num_machines")?;
            keys.extend(machines.map(|machines| self.key("fsdp_config.num_machines", "num_machines", json!(machines))));
        }
        keys.extend(self.flag_key("fsdp_config.use_orig_params", "fsdp_use_orig_params")?);
        if policy == "NO_WRAP" {
            return Ok(Some(self.key("fsdp_config.auto_wrap_policy", POLICY, lower(policy))));
        }
        if strategy != "NO_SHARD" {
            let field = "fsdp_backward_prefetch";
            let prefetch = self.choice(field, &PREFETCHES)?.unwrap_or("NO_PREFETCH");
            keys.push(self.key("fsdp_config.backward_prefetch", field, lower(prefetch)));
            keys.extend(self.flag_key("fsdp_config.forward_prefetch", "fsdp_forward_prefetch")?);
            keys.extend(self.flag_key("fsdp_config.limit_all_gathers", "fsdp_limit_all_gathers")?);
        }
        Ok(None)
    }

    fn word(&self, field: &str) -> Option<&str> {
        self.written.get(field)?.value.text()
    }

    fn count(&self, field: &str) -> Result<Option<usize>, Diagnostic> {
        let Some(entry) = self.written.get(field) else {
            return Ok(None);
        };
        match entry.value.text().and_then(|text| text.parse().ok()) {
            Some(count) if count > 0 => Ok(Some(count)),
            _ => {
                let message = format!("a whole number from 1 on is expected, not {}", entry.value.kind());
                Err(self.mistake(field, Mistake::new(message)))
            }
        }
    }

    /// One of accelerate's words, by its name or its number.
    fn choice(&self, field: &str, words: &[&'static str]) -> Result<Option<&'static str>, Diagnostic> {
        let Some(word) = self.word(field) else { return Ok(None) };
        let number: Option<usize> = word.parse().ok();
        let by_number = number.and_then(|number| words.get(number.checked_sub(1)?));
        let by_name = || words.iter().find(|name| name.eq_ignore_ascii_case(word));
        let Some(found) = by_number.or_else(by_name) else {
            let help = match nearest(&word.to_uppercase(), words.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("use {}", either(words)),
            };
            let mistake = Mistake::new(format!("there is no {}", quoted(word))).help(help);
            return Err(self.mistake(field, mistake));
        };
        Ok(Some(*found))
    }
}

impl ReadFields for Fields {
    const KIND: &'static str = KEY;

    /// The place of a field; of the type of the processes for one that is left out.
    fn place(&self, field: &str) -> Place {
        let entry = self.written.get(field).or_else(|| self.written.get("distributed_type"));
        entry.map_or(self.beginning, Entry::place)
    }

    fn flag(&self, field: &str) -> Result<Option<bool>, Diagnostic> {
        let Some(entry) = self.written.get(field) else {
            return Ok(None);
        };
        // The words of accelerate's `str_to_bool`.
        match entry.value.text().map(str::to_lowercase).as_deref() {
            Some("y" | "yes" | "t" | "true" | "on" | "1") => Ok(Some(true)),
            Some("n" | "no" | "f" | "false" | "off" | "0") => Ok(Some(false)),
            _ => {
                let message = format!("true or false is expected, not {}", entry.value.kind());
                Err(self.mistake(field, Mistake::new(message)))
            }
        }
    }
}

/// True if an option, or one of a map of options, asks for something.
fn asks(name: &str, value: &Node) -> bool {
    match (value.as_map(), value.text()) {
        (Some(map), _) => map.iter().any(|(name, entry)| asks(name, &entry.value)),
        // How what is asked for by another field is done, and how many GPUs FSDP2 shares among.
        _ if name.starts_with("parallelism_config_") && !name.ends_with("_size") => false,
        _ if name.starts_with("dynamo_") && !name.ends_with("backend") => false,
        _ if name.ends_with("dp_shard_size") => false,
        (None, Some(text)) => !matches!(text.to_lowercase().as_str(), "" | "no" | "1" | "false" | "null"),
        (None, None) => true,
    }
}

fn lower(word: &str) -> Json {
    json!(word.to_lowercase())
}
