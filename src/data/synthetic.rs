//! Seeded random token ids.

use rand::Rng;

use super::Samples;
use crate::options::{Lengths, Synthetic};
use crate::random;

/// Generates samples with ids uniform over the vocabulary. Lengths are `max_seq_length` (fixed), uniform between 2 and
/// `max_seq_length`, or those of a list in turn, cut to `max_seq_length`.
///
/// With labels, each sample's label is uniform. Its ids are uniform over those whose remainder modulo the number of labels
/// is the label: every token shows the label, so a model can learn it.
///
/// Also returns the number of samples left out because the list makes them shorter than two tokens.
pub(super) fn samples(
    spec: &Synthetic,
    seed: u64,
    vocab_size: usize,
    labels: Option<usize>,
    max_seq_length: usize,
) -> (Samples, usize) {
    let mut random = random::stream(seed, "synthetic data");
    let mut samples = Samples::default();
    let mut skipped = 0;
    // Every size of a configuration is far below 2^32.
    let vocab_size = vocab_size as u32;
    for index in 0..spec.samples {
        let length = match &spec.lengths {
            Lengths::Fixed => max_seq_length,
            Lengths::Uniform => random.random_range(2..=max_seq_length as u64) as usize,
            Lengths::List(lengths) if lengths.is_empty() => 0,
            Lengths::List(lengths) => lengths[index % lengths.len()].min(max_seq_length),
        };
        if length < 2 {
            skipped += 1;
        } else if let Some(labels) = labels {
            let labels = labels as u32;
            let label = random.random_range(0..labels);
            let ids = (vocab_size - label).div_ceil(labels);
            let id = |_| label + labels * random.random_range(0..ids);
            samples.push_labelled((0..length).map(id), label);
        } else {
            samples.push((0..length).map(|_| random.random_range(0..vocab_size)));
        }
    }
    (samples, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(lengths: Lengths, samples: usize) -> (Vec<usize>, usize) {
        let (samples, skipped) = super::samples(
            &Synthetic {
                lengths,
                samples,
                between: None,
            },
            0,
            100,
            None,
            8,
        );
        let lengths = (0..samples.len()).map(|index| samples.get(index).len()).collect();
        (lengths, skipped)
    }

    #[test]
    fn lengths_are_as_stated() {
        assert_eq!(lengths(Lengths::Fixed, 3), (vec![8; 3], 0));
        assert_eq!(lengths(Lengths::List(vec![3, 9, 1]), 5), (vec![3, 8, 3, 8], 1));
        assert_eq!(lengths(Lengths::List(vec![]), 2), (vec![], 2));
        let (uniform, _) = lengths(Lengths::Uniform, 7000);
        for length in 2..=8 {
            let share = uniform.iter().filter(|found| **found == length).count();
            assert!((800..1200).contains(&share), "{share} samples of length {length}");
        }
        assert_eq!(uniform.iter().min(), Some(&2));
    }

    #[test]
    fn every_token_tells_the_label() {
        let (samples, _) = super::samples(&Synthetic::default(), 5, 100, Some(3), 8);
        let mut of_label = [0; 3];
        let mut ids = std::collections::BTreeSet::<u32>::new();
        for index in 0..samples.len() {
            let label = samples.label(index).unwrap();
            of_label[label as usize] += 1;
            assert!(samples.get(index).iter().all(|id| id % 3 == label && *id < 100));
            ids.extend(samples.get(index));
        }
        assert_eq!(ids.len(), 100);
        assert!(of_label.iter().all(|count| (280..410).contains(count)), "{of_label:?}");
    }

    #[test]
    fn ids_are_seeded_and_below_the_vocabulary() {
        let make = |seed| samples(&Synthetic::default(), seed, 100, None, 8).0;
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        let samples = make(3);
        let ids: std::collections::BTreeSet<_> = (0..samples.len()).flat_map(|index| samples.get(index)).collect();
        assert_eq!(ids.len(), 100);
        assert_eq!(ids.last(), Some(&&99));
    }
}
