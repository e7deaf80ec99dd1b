//! Texts to token ids, on all cores.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use arch::{Location, ModelConfig};
use base::bounds::{Bounds, bounded};
use base::guarded::DEEP_STACK;
use base::text::counted;
use hub::Roots;
use options::{Data, DataFile, DataOptions};
use serde_json::Value;

use super::DataError;
use super::chat_template::SpecialTokens;
use super::conversation::READ_FIELDS;
use super::formats::Place;
use super::labels::Labels;
use super::reading::Reading;
use super::render::Renderer;
use super::sample::{Conversation, Sample};
use super::shown::Shown;
use super::source::{self, template};
use super::tokenizer::{self, Encoder, Finding, Tokens};

/// Text that is tokenised at once, in bytes.
const CHUNK: usize = 1 << 20;

/// Bytes that templates and tokenizers may take on all threads together, beside those for long texts.
const TOGETHER: u64 = 512 << 20;
/// Bytes that they may take on one thread, at least and at most.
const LEAST: u64 = 32 << 20;
const MOST: u64 = 192 << 20;

/// The stack of a thread that tokenises, where the system has none for values that nest deep.
const STACK: usize = 2 << 20;

/// Takes a sample.
pub(super) type EachSample<'a> = dyn FnMut(Tokenised) -> Result<(), DataError> + 'a;

/// A sample of token ids.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tokenised<'a> {
    pub(super) ids: &'a [u32],
    /// The ranges of predicted tokens; `None` if all are.
    pub(super) targets: Option<&'a [Range<u32>]>,
    /// Its label, if samples have labels.
    pub(super) label: Option<u32>,
    pub(super) finding: Finding,
}

/// Makes tokens of samples.
pub(super) struct Tokeniser {
    pub(super) renderer: Renderer,
    pub(super) encoder: Encoder,
}

impl Tokeniser {
    fn encode(&self, (sample, place): &(Sample, Place)) -> Result<Tokens, DataError> {
        // A library keeps some hundred bytes for each of a long text, and reads a few hundred kB a second at least.
        let bytes = sample.bytes() as u64;
        let bounds = Bounds {
            bytes: (TOGETHER / threads() as u64).clamp(LEAST, MOST) + 256 * bytes,
            time: Duration::from_secs(2 + bytes / 200_000 + sample.messages() as u64 / 100),
        };
        bounded(
            format_args!("{place}: the sample's chat template or tokenizer"),
            bounds,
            || self.encoder.encode(&self.renderer.render(sample, place)?),
        )
    }
}

impl Tokeniser {
    /// A sample with the parts of its text that are predicted.
    pub(super) fn show(&self, sample: &Sample, place: &Place) -> Result<Shown, DataError> {
        self.encoder.show(&self.renderer.render(sample, place)?)
    }
}

/// The tokeniser of samples for a model, of at most so many tokens.
pub(super) fn tokeniser(
    options: &DataOptions,
    location: &Location,
    config: &ModelConfig,
    max_seq_length: usize,
    roots: &Roots,
) -> Result<Tokeniser, DataError> {
    let encoder = Encoder::open(location, config.vocab_size, max_seq_length)?;
    let file = match &options.data {
        Data::File(file) => Some(&**file),
        Data::Synthetic(_) | Data::Sample => None,
    };
    let given = file.and_then(|file| file.eos_token.clone());
    if let Some(token) = given.as_deref().filter(|token| !encoder.has_token(token)) {
        return Err(DataError::UnknownToken {
            token: token.into(),
            model: options.model.clone(),
        });
    }
    let special_tokens = SpecialTokens::of(location).map(|tokens| tokens.with_eos(given));
    let named = special_tokens.as_ref().ok().and_then(SpecialTokens::eos);
    let eos = match named {
        Some(eos) => encoder.has_token(eos).then(|| eos.to_owned()),
        None => tokenizer::eos(location, config).and_then(|id| encoder.token(id)),
    };
    Ok(Tokeniser {
        renderer: Renderer {
            template: special_tokens.and_then(|tokens| template(file, location, &tokens, roots)),
            eos,
            completion_only: file.is_none_or(DataFile::completion_only_loss),
            assistant_only: file.is_some_and(DataFile::assistant_only_loss),
            model: options.model.clone(),
        },
        encoder,
    })
}

