//! The key `deepspeed_config`: the JSON file that DeepSpeed 0.19.8 reads, with what transformers' Trainer and accelerate
//! 1.15 make of it.

mod known;

use std::collections::BTreeMap;

use base::text::{Mistake, either, quoted};
use cell::Elements;
use serde_json::{Value as Json, json};
use yaml::diagnostic::Diagnostic;
use yaml::place::Place;
use yaml::tree::{Entry, Map, Node, Value};

use self::known::{
    ACCUMULATION, BETAS, BF16, BF16_MASTER, BF16_STATES, FILLED_IN, FP16, FUSED, GRAD_DTYPE, IDLE, MICRO_BATCH,
    OFFLOAD_OPTIMIZER, OFFLOAD_PARAM, OPTIMIZER, PARAM_DTYPE, READ, RENAMED, SECTIONS, STAGE, TORCH_ADAM, TRAIN_BATCH,
    UNPLANNED, unknown,
};
use super::interface::{Config, Key, Kind, ReadFields, Text};

pub(super) const KIND: Kind = Kind {
    key: KEY,
    // The Trainer refuses another value of what TrainingArguments have. ZeRO's options are not among them, so a sweep may
    // vary them. What DeepSpeed casts has a check of its own.
    yields: |key| key.starts_with("zero_optimization.") || CASTS.iter().any(|(name, _)| *name == key),
    file: |folder, path| Ok(folder.join(path)),
    read,
};

pub(super) const KEY: &str = "deepspeed_config";

/// Keys of other casts than DeepSpeed's, with the values that ask for none. A recipe may have others.
pub(crate) const CASTS: [(&str, &str); 3] = [("autocast", "none"), ("upcast", "none"), ("adapter_dtype", "float32")];

/// DeepSpeed's defaults of sizes that the cell takes from the model where they are left out.
pub(super) const BUCKET: (&str, u64) = ("zero_optimization.reduce_bucket_size", 500_000_000);
pub(super) const GATHERED: [(&str, u64); 2] = [
    ("zero_optimization.stage3_prefetch_bucket_size", 50_000_000),
    ("zero_optimization.stage3_param_persistence_threshold", 100_000),
];

/// DeepSpeed's names of formats, as ours.
const FORMATS: [(&str, &str); 11] = [
    ("fp32", "float32"),
    ("float32", "float32"),
    ("float", "float32"),
    ("torch.float32", "float32"),
    ("bf16", "bfloat16"),
    ("bfloat16", "bfloat16"),
    ("torch.bfloat16", "bfloat16"),
    ("fp16", "float16"),
    ("float16", "float16"),
    ("half", "float16"),
    ("torch.float16", "float16"),
];

/// What a file says.
#[derive(Debug)]
struct DeepSpeed {
    keys: Vec<Key>,
    /// What the weights are cast to; `None` if that is left to the cell.
    format: Option<Key>,
    stage: usize,
    /// Keys of ZeRO that stage 3 alone has, and stages 1 and 2 alone.
    of_stage3: Vec<Key>,
    of_others: Vec<Key>,
    batch: Batch,
}

/// The sizes of batches that are written; `None` of one that is left to the cell.
#[derive(Debug)]
struct Batch {
    whole: Option<usize>,
    micro: Option<usize>,
    /// True if the micro-batch follows from the others.
    follows: bool,
    accumulation: Option<usize>,
    place: Place,
}

impl Config for DeepSpeed {
    fn keys(&self, cell: &Node) -> Vec<Key> {
        let mut keys = self.keys.clone();
        let stage = count_of(cell, &["zero_optimization", "stage"]).unwrap_or(self.stage);
        keys.extend(match stage {
            3 => self.of_stage3.iter().cloned(),
            _ => self.of_others.iter().cloned(),
        });
        keys.extend(self.format.iter().map(|format| format_key(format, cell)));
        keys.extend(self.batch.micro_of(cell).map(|micro| Key {
            name: "batch_size",
            field: TRAIN_BATCH,
            value: Node::of_json(&json!(micro), self.batch.place),
        }));
        keys
    }

    fn unsuited(&self, cell: &Node, place: Place) -> Vec<Diagnostic> {
        let format = self.format.as_ref();
        let uncast = format.and_then(|format| uncast(KEY, format, cell, place));
        uncast.into_iter().chain(self.other_batch(cell)).collect()
    }
}

