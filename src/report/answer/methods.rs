//! The choice between methods.

use super::evidence::Evidence;
use super::figures::Figures;
use super::sentence::{Sentence, most_important};
use super::{extremes, tuned};
use crate::report::front::Place;
use crate::report::group::Group;
use crate::report::markdown::escape;
use crate::report::methods::{FORGETTING, HELD_OUT, Method, Titles, methods};
use crate::text::format::{number, percent, ratio};

/// The cheapest and the dearest method, each method compared with full fine-tuning, the fronts of loss against cost, and
/// what is forgotten.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<Sentence> {
    let titles = Titles::new(evidence.groups.iter().collect(), evidence.axes);
    let title = |group: &Group| escape(&titles.of(group));
    let methods = methods(evidence.groups);
    let extremes = extremes::sentences(evidence, Figures::Measured, title).into_iter();
    let mut sentences: Vec<(u8, Sentence)> = extremes.map(|sentence| (1, sentence)).collect();
    sentences.extend(against_full(&methods, title).into_iter().map(|sentence| (2, sentence)));
    sentences.extend(by_loss(evidence, title).into_iter().map(|sentence| (0, sentence)));
    sentences.extend(tuned::sentence(evidence).map(|sentence| (0, sentence)));
    sentences.extend(forgotten(evidence, title).map(|sentence| (0, sentence)));
    most_important(sentences)
}

/// The leanest cell of each method over the leanest one that trains all weights.
fn against_full(methods: &[Method], title: impl Fn(&Group) -> String) -> Vec<Sentence> {
    let mut names: Vec<&str> = Vec::new();
    for method in methods {
        if !names.contains(&method.name.as_str()) {
            names.push(&method.name);
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
            "{} peaks at {} of the memory of {} and trains {} of its weights.",
            title(&method.group),
            ratio((bytes / base).into()),
            in_a_sentence(&title(&full.group)),
            percent(share.into()),
        );
        Some(Sentence::about(text, Figures::Measured, [&method.group, &full.group]))
    };
    others.filter_map(sentence).collect()
}

/// The groups on the Pareto fronts, or the reason why there are none.
fn by_loss(evidence: &Evidence<'_>, title: impl Fn(&Group) -> String) -> Vec<Sentence> {
    let losses = evidence.losses;
    let remark = losses.remark.unwrap_or_default();
    if !losses.rank {
        let because = (!remark.is_empty()).then(|| Sentence::about(remark, Figures::Measured, []));
        return because.into_iter().collect();
    }
    let of_memory = front(evidence, "peak memory", &title, |group| group.pareto.memory);
    let of_file = front(evidence, "the file's size", &title, |group| group.pareto.file);
    let remark = (!remark.is_empty()).then(|| Sentence::about(remark, Figures::Measured, []));
    of_memory.into_iter().chain(of_file).chain(remark).collect()
}

/// The groups on one front, the best loss first, each with the seeds in which it is there.
fn front(
    evidence: &Evidence<'_>,
    of: &str,
    title: impl Fn(&Group) -> String,
    place: impl Fn(&Group) -> Place,
) -> Option<Sentence> {
    let mut front: Vec<&Group> = evidence.groups.iter().filter(|group| place(group).on).collect();
    let loss = |group: &Group| group.mean(HELD_OUT).unwrap_or(f64::NAN);
    front.sort_by(|a, b| loss(a).total_cmp(&loss(b)));
    let described = front.iter().map(|group| {
        let at = place(group);
        let seeds = match at.is_uncertain() {
            true => format!("; with {} of {} seeds", at.seeds, at.of),
            false => String::new(),
        };
        format!("{} ({}{seeds})", title(group), stated(group, HELD_OUT))
    });
    let described: Vec<String> = described.collect();
    let text = format!(
        "On the Pareto front of {of} and held-out loss, the best loss first: {}.",
        described.join(", ")
    );
    (!front.is_empty()).then(|| Sentence::about(text, Figures::Measured, front))
}

/// The methods that forget least and most, if their losses mean something and the gap is more than noise.
fn forgotten(evidence: &Evidence<'_>, title: impl Fn(&Group) -> String) -> Option<Sentence> {
    let stat = |group: &Group| group.stats.get(FORGETTING).copied().flatten();
    let known: Vec<&Group> = evidence.groups.iter().filter(|group| stat(group).is_some()).collect();
    let rise = |group: &Group| stat(group).map_or(f64::NAN, |stat| stat.mean);
    let least = known.iter().copied().min_by(|a, b| rise(a).total_cmp(&rise(b)))?;
    let most = known.iter().copied().max_by(|a, b| rise(a).total_cmp(&rise(b)))?;
    let is_beyond_noise = stat(least)?.is_beyond_noise(stat(most)?);
    if !evidence.losses.rank || is_beyond_noise == Some(false) || rise(least) >= rise(most) {
        return None;
    }
    let text = format!(
        "{} forgets least: the loss on other data changes by {}; {} forgets most, {}.",
        title(least),
        stated(least, FORGETTING),
        in_a_sentence(&title(most)),
        stated(most, FORGETTING),
    );
    Some(Sentence::about(text, Figures::Measured, [least, most]))
}

/// A group's loss with its spread.
fn stated(group: &Group, column: &str) -> String {
    let stat = group.stats.get(column).copied().flatten();
    stat.map_or_else(String::new, |stat| number(stat.into(), 3))
}

/// A title within a sentence: words in lower case, names of methods as they are.
fn in_a_sentence(title: &str) -> String {
    match ["Full", "Partial"].into_iter().find(|word| title.starts_with(word)) {
        Some(word) => format!("{}{}", word.to_lowercase(), &title[word.len()..]),
        None => title.to_owned(),
    }
}
