//! The configurations that are compared with each other.

use results::datum::Datum;

use super::pick::Pick;
use crate::axes::last_part;
use crate::group::{Group, Stat};
use crate::speeds::speeds;

/// Two configurations that differ in the method alone.
pub(super) struct Pair<'g> {
    /// The configuration of `--only`.
    pub only: &'g Group,
    /// The one that it is compared with.
    pub baseline: &'g Group,
    /// The axes with the values that both share, where other pairs have others: `rank 8`.
    pub shared: Vec<String>,
    /// What tells `only` from `baseline` or from the same method in other pairs, besides its name.
    pub only_at: Vec<String>,
    /// What tells `baseline` from `only` or from its own method in other pairs, besides its name.
    pub baseline_at: Vec<String>,
}

/// The noise of two figures beside their difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noise {
    /// Seeds differ by less than the two figures do; see [`Stat::is_beyond_noise`].
    Less,
    /// Seeds differ as much.
    More,
    /// Not known: true for each side that has one seed.
    Unknown([bool; 2]),
}

impl Noise {
    /// The noise of our figure and theirs.
    pub(super) fn of(ours: Stat, theirs: Stat) -> Self {
        match ours.is_beyond_noise(theirs) {
            Some(true) => Self::Less,
            Some(false) => Self::More,
            None => Self::Unknown([ours, theirs].map(|stat| stat.deviation.is_none())),
        }
    }
}

impl<'g> Pair<'g> {
    fn new(only: &'g Group, baseline: &'g Group) -> Self {
        Self {
            only,
            baseline,
            shared: Vec::new(),
            only_at: Vec::new(),
            baseline_at: Vec::new(),
        }
    }

    /// Both configurations.
    pub(super) fn groups(&self) -> [&'g Group; 2] {
        [self.only, self.baseline]
    }

    /// A column's figures of both; `None` if one of the two lacks them.
    pub(super) fn stats(&self, column: &str) -> Option<(Stat, Stat)> {
        let of = |group: &Group| {
            let stat = group.stats.get(column).copied().flatten();
            stat.filter(|stat| stat.mean.is_finite())
        };
        of(self.only).zip(of(self.baseline))
    }

    /// True if the noise of the speeds allows to compare them.
    pub(super) fn has_speeds(&self) -> bool {
        speeds(self.groups()).comparable
    }
}

/// The configurations of both sides that agree in the axes that neither side says. If each side has only one, they are
/// a pair whatever their axes are: methods are compared at their own best rates.
pub(super) fn pairs<'g>(
    groups: &'g [Group],
    axes: &[String],
    only: &Pick,
    baseline: &Pick,
) -> Result<Vec<Pair<'g>>, String> {
    let named = |pick: &Pick| groups.iter().filter(|group| pick.has(group)).collect::<Vec<_>>();
    let sides = [(only, named(only)), (baseline, named(baseline))];
    for (pick, of) in &sides {
        if of.iter().all(|group| group.ok == 0) {
            return Err(format!("no cell of `{pick}` has a result"));
        }
    }
    let [(_, ours), (_, theirs)] = &sides;
    let said = said(axes, &sides);
    let others: Vec<&String> = axes.iter().filter(|axis| !said.contains(axis)).collect();
    // A cell that failed may have been the right partner, so it counts.
    let are_single = ours.len() == 1 && theirs.len() == 1;
    let ok = |of: &[&'g Group]| of.iter().copied().filter(|group| group.ok > 0).collect::<Vec<_>>();
    let mut pairs = Vec::new();
    for ours in ok(ours) {
        let different = ok(theirs).into_iter().filter(|theirs| !is_same(ours, theirs));
        let alike = different.filter(|theirs| are_single || others.iter().all(|axis| agree(ours, theirs, axis)));
        pairs.extend(alike.map(|theirs| Pair::new(ours, theirs)));
    }
    if pairs.is_empty() {
        let others: Vec<&str> = others.iter().map(|axis| axis.as_str()).collect();
        return Err(match are_single {
            true => format!("`{only}` and `{baseline}` are the same cells"),
            false => format!(
                "no two cells of `{only}` and `{baseline}` agree in all else ({})",
                others.join(", ")
            ),
        });
    }
    say_places(&mut pairs, axes, [only, baseline]);
    Ok(pairs)
}