impl DeepSpeed {
    /// The mistake of a whole batch that is not made of the micro-batches (`_batch_assertion` in `runtime/config.py`).
    fn other_batch(&self, cell: &Node) -> Option<Diagnostic> {
        let Batch {
            whole,
            micro,
            follows,
            accumulation,
            place,
        } = self.batch;
        let whole = whole?;
        let size = |key| count_of(cell, &[key]).unwrap_or(1);
        let (ranks, accumulation) = (size("world_size"), accumulation.unwrap_or(size(ACCUMULATION)));
        let micro = match follows {
            true => self.batch.micro_of(cell).unwrap_or(0),
            false => micro.unwrap_or(size("batch_size")),
        };
        let product = micro.saturating_mul(accumulation).saturating_mul(ranks);
        if product == whole {
            return None;
        }
        let message = format!(
            "{KEY}: {TRAIN_BATCH}: {whole} is not {micro} samples in {accumulation} micro-batches on each of {ranks} GPUs, which are \
             {product}"
        );
        let help = "write \"auto\", or leave it out, and give `train_micro_batch_size_per_gpu`";
        Some(Diagnostic::new(message).at(place).help(help))
    }
}

impl Batch {
    /// The micro-batch that follows from the whole one.
    fn micro_of(&self, cell: &Node) -> Option<usize> {
        let whole = self.whole.filter(|_| self.follows)?;
        let size = |key| count_of(cell, &[key]).unwrap_or(1).max(1);
        let accumulation = self.accumulation.unwrap_or(size(ACCUMULATION)).max(1);
        let micro = whole / size("world_size") / accumulation;
        (micro > 0).then_some(micro)
    }
}

/// The key of the format that weights are cast to: quantised ones stay, and those beside them are cast.
pub(super) fn format_key(format: &Key, cell: &Node) -> Key {
    let name = match is_quantised(cell) {
        true => "bnb_4bit_compute_dtype",
        false => "dtype",
    };
    Key { name, ..format.clone() }
}

/// The mistake of quantised weights beside which nothing is cast.
pub(super) fn uncast(kind: &str, format: &Key, cell: &Node, place: Place) -> Option<Diagnostic> {
    if !is_quantised(cell) || format.value.text() != Some("float32") {
        return None;
    }
    let message = format!("{kind}: DeepSpeed casts nothing by it, and quantised weights are planned with bf16 or fp16");
    let mistake = Diagnostic::new(message).label(place, "");
    Some(mistake.label(format.value.place, "").help("enable bf16 in the file"))
}

fn is_quantised(cell: &Node) -> bool {
    let dtype = cell.get(&["dtype"]).and_then(Node::text);
    matches!(dtype, Some("int4" | "int8"))
}

pub(super) fn count_of(cell: &Node, path: &[&str]) -> Option<usize> {
    cell.get(path)?.text()?.parse().ok()
}

fn read(text: &Text) -> Result<Box<dyn Config>, Diagnostic> {
    // YAML has more than JSON, which DeepSpeed refuses.
    if let Err(error) = serde_json::from_str::<Json>(&text.text) {
        let message = format!("{KEY}: not a configuration of DeepSpeed: {error}");
        return Err(Diagnostic::new(message).at(text.place_of(&error)));
    }
    let fields = Fields::new(text)?;
    fields.check()?;
    let format = fields.format()?;
    let mut keys = vec![fields.key("distributed", "zero_optimization", json!("deepspeed"))];
    keys.extend(CASTS.map(|(name, value)| fields.key(name, BF16, json!(value))));
    let stage = fields.stage()?;
    let (mut of_stage3, mut of_others) = (Vec::new(), Vec::new());
    fields.zero(stage, &mut keys, &mut of_stage3, &mut of_others)?;
    fields.optimizer(&mut keys)?;
    let clipping = "gradient_clipping";
    match fields.is_auto(clipping) {
        true => {}
        // The Trainer's own norm is not heeded then.
        false => keys.push(fields.key(
            "max_grad_norm",
            clipping,
            json!(fields.number(clipping)?.unwrap_or(1.0)),
        )),
    }
    let batch = fields.batch(&mut keys)?;
    Ok(Box::new(DeepSpeed {
        keys,
        format,
        stage,
        of_stage3,
        of_others,
        batch,
    }))
}

