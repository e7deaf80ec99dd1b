//! The words above the table and below it.

use base::text::counted;
use base::text::format::{number, percent, reads_as_one};
use indexmap::IndexSet;
use results::setting;

use super::pair::{Noise, Pair};
use super::table::{DECIMALS, reads_as_zero};
use crate::answer::listed;
use crate::entry::Entry;
use crate::markdown::line_code as code;
use crate::methods::{FORGETTING, HELD_OUT, Method, RANDOM, are_random};

/// The paragraph: cost, then quality.
pub(super) fn sentences(pair: &Pair<'_>, only: &str, baseline: &str) -> Vec<String> {
    let mut sentences = vec![costs(pair, only, baseline)];
    if are_random(pair.groups()) {
        sentences.push(RANDOM.into());
        return sentences;
    }
    for (column, words) in [(HELD_OUT, "held-out loss"), (FORGETTING, "forgetting")] {
        if let Some((ours, theirs)) = pair.stats(column) {
            let difference = ours.mean - theirs.mean;
            let amount = number(difference.abs().into(), DECIMALS);
            let change = match difference {
                small if reads_as_zero(small) => format!("the same to {DECIMALS} decimals"),
                lower if lower < 0.0 => format!("{amount} lower"),
                _ => format!("{amount} higher"),
            };
            let noise = match Noise::of(ours, theirs) {
                _ if reads_as_zero(difference) => String::new(),
                Noise::Unknown([true, true]) => ", from single seeds, so the noise is not known".into(),
                Noise::Unknown([true, false]) => format!(", from one seed of {only}, so its noise is not known"),
                Noise::Unknown(_) => format!(", from one seed of {baseline}, so its noise is not known"),
                Noise::Less => ": more than the seeds differ".into(),
                Noise::More => ": no more than the seeds differ".into(),
            };
            sentences.push(format!("Its {words} is {change}{noise}."));
        }
    }
    sentences
}

/// The sentence of trained share, memory and time, and of the place of the pair.
fn costs(pair: &Pair<'_>, only: &str, baseline: &str) -> String {
    let factor = |column: &str| {
        let (ours, theirs) = pair.stats(column).filter(|(_, theirs)| theirs.mean != 0.0)?;
        Some(ours.mean / theirs.mean)
    };
    let share = Method::of(pair.only).trainable_share;
    let costs = [
        share.map(|share| format!("trains {} of the weights", percent(share.into()))),
        factor("allocated_peak_bytes").map(|factor| match reads_as_one(factor) {
            true => "peaks at the same allocated memory, to a hundredth".to_owned(),
            false => format!("peaks at {} times the allocated memory", number(factor.into(), 2)),
        }),
        factor("train_seconds")
            .filter(|_| pair.has_speeds())
            .map(|factor| match reads_as_one(factor) {
                true => "takes as long, to a hundredth".to_owned(),
                false => format!("takes {} times as long", number(factor.into(), 2)),
            }),
    ];
    let costs: Vec<String> = costs.into_iter().flatten().collect();
    let at = |place: &[String]| match place {
        [] => String::new(),
        place => format!(" at {}", code(&place.join(", "))),
    };
    let theirs = [&pair.shared[..], &pair.baseline_at].concat();
    let (only, baseline) = (
        format!("{only}{}", at(&pair.only_at)),
        format!("{baseline}{}", at(&theirs)),
    );
    match costs.is_empty() {
        true => format!("{only} is compared with {baseline}."),
        false => format!("Compared with {baseline}, {only} {}.", listed(&costs)),
    }
}

/// Where the figures come from.
pub(super) fn legend(pair: &Pair<'_>, study: &str) -> String {
    let groups = pair.groups();
    let cells = || groups.iter().flat_map(|group| &group.cells).filter(|cell| cell.is_ok());
    let each_once = |texts: IndexSet<String>| listed(&texts.into_iter().collect::<Vec<_>>());
    let methods = each_once(groups.map(Method::name_of).into());
    let machines = cells().filter_map(|cell| cell.text("machine_cpu"));
    let machines = match each_once(machines.map(str::to_owned).collect()) {
        none if none.is_empty() => none,
        machines => format!(" on {machines}"),
    };
    let setup = match each_once(cells().map(setup).collect()) {
        none if none.is_empty() => none,
        setup => format!(" Trained: {setup}."),
    };
    let ids: Vec<String> = cells().filter_map(short_id).collect();
    let seeds = groups.map(|group| counted(group.ok, "seed"));
    let seeds = match &seeds {
        [ours, theirs] if ours == theirs => format!("{ours} each"),
        [ours, theirs] => format!("{ours} and {theirs}"),
    };
    let spread = match groups.map(|group| group.ok > 1) {
        [false, false] => "",
        [true, true] => {
            " ± is the sample standard deviation over seeds; a difference beyond the spread is more than twice the larger one."
        }
        _ => " ± is the sample standard deviation over seeds.",
    };
    format!(
        "{methods} of `{study}`, {seeds}{machines}: {}.{setup}{spread}",
        ids.join(" ")
    )
}

