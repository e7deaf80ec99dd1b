//! Text to token ids.

use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arch::{Location, ModelConfig};
use base::bounds::{Bounds, bounded};
use base::foreign;
use base::guarded::guarded;
use base::text::quoted;
use tokenizers::{Encoding, PostProcessor, Tokenizer, TruncationParams};

use super::DataError;
use super::render::Rendered;
use super::shown::Shown;
use super::tokenizer_class::as_in_transformers;

/// The tokenizer of the presets: byte-level BPE, trained on the sample text (`examples/train_tokenizer.rs`). With 512
/// tokens it fits the vocabulary of every preset.
pub const EMBEDDED: &[u8] = include_bytes!("../embedded/tokenizer.json");

/// The id of `<|endoftext|>` there.
const EMBEDDED_EOS: u32 = 0;

/// The token that ends a text: that of the presets' tokenizer, or the one in a checkpoint's `config.json`.
pub(super) fn eos(location: &Location, config: &ModelConfig) -> Option<u32> {
    match location {
        Location::Preset(_) => Some(EMBEDDED_EOS),
        Location::Directory(_) => config.eos_token_id,
    }
}

/// The tokenizer file of a model's directory.
pub(super) fn path(dir: &Path) -> PathBuf {
    dir.join("tokenizer.json")
}

/// The tokens of a text by itself, with the special tokens of the model's tokenizer; at least one.
///
/// # Errors
/// If there is no tokenizer, or it finds no token.
pub fn tokens_of_text(text: &str, location: &Location, config: &ModelConfig) -> Result<Vec<u32>, DataError> {
    let encoder = Encoder::open(location, config.vocab_size, MOST_OF_TEXT)?;
    let rendered = Rendered {
        text: text.into(),
        has_special_tokens: false,
        prompt: None,
        targets: None,
    };
    let bounds = Bounds {
        bytes: 384 << 20,
        time: Duration::from_secs(2),
    };
    let what = format_args!("{}: the tokenizer, with {}", encoder.place, quoted(text));
    let encoded = bounded(what, bounds, || encoder.encode(&rendered))?;
    match encoded.ids.is_empty() {
        true => Err(DataError::Tokenizer {
            place: encoder.place,
            reason: format!("it finds no token in {}", quoted(text)),
        }),
        false => Ok(encoded.ids),
    }
}

/// Tokens of a text by itself at most.
const MOST_OF_TEXT: usize = 1 << 16;

/// A tokenizer that cuts samples to a length and checks its ids against the model's vocabulary.
pub(super) struct Encoder {
    tokenizer: Tokenizer,
    /// The tokenizer's origin, for messages.
    place: String,
    vocab_size: usize,
    max_seq_length: usize,
    /// What is worth a remark.
    remark: Option<String>,
}

impl Encoder {
    /// The tokenizer of a model, as its class in transformers makes it. It keeps special tokens such as a BOS. Our padding and truncation
    /// replace the file's; truncation keeps special tokens, as in transformers.
    pub(super) fn open(location: &Location, vocab_size: usize, max_seq_length: usize) -> Result<Self, DataError> {
        match location {
            Location::Preset(_) => Self::new(EMBEDDED, "embedded tokenizer".into(), None, vocab_size, max_seq_length),
            Location::Directory(dir) => {
                let path = path(dir);
                Self::new(
                    &read(&path)?,
                    path.display().to_string(),
                    Some(dir),
                    vocab_size,
                    max_seq_length,
                )
            }
        }
    }