/// The fields by their paths.
struct Fields {
    /// Those that have a value, by DeepSpeed's newest names.
    written: BTreeMap<String, Entry>,
    beginning: Place,
}

impl Fields {
    fn new(text: &Text) -> Result<Self, Diagnostic> {
        let tree = text.tree.as_ref().map_err(Clone::clone)?;
        let Some(map) = tree.as_map() else {
            let message = format!("{KEY}: not a configuration of DeepSpeed, but {}", tree.kind());
            return Err(Diagnostic::new(message).at(tree.place));
        };
        let mut fields = Self {
            written: BTreeMap::new(),
            beginning: text.place(""),
        };
        fields.flatten(map, "")?;
        Ok(fields)
    }

    /// Adds the fields of a map, and of the maps in it.
    fn flatten(&mut self, map: &Map, prefix: &str) -> Result<(), Diagnostic> {
        for (name, entry) in map.iter().filter(|(_, entry)| !entry.value.is_null()) {
            let written = format!("{prefix}{name}");
            let newer = RENAMED.iter().find(|(older, _)| *older == written);
            let path = newer.map_or(written.as_str(), |(_, newer)| newer).to_owned();
            if let Some(map) = entry.value.as_map() {
                self.flatten(map, &format!("{path}."))?;
            }
            if self.written.insert(path.clone(), entry.clone()).is_some() {
                let mistake = Mistake::new("here twice, by an older name as well");
                return Err(self.mistake(&path, mistake.help("leave one of them out")));
            }
        }
        Ok(())
    }

    /// Makes sure that DeepSpeed has all fields, and that nothing else than what is planned is asked for.
    fn check(&self) -> Result<(), Diagnostic> {
        for (path, entry) in &self.written {
            let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
            if entry.value.text() == Some("auto") && !FILLED_IN.contains(&path.as_str()) {
                let mistake = Mistake::new("the Trainer fills nothing in for \"auto\" here");
                return Err(self.mistake(path, mistake.help("write a value, or leave the field out")));
            }
            // What is in a map that is not looked into is not known.
            if !section.is_empty() && !SECTIONS.contains(&section) {
                continue;
            }
            let kind = entry.value.kind();
            if SECTIONS.contains(&path.as_str()) {
                if entry.value.as_map().is_none() {
                    return Err(self.mistake(path, Mistake::new(format!("a map of fields is expected, not {kind}"))));
                }
            } else if let Some((_, harmless, message)) = UNPLANNED.iter().find(|(known, ..)| known == path) {
                if asks(&entry.value, harmless) {
                    return Err(self.mistake(path, Mistake::new(*message)));
                }
            } else if !READ.contains(&path.as_str()) && !IDLE.contains(&path.as_str()) {
                return Err(self.mistake(path, unknown(section, name)));
            }
        }
        if !self.written.contains_key("zero_optimization") {
            let message = format!("{KEY}: DeepSpeed shares nothing by this file: it has no `zero_optimization`");
            let help = "write `\"zero_optimization\": {\"stage\": 2}`, or use `distributed: ddp`";
            return Err(Diagnostic::new(message).at(self.beginning).help(help));
        }
        Ok(())
    }

    fn stage(&self) -> Result<usize, Diagnostic> {
        if self.is_auto(STAGE) {
            // accelerate's.
            return Ok(2);
        }
        match self.elements(STAGE)? {
            Some(stage @ 1..=3) => Ok(stage as usize),
            None | Some(0) => {
                let mistake = Mistake::new("with stage 0, the default, DeepSpeed shares nothing, which is not planned");
                Err(self.mistake(
                    STAGE,
                    mistake.help("use 1, 2 or 3, or `distributed: ddp` without the file"),
                ))
            }
            Some(other) => {
                let mistake = Mistake::new(format!("ZeRO has no stage {other}"));
                Err(self.mistake(STAGE, mistake.help("use 1, 2 or 3")))
            }
        }
    }

