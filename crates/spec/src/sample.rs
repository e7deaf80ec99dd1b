//! `sweep.sample`: some of a sweep's combinations, drawn at random.

use std::collections::HashMap;

use base::random::stream;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

/// The key's value.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    /// How many combinations are drawn; excluded ones do not count.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(range(min = 1))]
    pub count: usize,
    /// The draw is a function of this number and of the axes. Default: 0.
    #[serde(default)]
    pub seed: u64,
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(de::Error::custom("must be at least 1, got 0")),
        count => Ok(count),
    }
}

impl Sample {
    /// The numbers below `most` in a random order, each once.
    pub(crate) fn draw(&self, most: u64) -> Draws {
        Draws {
            random: stream(self.seed, "sweep.sample"),
            most,
            next: 0,
            moved: HashMap::new(),
        }
    }
}

/// A Fisher-Yates shuffle that keeps only what it has moved, so that a product of millions costs nothing.
pub(crate) struct Draws {
    random: ChaCha8Rng,
    most: u64,
    next: u64,
    moved: HashMap<u64, u64>,
}

impl Iterator for Draws {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next >= self.most {
            return None;
        }
        let at = self.next + below(&mut self.random, self.most - self.next);
        let front = self.moved.remove(&self.next).unwrap_or(self.next);
        self.next += 1;
        if at + 1 == self.next {
            return Some(front);
        }
        Some(self.moved.insert(at, front).unwrap_or(at))
    }
}

/// A number below `most`, each equally likely.
fn below(random: &mut ChaCha8Rng, most: u64) -> u64 {
    // Numbers above the last multiple of `most` would favour small remainders.
    let even = u64::MAX - u64::MAX % most;
    loop {
        let number = random.next_u64();
        if number < even {
            return number % most;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64, most: u64, count: usize) -> Vec<u64> {
        Sample { count, seed }.draw(most).take(count).collect()
    }

    #[test]
    fn every_number_is_drawn_once() {
        let mut all = draw(1, 1000, usize::MAX);
        assert_ne!(all[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_are_equally_likely() {
        let mut drawn = [0; 4];
        for seed in 0..4000 {
            drawn[draw(seed, 4, 1)[0] as usize] += 1;
        }
        assert!(drawn.iter().all(|count| (900..1100).contains(count)), "{drawn:?}");
    }

    #[test]
    fn a_draw_never_changes() {
        assert_eq!(draw(1, u64::MAX, 3), draw(1, u64::MAX, 3));
        assert_ne!(draw(1, u64::MAX, 3), draw(2, u64::MAX, 3));
    }
}