    /// The tokenizer in a file, with what stands beside it in a checkpoint's directory.
    fn new(
        file: &[u8],
        place: String,
        dir: Option<&Path>,
        vocab_size: usize,
        max_seq_length: usize,
    ) -> Result<Self, DataError> {
        let invalid = |reason: String| DataError::Tokenizer {
            place: place.clone(),
            reason,
        };
        // Twenty times the file is what the largest takes.
        let bounds = Bounds {
            bytes: (512 << 20) + 20 * file.len() as u64,
            time: Duration::from_secs(20),
        };
        let what = format_args!("{place}: reading the tokenizer");
        let read = || {
            let tokenizer = Tokenizer::from_bytes(file)?;
            match dir {
                Some(dir) => as_in_transformers(tokenizer, file, dir),
                None => Ok((tokenizer, None)),
            }
        };
        let (mut tokenizer, remark) = bounded(what, bounds, || checked(read)).map_err(invalid)?;
        let special = checked(|| {
            let post = tokenizer.get_post_processor();
            Ok(post.map_or(0, |post| post.added_tokens(false)))
        });
        let special = special.map_err(invalid)?;
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
            remark,
        })
    }

    /// A sentence on the tokenizer, if there is one to say.
    pub(super) fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// The tokens of a sample, `max_seq_length` at most.
    ///
    /// The prompt's tokens are those that the prompt alone begins with, too, as in TRL: its last ones may differ, since
    /// tokens merge across its end, or since a chat template writes a prompt alone in another way.
    pub(super) fn encode(&self, rendered: &Rendered) -> Result<Tokens, DataError> {
        let parts = rendered.targets.as_deref();
        let (encoding, is_cut) = self.encoding(&rendered.text, rendered, parts.is_some())?;
        let (ids, offsets) = (encoding.get_ids().to_vec(), encoding.get_offsets());
        let is_lost = |part: &Range<usize>| !part.is_empty() && part.end > end_of_text(offsets);
        let mut targets = parts.map(|parts| tokens_of(parts, offsets, rendered.text.len()));
        let mut prompt_differs = false;
        if let Some(prompt) = &rendered.prompt {
            let (prompt, _) = self.encoding(prompt, rendered, false)?;
            let pairs = prompt.get_ids().iter().zip(&ids);
            let common = pairs.take_while(|(prompt, id)| prompt == id).count();
            prompt_differs = common < prompt.get_ids().len();
            let ranges = targets.get_or_insert_with(|| iter::once(0..ids.len() as u32).collect());
            for range in &mut *ranges {
                range.start = range.start.max(common as u32);
            }
            ranges.retain(|range| !range.is_empty());
        }
        Ok(Tokens {
            ids,
            targets,
            finding: Finding {
                is_cut: is_cut && parts.is_none_or(|parts| parts.iter().any(is_lost)),
                prompt_differs,
            },
        })
    }

    /// The tokens of a sample, with the parts of its text that they predict.
    pub(super) fn show(&self, rendered: &Rendered) -> Result<Shown, DataError> {
        let Tokens { ids, targets, .. } = self.encode(rendered)?;
        let (encoding, _) = self.encoding(&rendered.text, rendered, true)?;
        let is_target = |token: usize| {
            let within = |range: &Range<u32>| range.contains(&(token as u32));
            targets.as_ref().is_none_or(|ranges| ranges.iter().any(within))
        };
        let mut parts: Vec<(String, bool)> = Vec::new();
        let mut reached = 0;
        for (token, &(_, end)) in encoding.get_offsets().iter().enumerate() {
            let end = rendered.text.ceil_char_boundary(end.min(rendered.text.len()));
            if end <= reached {
                continue;
            }
            let text = &rendered.text[reached..end];
            match parts.last_mut().filter(|(_, known)| *known == is_target(token)) {
                Some((part, _)) => part.push_str(text),
                None => parts.push((text.to_owned(), is_target(token))),
            }
            reached = end;
        }
        Ok(Shown { parts, ids, targets })
    }

    /// The tokens of a text, `max_seq_length` at most; true if there are more. Offsets take time.
    ///
    /// It tokenises only the beginning of a long text, at least twice the part that it keeps. The rest cannot change
    /// how a tokenizer splits the beginning, and a tokenizer needs a hundred bytes of memory per byte of text.
    fn encoding(&self, text: &str, rendered: &Rendered, has_offsets: bool) -> Result<(Encoding, bool), DataError> {
        // Ordinary text has about four bytes per token.
        let mut bytes = 16 * self.max_seq_length;
        loop {
            let part = &text[..text.floor_char_boundary(bytes)];
            let is_whole = part.len() == text.len();
            let adds_special_tokens = !rendered.has_special_tokens;
            let encoding = checked(|| match is_whole && !has_offsets {
                true => self.tokenizer.encode_fast(part, adds_special_tokens),
                false => self.tokenizer.encode(part, adds_special_tokens),
            });
            let wrong = |reason| DataError::Tokenizer {
                place: self.place.clone(),
                reason,
            };
            let encoding = encoding.map_err(wrong)?;
            // What a post-processor adds is not cut if it adds the text several times.
            let (tokens, most) = (encoding.get_ids().len(), self.max_seq_length);
            if tokens > most {
                return Err(wrong(format!(
                    "it makes {tokens} tokens where it is told to make {most} at most"
                )));
            }
            let kept = end_of_text(encoding.get_offsets());
            let is_cut = !encoding.get_overflowing().is_empty();
            if is_whole || (is_cut && 2 * kept <= part.len()) {
                self.check(encoding.get_ids())?;
                return Ok((encoding, is_cut));
            }
            bytes *= 2;
        }
    }

    /// The text of a token.
    pub(super) fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// True if the tokenizer has this token.
    pub(super) fn has_token(&self, token: &str) -> bool {
        self.tokenizer.token_to_id(token).is_some()
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

/// Calls the library, which panics on some files. An error is the reason.
fn checked<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match guarded(call) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("the tokenizer's library cannot use it: {panic}")),
    }
}

