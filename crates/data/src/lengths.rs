//! The lengths of a file's samples, for plans: a plan needs no ids.

use arch::{ArchError, Location, ModelConfig, Preset, locate};
use hub::Roots;
use options::DataOptions;
use serde::{Deserialize, Serialize};

use super::labels::Labels;
use super::sample_lengths::SampleLengths;
use super::sampler::{all_but, held_out};
use super::skipped::Skipped;
use super::tokenise::{tokenise, tokeniser};
use super::{DataError, source};

/// The tokens of each sample of a file, before samples are cut to `max_seq_length`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextLengths {
    lengths: SampleLengths,
    /// The file, for messages.
    origin: String,
}

impl TextLengths {
    /// Tokens of the sample with this index.
    pub fn tokens(&self, sample: u32) -> usize {
        self.lengths.tokens(sample)
    }

    /// Indices of the samples to train on, ascending: all but those that `eval_fraction` holds out.
    ///
    /// # Errors
    /// If none would be left.
    pub fn train(&self, options: &DataOptions) -> Result<Vec<u32>, DataError> {
        let held_out = held_out(self.lengths.len(), options, &self.origin)?;
        Ok(all_but(&held_out, self.lengths.len()).collect())
    }
}

/// Counts the tokens of each text of a file or of the sample, up to the positions of the model of shape `config`. Texts
/// without tokens are left out. Needs the tokenizer in the model's directory: that of our trainer's presets is not
/// theirs.
///
/// # Errors
/// If a file cannot be read or has another format, the tokenizer is missing or belongs to another model, or no sample
/// is left.
pub fn lengths(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<TextLengths, DataError> {
    let preset = || DataError::PresetTokenizer {
        model: options.model.clone(),
    };
    let location = match locate(&options.model, roots) {
        Ok(Location::Preset(_)) => return Err(preset()),
        Err(ArchError::Unknown { name, .. }) if Preset::of_hub_name(&name).is_some() => return Err(preset()),
        location => location?,
    };
    let tokeniser = tokeniser(options, &location, config, config.max_position_embeddings, roots)?;
    let mut labels = Labels::new(config.labels().unwrap_or(0));
    let (mut lengths, mut skipped) = (SampleLengths::default(), Skipped::default());
    tokenise(&options.data, &tokeniser, &mut labels, roots, &mut |sample| {
        match sample.ids.len() {
            0 => skipped.short += 1,
            tokens => lengths.push(tokens as u32),
        }
        Ok(())
    })?;
    lengths.shrink();
    let origin = source::origin(&options.data, roots);
    match lengths.is_empty() {
        true => Err(DataError::Empty { origin, skipped }),
        false => Ok(TextLengths { lengths, origin }),
    }
}

#[cfg(test)]
mod tests {
    use options::DataFile;

    use super::*;

    /// A model's directory with the tokenizer of the presets, and a file of texts.
    fn project(texts: &[&str]) -> (tempfile::TempDir, DataOptions, ModelConfig) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("model")).unwrap();
        let tokenizer = include_bytes!("../embedded/tokenizer.json");
        std::fs::write(dir.path().join("model/tokenizer.json"), tokenizer).unwrap();
        let lines: String = texts
            .iter()
            .map(|text| serde_json::json!({ "text": text }).to_string() + "\n")
            .collect();
        std::fs::write(dir.path().join("texts.jsonl"), lines).unwrap();
        let options = DataOptions {
            data: DataFile::new("texts.jsonl").into(),
            model: "./model".into(),
            ..crate::testing::options(1, 1)
        };
        (dir, options, Preset::named("tiny").unwrap().config())
    }

    #[test]
    fn lengths_are_those_of_the_ids() {
        let sample = include_str!("../embedded/sample.txt");
        let texts: Vec<&str> = sample.split("\n\n").map(str::trim_end).collect();
        let (dir, options, config) = project(&texts);
        let lengths = lengths(&options, &config, &dir.path().into()).unwrap();
        let options = DataOptions {
            max_seq_length: config.max_position_embeddings,
            ..options
        };
        let sampler = crate::sampler(&options, &config, &dir.path().into()).unwrap();
        assert_eq!(lengths.lengths, *sampler.lengths());
    }

    #[test]
    fn texts_without_tokens_are_left_out_and_others_kept() {
        let (dir, options, config) = project(&["", "a", "", "The river."]);
        let lengths = lengths(&options, &config, &dir.path().into()).unwrap();
        assert_eq!(lengths.tokens(0), 1);
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