    /// The format that the weights are cast to.
    fn format(&self) -> Result<Option<Key>, Diagnostic> {
        let is_on = |field| match self.is_auto(field) {
            true => Ok(None),
            false => Ok(Some(self.flag(field)?.unwrap_or(false))),
        };
        let (bf16, fp16) = (is_on(BF16)?, is_on(FP16)?);
        let (format, field) = match (bf16, fp16) {
            (Some(true), Some(true)) => {
                let mistake = Mistake::new("DeepSpeed refuses bf16 and fp16 at once");
                return Err(self.mistake(FP16, mistake.help("enable one of them")));
            }
            (Some(true), _) => ("bfloat16", BF16),
            (_, Some(true)) => ("float16", FP16),
            (None, _) | (_, None) => return Ok(None),
            _ => ("float32", BF16),
        };
        if let Some(param) = self.format_of(PARAM_DTYPE)?.filter(|param| *param != format) {
            let mistake = Mistake::new(format!(
                "{param}, and `bf16` and `fp16` say {format}, which DeepSpeed refuses"
            ));
            return Err(self.mistake(PARAM_DTYPE, mistake.help("leave it out")));
        }
        Ok(Some(self.key("dtype", field, json!(format))))
    }

    /// Adds the keys of ZeRO: those of every stage, of stage 3, and of the others.
    fn zero(
        &self,
        stage: usize,
        keys: &mut Vec<Key>,
        of_stage3: &mut Vec<Key>,
        of_others: &mut Vec<Key>,
    ) -> Result<(), Diagnostic> {
        if !self.is_auto(STAGE) {
            keys.push(self.key(STAGE, STAGE, json!(stage)));
        }
        for field in [
            "zero_optimization.overlap_comm",
            "zero_optimization.contiguous_gradients",
            "zero_optimization.reduce_scatter",
        ] {
            keys.extend(self.flag_key(field, field)?);
        }
        keys.extend(self.flag_key("zero_optimization.bf16_master_weights_and_grads", BF16_MASTER)?);
        keys.extend(self.flag_key("zero_optimization.bf16_optimizer_states", BF16_STATES)?);
        let format = self.format_of(GRAD_DTYPE)?;
        keys.extend(format.map(|format| self.key("zero_optimization.grad_accum_dtype", GRAD_DTYPE, json!(format))));
        keys.extend(self.size_key(BUCKET.0, Some(BUCKET.1))?);
        for (field, default) in GATHERED {
            of_stage3.extend(self.size_key(field, Some(default))?);
        }
        for field in [
            "zero_optimization.sub_group_size",
            "zero_optimization.stage3_model_persistence_threshold",
            "zero_optimization.stage3_max_live_parameters",
            "zero_optimization.stage3_max_reuse_distance",
        ] {
            of_stage3.extend(self.size_key(field, None)?);
        }
        let linear = "zero_optimization.memory_efficient_linear";
        of_stage3.extend(self.flag_key(linear, linear)?);
        let in_turn = "zero_optimization.round_robin_gradients";
        of_others.extend(self.flag_key(in_turn, in_turn)?);
        let optimizer = self.offload(
            OFFLOAD_OPTIMIZER,
            "zero_optimization.cpu_offload",
            [
                "zero_optimization.offload_optimizer_device",
                "zero_optimization.offload_optimizer_pin_memory",
            ],
            [
                "zero_optimization.offload_optimizer.device",
                "zero_optimization.offload_optimizer.pin_memory",
            ],
        )?;
        keys.extend(optimizer);
        let param = self.offload(
            OFFLOAD_PARAM,
            "zero_optimization.cpu_offload_param",
            [
                "zero_optimization.offload_param_device",
                "zero_optimization.offload_param_pin_memory",
            ],
            [
                "zero_optimization.offload_param.device",
                "zero_optimization.offload_param.pin_memory",
            ],
        )?;
        if let Some(device) = param.first().filter(|_| stage != 3) {
            let mistake = Mistake::new(format!(
                "weights are shared with stage 3 alone, and the stage is {stage}"
            ));
            return Err(self.mistake(device.field, mistake.help("leave it out, or use `\"stage\": 3`")));
        }
        of_stage3.extend(param);
        Ok(())
    }