/// The tokens of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) ids: Vec<u32>,
    /// The ranges of predicted tokens, ascending; `None` if all are.
    pub(super) targets: Option<Vec<Range<u32>>>,
    pub(super) finding: Finding,
}

/// What is worth a count in a sample's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Finding {
    /// `max_seq_length` cuts off something that is predicted.
    pub(super) is_cut: bool,
    /// The prompt's tokens are not all at the sample's beginning.
    pub(super) prompt_differs: bool,
}

/// The bytes of a text that tokens with these offsets reach.
fn end_of_text(offsets: &[(usize, usize)]) -> usize {
    offsets.iter().map(|(_, end)| *end).max().unwrap_or(0)
}

/// The tokens of some parts of a text of so many bytes. A token that lies across the beginning or the end of a part
/// belongs to it. So do special tokens behind the text, if a part goes on to its end.
fn tokens_of(parts: &[Range<usize>], offsets: &[(usize, usize)], bytes: usize) -> Vec<Range<u32>> {
    let is_in = |&(start, end): &(usize, usize), part: &Range<usize>| match start < end {
        true => start < part.end && end > part.start,
        // A space whose offsets were trimmed.
        false => part.start < start && start <= part.end,
    };
    let text_end = offsets.iter().rposition(|&(_, end)| end > 0).map_or(0, |last| last + 1);
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for part in parts {
        let Some(first) = offsets.iter().position(|token| is_in(token, part)) else {
            continue;
        };
        let last = offsets.iter().rposition(|token| is_in(token, part)).unwrap_or(first);
        let is_last_token = last + 1 == text_end && part.end == bytes && offsets[last].1 == bytes;
        let end = if is_last_token { offsets.len() } else { last + 1 };
        // A token that two parts share counts once.
        let start = ranges.last().map_or(first, |before| first.max(before.end as usize));
        if start < end {
            ranges.push(start as u32..end as u32);
        }
    }
    ranges
}

fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    foreign::read_small(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => DataError::NoTokenizer { path: path.into() },
        _ => DataError::Read {
            path: path.into(),
            source,
        },
    })
}

#[expect(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
#[cfg(test)]
mod tests {
    use tokenizers::processors::template::TemplateProcessing;

    use super::*;

    fn embedded(vocab_size: usize, max_seq_length: usize) -> Result<Encoder, DataError> {
        Encoder::new(EMBEDDED, "embedded tokenizer".into(), None, vocab_size, max_seq_length)
    }

