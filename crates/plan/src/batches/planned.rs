//! The steps of a plan, and their place in the training.

use records::prediction::WorstBatch;

use super::sequence::{Micro, Sequence};

/// The steps that decide the memory of training.
#[derive(Debug, Clone)]
pub struct Planned<S> {
    /// The steps in their order, each with its micro-batches.
    pub steps: Vec<S>,
    /// The training that they are chosen from; `None` if all its steps are alike or made up.
    training: Option<Training>,
    /// The rank whose steps they are, from 0; `None` if there is one, or all are alike.
    rank: Option<usize>,
}

#[derive(Debug, Clone)]
struct Training {
    sequence: Sequence,
    /// The planned steps, as indices into the sequence.
    chosen: Vec<usize>,
    /// True if samples are those of a file or of the sample text.
    has_texts: bool,
}

impl<S> Planned<S> {
    /// Steps that stand for all others.
    pub(super) fn alike(steps: Vec<S>) -> Self {
        Self {
            steps,
            training: None,
            rank: None,
        }
    }

    /// The `chosen` steps of `sequence`. `has_texts` is true if its samples can be named.
    pub(super) fn chosen(
        sequence: Sequence,
        chosen: Vec<usize>,
        has_texts: bool,
        step: impl Fn(&Sequence, usize) -> S,
    ) -> Self {
        Self {
            steps: chosen.iter().map(|&index| step(&sequence, index)).collect(),
            training: Some(Training {
                sequence,
                chosen,
                has_texts,
            }),
            rank: None,
        }
    }

    /// These steps as those of a rank.
    pub(super) fn of_rank(self, rank: Option<usize>) -> Self {
        Self { rank, ..self }
    }

    /// The rank whose steps they are; `None` if there is one, or all are alike.
    pub fn rank(&self) -> Option<usize> {
        self.rank
    }

    /// These steps as those of made-up data, whose batches need no name.
    pub(super) fn made_up(self) -> Self {
        Self { training: None, ..self }
    }

    /// Steps of the whole training; `None` if all are alike.
    pub fn training_steps(&self) -> Option<u64> {
        Some(self.training.as_ref()?.sequence.len() as u64)
    }

    /// The micro-batch that takes the most memory: the largest of the planned step `peak`, from 1, or of all if the
    /// peak does not depend on a batch. `None` if all steps are alike.
    pub fn worst(&self, peak: Option<u32>) -> Option<WorstBatch> {
        let Training {
            sequence,
            chosen,
            has_texts,
        } = self.training.as_ref()?;
        let size = |micro: &Micro| (micro.size(), micro.len);
        let of_peak = peak.and_then(|peak| chosen.get((peak as usize).checked_sub(1)?));
        let largest = |step: usize| {
            let range = sequence.range(step);
            &sequence.step(step)[sequence.largest(step, size) - range.start]
        };
        let step = match of_peak {
            Some(&step) => step,
            None => (0..sequence.len()).rev().max_by_key(|&step| size(largest(step)))?,
        };
        let micro = largest(step);
        // Samples are numbered from 1 for people.
        let samples = sequence.samples(micro).iter().map(|&sample| u64::from(sample) + 1);
        Some(WorstBatch {
            step: step as u64 + 1,
            batch_size: micro.batch as u64,
            tokens: micro.len as u64,
            samples: samples.filter(|_| *has_texts).collect(),
        })
    }
}
