//! The data, for the task and for a step.

use std::path::Path;

use arch::Preset;
use base::text::quoted;
use hub::{HubName, is_same_split};
use options::{ALPACA, BatchSearch, DataOptions, LogNormal, Paths, PromptTemplate};

use super::super::{Attention, Cell, Data, DataFile, DataFormat, Lengths, PackingStrategy, Stack, Synthetic, Task};
use super::found::Found;
use options::invalid::{Checked, Invalid, at_least, at_most, number};

impl Cell {
    pub(super) fn check_data(&self, found: &mut Found) {
        let held_out = self.eval_fraction;
        found.check(number(
            "eval_fraction",
            held_out,
            (0.0..1.0).contains(&held_out),
            "at least 0 and less than 1",
        ));
        match &self.data {
            Data::Synthetic(synthetic) => {
                found.check(check_synthetic(synthetic));
                found.check(self.check_between(synthetic));
                found.check(self.check_samples(synthetic.samples));
            }
            Data::File(file) => {
                found.check(check_file(file));
                found.check(self.check_labels(file));
                found.check(self.check_evaluation(file));
                found.check(self.check_forgetting(file));
                found.check(self.check_tokenizer());
            }
            Data::Sample if self.task == Task::SequenceClassification => found.add(
                Invalid::new("data", "the sample text has no labels")
                    .with("task")
                    .help("use `synthetic`, or a file with labels: `{path: …, label_column: label}`"),
            ),
            Data::Sample => found.check(self.check_tokenizer()),
        }
    }

    /// Packed rows are for decoders, and have no padding.
    pub(super) fn check_packing(&self, found: &mut Found) {
        if self.packing && self.task == Task::SequenceClassification {
            found.add(
                Invalid::new(
                    "packing",
                    "an encoder has a label for each row, so a row has one sample",
                )
                .with("task")
                .help("leave the key out, or use `padding: longest`"),
            );
        }
        if self.packing && self.pad_to_multiple_of.is_some_and(|multiple| multiple > 1) {
            found.add(
                Invalid::idle("pad_to_multiple_of", "packed rows have no padding")
                    .with("packing")
                    .help("leave the key out"),
            );
        }
    }

    /// Rows of whole samples, which TRL lays one after the other, are for an attention that keeps them apart without a
    /// mask.
    pub(super) fn check_padding_free(&self, found: &mut Found) {
        let is_flat = self.packing && self.torch.packing_strategy == PackingStrategy::Bfd;
        if is_flat && self.attn_implementation != Attention::FlashAttention2 {
            found.add(
                Invalid::new(
                    "packing",
                    "TRL's `bfd` lays a micro-batch in one row without padding, which is planned for flash attention alone",
                )
                .with("attn_implementation")
                .help("use `attn_implementation: flash_attention_2`, or `torch: {packing_strategy: wrapped}`"),
            );
        }
    }

    /// How samples are cut into micro-batches, and in which order they come.
    pub(super) fn check_batches(&self, found: &mut Found) {
        let multiple = self.pad_to_multiple_of.unwrap_or(1);
        let checked = at_least("pad_to_multiple_of", multiple, 1).and(at_most("pad_to_multiple_of", multiple, 1 << 16));
        let is_valid = checked.is_ok();
        found.check(checked);
        if let Some(most) = self.max_tokens_per_batch.filter(|_| is_valid) {
            let longest = self.data_options().longest_sequence();
            if most < longest {
                let message = format!("a sample may have {longest} tokens, and a micro-batch has at least one sample");
                found.add(
                    Invalid::new("max_tokens_per_batch", message)
                        .with("max_seq_length")
                        .help(format!("write {longest} or more, or cut samples to fewer tokens")),
                );
            }
        }
        if let Some(steps) = self.length_buckets {
            found.check(at_least("length_buckets", steps, 1));
            if self.group_by_length {
                found.add(
                    Invalid::new(
                        "length_buckets",
                        "length_buckets and group_by_length exclude each other",
                    )
                    .with("group_by_length")
                    .help("keep one of them"),
                );
            }
            if self.packing && self.stack == Stack::Torch {
                found.add(
                    Invalid::new(
                        "length_buckets",
                        "PEFT's method comparison, whose batches these are, packs nothing",
                    )
                    .with("packing")
                    .help("keep one of them"),
                );
            }
        }
    }