    fn plain(text: &str) -> Rendered<'_> {
        Rendered {
            text: text.into(),
            has_special_tokens: false,
            prompt: None,
            targets: None,
        }
    }

    fn ids(encoder: &Encoder, text: &str) -> Vec<u32> {
        encoder.encode(&plain(text)).unwrap().ids
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
        Encoder::new(file.as_bytes(), "test".into(), None, 512, max_seq_length)
    }

    #[test]
    fn any_text_comes_back_from_its_ids() {
        let encoder = embedded(512, 1000).unwrap();
        for text in ["On measuring,\n\tonce.", "naïve €5 漢字 🙂 \u{1}"] {
            let ids = ids(&encoder, text);
            assert_eq!(encoder.tokenizer.decode(&ids, false).unwrap(), text);
        }
        assert!(ids(&encoder, "").is_empty());
    }

    #[test]
    fn a_long_text_gives_the_ids_of_its_beginning() {
        let prose = include_str!("../embedded/sample.txt");
        let unicode = "漢字🙂".repeat(1000);
        let spaces = format!("{}end", " ".repeat(5000));
        for text in [prose, &unicode, &spaces] {
            let all = ids(&embedded(512, 100_000).unwrap(), text);
            for length in [2, 3, 17, 500] {
                assert_eq!(ids(&embedded(512, length).unwrap(), text), all[..length]);
            }
        }
    }

    #[test]
    fn special_tokens_stay_when_a_text_is_cut() {
        let plain = ids(&embedded(512, 100).unwrap(), "The river keeps it.");
        let whole = ids(&with_specials(100).unwrap(), "The river keeps it.");
        assert_eq!(whole, [&[0], &plain[..], &[0]].concat());
        let cut = ids(&with_specials(5).unwrap(), "The river keeps it.");
        assert_eq!(cut, [&[0], &plain[..3], &[0]].concat());
        let message = with_specials(2).err().unwrap().to_string();
        assert!(message.contains("adds 2 special tokens"), "{message}");
    }

    #[test]
    fn parts_of_a_text_are_the_tokens_that_reach_into_them() {
        let text = "The river keeps it.";
        let whole = ids(&embedded(512, 100).unwrap(), text);
        let of = |encoder: &Encoder, part: Range<usize>, has_special_tokens| {
            let rendered = Rendered {
                targets: Some(vec![part]),
                has_special_tokens,
                ..plain(text)
            };
            encoder.encode(&rendered).unwrap()
        };
        let encoder = embedded(512, 100).unwrap();
        let at = text.find("keeps").unwrap();
        let tokens = of(&encoder, at..text.len(), false);
        assert_eq!(tokens.ids, whole);
        let targets = tokens.targets.unwrap();
        assert_eq!((targets.len(), targets[0].end as usize), (1, whole.len()));
        let before = encoder
            .tokenizer
            .decode(&whole[..targets[0].start as usize], false)
            .unwrap();
        assert!(before.len() <= at && text.starts_with(&before), "{before}");
        // A special token behind the text is predicted, too, and one before it is not.
        let special = with_specials(100).unwrap();
        let targets = of(&special, 0..text.len(), false).targets.unwrap();
        assert_eq!(targets, [1..whole.len() as u32 + 2]);
        let targets = of(&special, 0..3, false).targets.unwrap();
        assert_eq!((targets[0].start, targets.len()), (1, 1));
        assert!((targets[0].end as usize) < whole.len());
        assert_eq!(of(&special, 0..3, true).ids, whole, "it has its own");
        assert!(
            of(&embedded(512, 2).unwrap(), at..text.len(), false)
                .targets
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_prompts_tokens_are_those_that_it_begins_with_alone() {
        let encoder = embedded(512, 100).unwrap();
        let of = |encoder: &Encoder, prompt: &str, text: &str| {
            let rendered = Rendered {
                prompt: Some(prompt.into()),
                ..plain(text)
            };
            let tokens = encoder.encode(&rendered).unwrap();
            assert_eq!(tokens.ids, ids(encoder, text));
            (tokens.targets.unwrap(), tokens.finding)
        };
        let (text, prompt) = ("The river keeps it.", "The river");
        let (all, before) = (ids(&encoder, text), ids(&encoder, prompt));
        assert!(all.starts_with(&before));
        let (targets, finding) = of(&encoder, prompt, text);
        assert_eq!(targets, [before.len() as u32..all.len() as u32]);
        assert_eq!(finding, Finding::default());
        // The space belongs to the word behind it.
        let (targets, finding) = of(&encoder, "The river ", text);
        assert_eq!(targets, [before.len() as u32..all.len() as u32]);
        assert!(finding.prompt_differs && !finding.is_cut);
        // Another text: all is predicted.
        assert_eq!(of(&encoder, "It", text).0, [0..all.len() as u32]);
        let (targets, finding) = of(&embedded(512, 2).unwrap(), prompt, text);
        assert!(targets.is_empty() && finding.is_cut && !finding.prompt_differs);
    }

    #[test]
    fn a_sample_is_cut_if_something_predicted_is_lost() {
        let of = |parts: Vec<Range<usize>>| {
            let rendered = Rendered {
                targets: Some(parts),
                ..plain("The river keeps it.")
            };
            embedded(512, 2).unwrap().encode(&rendered).unwrap().finding.is_cut
        };
        assert!(of(vec![10..19]));
        assert!(!of(vec![]) && !of(vec![3..3]) && !of(vec![19..19]));
        assert!(!of(vec![0..1]), "what is predicted is kept");
    }

    #[test]
    fn ranges_do_not_share_tokens() {
        let offsets = [(0, 0), (0, 4), (4, 9), (9, 9), (10, 12)];
        assert_eq!(tokens_of(&[0..2, 3..5, 8..12], &offsets, 12), [1..2, 2..3, 3..5]);
        assert!(tokens_of(&[12..12], &offsets, 12).is_empty());
    }

    #[test]
    fn a_tokenizer_of_another_model_is_refused() {
        let message = embedded(100, 100).unwrap().encode(&plain("é")).unwrap_err().to_string();
        assert!(message.contains("and the model has 100 embeddings"), "{message}");
        let message = Encoder::new(b"{}", "tokenizer.json".into(), None, 512, 8)
            .err()
            .unwrap()
            .to_string();
        assert!(message.starts_with("tokenizer.json: not a tokenizer:"), "{message}");
    }
}