/// Calls `each` with the tokens of every sample of some files or of the sample text, in their order. Returns what is worth
/// a remark.
///
/// # Errors
/// A file cannot be read or has another format, or the tokenizer belongs to another model; and those of `each`.
pub(super) fn tokenise(
    data: &Data,
    tokeniser: &Tokeniser,
    labels: &mut Labels,
    roots: &Roots,
    each: &mut EachSample,
) -> Result<Reading, DataError> {
    let mut reading = Reading::default();
    tokeniser
        .encoder
        .remark()
        .into_iter()
        .for_each(|remark| reading.take_for(remark.to_owned()));
    let (mut without_tools, mut fields) = (0, BTreeMap::new());
    let mut chunk = Chunk::default();
    let has_labels = labels.count() > 0;
    source::read(data, has_labels, roots, &mut reading, &mut |sample, place, label| {
        if let Sample::Conversation(conversation) = &sample {
            without_tools += u64::from(conversation.tools.is_some() && !tokeniser.renderer.reads("tools"));
            unread_fields(conversation, &tokeniser.renderer, &mut fields);
        }
        let label = label.map(|label| label.number(labels, &place)).transpose()?;
        chunk.push(sample, place, label);
        if chunk.bytes() >= CHUNK {
            chunk.encode(tokeniser, each)?;
        }
        Ok(())
    })?;
    chunk.encode(tokeniser, each)?;
    for (field, samples) in fields
        .into_iter()
        .filter_map(|(field, samples)| Some((field, samples?)))
    {
        reading.unread(&field, samples);
    }
    if without_tools > 0 {
        reading.take_for(format!(
            "the chat template has no place for `tools`, which {} have",
            counted(without_tools as usize, "sample")
        ));
    }
    Ok(reading)
}

/// Fields at most whose use is looked up.
const MOST_FIELDS: usize = 1000;

/// Counts a sample for each field of its messages, and each variable of its own, that the template does not name. A
/// field that it names has no count.
fn unread_fields(conversation: &Conversation, renderer: &Renderer, fields: &mut BTreeMap<String, Option<u64>>) {
    let messages = conversation.messages.iter().filter_map(Value::as_object);
    let of_messages = messages.flat_map(|message| message.keys());
    let mut seen: Vec<&str> = of_messages
        .chain(conversation.variables.keys())
        .map(String::as_str)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    for field in seen.into_iter().filter(|field| !READ_FIELDS.contains(field)) {
        if !fields.contains_key(field) && fields.len() < MOST_FIELDS {
            fields.insert(field.to_owned(), (!renderer.names(field)).then_some(0));
        }
        if let Some(Some(samples)) = fields.get_mut(field) {
            *samples += 1;
        }
    }
}

/// The threads that tokenise. The system is asked once: it reads files of the control group, and each sample needs the
/// number.
fn threads() -> usize {
    static THREADS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    *THREADS
}

/// Samples that are tokenised at once.
#[derive(Default)]
struct Chunk {
    samples: Vec<(Sample, Place)>,
    /// The end of each sample, if their texts lay one after the other.
    ends: Vec<usize>,
    /// One for each sample, or empty.
    labels: Vec<u32>,
}

impl Chunk {
    fn push(&mut self, sample: Sample, place: Place, label: Option<u32>) {
        self.ends.push(self.bytes() + sample.bytes());
        self.samples.push((sample, place));
        self.labels.extend(label);
    }

    fn bytes(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Tokenises the samples and forgets them. The threads are not rayon's: a caller may hold a lock that another of
    /// its tasks waits for.
    fn encode(&mut self, tokeniser: &Tokeniser, each: &mut EachSample) -> Result<(), DataError> {
        if self.samples.is_empty() {
            return Ok(());
        }
        let threads = threads();
        let bytes = self.bytes();
        // Shares of about as many bytes, and the samples before the share of this number.
        let before = |share: usize| match share {
            0 => 0,
            share => self.ends.partition_point(|&end| end <= bytes * share / threads),
        };
        let samples = &self.samples;
        let parts: Result<Vec<Result<Vec<Tokens>, DataError>>, DataError> = thread::scope(|scope| {
            let workers = (0..threads).map(|share| {
                let of_share = &samples[before(share)..before(share + 1)];
                let work = move || of_share.iter().map(|sample| tokeniser.encode(sample)).collect();
                let with_stack = |bytes| thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
                // Values of templates that nest deep are freed one in the other.
                let is_deep = of_share.iter().any(|(sample, _)| sample.messages() > 0);
                let deep = is_deep.then(|| with_stack(DEEP_STACK)).and_then(Result::ok);
                deep.map_or_else(|| with_stack(STACK), Ok)
            });
            let workers: Vec<_> = workers.collect::<Result<_, _>>().map_err(DataError::Threads)?;
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok(workers.into_iter().map(join).collect())
        });
        let mut labels = self.labels.iter().copied();
        for part in parts? {
            for tokens in part? {
                each(Tokenised {
                    ids: &tokens.ids,
                    targets: tokens.targets.as_deref(),
                    label: labels.next(),
                    finding: tokens.finding,
                })?;
            }
        }
        self.samples.clear();
        self.ends.clear();
        self.labels.clear();
        Ok(())
    }
}
