//! The choice between methods.

use super::evidence::Evidence;
use super::extremes;
use super::figures::Figures;
use super::sentence::{Sentence, most_important};
use crate::report::front::Place;
use crate::report::group::Group;
use crate::report::markdown::escape;
use crate::report::methods::{HELD_OUT, Method, methods, titles};
use crate::text::format::{number, percent, ratio};

/// The cheapest and the dearest cell, each method compared with full fine-tuning, and the front of memory and loss.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let methods = methods(evidence.groups);
    let extremes = extremes::sentences(evidence, Figures::Measured).into_iter();
    let mut sentences: Vec<(u8, Sentence)> = extremes.map(|sentence| (1, sentence)).collect();
    sentences.extend(against_full(&methods).into_iter().map(|sentence| (2, sentence)));
    sentences.extend(by_loss(evidence).into_iter().map(|sentence| (0, sentence)));
    most_important(sentences)
}

/// The leanest cell of each method over the leanest one that trains all weights.
fn against_full(methods: &[Method]) -> Vec<Sentence> {
    let mut names: Vec<&str> = Vec::new();
    for method in methods {
        if !names.contains(&method.name) {
            names.push(method.name);
        }
    }
    let peak = |method: &Method| Figures::Measured.mean(&method.group, "allocated_peak_bytes");
    let leanest = |name: &str| {
        let known = methods.iter().filter(|method| method.name == name);
        known
            .filter_map(|method| Some((peak(method)?, method)))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))
    };
    let Some((base, full)) = leanest("Full fine-tuning").filter(|(base, _)| *base > 0.0) else {
        return Vec::new();
    };
    let others = names.into_iter().filter(|name| *name != full.name).filter_map(leanest);
    let sentence = |(bytes, method): (f64, &Method)| {
        let share = method.trainable_share?;
        let text = format!(
            "{} ({}) peaks at {} of full fine-tuning ({}) and trains {} of its weights.",
            method.name,
            escape(&method.group.label),
            ratio((bytes / base).into()),
            escape(&full.group.label),
            percent(share.into()),
        );
        Some(Sentence::about(text, Figures::Measured, [&method.group, &full.group]))
    };
    others.filter_map(sentence).collect()
}

/// The groups on the Pareto fronts, or the reason why there are none.
fn by_loss(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let losses = evidence.losses;
    let remark = losses.remark.unwrap_or_default();
    if !losses.rank {
        let because = (!remark.is_empty()).then(|| Sentence::about(remark, Figures::Measured, []));
        return because.into_iter().collect();
    }
    let of_memory = front(evidence, "peak memory", |group| group.pareto.memory);
    let of_file = front(evidence, "the file's size", |group| group.pareto.file);
    let remark = (!remark.is_empty()).then(|| Sentence::about(remark, Figures::Measured, []));
    of_memory.into_iter().chain(of_file).chain(remark).collect()
}

/// The groups on one front, the best loss first, each with the seeds in which it is there.
fn front(evidence: &Evidence<'_>, of: &str, place: impl Fn(&Group) -> Place) -> Option<Sentence> {
    let mut front: Vec<&Group> = evidence.groups.iter().filter(|group| place(group).on).collect();
    let stat = |group: &Group| group.stats.get(HELD_OUT).copied().flatten();
    let loss = |group: &Group| stat(group).map_or(f64::NAN, |stat| stat.mean);
    front.sort_by(|a, b| loss(a).total_cmp(&loss(b)));
    let titles = titles(&front, evidence.axes);
    let described = front.iter().zip(titles).map(|(group, title)| {
        let at = place(group);
        let seeds = match at.is_uncertain() {
            true => format!("; with {} of {} seeds", at.seeds, at.of),
            false => String::new(),
        };
        let loss = stat(group).map_or_else(String::new, |stat| number(stat.into(), 3));
        format!("{} ({loss}{seeds})", escape(&title))
    });
    let described: Vec<String> = described.collect();
    let text = format!(
        "On the Pareto front of {of} and held-out loss, the best loss first: {}.",
        described.join(", ")
    );
    (!front.is_empty()).then(|| Sentence::about(text, Figures::Measured, front))
}
