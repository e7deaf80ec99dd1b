//! Tokenised samples in compact storage.

use sha2::{Digest, Sha256};

use crate::text::hex;

/// Token ids of many samples in one array: a vector per sample would cost more than the ids of a short one.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Samples {
    ids: Vec<u32>,
    /// The end of each sample in `ids`, which is the start of the next.
    ends: Vec<usize>,
    /// One for each sample, or empty.
    labels: Vec<u32>,
}

impl Samples {
    /// Adds a sample.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.ids.extend(ids);
        self.ends.push(self.ids.len());
    }

    /// Adds a sample with its label. Either all samples have labels, or none has.
    pub fn push_labelled(&mut self, ids: impl IntoIterator<Item = u32>, label: u32) {
        self.push(ids);
        self.labels.push(label);
    }

    /// The label of sample `index`, if samples have labels.
    pub fn label(&self, index: usize) -> Option<u32> {
        self.labels.get(index).copied()
    }

    /// Replaces each label by its entry in `numbers`.
    pub(super) fn renumber_labels(&mut self, numbers: &[u32]) {
        for label in &mut self.labels {
            *label = numbers[*label as usize];
        }
    }

    /// The ids of sample `index`.
    pub fn get(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.ids[start..self.ends[index]]
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without samples.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Frees the spare capacity.
    pub(super) fn shrink(&mut self) {
        self.ids.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.labels.shrink_to_fit();
    }

    /// SHA-256 in hexadecimal over every sample: its length, then its ids, then its label if it has one, each as four
    /// little-endian bytes.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        for index in 0..self.len() {
            let ids = self.get(index);
            // A sample is far below 2^32 tokens: its text is bounded.
            hash.update((ids.len() as u32).to_le_bytes());
            for id in ids {
                hash.update(id.to_le_bytes());
            }
            if let Some(label) = self.label(index) {
                hash.update(label.to_le_bytes());
            }
        }
        hex(&hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(samples: &[&[u32]]) -> Samples {
        let mut all = Samples::default();
        samples.iter().for_each(|ids| all.push(ids.iter().copied()));
        all
    }

    #[test]
    fn samples_come_back() {
        let samples = samples(&[&[1, 2], &[], &[3]]);
        assert_eq!(samples.len(), 3);
        assert_eq!(
            [samples.get(0), samples.get(1), samples.get(2)],
            [&[1, 2][..], &[], &[3]]
        );
    }

    #[test]
    fn the_hash_knows_labels() {
        let labelled = |label| {
            let mut samples = Samples::default();
            samples.push_labelled([1, 2], label);
            samples.sha256()
        };
        assert_eq!(labelled(1), labelled(1));
        assert_ne!(labelled(1), labelled(0));
        assert_ne!(labelled(0), samples(&[&[1, 2]]).sha256());
    }

    #[test]
    fn the_hash_knows_ids_and_where_samples_end() {
        let hash = |all: &[&[u32]]| samples(all).sha256();
        assert_eq!(hash(&[&[1, 2], &[3]]), hash(&[&[1, 2], &[3]]));
        assert_ne!(hash(&[&[1, 2], &[3]]), hash(&[&[1], &[2, 3]]));
        assert_ne!(hash(&[&[1, 2]]), hash(&[&[1, 3]]));
        // printf '\x01\0\0\0\x07\0\0\0' | sha256sum
        assert_eq!(
            hash(&[&[7]]),
            "f0e6dfdca14da812bd3febae22fe83f4f7ea295365ca71128ed6502c9847b92e"
        );
    }
}
