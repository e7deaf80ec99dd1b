//! The lengths of a file's samples, for plans: a plan needs no ids.

use std::thread;

use super::dataset::split;
use super::labels::Labels;
use super::tokenizer::Encoder;
use super::{DataError, source};
use crate::arch::{ArchError, Location, ModelConfig, Preset, locate};
use crate::hub::Roots;
use crate::options::DataOptions;

/// Text that is tokenised at once, in bytes.
const CHUNK: usize = 1 << 20;

/// The tokens of each sample, before samples are cut to `max_seq_length`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleLengths {
    tokens: Vec<u32>,
}

impl SampleLengths {
    /// Tokens of the sample with this index.
    pub fn tokens(&self, sample: u32) -> u32 {
        self.tokens[sample as usize]
    }

    /// Indices of the samples to train on, ascending: all but those that `eval_fraction` holds out.
    ///
    /// # Errors
    /// If none would be left.
    pub fn train(&self, options: &DataOptions) -> Result<Vec<u32>, DataError> {
        Ok(split(self.tokens.len() as u32, options)?.0)
    }
}

/// Counts the tokens of each text of a file or of the sample, up to the positions of the model of shape `config`. Texts
/// without tokens are left out. Needs the tokenizer in the model's directory: that of our trainer's presets is not theirs.
///
/// # Errors
/// If a file cannot be read or has another format, the tokenizer is missing or belongs to another model, or no sample is
/// left.
pub fn lengths(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<SampleLengths, DataError> {
    let preset = || DataError::PresetTokenizer {
        model: options.model.clone(),
    };
    let location = match locate(&options.model, roots) {
        Ok(Location::Preset(_)) => return Err(preset()),
        Err(ArchError::Unknown { name, .. }) if Preset::of_hub_name(&name).is_some() => return Err(preset()),
        location => location?,
    };
    let encoder = Encoder::open(&location, config.vocab_size, config.max_position_embeddings)?;
    let mut labels = Labels::new(config.labels().unwrap_or(0));
    let (mut tokens, mut chunk, mut bytes) = (Vec::new(), Vec::new(), 0);
    let origin = source::read(&options.data, config, roots, &mut |text, label| {
        label.map(|label| labels.number(label)).transpose()?;
        bytes += text.len();
        chunk.push(text.to_owned());
        if bytes >= CHUNK {
            tokens.extend(counts(&encoder, &chunk)?);
            chunk.clear();
            bytes = 0;
        }
        Ok(())
    })?;
    tokens.extend(counts(&encoder, &chunk)?);
    labels.in_order(&origin)?;
    let all = tokens.len();
    tokens.retain(|&tokens| tokens > 0);
    match tokens.len() {
        0 => Err(DataError::Empty { origin, skipped: all }),
        count if u32::try_from(count).is_err() => Err(DataError::TooMany { origin }),
        _ => Ok(SampleLengths { tokens }),
    }
}

/// The tokens of each text, counted on all cores. The threads are not rayon's: a caller may hold a lock that another of its
/// tasks waits for.
fn counts(encoder: &Encoder, texts: &[String]) -> Result<Vec<u32>, DataError> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = texts.len().div_ceil(threads).max(1);
    let count = |text: &String| Ok(encoder.encode(text)?.len() as u32);
    thread::scope(|scope| {
        let parts = texts.chunks(share);
        let workers: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(count).collect::<Result<Vec<u32>, DataError>>()))
            .collect();
        let mut counts = Vec::with_capacity(texts.len());
        for worker in workers {
            match worker.join() {
                Ok(part) => counts.extend(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(counts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Data, DataFile};

    /// A model's directory with the tokenizer of the presets, and a file of texts.
    fn project(texts: &[&str]) -> (tempfile::TempDir, DataOptions, ModelConfig) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("model")).unwrap();
        let tokenizer = include_bytes!("../../data/tokenizer.json");
        std::fs::write(dir.path().join("model/tokenizer.json"), tokenizer).unwrap();
        let lines: String = texts
            .iter()
            .map(|text| serde_json::json!({ "text": text }).to_string() + "\n")
            .collect();
        std::fs::write(dir.path().join("texts.jsonl"), lines).unwrap();
        let file = DataFile {
            path: "texts.jsonl".into(),
            column: None,
            label_column: None,
            format: None,
        };
        let options = DataOptions {
            data: Data::File(file),
            model: "./model".into(),
            ..crate::data::testing::options(1, 1)
        };
        (dir, options, Preset::named("tiny").unwrap().config())
    }

    #[test]
    fn lengths_are_those_of_the_ids() {
        let sample = include_str!("../../data/sample.txt");
        let texts: Vec<&str> = sample.split("\n\n").map(str::trim_end).collect();
        let (dir, options, config) = project(&texts);
        let lengths = lengths(&options, &config, &dir.path().into()).unwrap();
        let options = DataOptions {
            max_seq_length: config.max_position_embeddings,
            ..options
        };
        let loaded = source::load(&options, &config, &dir.path().into()).unwrap();
        assert_eq!(lengths.tokens.len(), loaded.samples().len());
        for (index, &tokens) in lengths.tokens.iter().enumerate() {
            assert_eq!(tokens as usize, loaded.samples().get(index).len());
        }
    }

    #[test]
    fn texts_without_tokens_are_left_out_and_others_kept() {
        let (dir, options, config) = project(&["", "a", "", "The river."]);
        let lengths = lengths(&options, &config, &dir.path().into()).unwrap();
        assert_eq!(lengths.tokens[0], 1);
        assert_eq!(lengths.train(&options).unwrap(), [0, 1]);
        let (dir, options, config) = project(&["", ""]);
        let message = super::lengths(&options, &config, &dir.path().into())
            .unwrap_err()
            .to_string();
        assert!(message.contains("nothing to train on"), "{message}");
    }

    #[test]
    fn a_preset_has_no_tokenizer_of_its_own() {
        let (dir, mut options, config) = project(&["a"]);
        for model in ["tiny", "Qwen/Qwen2.5-7B"] {
            options.model = model.into();
            let message = lengths(&options, &config, &dir.path().into()).unwrap_err().to_string();
            assert!(message.contains("config.json and tokenizer.json"), "{message}");
        }
        options.model = "./nothing".into();
        assert!(lengths(&options, &config, &dir.path().into()).is_err());
    }
}
