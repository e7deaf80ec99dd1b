//! Texts to token ids, on all cores.

use std::thread;

use super::labels::Labels;
use super::tokenizer::Encoder;
use super::{DataError, source};
use crate::arch::ModelConfig;
use crate::hub::Roots;
use crate::options::Data;

/// Text that is tokenised at once, in bytes.
const CHUNK: usize = 1 << 20;

/// Takes the ids of a sample, with its label if samples have labels.
pub(super) type EachSample<'a> = dyn FnMut(&[u32], Option<u32>) -> Result<(), DataError> + 'a;

/// What is known of texts when all are read.
pub(super) struct Texts {
    /// Their file, for messages.
    pub(super) origin: String,
    /// The final number of each label, if labels are names.
    pub(super) label_numbers: Option<Vec<u32>>,
}

/// Calls `each` with the ids of every text of a file or of the sample, in their order.
///
/// # Errors
/// A file cannot be read or has another format, or the tokenizer belongs to another model; and those of `each`.
pub(super) fn tokenise(
    data: &Data,
    encoder: &Encoder,
    config: &ModelConfig,
    roots: &Roots,
    each: &mut EachSample,
) -> Result<Texts, DataError> {
    let mut labels = Labels::new(config.labels().unwrap_or(0));
    let mut chunk = Chunk::default();
    let origin = source::read(data, config, roots, &mut |text, label| {
        let label = label.map(|label| labels.number(label)).transpose()?;
        chunk.push(text, label);
        if chunk.texts.len() >= CHUNK {
            chunk.encode(encoder, each)?;
        }
        Ok(())
    })?;
    chunk.encode(encoder, each)?;
    Ok(Texts {
        label_numbers: labels.in_order(&origin)?,
        origin,
    })
}

/// Texts that are tokenised at once.
#[derive(Default)]
struct Chunk {
    /// The texts one after the other.
    texts: String,
    /// The end of each text.
    ends: Vec<usize>,
    /// One for each text, or empty.
    labels: Vec<u32>,
}

impl Chunk {
    fn push(&mut self, text: &str, label: Option<u32>) {
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        self.labels.extend(label);
    }

    /// Tokenises the texts and forgets them. The threads are not rayon's: a caller may hold a lock that another of its tasks
    /// waits for.
    fn encode(&mut self, encoder: &Encoder, each: &mut EachSample) -> Result<(), DataError> {
        if self.ends.is_empty() {
            return Ok(());
        }
        let threads = thread::available_parallelism().map_or(1, usize::from);
        // Shares of about as many bytes, and the texts before the share of this number.
        let before = |share: usize| match share {
            0 => 0,
            share => self
                .ends
                .partition_point(|&end| end <= self.texts.len() * share / threads),
        };
        let this = &*self;
        let parts: Vec<Result<Vec<Vec<u32>>, DataError>> = thread::scope(|scope| {
            let workers = (0..threads).map(|share| {
                let texts = before(share)..before(share + 1);
                scope.spawn(move || texts.map(|text| encoder.encode(this.text(text))).collect())
            });
            let workers: Vec<_> = workers.collect();
            let join = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        let mut labels = self.labels.iter().copied();
        for part in parts {
            part?.iter().try_for_each(|ids| each(ids, labels.next()))?;
        }
        self.texts.clear();
        self.ends.clear();
        self.labels.clear();
        Ok(())
    }

    fn text(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.texts[start..self.ends[index]]
    }
}
