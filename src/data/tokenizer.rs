//! Text to token ids.

use std::path::{Path, PathBuf};

use tokenizers::{PostProcessor, Tokenizer, TruncationParams};

use super::DataError;
use crate::arch::Location;

/// The tokenizer of the presets: byte-level BPE, trained on the sample text (`examples/train_tokenizer.rs`). With 512
/// tokens it fits the vocabulary of every preset.
pub const EMBEDDED: &[u8] = include_bytes!("../../data/tokenizer.json");

/// The id of `<|endoftext|>` there.
pub(super) const EMBEDDED_EOS: u32 = 0;

/// The tokenizer file of a model's directory.
pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("tokenizer.json")
}

/// A tokenizer that cuts samples to a length and checks its ids against the model's vocabulary.
pub(super) struct Encoder {
    tokenizer: Tokenizer,
    /// The tokenizer's origin, for messages.
    place: String,
    vocab_size: usize,
    max_seq_length: usize,
}

impl Encoder {
    /// The tokenizer of a model. It keeps the special tokens of its file, such as a BOS. Our padding and truncation replace
    /// the file's; truncation keeps special tokens, as in transformers.
    pub(super) fn open(location: &Location, vocab_size: usize, max_seq_length: usize) -> Result<Self, DataError> {
        match location {
            Location::Preset(_) => Self::new(EMBEDDED, "embedded tokenizer".into(), vocab_size, max_seq_length),
            Location::Directory(dir) => {
                let path = path(dir);
                Self::new(&read(&path)?, path.display().to_string(), vocab_size, max_seq_length)
            }
        }
    }

    fn new(file: &[u8], place: String, vocab_size: usize, max_seq_length: usize) -> Result<Self, DataError> {
        let invalid = |reason: String| DataError::Tokenizer {
            place: place.clone(),
            reason,
        };
        let mut tokenizer = Tokenizer::from_bytes(file).map_err(|error| invalid(error.to_string()))?;
        let special = tokenizer
            .get_post_processor()
            .map_or(0, |post| post.added_tokens(false));
        if special >= max_seq_length {
            return Err(invalid(format!(
                "it adds {special} special tokens, which leaves no room for text in `max_seq_length: {max_seq_length}`"
            )));
        }
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(Some(TruncationParams {
                max_length: max_seq_length,
                ..TruncationParams::default()
            }))
            .map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            tokenizer,
            place,
            vocab_size,
            max_seq_length,
        })
    }

    /// The ids of a text, `max_seq_length` at most.
    ///
    /// It tokenises only the beginning of a long text, at least twice the part that it keeps. The rest cannot change how a
    /// tokenizer splits the beginning, and a tokenizer needs a hundred bytes of memory per byte of text.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        // Ordinary text has about four bytes per token.
        let mut bytes = 16 * self.max_seq_length;
        loop {
            let part = &text[..text.floor_char_boundary(bytes)];
            let is_whole = part.len() == text.len();
            let encoding = match is_whole {
                // Leaves out the offsets.
                true => self.tokenizer.encode_fast(part, true),
                false => self.tokenizer.encode(part, true),
            };
            let encoding = encoding.map_err(|error| DataError::Tokenizer {
                place: self.place.clone(),
                reason: error.to_string(),
            })?;
            let kept = encoding.get_offsets().iter().map(|(_, end)| *end).max().unwrap_or(0);
            let was_cut = !encoding.get_overflowing().is_empty();
            if is_whole || (was_cut && 2 * kept <= part.len()) {
                self.check(encoding.get_ids())?;
                return Ok(encoding.get_ids().to_vec());
            }
            bytes *= 2;
        }
    }

    fn check(&self, ids: &[u32]) -> Result<(), DataError> {
        match ids.iter().find(|&&id| id as usize >= self.vocab_size) {
            None => Ok(()),
            Some(&id) => Err(DataError::TokenId {
                place: self.place.clone(),
                token: self.tokenizer.id_to_token(id).unwrap_or_default(),
                id,
                vocab_size: self.vocab_size,
            }),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    std::fs::read(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => DataError::NoTokenizer { path: path.into() },
        _ => DataError::Read {
            path: path.into(),
            source,
        },
    })
}

#[cfg(test)]
mod tests {
    use tokenizers::processors::template::TemplateProcessing;

    use super::*;

    fn embedded(vocab_size: usize, max_seq_length: usize) -> Result<Encoder, DataError> {
        Encoder::new(EMBEDDED, "embedded tokenizer".into(), vocab_size, max_seq_length)
    }

    /// The embedded tokenizer with a special token before and after the text, as the file of a model may have it.
    fn with_specials(max_seq_length: usize) -> Result<Encoder, DataError> {
        let mut tokenizer = Tokenizer::from_bytes(EMBEDDED).unwrap();
        let template = TemplateProcessing::builder()
            .try_single("<|endoftext|> $A <|endoftext|>")
            .unwrap()
            .special_tokens(vec![("<|endoftext|>", 0)])
            .build()
            .unwrap();
        tokenizer.with_post_processor(Some(template));
        let file = tokenizer.to_string(false).unwrap();
        Encoder::new(file.as_bytes(), "test".into(), 512, max_seq_length)
    }

    #[test]
    fn any_text_comes_back_from_its_ids() {
        let encoder = embedded(512, 1000).unwrap();
        for text in ["On measuring,\n\tonce.", "naïve €5 漢字 🙂 \u{1}"] {
            let ids = encoder.encode(text).unwrap();
            assert_eq!(encoder.tokenizer.decode(&ids, false).unwrap(), text);
        }
        assert!(encoder.encode("").unwrap().is_empty());
    }

    #[test]
    fn a_long_text_gives_the_ids_of_its_beginning() {
        let prose = include_str!("../../data/sample.txt");
        let unicode = "漢字🙂".repeat(1000);
        let spaces = format!("{}end", " ".repeat(5000));
        for text in [prose, &unicode, &spaces] {
            let all = embedded(512, 100_000).unwrap().encode(text).unwrap();
            for length in [2, 3, 17, 500] {
                assert_eq!(embedded(512, length).unwrap().encode(text).unwrap(), all[..length]);
            }
        }
    }

    #[test]
    fn special_tokens_stay_when_a_text_is_cut() {
        let plain = embedded(512, 100).unwrap().encode("The river keeps it.").unwrap();
        let whole = with_specials(100).unwrap().encode("The river keeps it.").unwrap();
        assert_eq!(whole, [&[0], &plain[..], &[0]].concat());
        let cut = with_specials(5).unwrap().encode("The river keeps it.").unwrap();
        assert_eq!(cut, [&[0], &plain[..3], &[0]].concat());
        let message = with_specials(2).err().unwrap().to_string();
        assert!(message.contains("adds 2 special tokens"), "{message}");
    }

    #[test]
    fn a_tokenizer_of_another_model_is_refused() {
        let message = embedded(100, 100).unwrap().encode("é").unwrap_err().to_string();
        assert!(message.contains("and the model has 100 embeddings"), "{message}");
        let message = Encoder::new(b"{}", "tokenizer.json".into(), 512, 8)
            .err()
            .unwrap()
            .to_string();
        assert!(message.starts_with("tokenizer.json: not a tokenizer:"), "{message}");
    }
}