    /// Bounds of lengths that only stand for others.
    fn check_between(&self, synthetic: &Synthetic) -> Checked {
        const KEY: &str = "data.synthetic.between";
        let Some([fewest, most]) = synthetic.between else {
            return Ok(());
        };
        if self.stack == Stack::Candle {
            return Err(
                Invalid::new(KEY, "our trainer knows the lengths, since it makes the samples")
                    .with("stack")
                    .help("leave the key out, or write `stack: torch`"),
            );
        }
        at_least(KEY, fewest, 2)?;
        at_most(KEY, most, 1 << 24)?;
        if fewest > most {
            let message = format!("{fewest} tokens are more than {most}");
            return Err(Invalid::new(KEY, message).help("the fewest come first"));
        }
        let lengths = match &synthetic.lengths {
            Lengths::Fixed | Lengths::Uniform => return Ok(()),
            Lengths::LogNormal(distribution) => {
                let mean = distribution.mean;
                if mean < fewest as f64 || mean > most as f64 {
                    return Err(Invalid::new(KEY, format!("samples have {mean} tokens on average"))
                        .with("data.synthetic.lengths.mean")
                        .help(format!("the mean must lie between {fewest} and {most}")));
                }
                distribution.longest.as_slice()
            }
            Lengths::List(lengths) => lengths,
        };
        match lengths.iter().find(|length| !(fewest..=most).contains(*length)) {
            Some(length) => Err(Invalid::new(KEY, format!("a sample has {length} tokens"))
                .with("data.synthetic.lengths")
                .help(format!("all lengths must lie between {fewest} and {most}"))),
            None => Ok(()),
        }
    }

    /// Data of its own for evaluation, or a part of the training data.
    fn check_evaluation(&self, file: &DataFile) -> Checked {
        let keys = ["data.eval_path", "data.eval_split"];
        let Some((key, split)) = other_data(keys, file.eval_path.as_ref(), file.eval_split.as_deref()) else {
            return Ok(());
        };
        if self.eval_fraction > 0.0 {
            return Err(
                Invalid::new(key, "either a part of the data is held out, or other data is evaluated")
                    .with("eval_fraction")
                    .help("keep one of the two keys"),
            );
        }
        check_split(key, split, file)
    }

    /// Data whose forgetting is measured, for models whose head was trained before.
    fn check_forgetting(&self, file: &DataFile) -> Checked {
        let keys = ["data.forgetting_path", "data.forgetting_split"];
        let Some((key, split)) = other_data(keys, file.forgetting_path.as_ref(), file.forgetting_split.as_deref())
        else {
            return Ok(());
        };
        if self.task != Task::CausalLm {
            return Err(
                Invalid::new(key, "a classifier's head begins random, so it forgets nothing")
                    .with("task")
                    .help("leave the key out"),
            );
        }
        check_split(key, split, file)
    }

    fn check_labels(&self, file: &DataFile) -> Checked {
        if self.task == Task::CausalLm {
            return match file.label_column {
                None => Ok(()),
                Some(_) => Err(
                    Invalid::new("data.label_column", "a causal language model is trained without labels")
                        .with("task")
                        .help("leave the key out, or write `task: sequence_classification`"),
                ),
            };
        }
        let of_texts = [&file.prompt_column, &file.completion_column, &file.messages_column];
        if of_texts.iter().any(|column| column.is_some()) {
            return Err(Invalid::new("task", "an encoder reads texts, not prompts or messages")
                .help("name the texts' `column`"));
        }
        if is_text(file) {
            return Err(Invalid::new("data.path", "a text file has no labels")
                .with("task")
                .help("give a file with a column of labels, such as JSON lines"));
        }
        Ok(())
    }

    /// Lengths of samples on PyTorch's stack are those of the model's own tokenizer.
    fn check_tokenizer(&self) -> Checked {
        let is_preset = self.is_preset() || Preset::of_hub_name(&self.model).is_some();
        // What runs a cell has our trainer's samples.
        if self.engine().is_some() || !is_preset {
            return Ok(());
        }
        let message = "the preset has no tokenizer, which decides how long the samples are";
        Err(Invalid::new("data", message).with("model").help(
            "write the model as a directory with its config.json and tokenizer.json, such as `model: ./models/name`, or as its \
             name on the hub, such as `model: hf://owner/name`; weights are not needed. Without either, \
             `data: {synthetic: {lengths: [...]}}` has the lengths of your samples",
        ))
    }

    /// The samples of the smallest micro-batch that a search may come to; the effective batch of most searches stays.
    fn least_batch_size(&self) -> usize {
        self.auto_batch_size
            .map_or(self.batch_size, |asked| match asked.search {
                BatchSearch::KeepEffectiveBatch => asked.start,
                BatchSearch::Largest | BatchSearch::HalveAndGrow => asked.min,
            })
    }

