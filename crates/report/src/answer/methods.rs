//! The choice between methods.

use base::text::format::{number, percent, ratio};

use super::evidence::Evidence;
use super::figures::Figures;
use super::naming::listed;
use super::own::Said;
use super::sentence::Sentence;
use super::{extremes, tuned};
use crate::front::Place;
use crate::group::{BEYOND_NOISE, Group, Stat};
use crate::markdown::escape;
use crate::methods::{FORGETTING, HELD_OUT, Method, Titles, methods};

/// The cheapest and the dearest method, each method compared with full fine-tuning, the fronts of loss against cost,
/// and what is forgotten.
pub(super) fn sentences(evidence: &Evidence<'_>) -> Vec<(u8, Sentence)> {
    let titles = Titles::new(evidence.groups.iter().collect(), evidence.axes);
    let title = |group: &Group| escape(&titles.of(group));
    let methods = methods(evidence.groups);
    let said = Said::by(evidence);
    let mut sentences: Vec<(u8, Sentence)> = Vec::new();
    if !said.memory {
        let extremes = extremes::sentences(evidence, Figures::Measured, title).into_iter();
        sentences.extend(extremes.map(|sentence| (1, sentence)));
        sentences.extend(against_full(&methods, title).into_iter().map(|sentence| (2, sentence)));
    }
    sentences.extend(by_loss(evidence, title).into_iter().map(|sentence| (0, sentence)));
    if !said.loss {
        sentences.extend(tuned::sentence(evidence).map(|sentence| (0, sentence)));
        sentences.extend(forgotten(evidence, title).map(|sentence| (0, sentence)));
    }
    sentences
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
fn by_loss(evidence: &Evidence<'_>, title: impl Fn(&Group) -> String + Copy) -> Vec<Sentence> {
    let losses = evidence.losses;
    let remark = losses.remark.unwrap_or_default();
    if !losses.rank {
        let because = (!remark.is_empty()).then(|| Sentence::about(remark, Figures::Measured, []));
        return because.into_iter().collect();
    }
    let of_memory = front(evidence, "peak memory", title, |group| group.pareto.memory);
    let of_file = front(evidence, "the file's size", title, |group| group.pareto.file);
    let remark = (!remark.is_empty()).then(|| Sentence::about(remark, Figures::Measured, []));
    of_memory.into_iter().chain(of_file).chain(remark).collect()
}

/// The groups on one front, the best loss first, each with the seeds in which it is there.
fn front(
    evidence: &Evidence<'_>,
    of: &str,
    title: impl Fn(&Group) -> String + Copy,
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
        "On the Pareto front of {of} and held-out loss, the best loss first: {}.{}",
        described.join(", "),
        apart(&front, title)
    );
    (!front.is_empty()).then(|| Sentence::about(text, Figures::Measured, front))
}

/// Which neighbours on a front differ in their loss by more than the seeds do; empty if the noise is not known.
fn apart(front: &[&Group], title: impl Fn(&Group) -> String) -> String {
    let stat = |group: &Group| group.stats.get(HELD_OUT).copied().flatten();
    let beyond = |pair: &[&Group]| stat(pair[0])?.is_beyond_noise(stat(pair[1])?);
    let pairs: Vec<(&[&Group], bool)> = front
        .windows(2)
        .filter_map(|pair| Some((pair, beyond(pair)?)))
        .collect();
    let alike: Vec<String> = pairs
        .iter()
        .filter(|(_, is_beyond)| !is_beyond)
        .map(|(pair, _)| format!("{} and {}", title(pair[0]), title(pair[1])))
        .collect();
    match (pairs.len(), alike.len()) {
        (0, _) => String::new(),
        (_, 0) => " Each loss differs from the next by more than twice the spread over seeds.".to_owned(),
        (all, some) if all == some => {
            " No loss differs from the next by more than twice the spread over seeds.".to_owned()
        }
        _ => format!(
            " No more than twice the spread over seeds lies between {}.",
            alike.join(", between ")
        ),
    }
}

