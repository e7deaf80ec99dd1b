//! Seeded random token ids.

use std::cmp::Reverse;

use base::random;
use options::{Lengths, LogNormal, Synthetic};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::{
    DataError,
    tokenise::{EachSample, Tokenised},
};

/// Calls `each` with generated samples, whose ids are uniform over the vocabulary. Lengths are `max_seq_length`
/// (fixed), uniform between 2 and `max_seq_length`, or those of a list in turn or of a distribution, cut to
/// `max_seq_length`.
///
/// With labels, each sample's label is uniform. Its ids are uniform over those whose remainder modulo the number of
/// labels is the label: every token shows the label, so a model can learn it.
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
    let mut drawn = match &spec.lengths {
        Lengths::LogNormal(distribution) => Some(Draws::new(distribution, spec, seed)),
        Lengths::Fixed | Lengths::Uniform | Lengths::List(_) => None,
    };
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
            Lengths::LogNormal(_) => drawn.as_mut().map_or(0, Draws::next).min(max_seq_length),
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

/// Lengths that are drawn one after the other.
struct Draws {
    random: ChaCha8Rng,
    /// The mean of the logarithms, and their standard deviation.
    logarithms: [f64; 2],
    /// The shortest and the longest that a sample may be.
    bounds: [usize; 2],
    /// The place of the longest sample from here, and its length.
    longest: Option<(usize, usize)>,
}

impl Draws {
    fn new(distribution: &LogNormal, spec: &Synthetic, seed: u64) -> Self {
        let LogNormal { mean, sigma, longest } = *distribution;
        let [fewest, most] = spec.between.unwrap_or([2, usize::MAX]);
        let mut draws = Self {
            random: random::stream(seed, "synthetic lengths"),
            // The mean of exp(N(mu, sigma²)) is exp(mu + sigma² / 2).
            logarithms: [mean.ln() - sigma * sigma / 2.0, sigma],
            bounds: [fewest, longest.unwrap_or(most)],
            longest: None,
        };
        if let Some(longest) = longest {
            let mut first = Self {
                random: draws.random.clone(),
                ..draws
            };
            let place = (0..spec.samples).max_by_key(|&place| (first.next(), Reverse(place)));
            draws.longest = place.map(|place| (place, longest));
        }
        draws
    }

    fn next(&mut self) -> usize {
        let [mu, sigma] = self.logarithms;
        let drawn = (mu + sigma * f64::from(random::normal(&mut self.random))).exp().round();
        let longest = self.longest;
        self.longest = longest.and_then(|(place, length)| Some((place.checked_sub(1)?, length)));
        match longest {
            Some((0, length)) => length,
            _ => (drawn as usize).clamp(self.bounds[0], self.bounds[1]),
        }
    }
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
    fn lengths_of_a_distribution_have_its_mean_and_its_longest() {
        let distribution = |longest| LogNormal {
            mean: 200.0,
            sigma: 0.4,
            longest,
        };
        let draw = |longest, seed, samples| {
            let spec = Synthetic {
                lengths: Lengths::Fixed,
                samples,
                between: None,
            };
            let mut draws = Draws::new(&distribution(longest), &spec, seed);
            (0..samples).map(|_| draws.next()).collect::<Vec<_>>()
        };
        let drawn = draw(None, 3, 20_000);
        let count = drawn.len() as f64;
        let mean = drawn.iter().sum::<usize>() as f64 / count;
        assert!((mean / 200.0 - 1.0).abs() < 0.02, "{mean}");
        let logarithms = || drawn.iter().map(|length| (*length as f64).ln());
        let center = logarithms().sum::<f64>() / count;
        let spread = (logarithms().map(|value| (value - center).powi(2)).sum::<f64>() / count).sqrt();
        assert!((spread / 0.4 - 1.0).abs() < 0.03, "{spread}");
        for longest in [300, 5000] {
            let drawn = draw(Some(longest), 3, 1000);
            assert_eq!(drawn.iter().max(), Some(&longest));
            assert_eq!(drawn, draw(Some(longest), 3, 1000));
            assert_ne!(drawn, draw(Some(longest), 4, 1000));
        }
        let all = Lengths::LogNormal(distribution(None));
        assert_eq!(lengths(all, 3), (vec![8; 3], 0), "cut to max_seq_length");
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