/// The axes that the names of the two sides say, so that their cells need not agree in them: the axis of a value, and
/// those that belong to a method, if the two have no value in common.
fn said<'a>(axes: &'a [String], sides: &[(&Pick, Vec<&Group>); 2]) -> Vec<&'a String> {
    let [(_, ours), (_, theirs)] = sides;
    let is_disjoint = |axis: &str| {
        let mut pairs = ours.iter().flat_map(|one| theirs.iter().map(move |other| (one, other)));
        pairs.all(|(one, other)| set(one, axis) != set(other, axis))
    };
    let is_said = |axis: &&String| {
        let is_said_by = |pick: &Pick| pick.is_value_of(axis) || pick.says(axis) && is_disjoint(axis);
        sides.iter().any(|(pick, _)| is_said_by(pick))
    };
    axes.iter().filter(is_said).collect()
}

fn is_same(one: &Group, other: &Group) -> bool {
    one.cells[0].text("group_id") == other.cells[0].text("group_id")
}

/// True if two configurations have one value of an axis, or one of them does not have the axis at all.
fn agree(one: &Group, other: &Group, axis: &str) -> bool {
    one.cells[0].get(axis) == other.cells[0].get(axis) || !has(one, axis) || !has(other, axis)
}

/// True if the axis means something to a configuration, also if it leaves it open. Training of all weights has no rank.
fn has(group: &Group, axis: &str) -> bool {
    let cell = &group.cells[0];
    cell.heeds(axis) && !(axis == "rank" && *cell.get(axis) == Datum::Int(0))
}

/// The text of the axis' value; `None` if it means nothing to the configuration.
fn set<'g>(group: &'g Group, axis: &str) -> Option<&'g str> {
    let value = group.axes.get(axis).map(String::as_str);
    value.filter(|_| has(group, axis))
}