    fn check_samples(&self, samples: usize) -> Checked {
        let options = self.of_all_ranks(DataOptions {
            batch_size: self.least_batch_size(),
            ..self.data_options()
        });
        let (needed, held_out) = (options.effective_batch_size(), options.held_out(samples));
        if samples.saturating_sub(held_out) >= needed {
            return Ok(());
        }
        let of_them = if held_out > 0 {
            format!(", {held_out} of them held out")
        } else {
            String::new()
        };
        let (batch, accumulation) = (options.batch_size, self.gradient_accumulation_steps);
        let ranks = match self.world_size {
            1 => String::new(),
            ranks => format!(" on {ranks} ranks"),
        };
        let invalid = Invalid::new(
            "data.synthetic.samples",
            format!(
                "a step of {batch} × {accumulation}{ranks} needs {needed} samples, and there are {samples}{of_them}"
            ),
        )
        .with("batch_size")
        .with("gradient_accumulation_steps");
        let invalid = match self.world_size {
            1 => invalid,
            _ => invalid.with("world_size"),
        };
        Err(invalid.help("ask for more samples: `data: {synthetic: {samples: …}}`"))
    }
}

fn check_synthetic(synthetic: &Synthetic) -> Checked {
    at_least("data.synthetic.samples", synthetic.samples, 1)?;
    at_most("data.synthetic.samples", synthetic.samples, 1 << 32)?;
    const KEY: &str = "data.synthetic.lengths";
    let lengths = match &synthetic.lengths {
        Lengths::Fixed | Lengths::Uniform => return Ok(()),
        Lengths::LogNormal(distribution) => return check_distribution(KEY, distribution),
        Lengths::List(lengths) => lengths,
    };
    if lengths.is_empty() {
        return Err(Invalid::new(KEY, "the list is empty"));
    }
    for (index, &length) in lengths.iter().enumerate() {
        let key = format!("{KEY}[{index}]");
        at_least(&key, length, 2)?;
        at_most(&key, length, 1 << 24)?;
    }
    Ok(())
}

fn check_distribution(key: &str, distribution: &LogNormal) -> Checked {
    let LogNormal { mean, sigma, longest } = *distribution;
    if !(2.0..=f64::from(1 << 24)).contains(&mean) {
        let message = format!("must be from 2 to 2^24, got {mean}");
        return Err(Invalid::new(format!("{key}.mean"), message));
    }
    if !(0.0..=5.0).contains(&sigma) {
        let message = format!("must be from 0 to 5, got {sigma}");
        return Err(Invalid::new(format!("{key}.sigma"), message));
    }
    let Some(longest) = longest else { return Ok(()) };
    at_most(&format!("{key}.longest"), longest, 1 << 24)?;
    if (longest as f64) < mean {
        let message = format!("the longest sample has {longest} tokens, fewer than the mean");
        return Err(Invalid::new(format!("{key}.longest"), message).with("data.synthetic.lengths.mean"));
    }
    Ok(())
}

fn check_file(file: &DataFile) -> Checked {
    let paths = |key, paths: &Paths| paths.iter().try_for_each(|path| check_path(key, path, file));
    paths("data.path", &file.path)?;
    if let Some(eval_path) = &file.eval_path {
        paths("data.eval_path", eval_path)?;
    }
    if let Some(forgetting_path) = &file.forgetting_path {
        paths("data.forgetting_path", forgetting_path)?;
    }
    check_form(file)?;
    if let Some(samples) = file.max_samples {
        at_least("data.max_samples", samples, 1)?;
    }
    if let Some(sep) = file
        .sep
        .as_deref()
        .filter(|sep| !(sep.len() == 1 && sep.is_ascii()) || ["\"", "\n", "\r"].contains(sep))
    {
        return Err(Invalid::new(
            "data.sep",
            format!("must be one character of ASCII, got {}", quoted(sep)),
        ));
    }
    let is_table = |path| matches!(file.format_of(path), None | Some(DataFormat::Csv | DataFormat::Tsv));
    if file.sep.is_some() && !file.path.iter().any(is_table) {
        let invalid = Invalid::new("data.sep", "no file has values that a character parts");
        return Err(invalid
            .with("data.path")
            .help("leave the key out, or write `format: csv`"));
    }
    if file.eos_token.as_deref() == Some("") {
        return Err(Invalid::new("data.eos_token", "the token is empty"));
    }
    let has_text = file
        .path
        .iter()
        .any(|path| !matches!(file.format_of(path), Some(format) if format != DataFormat::Text));
    if file.sample_by.is_some() && !has_text {
        let invalid = Invalid::new("data.sample_by", "no file is plain text");
        return Err(invalid.with("data.path").help("leave the key out"));
    }
    match file.columns().next() {
        Some((key, _)) if is_text(file) => Err(Invalid::new(format!("data.{key}"), "a text file has no columns")
            .help("leave the key out, or give the `format`")),
        _ => Ok(()),
    }
}