    /// The keys of what is on the CPU; none if nothing is.
    fn offload(
        &self,
        section: &str,
        older: &'static str,
        names: [&'static str; 2],
        [device, pins]: [&'static str; 2],
    ) -> Result<Vec<Key>, Diagnostic> {
        if self.flag(older)? == Some(true) {
            if self.written.contains_key(section) {
                let mistake = Mistake::new(format!("an older name of `{section}`, which is here as well"));
                return Err(self.mistake(older, mistake.help("leave it out")));
            }
            return Ok(vec![self.key(names[0], older, json!("cpu"))]);
        }
        match self.word(device)? {
            None | Some("none" | "auto") => Ok(Vec::new()),
            Some("cpu") => {
                let mut keys = vec![self.key(names[0], device, json!("cpu"))];
                keys.extend(self.flag_key(names[1], pins)?);
                Ok(keys)
            }
            Some("nvme") => {
                let mistake = Mistake::new("offloading to a disk (nvme) is not planned");
                Err(self.mistake(device, mistake.help("use \"cpu\" or \"none\"")))
            }
            Some(other) => {
                let mistake = Mistake::new(format!("DeepSpeed has no device {}", quoted(other)));
                Err(self.mistake(device, mistake.help("use \"cpu\" or \"none\"")))
            }
        }
    }

    /// Adds the keys of an optimizer that DeepSpeed makes. Without one it is the Trainer's, which is the cell's.
    fn optimizer(&self, keys: &mut Vec<Key>) -> Result<(), Diagnostic> {
        let Some(name) = self.word(OPTIMIZER)? else {
            return match self.written.contains_key("optimizer") {
                true => {
                    let mistake = Mistake::new("it has no `type`, so that DeepSpeed makes none");
                    Err(self.mistake("optimizer", mistake.help("write `\"type\": \"AdamW\"`")))
                }
                false => Ok(()),
            };
        };
        let optim = match name.to_lowercase().as_str() {
            "adam" | "adamw" => match (self.flag(TORCH_ADAM)?, self.flag(FUSED)?) {
                (Some(true), None | Some(false)) => "adamw",
                // DeepSpeed's FusedAdam steps in one kernel, too.
                _ => "adamw_torch_fused",
            },
            "lion" => "lion",
            _ => {
                let mistake = Mistake::new(format!("the optimizer {} is not planned under DeepSpeed", quoted(name)));
                return Err(self.mistake(OPTIMIZER, mistake.help("planned are Adam, AdamW and Lion")));
            }
        };
        keys.push(self.key("optim", OPTIMIZER, json!(optim)));
        for (name, field) in [
            ("learning_rate", "optimizer.params.lr"),
            ("adam_epsilon", "optimizer.params.eps"),
            ("weight_decay", "optimizer.params.weight_decay"),
        ] {
            let number = self.number(field)?;
            keys.extend(number.map(|number| self.key(name, field, json!(number))));
        }
        let Some(betas) = self.written.get(BETAS).filter(|_| !self.is_auto(BETAS)) else {
            return Ok(());
        };
        let numbers: Option<Vec<f64>> = match &betas.value.value {
            Value::List(list) => list.iter().map(|beta| beta.text()?.parse().ok()).collect(),
            _ => None,
        };
        let Some([beta1, beta2]) = numbers.as_deref() else {
            let message = format!("two numbers in a list are expected, not {}", betas.value.kind());
            return Err(self.mistake(BETAS, Mistake::new(message)));
        };
        keys.push(self.key("adam_beta1", BETAS, json!(beta1)));
        keys.push(self.key("adam_beta2", BETAS, json!(beta2)));
        Ok(())
    }

    /// Adds the keys of batches, and returns the sizes that are written.
    fn batch(&self, keys: &mut Vec<Key>) -> Result<Batch, Diagnostic> {
        let (whole, micro) = (self.count(TRAIN_BATCH)?, self.count(MICRO_BATCH)?);
        let is_left_out = |field| !self.written.contains_key(field);
        if is_left_out(TRAIN_BATCH) && is_left_out(MICRO_BATCH) {
            let message = format!("{KEY}: DeepSpeed asks for `{MICRO_BATCH}` or `{TRAIN_BATCH}`, and neither is here");
            let help = format!("write `\"{MICRO_BATCH}\": \"auto\"`");
            return Err(Diagnostic::new(message).at(self.beginning).help(help));
        }
        keys.extend(micro.map(|micro| self.key("batch_size", MICRO_BATCH, json!(micro))));
        let accumulation = match self.is_auto(ACCUMULATION) {
            true => None,
            // accelerate's default, which the Trainer does not look at.
            false => Some(self.count(ACCUMULATION)?.unwrap_or(1)),
        };
        keys.extend(accumulation.map(|steps| self.key("gradient_accumulation_steps", ACCUMULATION, json!(steps))));
        Ok(Batch {
            whole,
            micro,
            follows: is_left_out(MICRO_BATCH) && whole.is_some(),
            accumulation,
            place: self.place(TRAIN_BATCH),
        })
    }

    fn is_auto(&self, field: &str) -> bool {
        self.written.get(field).and_then(|entry| entry.value.text()) == Some("auto")
    }

    fn word(&self, field: &str) -> Result<Option<&str>, Diagnostic> {
        let Some(entry) = self.written.get(field) else {
            return Ok(None);
        };
        match entry.value.text() {
            Some(text) => Ok(Some(text)),
            None => {
                let message = format!("a word is expected, not {}", entry.value.kind());
                Err(self.mistake(field, Mistake::new(message)))
            }
        }
    }

    fn format_of(&self, field: &str) -> Result<Option<&'static str>, Diagnostic> {
        let Some(word) = self.word(field)? else { return Ok(None) };
        let found = FORMATS.iter().find(|(name, _)| *name == word);
        match found {
            Some((_, format)) => Ok(Some(format)),
            None => {
                let mistake = Mistake::new(format!("there is no format {}", quoted(word)));
                let help = format!("use {}", either(&["fp32", "bf16", "fp16"]));
                Err(self.mistake(field, mistake.help(help)))
            }
        }
    }

    fn number(&self, field: &str) -> Result<Option<f64>, Diagnostic> {
        let Some(entry) = self.written.get(field).filter(|_| !self.is_auto(field)) else {
            return Ok(None);
        };
        match entry.value.text().and_then(|text| text.parse().ok()) {
            Some(number) if f64::is_finite(number) => Ok(Some(number)),
            _ => {
                let message = format!("a number is expected, not {}", entry.value.kind());
                Err(self.mistake(field, Mistake::new(message)))
            }
        }
    }

    fn count(&self, field: &str) -> Result<Option<usize>, Diagnostic> {
        match self.elements(field)? {
            Some(0) => {
                let mistake = Mistake::new("a whole number from 1 on is expected, not 0");
                Err(self.mistake(field, mistake))
            }
            count => Ok(count.map(|count| count as usize)),
        }
    }

    /// A whole number, which may be written as a float such as 5e8. `None` for "auto".
    fn elements(&self, field: &str) -> Result<Option<u64>, Diagnostic> {
        let Some(entry) = self.written.get(field).filter(|_| !self.is_auto(field)) else {
            return Ok(None);
        };
        match entry.value.text().and_then(|text| serde_json::from_str(text).ok()) {
            Some(Elements(elements)) => Ok(Some(elements)),
            None => {
                let message = format!("a whole number of 0 or more is expected, not {}", entry.value.kind());
                Err(self.mistake(field, Mistake::new(message)))
            }
        }
    }

    /// A size, or DeepSpeed's default if it is left out; none for "auto".
    fn size_key(&self, field: &'static str, default: Option<u64>) -> Result<Option<Key>, Diagnostic> {
        let size = match self.is_auto(field) {
            true => None,
            false => self.elements(field)?.or(default),
        };
        Ok(size.map(|size| self.key(field, field, json!(size))))
    }
}

impl ReadFields for Fields {
    const KIND: &'static str = KEY;

    /// The place of a field, or of the first map around it that is there.
    fn place(&self, field: &str) -> Place {
        match (self.written.get(field), field.rsplit_once('.')) {
            (Some(entry), _) => entry.place(),
            (None, Some((section, _))) => self.place(section),
            (None, None) => self.beginning,
        }
    }

    fn flag(&self, field: &str) -> Result<Option<bool>, Diagnostic> {
        let Some(entry) = self.written.get(field) else {
            return Ok(None);
        };
        match entry.value.text() {
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            _ => {
                let message = format!("true or false is expected, not {}", entry.value.kind());
                Err(self.mistake(field, Mistake::new(message)))
            }
        }
    }
}

/// True if an option asks for something.
fn asks(value: &Node, harmless: &[&str]) -> bool {
    match &value.value {
        Value::Map(map) => match map.get("enabled") {
            Some(enabled) => asks(&enabled.value, harmless),
            None => map.values().any(|entry| asks(&entry.value, harmless)),
        },
        Value::List(list) => !list.is_empty(),
        Value::Scalar(scalar) => !harmless.contains(&&*scalar.text),
        Value::Hole => false,
    }
}
