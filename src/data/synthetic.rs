//! Seeded random token ids.

use rand::Rng;

use super::{
    DataError,
    tokenise::{EachSample, Tokenised},
};
use crate::options::{Lengths, Synthetic};
use crate::random;

/// Calls `each` with generated samples, whose ids are uniform over the vocabulary. Lengths are `max_seq_length` (fixed), uniform between 2 and
/// `max_seq_length`, or those of a list in turn, cut to `max_seq_length`.
///
/// With labels, each sample's label is uniform. Its ids are uniform over those whose remainder modulo the number of labels
/// is the label: every token shows the label, so a model can learn it.
///
/// Returns the number of samples left out because the list makes them shorter than two tokens.
///
/// # Errors
/// Those of `each`.
pub(super) fn samples(
    spec: &Synthetic,
    seed: u64,
    vocab_size: usize,
    labels: Option<usize>,
    max_seq_length: usize,
    each: &mut EachSample,
) -> Result<usize, DataError> {
    let mut random = random::stream(seed, "synthetic data");
    let mut skipped = 0;
    let mut ids = Vec::new();
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
            continue;
        }
        ids.clear();
        let label = labels.map(|labels| {
            let labels = labels as u32;
            let label = random.random_range(0..labels);
            let of_label = (vocab_size - label).div_ceil(labels);
            ids.extend((0..length).map(|_| label + labels * random.random_range(0..of_label)));
            label
        });
        if labels.is_none() {
            ids.extend((0..length).map(|_| random.random_range(0..vocab_size)));
        }
        each(Tokenised {
            ids: &ids,
            label,
            ..Tokenised::default()
        })?;
    }
    Ok(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids and label.
    type Sample = (Vec<u32>, Option<u32>);

    /// Each sample, and the number of those left out.
    fn generated(spec: &Synthetic, seed: u64, labels: Option<usize>) -> (Vec<Sample>, usize) {
        let mut all = Vec::new();
        let skipped = samples(spec, seed, 100, labels, 8, &mut |sample| {
            all.push((sample.ids.to_vec(), sample.label));
            Ok(())
        });
        (all, skipped.unwrap())
    }

    fn lengths(lengths: Lengths, samples: usize) -> (Vec<usize>, usize) {
        let spec = Synthetic {
            lengths,
            samples,
            between: None,
        };
        let (samples, skipped) = generated(&spec, 0, None);
        (samples.iter().map(|(ids, _)| ids.len()).collect(), skipped)
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
        let (samples, _) = generated(&Synthetic::default(), 5, Some(3));
        let mut of_label = [0; 3];
        let mut seen = std::collections::BTreeSet::new();
        for (ids, label) in samples {
            let label = label.unwrap();
            of_label[label as usize] += 1;
            assert!(ids.iter().all(|id| id % 3 == label && *id < 100));
            seen.extend(ids);
        }
        assert_eq!(seen.len(), 100);
        assert!(of_label.iter().all(|count| (280..410).contains(count)), "{of_label:?}");
    }

    #[test]
    fn ids_are_seeded_and_below_the_vocabulary() {
        let make = |seed| generated(&Synthetic::default(), seed, None).0;
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        let ids: std::collections::BTreeSet<_> = make(3).into_iter().flat_map(|(ids, _)| ids).collect();
        assert_eq!(ids.len(), 100);
        assert_eq!(ids.last(), Some(&99));
    }
}