/// What a cell was trained with: the model, the data, the steps and the learning rate, as far as its row says.
fn setup(cell: &Entry) -> String {
    let value = |key: &str| {
        let value = cell.get(key);
        (!value.is_null()).then(|| setting(key, value))
    };
    let parts = [
        value("model").map(|model| code(&model)),
        value("data").map(|data| format!("on {}", code(&data))),
        cell.number("steps")
            .map(|steps| format!("{} steps", number(steps.into(), 0))),
        value("learning_rate").map(|rate| format!("at a learning rate of {rate}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn short_id(cell: &Entry) -> Option<String> {
    let id = cell.text("cell_id")?;
    Some(code(id.get(..6).unwrap_or(id)))
}

#[cfg(test)]
mod tests {
    use results::datum::Datum;

    use super::*;
    use crate::group::groups;

    /// A seed of the configuration `group`.
    fn seed(group: &str, seed: u64, loss: f64, machine: &str) -> Entry {
        let values = [
            ("cell_id", Datum::from(format!("{group}{seed}").as_str())),
            ("group_id", group.into()),
            ("status", "ok".into()),
            ("weights", "pretrained".into()),
            ("machine_cpu", machine.into()),
            ("loss_eval", loss.into()),
        ];
        values.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
    }

    fn with_pair(cells: &[Entry], check: impl Fn(&Pair<'_>)) {
        let groups = groups(cells, &[]);
        check(&Pair {
            only: &groups[0],
            baseline: &groups[1],
            shared: vec!["rank 8".into()],
            only_at: vec!["learning_rate 1e-4".into()],
            baseline_at: vec!["learning_rate 2e-4".into()],
        });
    }

    #[test]
    fn both_sides_say_where_they_are() {
        let cells = [seed("a", 0, 2.0, "X"), seed("b", 0, 2.1, "X")];
        with_pair(&cells, |pair| {
            assert_eq!(
                sentences(pair, "`A`", "`B`"),
                [
                    "`A` at `learning_rate 1e-4` is compared with `B` at `rank 8, learning_rate 2e-4`.",
                    "Its held-out loss is 0.100 lower, from single seeds, so the noise is not known.",
                ]
            );
        });
    }

    #[test]
    fn differences_are_said_as_far_as_they_are_known() {
        let said = |cells: &[Entry], words: &str| {
            with_pair(cells, |pair| {
                let said = sentences(pair, "`A`", "`B`").join(" ");
                assert!(said.contains(words), "{said}");
            });
        };
        let equal = [seed("a", 0, 2.0001, "X"), seed("b", 0, 2.0, "X")];
        said(&equal, "Its held-out loss is the same to 3 decimals.");
        let one = [seed("a", 0, 2.0, "X"), seed("a", 1, 2.1, "X"), seed("b", 0, 2.0, "X")];
        said(&one, "0.050 higher, from one seed of `B`, so its noise is not known.");
        let other = [seed("a", 0, 2.0, "X"), seed("b", 0, 2.1, "X"), seed("b", 1, 2.3, "X")];
        said(&other, "0.200 lower, from one seed of `A`, so its noise is not known.");
    }

    #[test]
    fn each_machine_is_named_once() {
        let cells = [seed("a", 0, 2.0, "X"), seed("a", 1, 2.0, "Y"), seed("b", 0, 2.0, "X")];
        with_pair(&cells, |pair| {
            assert_eq!(
                legend(pair, "study"),
                "LoRA of `study`, 2 seeds and 1 seed on X and Y: `a0` `a1` `b0`. ± is the sample standard deviation over seeds."
            );
        });
    }
}