/// The methods that forget least and most, if their losses mean something and the gap is more than noise; or that none
/// forgets. Methods that differ from the first by noise alone share its place.
fn forgotten(evidence: &Evidence<'_>, title: impl Fn(&Group) -> String) -> Option<Sentence> {
    let stat = |group: &Group| group.stats.get(FORGETTING).copied().flatten();
    let mut known: Vec<&Group> = evidence.groups.iter().filter(|group| stat(group).is_some()).collect();
    let rise = |group: &Group| stat(group).map_or(f64::NAN, |stat| stat.mean);
    known.sort_by(|a, b| rise(a).total_cmp(&rise(b)));
    let (&least, &most) = (known.first()?, known.last()?);
    let is_noise =
        |group: &Group, other: &Group| stat(group)?.is_beyond_noise(stat(other)?).map(|is_beyond| !is_beyond);
    if !evidence.losses.rank {
        return None;
    }
    let described = |group: &Group| format!("{} ({})", title(group), stated(group, FORGETTING));
    if known.iter().all(|group| !stat(group).is_some_and(is_a_rise)) {
        let from_to: Vec<String> = [least, most].map(described).to_vec();
        let text = match known.len() {
            1 => format!(
                "Nothing is forgotten: the loss on other data does not rise with {}.",
                from_to[0]
            ),
            _ => format!(
                "No method forgets: no loss on other data rises beyond noise; the changes go from {} to {}.",
                from_to[0], from_to[1]
            ),
        };
        return Some(Sentence::about(text, Figures::Measured, [least, most]));
    }
    if is_noise(least, most) == Some(true) || rise(least) >= rise(most) {
        return None;
    }
    let alike = |first: &Group| -> Vec<&Group> {
        let is_alike = |group: &&Group| std::ptr::eq(*group, first) || is_noise(group, first) == Some(true);
        known.iter().copied().filter(is_alike).collect()
    };
    let (mut lowest, mut highest) = (alike(least), alike(most));
    // What is like both is neither.
    let both: Vec<&Group> = lowest
        .iter()
        .copied()
        .filter(|group| highest.iter().any(|other| std::ptr::eq(*other, *group)))
        .collect();
    let is_one = |group: &&Group| !both.iter().any(|other| std::ptr::eq(*other, *group));
    lowest.retain(is_one);
    highest.retain(is_one);
    let names = |groups: &[&Group]| listed(&groups.iter().map(|group| title(group)).collect::<Vec<_>>());
    let changes = |groups: &[&Group]| listed(&groups.iter().map(|group| stated(group, FORGETTING)).collect::<Vec<_>>());
    let verb = |groups: &[&Group]| if groups.len() == 1 { "forgets" } else { "forget" };
    let text = format!(
        "{} {} least: the loss on other data changes by {}; {} {} most, {}.",
        names(&lowest),
        verb(&lowest),
        changes(&lowest),
        in_a_sentence(&names(&highest)),
        verb(&highest),
        changes(&highest),
    );
    Some(Sentence::about(
        text,
        Figures::Measured,
        lowest.into_iter().chain(highest),
    ))
}

/// True if a loss rises by more than noise.
fn is_a_rise(rise: Stat) -> bool {
    rise.mean > BEYOND_NOISE * rise.deviation.unwrap_or(0.0)
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

#[cfg(test)]
mod tests {
    use super::super::testing::{answers, cell, with};

    /// The answer about forgetting of methods, each with the changes of its loss over the seeds.
    fn sentences(methods: &[(&str, [f64; 2])]) -> Vec<String> {
        let mut cells = Vec::new();
        for (at, (adapter, changes)) in methods.iter().enumerate() {
            for (seed, change) in changes.iter().enumerate() {
                let mut entry = cell(
                    &format!("{adapter}{seed}"),
                    [
                        ("status", "ok".into()),
                        ("weights", "pretrained".into()),
                        ("rank", 8_u64.into()),
                        ("adapter", (*adapter).into()),
                        ("seed", (seed as u64).into()),
                        ("loss_eval", (4.0 + at as f64).into()),
                        ("forgetting", (*change).into()),
                    ],
                );
                entry.set("group_id", (*adapter).into());
                cells.push(entry);
            }
        }
        let sentences = answers(&cells, &["adapter"]).methods;
        sentences.into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn losses_that_fall_forget_nothing() {
        let found = sentences(&[("dora", [-0.10, -0.06]), ("vera", [-0.03, 0.01])]);
        assert_eq!(
            with(&found, "forgets"),
            "No method forgets: no loss on other data rises beyond noise; the changes go from DoRA (-0.080 ± 0.028) to \
             VeRA (-0.010 ± 0.028)."
        );
        assert!(!found.iter().any(|text| text.contains("most")), "{found:#?}");
    }

    #[test]
    fn methods_within_the_spread_share_a_place() {
        let found = sentences(&[("dora", [0.10, 0.12]), ("lora", [0.50, 0.52]), ("vera", [0.51, 0.53])]);
        assert_eq!(
            with(&found, "least"),
            "DoRA forgets least: the loss on other data changes by 0.110 ± 0.014; LoRA and VeRA forget most, 0.510 ± \
             0.014 and 0.520 ± 0.014."
        );
        let alike = sentences(&[("dora", [0.10, 0.12]), ("lora", [0.11, 0.13])]);
        assert!(!alike.iter().any(|text| text.contains("forget")), "{alike:#?}");
    }
}
