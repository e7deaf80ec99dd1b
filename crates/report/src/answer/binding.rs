//! The place of the peak: its phase, its module, and the largest part of the live memory.

use base::text::format::percent;

use super::evidence::Evidence;
use super::figures::{Figures, Instant};
use super::naming::{category_words, phase_words, tally};
use super::sentence::Sentence;
use crate::group::Group;
use crate::markdown::line_code as code;

/// The most places that are named.
const PLACES: usize = 3;

/// What binds the configurations, and which category holds most of the memory there.
pub(super) fn sentence(evidence: &Evidence<'_>, figures: Figures) -> Option<Sentence> {
    let known = |group: &&Group| figures.instant(group).is_some() && figures.largest_category(group).is_some();
    let groups: Vec<&Group> = evidence.groups.iter().filter(known).collect();
    let instants: Vec<Instant> = groups.iter().filter_map(|group| figures.instant(group)).collect();
    let largest: Vec<(&str, f64)> = groups
        .iter()
        .filter_map(|group| figures.largest_category(group))
        .collect();
    let &(category, first) = largest.first()?;
    let part = if largest.iter().all(|(other, _)| *other == category) {
        let (low, high) = largest.iter().fold((first, first), |(low, high), (_, share)| {
            (low.min(*share), high.max(*share))
        });
        let [low, high] = [low, high].map(|share| percent(share.into()));
        let shares = if low == high { low } else { format!("{low} to {high}") };
        format!("{} ({shares})", category_words(category))
    } else {
        let names: Vec<String> = largest.iter().map(|(category, _)| category_words(category)).collect();
        tally(&names, PLACES, "others")
    };
    let kind = figures.peak();
    let text = format!(
        "The {kind} is reached in {}; the largest part of it is {part}.",
        places(&instants)
    );
    Some(Sentence::about(text, figures, groups))
}

/// The places with their numbers: `the backward pass at lm_head (6 of 10) and layers.0 (4 of 10)`.
fn places(instants: &[Instant]) -> String {
    let modules: Option<Vec<String>> = instants
        .iter()
        .map(|instant| instant.module.as_deref().map(code))
        .collect();
    let one_phase = instants.windows(2).all(|pair| pair[0].phase == pair[1].phase);
    match (instants.first(), modules) {
        (Some(first), Some(modules)) if one_phase => {
            format!(
                "{} at {}",
                phase_words(&first.phase),
                tally(&modules, PLACES, "elsewhere")
            )
        }
        _ => tally(&instants.iter().map(place).collect::<Vec<_>>(), PLACES, "elsewhere"),
    }
}

/// `the backward pass at lm_head`, or the phase alone.
pub(super) fn place(instant: &Instant) -> String {
    let phase = phase_words(&instant.phase);
    match &instant.module {
        Some(module) => format!("{phase} at {}", code(module)),
        None => phase.to_owned(),
    }
}
