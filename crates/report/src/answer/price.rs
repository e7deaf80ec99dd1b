//! The speed that less memory costs.

use base::text::format::{number, rate};

use super::evidence::Evidence;
use super::extremes::{MEMORY, telling_memory};
use super::figures::Figures;
use super::naming::listed;
use super::sentence::Sentence;
use crate::front::front;
use crate::group::{Group, Stat};
use crate::speeds::{Speed, noise};

/// Axes that change what is trained. A smaller task needs less memory and runs faster, and nothing is traded.
const TASK: [&str; 2] = ["model", "max_seq_length"];

/// The most configurations that are compared with the fastest.
const MOST_COMPARED: usize = 3;

/// A measured configuration.
struct Candidate<'g> {
    group: &'g Group,
    memory: f64,
    speed: Stat,
    /// The relative spread of its steps or of its repeats; `None` if neither is known.
    noise: Option<f64>,
}

impl Candidate<'_> {
    /// True if this one is slower by no more than the noise of both.
    fn is_as_fast_as(&self, fastest: &Candidate<'_>) -> bool {
        let noise = fastest.noise.zip(self.noise).map(|(a, b)| a + b);
        noise.is_some_and(|noise| 1.0 - self.speed.mean / fastest.speed.mean <= noise)
    }
}

/// The trade between memory and speed, over the configurations that no other beats in both.
pub(super) fn sentence(evidence: &Evidence<'_>) -> Option<Sentence> {
    let groups = of_one_task(evidence);
    let telling = telling_memory(&groups, Figures::Measured);
    let (column, memory) = telling.unwrap_or(MEMORY[0]);
    let candidates: Vec<Candidate<'_>> = groups
        .into_iter()
        .filter_map(|group| candidate(group, column, evidence.speeds.of))
        .collect();
    if candidates.len() < 2 {
        return None;
    }
    if let Some(remark) = &evidence.speeds.remark {
        let groups = candidates.iter().map(|candidate| candidate.group);
        return Some(Sentence::about(remark, Figures::Measured, groups));
    }
    if telling.is_none() {
        return of_equal_memory(evidence, &candidates);
    }
    let at: Vec<Option<(f64, f64)>> = candidates
        .iter()
        .map(|candidate| Some((candidate.memory, -candidate.speed.mean)))
        .collect();
    let on_front = front(&at);
    let mut best: Vec<&Candidate<'_>> = candidates
        .iter()
        .zip(on_front)
        .filter_map(|(candidate, on_front)| on_front.then_some(candidate))
        .collect();
    best.sort_by(|a, b| b.speed.mean.total_cmp(&a.speed.mean));
    best.dedup_by(|a, b| a.memory == b.memory);
    let fastest = *best.first()?;
    let is_alike = |other: &Candidate<'_>| other.is_as_fast_as(fastest);
    // Nothing was traded if the cheapest is as fast as the fastest.
    if let Some(cheapest) = best.last().filter(|cheapest| best.len() > 1 && is_alike(cheapest)) {
        best = vec![cheapest];
    }
    let compared = |other: &&Candidate<'_>| {
        let times = number((other.memory / fastest.memory).into(), 2);
        let name = evidence.name(other.group);
        if is_alike(other) {
            return format!("{name} takes {times}× the {memory} at the same speed within noise");
        }
        let speed = number((other.speed.mean / fastest.speed.mean).into(), 2);
        format!("{name} takes {times}× the {memory} at {speed}× the speed")
    };
    let others = pick(&best[1..]);
    let (first, speed) = (best[0], rate(best[0].speed.mean.into()));
    let (named, unit) = (evidence.name(first.group), evidence.speeds.of.unit);
    let has_equal = || {
        let mut others = candidates
            .iter()
            .filter(|other| !std::ptr::eq(other.group, first.group));
        others.any(is_alike)
    };
    let mut text = if others.is_empty() && (first.speed.mean < fastest.speed.mean || has_equal()) {
        format!("{named} is the cheapest in {memory} and, within noise, as fast as any, at {speed} {unit}.")
    } else if others.is_empty() {
        format!("{named} is both the cheapest in {memory} and the fastest, at {speed} {unit}.")
    } else {
        let others: Vec<String> = others.iter().map(compared).collect();
        format!(
            "Compared with the fastest, {named} with {speed} {unit}, {}.",
            listed(&others)
        )
    };
    let shown: Vec<&Candidate<'_>> = std::iter::once(first).chain(others).collect();
    text += unknown_noise(&shown);
    let shown = shown.into_iter().map(|candidate| candidate.group);
    Some(Sentence::about(text, Figures::Measured, shown))
}

/// The fastest and the slowest of configurations whose memory does not differ.
fn of_equal_memory(evidence: &Evidence<'_>, candidates: &[Candidate<'_>]) -> Option<Sentence> {
    let by_speed = |a: &&Candidate<'_>, b: &&Candidate<'_>| a.speed.mean.total_cmp(&b.speed.mean);
    let fastest = candidates.iter().max_by(by_speed)?;
    let slowest = candidates.iter().min_by(by_speed)?;
    if fastest.speed.mean <= slowest.speed.mean {
        return None;
    }
    let shown = [fastest, slowest];
    let text = if slowest.is_as_fast_as(fastest) {
        "Memory and, within noise, speeds are alike, so neither is traded for the other.".to_owned()
    } else {
        format!(
            "Memory is alike; {} is the fastest with {} {}, and {} has {}× its speed.{}",
            evidence.name(fastest.group),
            rate(fastest.speed.mean.into()),
            evidence.speeds.of.unit,
            evidence.name(slowest.group),
            number((slowest.speed.mean / fastest.speed.mean).into(), 2),
            unknown_noise(&shown)
        )
    };
    let groups = shown.map(|candidate| candidate.group);
    Some(Sentence::about(text, Figures::Measured, groups))
}

fn unknown_noise(shown: &[&Candidate<'_>]) -> &'static str {
    match shown.iter().any(|candidate| candidate.noise.is_none()) {
        true => " The spread of these speeds is not known.",
        false => "",
    }
}

/// The measured configurations of one task: of several tasks, the last one that has two configurations.
fn of_one_task<'g>(evidence: &Evidence<'g>) -> Vec<&'g Group> {
    let task = |group: &Group| TASK.map(|axis| group.axes.get(axis).cloned());
    let known: Vec<&Group> = evidence.groups.iter().filter(|group| group.ok > 0).collect();
    let of = |wanted: &Group| -> Vec<&'g Group> {
        let alike = known.iter().filter(|group| task(group) == task(wanted));
        alike.copied().collect()
    };
    let mut tasks = known.iter().rev().map(|group| of(group));
    tasks.find(|groups| groups.len() > 1).unwrap_or_default()
}

fn candidate<'g>(group: &'g Group, column: &str, of: Speed) -> Option<Candidate<'g>> {
    let speed = Figures::Measured
        .stat(group, of.column)
        .filter(|speed| speed.mean > 0.0)?;
    Some(Candidate {
        group,
        memory: Figures::Measured.mean(group, column).filter(|memory| *memory > 0.0)?,
        noise: noise(group, of),
        speed,
    })
}

/// The cheapest of all, and as many between as there is room for.
fn pick<'c, 'g>(slower: &[&'c Candidate<'g>]) -> Vec<&'c Candidate<'g>> {
    let Some((cheapest, between)) = slower.split_last() else {
        return Vec::new();
    };
    let mut picked: Vec<&Candidate<'_>> = between.iter().copied().take(MOST_COMPARED - 1).collect();
    picked.push(cheapest);
    picked
}