/// The keys of one form of samples exclude those of the others.
fn check_form(file: &DataFile) -> Checked {
    let texts = file.column.as_ref().map(|_| "data.column");
    let prompts = file.prompt_column.as_ref().map(|_| "data.prompt_column");
    let completions = file.completion_column.as_ref().map(|_| "data.completion_column");
    let messages = file.messages_column.as_ref().map(|_| "data.messages_column");
    let completion_only = file.completion_only_loss.map(|_| "data.completion_only_loss");
    let assistant_only = file
        .assistant_only_loss
        .filter(|only| *only)
        .map(|_| "data.assistant_only_loss");
    let template = file.prompt_template.as_deref();
    if let Some(template) = template.filter(|template| *template != ALPACA) {
        let parsed = PromptTemplate::parse(template).map_err(|reason| Invalid::new("data.prompt_template", reason))?;
        if let Some(completion) = &file.completion_column
            && parsed.columns().any(|column| column == completion)
        {
            let message = format!(
                "{} is the completion, which would stand in its own prompt",
                quoted(completion)
            );
            return Err(Invalid::new("data.prompt_template", message).with("data.completion_column"));
        }
        if completions.is_none() {
            let invalid = Invalid::new("data.prompt_template", "a prompt needs the column of its completion");
            return Err(invalid.help("name it: `completion_column: output`"));
        }
    }
    let is_alpaca = template == Some(ALPACA);
    let template = template.map(|_| "data.prompt_template");
    let fields = [
        ("data.role_field", file.role_field.is_some()),
        ("data.content_field", file.content_field.is_some()),
        ("data.roles", file.roles.is_some()),
        ("data.tools_column", file.tools_column.is_some()),
    ];
    let fields = fields.into_iter().find_map(|(key, is_given)| is_given.then_some(key));
    let parts = template.or(prompts).or(completions);
    let exclusive = [
        (template, prompts),
        (completions.filter(|_| is_alpaca), template),
        (fields, texts),
        (fields, template),
        (parts, texts),
        (messages, texts),
        (messages, parts),
        (completion_only, texts),
        (completion_only, messages),
        (assistant_only, texts),
    ];
    for (key, other) in exclusive {
        if let (Some(key), Some(other)) = (key, other) {
            return Err(Invalid::new(key, "the two keys are for samples of different forms")
                .with(other)
                .help("keep one of them"));
        }
    }
    Ok(())
}

/// The key that names data besides those to train on, a path or a split, and the split if it is one of the same files;
/// `None` without such data.
fn other_data<'f>(
    [of_path, of_split]: [&'static str; 2],
    path: Option<&Paths>,
    split: Option<&'f str>,
) -> Option<(&'static str, Option<&'f str>)> {
    match path {
        Some(_) => Some((of_path, None)),
        None => split.map(|split| (of_split, Some(split))),
    }
}

/// A split of the files that are trained on, if there is one, is another than theirs.
fn check_split(key: &'static str, split: Option<&str>, file: &DataFile) -> Checked {
    let trained = file.split.as_deref().unwrap_or("train");
    let Some(split) = split.filter(|split| is_same_split(split, trained)) else {
        return Ok(());
    };
    let name = if split == trained { "" } else { ", by another name" };
    let message = format!("{} is the split that is trained on{name}", quoted(split));
    Err(Invalid::new(key, message).help("name another, such as `test`"))
}

fn check_path(key: &'static str, path: &str, file: &DataFile) -> Checked {
    if path.is_empty() {
        return Err(Invalid::new(key, "the path is empty"));
    }
    let on_hub = HubName::of_data(path);
    if let Err(mistake) = on_hub {
        return Err(Invalid::new(key, mistake.message).help(mistake.help.unwrap_or_default()));
    }
    // Files of a data set, a folder or a glob have names of their own.
    let names_files = matches!(on_hub, Ok(Some(name)) if name.file().is_none())
        || path.ends_with(['/', '.'])
        || path.contains(['*', '?', '['])
        || Path::new(path).extension().is_none();
    if file.format_of(path).is_none() && !names_files {
        let message = format!("the name of {} does not say what the file is", quoted(path));
        return Err(Invalid::new(key, message).help(format!(
            "give the `format`: {}; the name of a folder ends in `/`",
            DataFormat::NAMES
        )));
    }
    Ok(())
}

/// True if all files are plain text, as far as their names say.
fn is_text(file: &DataFile) -> bool {
    file.path
        .iter()
        .all(|path| file.format_of(path) == Some(DataFormat::Text))
}
