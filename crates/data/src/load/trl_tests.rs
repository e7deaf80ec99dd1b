//! Samples are prepared as by TRL, but for the special tokens that docs/data.md names.

use std::fs;
use std::path::Path;

use arch::Preset;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::*;
use crate::testing;
use crate::tokenizer::EMBEDDED;

/// What `python/data/make_masks.py` wrote.
#[derive(Deserialize)]
struct Golden {
    templates: Map<String, Value>,
    tokenizers: Map<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    tokenizer: Option<String>,
    template: Option<String>,
    max_seq_length: usize,
    completion_only_loss: bool,
    assistant_only_loss: bool,
    samples: Vec<Value>,
    prepared: Vec<Vec<Prepared>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Prepared {
    ids: Vec<u32>,
    targets: Vec<[u32; 2]>,
}

/// The tokenizer of a case.
struct Special {
    /// The text and the id of the end of text.
    eos: (&'static str, u32),
    /// True if the tokenizer's file adds that token.
    is_added: bool,
}

impl Case {
    fn special(&self) -> Special {
        match &self.tokenizer {
            None => Special {
                eos: ("<|endoftext|>", 0),
                is_added: false,
            },
            Some(name) => Special {
                eos: ("<|end|>", 513),
                is_added: name == "bos_eos",
            },
        }
    }

    /// What TRL makes of a sample, changed where we differ on purpose; `None` if the sample is left out.
    fn ours(&self, sample: &Value, trl: &Prepared, differences: &mut [usize; 3]) -> Option<Prepared> {
        let mut ours = trl.clone();
        let special = self.special();
        let (text, id) = special.eos;
        let is_cut = trl.ids.len() == self.max_seq_length;
        if let Some(sample) = sample["text"].as_str()
            && !sample.ends_with(text)
            && !is_cut
        {
            // TRL writes an end of text behind a text.
            assert_eq!(ours.ids.pop(), Some(id));
            ours.targets = vec![[0, ours.ids.len() as u32]];
            differences[0] += 1;
        }
        if special.is_added && is_cut && self.template.is_none() {
            // TRL cuts the end of text off that the tokenizer's file adds.
            ours.ids[self.max_seq_length - 1] = id;
            differences[1] += 1;
            if ours.targets == [[self.max_seq_length as u32 - 1, self.max_seq_length as u32]] {
                differences[2] += 1;
                return None;
            }
        }
        Some(ours)
    }
}

/// The folder of a model with what a tokenizer of [`Golden`] has over the presets' one.
fn write_model(folder: &Path, tokenizer: &Value) {
    fs::create_dir_all(folder).unwrap();
    let mut file: Value = serde_json::from_slice(EMBEDDED).unwrap();
    for key in ["added_tokens", "post_processor"] {
        file[key] = tokenizer[key].clone();
    }
    fs::write(folder.join("tokenizer.json"), file.to_string()).unwrap();
    let config = tokenizer["tokenizer_config"].to_string();
    fs::write(folder.join("tokenizer_config.json"), config).unwrap();
}

/// Each token, and whether it is predicted, also in samples that are cut.
#[test]
fn samples_are_prepared_as_by_trl() {
    let golden: Golden = serde_json::from_str(include_str!("../../../../tests/fixtures/masks.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let preset = Preset::named("tiny").unwrap().config();
    let checkpoint = ModelConfig {
        vocab_size: 514,
        eos_token_id: Some(0),
        ..preset.clone()
    };
    let (mut compared, mut left_out, mut differences) = (0, 0, [0; 3]);
    for (number, case) in golden.cases.iter().enumerate() {
        let lines: Vec<String> = case.samples.iter().map(ToString::to_string).collect();
        fs::write(dir.path().join("samples.jsonl"), lines.join("\n")).unwrap();
        let template = case
            .template
            .as_ref()
            .map(|name| golden.templates[name].as_str().unwrap());
        fs::write(dir.path().join("chat.jinja"), template.unwrap_or_default()).unwrap();
        if let Some(name) = &case.tokenizer {
            write_model(&dir.path().join("model"), &golden.tokenizers[name]);
        }
        let has_prompts = case.samples[0].get("prompt").is_some();
        let options = DataOptions {
            data: Data::from(DataFile {
                chat_template: template.map(|_| "chat.jinja".into()),
                completion_only_loss: has_prompts.then_some(case.completion_only_loss),
                assistant_only_loss: Some(case.assistant_only_loss),
                ..DataFile::new("samples.jsonl")
            }),
            model: case.tokenizer.as_ref().map_or("tiny", |_| "./model").into(),
            max_seq_length: case.max_seq_length,
            ..testing::options(1, 1)
        };
        let config = case.tokenizer.as_ref().map_or(&preset, |_| &checkpoint);
        let mut prepared = Vec::new();
        let roots = dir.path().into();
        let found = for_each_sample(&options, Parts::All, config, &roots, &mut |sample| {
            let whole = 0..sample.ids.len() as u32;
            let targets = sample.targets.unwrap_or(std::slice::from_ref(&whole));
            prepared.push(Prepared {
                ids: sample.ids.to_vec(),
                targets: targets.iter().map(|range| [range.start, range.end]).collect(),
            });
            Ok(())
        })
        .unwrap();
        let pairs = case.samples.iter().zip(&case.prepared);
        let expected: Vec<Prepared> = pairs
            .flat_map(|(sample, trl)| trl.iter().map(move |trl| (sample, trl)))
            .filter_map(|(sample, trl)| case.ours(sample, trl, &mut differences))
            .collect();
        assert_eq!(prepared, expected, "case {number}");
        // The end of text behind a prompt alone is not behind the prompt in its sample.
        if case.special().is_added && template.is_none() && has_prompts && case.max_seq_length > 20 {
            assert_eq!(found.skipped.training.prompt_mismatches, case.samples.len());
        }
        compared += prepared.len();
        left_out += case.samples.len() - prepared.len();
    }
    assert!(compared > 60 && left_out > 0, "{compared} {left_out}");
    assert_eq!(
        differences,
        [6, 6, 2],
        "texts, cut samples, and those of them that are left out"
    );
}
