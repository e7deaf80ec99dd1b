//! What data are taken for: their columns, their first samples, and the lengths of all.

use arch::{ArchError, Location, ModelConfig, Preset, locate};
use hub::Roots;
use options::{Data, DataOptions};
use serde_json::{Map, Value};

use super::form::Form;
use super::load::TrainingSamples;
use super::reading::Reading;
use super::shown::Shown;
use super::source::{self, Described, origin};
use super::tokenise::{Tokeniser, tokeniser};
use super::{DataError, Layout, Order, Sampler};

/// A look at the data of a cell.
#[derive(Debug)]
pub struct Preview {
    /// The data, for messages.
    pub origin: String,
    /// The files to train on, with their formats.
    pub files: Vec<String>,
    /// The columns of the first file.
    pub columns: Vec<String>,
    /// What samples are, such as `prompts and completions`.
    pub form: String,
    /// The columns that make a sample.
    pub read: Vec<String>,
    /// Samples to train on and to evaluate with, before any is left out.
    pub rows: usize,
    /// The first rows as the file has them.
    pub first: Vec<Map<String, Value>>,
    /// Those rows as text and tokens; `None` without a tokenizer.
    pub samples: Option<Vec<Shown>>,
    /// The tokens of all; `None` without a tokenizer.
    pub tokens: Option<Tokens>,
    /// Sentences on what is not read or left out.
    pub remarks: Vec<String>,
}

/// The tokens of the samples to train on.
#[derive(Debug)]
pub struct Tokens {
    /// Tokens of each sample, ascending.
    pub lengths: Vec<usize>,
    /// All predicted tokens.
    pub predicted: u64,
    /// The micro-batch with the most tokens, padding included, among the steps of the training: its sequences and its
    /// tokens.
    pub largest: Option<(usize, usize)>,
}

/// Reads the data, and shows `count` rows.
///
/// # Errors
/// Those of [`load`](crate::load).
pub fn preview(options: &DataOptions, config: &ModelConfig, roots: &Roots, count: usize) -> Result<Preview, DataError> {
    let mut first = Vec::new();
    let Described {
        files,
        columns,
        form,
        rows,
    } = source::describe(&options.data, roots, &mut |row| {
        if first.len() < count {
            first.push(row);
        }
    })?;
    let location = match locate(&options.model, roots) {
        // The presets' tokenizer is theirs alone: it says nothing of a model's.
        Ok(Location::Preset(_)) => None,
        Err(ArchError::Unknown { name, .. }) if Preset::of_hub_name(&name).is_some() => None,
        location => Some(location?),
    };
    let mut preview = Preview {
        origin: origin(&options.data, roots),
        files,
        columns,
        form: form.as_ref().map_or("texts", Form::noun).to_owned(),
        read: form.iter().flat_map(Form::columns).map(str::to_owned).collect(),
        rows,
        first,
        samples: None,
        tokens: None,
        remarks: Vec::new(),
    };
    let Some(location) = location else {
        let mut reading = Reading::default();
        source::read(&options.data, false, roots, &mut reading, &mut |_, _, _| Ok(()))?;
        preview.remarks = reading.remarks().collect();
        return Ok(preview);
    };
    let tokeniser = tokeniser(options, &location, config, options.max_seq_length, roots)?;
    preview.samples = Some(shown(options, &tokeniser, roots, count)?);
    let samples = TrainingSamples::read(options, config, roots)?;
    let sampler = samples.sampler(options)?;
    preview.remarks = samples.remarks(&sampler, options).collect();
    preview.tokens = Some(tokens(&sampler, options));
    Ok(preview)
}

fn shown(options: &DataOptions, tokeniser: &Tokeniser, roots: &Roots, count: usize) -> Result<Vec<Shown>, DataError> {
    let mut all = Vec::new();
    let data = match &options.data {
        Data::File(file) => {
            let mut file = file.clone();
            file.max_samples = Some(file.max_samples.unwrap_or(count).min(count.max(1)));
            Data::File(file)
        }
        other => other.clone(),
    };
    source::read(&data, false, roots, &mut Reading::default(), &mut |sample, place, _| {
        if all.len() < count {
            all.push(tokeniser.show(&sample, &place)?);
        }
        Ok(())
    })?;
    Ok(all)
}

fn tokens(sampler: &Sampler, options: &DataOptions) -> Tokens {
    let (mut lengths, mut predicted) = (Vec::new(), 0);
    for sample in sampler.train() {
        let tokens = sampler.lengths().tokens(sample);
        lengths.push(tokens);
        predicted += sampler.predicted(sample) as u64;
    }
    lengths.sort_unstable();
    let layout = Layout::new(options);
    let micro_batches = Order::new(sampler, options).flat_map(|step| sampler.lay_out(&layout, &step));
    let sizes = micro_batches.map(|laid| (laid.micro.sequences.tokens(), laid.micro.sequences.count()));
    Tokens {
        lengths,
        predicted,
        largest: sizes.max().map(|(tokens, sequences)| (sequences, tokens)),
    }
}