/// Tells each pair where it is among the pairs, and what else its configurations differ in.
fn say_places(pairs: &mut [Pair<'_>], axes: &[String], picks: [&Pick; 2]) {
    for axis in axes {
        let in_words = |group: &Group| {
            let value = set(group, axis)?;
            let is_open = group.cells[0].get(axis).is_null();
            Some(format!("{} {}", last_part(axis), if is_open { "unset" } else { value }))
        };
        let values: Vec<[Option<String>; 2]> = pairs.iter().map(|pair| pair.groups().map(in_words)).collect();
        let varies = [0, 1].map(|side: usize| values.iter().any(|value| value[side] != values[0][side]));
        let is_value = picks.map(|pick| pick.is_value_of(axis));
        let is_named = picks.map(|pick| pick.says(axis));
        for (pair, [ours, theirs]) in pairs.iter_mut().zip(values) {
            let are_equal = ours == theirs;
            if are_equal && is_value == [false; 2] {
                pair.shared.extend(ours.filter(|_| varies[0] || varies[1]));
                continue;
            }
            let differ = ours.is_some() && theirs.is_some() && !are_equal;
            let is_told = |side: usize| !is_value[side] && (varies[side] || differ && !is_named[side]);
            pair.only_at.extend(ours.filter(|_| is_told(0)));
            pair.baseline_at.extend(theirs.filter(|_| is_told(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::group::groups;
    use crate::one_method::pick::pick;

    /// A finished cell of its own configuration.
    fn cell(id: &str, values: &[(&str, Datum)]) -> Entry {
        let own = [("cell_id", id.into()), ("group_id", id.into()), ("status", "ok".into())];
        let all = own.into_iter().chain(values.iter().cloned());
        all.map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// The pairs of two words: the ids, and the places in words.
    fn paired(cells: &[Entry], axes: &[&str], only: &str, baseline: &str) -> Result<Vec<String>, String> {
        let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
        let groups = groups(cells, &axes);
        let pick = |word| pick(&groups, &axes, word).unwrap();
        let pairs = pairs(&groups, &axes, &pick(only), &pick(baseline))?;
        let id = |group: &Group| group.cells[0].text("cell_id").unwrap().to_owned();
        let place = |words: &[String]| words.join(", ");
        let text = |pair: &Pair<'_>| {
            let [ours, theirs] = pair.groups().map(id);
            let places = [&pair.shared, &pair.only_at, &pair.baseline_at].map(|words| place(words));
            format!("{ours} {theirs}: {}", places.join(" | "))
        };
        Ok(pairs.iter().map(text).collect())
    }

    #[test]
    fn a_key_that_a_method_does_not_heed_agrees_with_any_value() {
        let vera = |id: &str, rate: f64| {
            let keys = [("adapter", "vera".into()), ("learning_rate", rate.into())];
            cell(id, &keys)
        };
        let lora = |id: &str, dropout: f64, rate: f64| {
            let keys = [
                ("adapter", "lora".into()),
                ("lora_dropout", dropout.into()),
                ("learning_rate", rate.into()),
            ];
            cell(id, &keys)
        };
        let cells = [
            vera("v1", 1e-2),
            vera("v2", 1.0),
            lora("l1", 0.0, 1e-2),
            lora("l2", 0.1, 1e-2),
        ];
        let axes = ["adapter", "lora_dropout", "learning_rate"];
        assert_eq!(
            paired(&cells, &axes, "vera", "lora").unwrap(),
            ["v1 l1:  |  | lora_dropout 0", "v1 l2:  |  | lora_dropout 0.1"]
        );
    }

    #[test]
    fn a_key_that_is_left_open_agrees_with_no_value() {
        let of = |id: &str, adapter: &str, layers: Datum| {
            let keys = [("adapter", adapter.into()), ("layers_to_transform", layers)];
            cell(id, &keys)
        };
        let cells = [
            of("l1", "lora", Datum::Null),
            of("l2", "lora", "[0]".into()),
            of("d1", "dora", Datum::Null),
            of("d2", "dora", "[1]".into()),
        ];
        let axes = ["adapter", "layers_to_transform"];
        assert_eq!(paired(&cells, &axes, "dora", "lora").unwrap(), ["d1 l1:  |  | "]);
        let error = paired(&cells[1..], &axes, "dora", "lora").unwrap_err();
        assert_eq!(
            error,
            "no two cells of `dora` and `lora` agree in all else (layers_to_transform)"
        );
    }

    #[test]
    fn a_method_says_keys_in_which_it_has_values_of_its_own() {
        let of = |id: &str, dtype: &str, ratio: f64| {
            let keys = [("dtype", dtype.into()), ("lora.loraplus_lr_ratio", ratio.into())];
            cell(id, &keys)
        };
        let cells = [
            of("f", "float32", 1.0),
            of("b", "bfloat16", 1.0),
            of("q", "int4", 1.0),
            of("p", "float32", 16.0),
        ];
        let axes = ["dtype", "lora.loraplus_lr_ratio"];
        assert_eq!(
            paired(&cells[..3], &axes, "QLoRA", "LoRA").unwrap(),
            ["q f:  |  | dtype float32", "q b:  |  | dtype bfloat16"]
        );
        assert_eq!(
            paired(&cells, &axes, "loraplus_lr_ratio=16", "loraplus_lr_ratio=1").unwrap(),
            ["p f:  |  | "]
        );
    }

    #[test]
    fn two_single_configurations_are_a_pair_that_says_how_they_differ() {
        let of = |id: &str, adapter: &str, rate: f64, rank: u64| {
            let keys = [
                ("adapter", adapter.into()),
                ("learning_rate", rate.into()),
                ("rank", rank.into()),
            ];
            cell(id, &keys)
        };
        let cells = [
            of("l", "lora", 2e-4, 8),
            of("d", "dora", 1e-4, 8),
            of("i", "ia3", 1e-2, 8),
        ];
        let axes = ["adapter", "learning_rate", "rank"];
        assert_eq!(
            paired(&cells, &axes, "dora", "lora").unwrap(),
            ["d l:  | learning_rate 1e-4 | learning_rate 2e-4"]
        );
        assert_eq!(
            paired(&cells, &axes, "lora", "lora").unwrap_err(),
            "`lora` and `lora` are the same cells"
        );
    }
}
