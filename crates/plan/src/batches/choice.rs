//! The steps of a training on uneven data that are replayed through PyTorch's allocator.

use std::collections::BTreeSet;
use std::ops::Range;

use super::sequence::{Micro, Sequence};

/// Equal steps in a plan with a replay of PyTorch's allocator, which finds other gaps after the second step.
pub(super) const MOST_REPLAYED_STEPS: usize = 3;

/// Micro-batches that are replayed through PyTorch's allocator. If a training has more, some of its steps are chosen.
pub(super) const MOST_REPLAYED: usize = 512;

/// Micro-batches that are replayed for a first look, which often shows already that the memory does not suffice.
pub(super) const FEW_REPLAYED: usize = 32;

/// Steps before and after the largest, and one after which the model generates, that are replayed with it.
const AROUND: usize = 2;

/// A measure of a micro-batch at an index of its step; `None` if it does not count.
type Measure = fn(usize, &Micro) -> Option<usize>;

/// The measures by which a micro-batch may take the most memory. The first of a step has no gradients yet that later
/// ones add to, a batch with padding has a mask, and attention needs room for each sample that it keeps apart.
const MEASURES: [Measure; 7] = [
    |_, micro| Some(micro.size()),
    |_, micro| Some(micro.len),
    |_, micro| micro.is_padded().then(|| micro.size()),
    |index, micro| (index > 0).then(|| micro.size()),
    |index, micro| (index > 0 && micro.is_padded()).then(|| micro.size()),
    |_, micro| (micro.apart > 0).then_some(micro.apart),
    |_, micro| (micro.unpadded > 0).then_some(micro.unpadded),
];

/// The steps of a plan, ascending: all, or if they are too many the first ones, those that are larger than all before
/// them, for which the allocator needs new memory, and the neighbours of the largest. Of equal steps a few. These are
/// too many if they have more than `most` micro-batches. The steps `generating`, after which the model generates, and
/// their neighbours are planned besides: those after it find the cache that it leaves.
pub(super) fn choose(sequence: &Sequence, most: usize, generating: &[usize]) -> Vec<usize> {
    let mut chosen = of_training(sequence, most);
    chosen.extend(generating.iter().flat_map(|&step| around(sequence, step)));
    chosen.into_iter().collect()
}

/// A step and its neighbours.
fn around(sequence: &Sequence, step: usize) -> Range<usize> {
    step.saturating_sub(AROUND)..(step + AROUND + 1).min(sequence.len())
}

/// The steps of a plan without generation.
fn of_training(sequence: &Sequence, most: usize) -> BTreeSet<usize> {
    let all = 0..sequence.len();
    if sequence.is_even() {
        return all.take(MOST_REPLAYED_STEPS).collect();
    }
    if sequence.micro_batches() <= most {
        return all.collect();
    }
    let mut chosen: BTreeSet<usize> = all.clone().take(1).collect();
    for measure in MEASURES {
        let records = records(sequence, measure);
        let Some(&largest) = records.last() else { continue };
        chosen.extend(records);
        chosen.extend(around(sequence, largest));
    }
    let size = |step: usize| sequence.step(step).len();
    let mut replayed: usize = chosen.iter().map(|&step| size(step)).sum();
    for step in all {
        if replayed + size(step) > most {
            break;
        }
        if chosen.insert(step) {
            replayed += size(step);
        }
    }
    chosen
}

/// The steps that are larger than all before them, the largest last. The first step does not count, since it has no
/// optimizer state yet.
fn records(sequence: &Sequence, measure: Measure) -> Vec<usize> {
    let mut most = None;
    let is_record = |step: &usize| {
        let size = largest(sequence.step(*step), measure).map(|(_, size)| size);
        let is_record = size > most;
        most = most.max(size);
        is_record
    };
    (1..sequence.len()).filter(is_record).collect()
}

/// The largest micro-batch of a step by its index, and its size; the first of equal ones.
fn largest(step: &[Micro], measure: Measure) -> Option<(usize, usize)> {
    let sizes = step.iter().enumerate();
    let sizes = sizes.filter_map(|(index, micro)| Some((index, measure(index, micro)?)));
    sizes.rev().max_by_key(|&(_, size)| size)
}

#[cfg(test)]
mod tests {
    use super::super::testing::training;
    use super::*;

    #[test]
    fn a_few_steps_are_all_replayed() {
        assert_eq!(
            choose(&training(&[&[&[5]], &[&[9]], &[&[2]]]), MOST_REPLAYED, &[]),
            [0, 1, 2]
        );
    }

    #[test]
    fn equal_steps_are_replayed_a_few_times() {
        let step: &[&[usize]] = &[&[5, 4]];
        assert_eq!(choose(&training(&[step; 9]), MOST_REPLAYED, &[]), [0, 1, 2]);
        assert_eq!(
            choose(&training(&[step, step, step, &[&[5, 5]]]), MOST_REPLAYED, &[]),
            [0, 1, 2, 3]
        );
    }

    #[test]
    fn of_many_steps_the_first_the_records_and_the_largest_are_replayed() {
        let steps = 5000;
        let lengths: Vec<[usize; 1]> = (0..steps)
            .map(|step| [if step == 4000 { 900 } else { 10 + step / 1000 }])
            .collect();
        let micro: Vec<[&[usize]; 1]> = lengths.iter().map(|lengths| [&lengths[..]]).collect();
        let sequence = training(&micro.iter().map(|step| &step[..]).collect::<Vec<_>>());
        let chosen = choose(&sequence, MOST_REPLAYED, &[]);
        assert_eq!(chosen.len(), MOST_REPLAYED);
        assert!(chosen.is_sorted());
        for step in [0, 1, 400, 1000, 2000, 3000, 3998, 3999, 4000, 4001, 4002] {
            assert!(chosen.contains(&step), "{step}");
        }
        assert!(!chosen.contains(&4500));
    }
}
