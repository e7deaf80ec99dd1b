//! The methods that a study compares: their names, what they train, and whether their losses can be compared.

use options::Adapter;
use results::all_parameters;
use results::datum::Datum;
use results::trainable_share;
use serde::Serialize;

use super::entry::Entry;
use super::group::{BEYOND_NOISE, Group, SavedFile};
use super::labels::Labels;

/// A group as a method of fine-tuning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Method {
    /// The name in the literature, such as `QLoRA`.
    pub name: String,
    /// The group.
    pub group: Group,
    /// All weights, with those of the adapters; `None` without a measurement.
    pub parameters: Option<f64>,
    /// Trained weights over all weights.
    pub trainable_share: Option<f64>,
    /// The file that the method saves.
    pub file: Option<SavedFile>,
}

impl Method {
    /// A group as a method.
    pub(crate) fn of(group: &Group) -> Self {
        let cell = &group.cells[0];
        // A method without ranks has one of 1 here: its adapters are not among the model's weights.
        let rank = cell.get("rank").as_int().unwrap_or(1);
        let counts = group.mean("parameter_count").zip(group.mean("trainable_count"));
        Self {
            name: Self::name_of(group),
            parameters: counts.map(|(all, trained)| all_parameters(rank, all, trained)),
            trainable_share: counts.and_then(|(all, trained)| trainable_share(rank, all, trained)),
            file: group.file(),
            group: group.clone(),
        }
    }

    /// The name of a group's method.
    pub(crate) fn name_of(group: &Group) -> String {
        name(&group.cells[0])
    }
}

/// The groups as methods.
pub(crate) fn methods(groups: &[Group]) -> Vec<Method> {
    groups.iter().map(Method::of).collect()
}

/// Short titles of groups: the name of the method, and the axes in which groups of that name differ.
#[derive(Debug, Clone)]
pub(crate) struct Titles<'a> {
    groups: Vec<&'a Group>,
    axes: &'a [String],
}

impl<'a> Titles<'a> {
    /// Titles that tell these groups from each other.
    pub(crate) fn new(groups: Vec<&'a Group>, axes: &'a [String]) -> Self {
        Self { groups, axes }
    }

    /// The title of a group.
    pub(crate) fn of(&self, group: &Group) -> String {
        let name = Method::name_of(group);
        let namesakes = self.groups.iter().copied();
        let namesakes: Vec<&Group> = namesakes.filter(|other| Method::name_of(other) == name).collect();
        match namesakes.len() {
            0 | 1 => name,
            _ => format!("{name}, {}", Labels::new(&namesakes, self.axes).of(group)),
        }
    }
}

/// The keys that make a method what it is, as [`name`] reads them, and whether the name says their value in full.
const OF_METHODS: [(&str, bool); 8] = [
    ("adapter", true),
    ("dtype", false),
    ("optim", false),
    ("trainable", false),
    ("lora.use_rslora", true),
    ("lora.loraplus_lr_ratio", false),
    ("lora.init_lora_weights", true),
    ("lora_fa", true),
];

/// True if the axis is a part of what makes a method.
pub(crate) fn is_of_methods(axis: &str) -> bool {
    OF_METHODS.iter().any(|(key, _)| *key == axis)
}

/// The axes that a table shows beside the names of the methods.
pub(crate) fn axes_beside_names(axes: &[String]) -> Vec<String> {
    let unsaid = axes.iter().filter(|axis| !OF_METHODS.contains(&(axis.as_str(), true)));
    unsaid.cloned().collect()
}

/// The name of a cell's method.
pub fn name(cell: &Entry) -> String {
    // A method may have no rank.
    let has_adapter = cell.number("rank").is_none_or(|rank| rank > 0.0);
    if !has_adapter {
        return without_adapter(cell).to_owned();
    }
    let adapter = match cell.text("adapter") {
        // A frame that was kept before there was a choice.
        None => Adapter::Lora,
        Some(word) => match Adapter::named(word) {
            Some(adapter) => adapter,
            None => return "Adapters of another release".to_owned(),
        },
    };
    let base = adapter.facts().title;
    let mut variants = variants(cell);
    // A variant of LoRA has a name of its own; one of DoRA has none.
    if adapter != Adapter::Lora || variants.is_empty() {
        variants.insert(0, base);
    }
    let name = variants.join(" with ");
    match cell.text("dtype") {
        Some("int4") if name == "LoRA" || name == "DoRA" => format!("Q{name}"),
        Some(format @ ("int4" | "int8")) => format!("{name} on {format}"),
        _ => name,
    }
}

fn without_adapter(cell: &Entry) -> &'static str {
    match (cell.text("optim"), cell.text("trainable")) {
        (Some("galore"), _) => "GaLore",
        (Some("rsvd"), None) => "Full fine-tuning, rSVD states",
        (Some("rsvd"), Some(_)) => "Partial fine-tuning, rSVD states",
        (_, None) => "Full fine-tuning",
        (_, Some("[bias]")) => "BitFit",
        (_, Some("[.*norm]")) => "LayerNorm tuning without PEFT",
        (_, Some(_)) => "Partial fine-tuning",
    }
}

/// The names of LoRA's variants that a cell uses.
fn variants(cell: &Entry) -> Vec<&'static str> {
    let variants = [
        (
            "LoRA+",
            cell.number("lora.loraplus_lr_ratio").is_some_and(|ratio| ratio != 1.0),
        ),
        ("LoRA-FA", cell.text("lora_fa") == Some("frozen")),
        ("rsLoRA", *cell.get("lora.use_rslora") == Datum::Bool(true)),
        ("PiSSA", cell.text("lora.init_lora_weights") == Some("pissa")),
        ("OLoRA", cell.text("lora.init_lora_weights") == Some("olora")),
    ];
    let used = variants.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(name, _)| name).collect()
}

/// Whether the methods can be ranked by their losses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Losses {
    /// True if held-out losses rank the methods.
    pub rank: bool,
    /// A sentence: why they do not, or what is not known of them. `None` if there is nothing to say.
    pub remark: Option<&'static str>,
}

/// The column of the loss on held-out data.
pub(crate) const HELD_OUT: &str = "loss_eval";

/// The column of the rise of the loss on other data.
pub(crate) const FORGETTING: &str = "forgetting";

/// The sentence about groups that are random.
pub(crate) const RANDOM: &str = "Weights are random, so losses say nothing about the methods.";

/// True if a group starts from random weights, whose losses say nothing.
pub(crate) fn are_random<'g>(groups: impl IntoIterator<Item = &'g Group>) -> bool {
    let mut groups = groups.into_iter();
    groups.any(|group| group.cells[0].text("weights") == Some("random"))
}

/// The judgement on the losses of these groups.
pub(crate) fn losses(groups: &[Group]) -> Losses {
    let no = |remark| Losses {
        rank: false,
        remark: Some(remark),
    };
    let measured: Vec<&Group> = groups.iter().filter(|group| group.ok > 0).collect();
    let stats: Vec<_> = measured
        .iter()
        .filter_map(|group| group.stats.get(HELD_OUT).copied().flatten())
        .filter(|stat| stat.mean.is_finite())
        .collect();
    if measured.len() < 2 {
        return Losses {
            rank: false,
            remark: None,
        };
    }
    if are_random(measured.iter().copied()) {
        return no(RANDOM);
    }
    if stats.len() < measured.len() {
        return no("Not every method has a loss on held-out data, and a training loss does not rank methods.");
    }
    let spread = stats.iter().filter_map(|stat| stat.deviation).fold(0.0, f64::max);
    let means = || stats.iter().map(|stat| stat.mean);
    let range = means().fold(f64::MIN, f64::max) - means().fold(f64::MAX, f64::min);
    if range <= BEYOND_NOISE * spread {
        return no(
            "Held-out losses differ by no more than twice their spread over seeds, so they do not rank the methods.",
        );
    }
    let is_alone = stats.iter().any(|stat| stat.n < 2);
    Losses {
        rank: true,
        remark: is_alone.then_some("Not every method has several seeds, so the noise of the losses is not known."),
    }
}

#[cfg(test)]
mod tests {
    use cell::{Cell, Dtype, Optimizer, Weights};
    use records::sample;
    use results::frame::{Row, build};
    use spec::Lineage;

    use super::*;
    use crate::entry::entries;
    use crate::group::groups;

    /// A group for each list of held-out losses, a repeat for each loss.
    fn groups_of(losses: &[&[Option<f64>]], weights: Weights) -> Vec<Group> {
        let mut cells = Vec::new();
        for (group, repeats) in losses.iter().enumerate() {
            for (seed, loss) in repeats.iter().enumerate() {
                let cell = Cell {
                    rank: group + 1,
                    seed: seed as u64,
                    weights: Some(weights),
                    ..Cell::default()
                };
                cells.push((cell.id(), cell, *loss));
            }
        }
        let records = cells.iter().map(|(id, _, loss)| {
            let mut record = sample::ok(id);
            record.measured.as_mut().unwrap().loss_eval = *loss;
            record
        });
        let records: Vec<_> = records.collect();
        let rows = cells.iter().zip(&records).map(|((cell_id, cell, _), record)| Row {
            cell_id,
            cell,
            lineage: &Lineage::Written,
            record: Some(record),
            hides_speeds: false,
            prediction: None,
        });
        let frame = build(&rows.collect::<Vec<_>>()).unwrap();
        groups(&entries(&frame).unwrap(), &["rank".to_owned()])
    }

    fn judged(losses_of: &[&[f64]]) -> (bool, &'static str) {
        let some: Vec<Vec<Option<f64>>> = losses_of
            .iter()
            .map(|of| of.iter().copied().map(Some).collect())
            .collect();
        let some: Vec<&[Option<f64>]> = some.iter().map(Vec::as_slice).collect();
        let losses = losses(&groups_of(&some, Weights::Pretrained));
        (losses.rank, losses.remark.unwrap_or_default())
    }

    #[test]
    fn losses_rank_methods_only_beyond_their_noise() {
        let (ranks, remark) = judged(&[&[2.0, 2.1], &[1.0, 1.1]]);
        assert!(ranks && remark.is_empty(), "{remark}");
        let (ranks, remark) = judged(&[&[2.0, 2.4], &[2.1, 2.5]]);
        assert!(!ranks && remark.contains("spread over seeds"), "{remark}");
        let (ranks, remark) = judged(&[&[2.0], &[1.0]]);
        assert!(ranks && remark.contains("noise of the losses is not known"), "{remark}");
        assert_eq!(judged(&[&[2.0]]), (false, ""), "one method is no choice");
        let (ranks, remark) = judged(&[&[2.0], &[f64::NAN]]);
        assert!(!ranks && remark.contains("held-out data"), "{remark}");
    }

    #[test]
    fn losses_without_a_meaning_rank_nothing() {
        let random = losses(&groups_of(&[&[Some(2.0)], &[Some(1.0)]], Weights::Random));
        assert!(!random.rank && random.remark.unwrap().contains("random"));
        let missing = losses(&groups_of(&[&[Some(2.0)], &[None]], Weights::Pretrained));
        assert!(!missing.rank && missing.remark.unwrap().contains("held-out data"));
    }

    #[test]
    fn a_method_is_named_as_in_the_literature() {
        let name_of = |rank, adapter, dtype, optim| {
            let cell = Cell {
                rank,
                adapter,
                dtype,
                optim,
                ..Cell::default()
            };
            let id = cell.id();
            let row = Row {
                cell_id: &id,
                cell: &cell,
                lineage: &Lineage::Written,
                record: None,
                hides_speeds: false,
                prediction: None,
            };
            super::name(&entries(&build(&[row]).unwrap()).unwrap()[0])
        };
        let name = |rank, dtype, optim| name_of(rank, Adapter::Lora, dtype, optim);
        let dora = |dtype| name_of(8, Adapter::Dora, dtype, Optimizer::Adamw);
        let names = [Dtype::Float32, Dtype::Int8, Dtype::Int4].map(dora);
        assert_eq!(names, ["DoRA", "DoRA on int8", "QDoRA"]);
        assert_eq!(name(8, Dtype::Bfloat16, Optimizer::Adamw), "LoRA");
        assert_eq!(name(8, Dtype::Int4, Optimizer::Adamw), "QLoRA");
        assert_eq!(name(8, Dtype::Int8, Optimizer::Adamw), "LoRA on int8");
        assert_eq!(name(0, Dtype::Bfloat16, Optimizer::Adamw), "Full fine-tuning");
        assert_eq!(name(0, Dtype::Bfloat16, Optimizer::Galore), "GaLore");
    }

    #[test]
    fn some_weights_are_not_full_fine_tuning() {
        let name = |patterns: &str, optim: &str| {
            let keys = [
                ("optim", optim.into()),
                ("trainable", patterns.into()),
                ("rank", Datum::Int(0)),
            ];
            name(&keys.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
        };
        assert_eq!(name("[bias]", "adamw"), "BitFit");
        assert_eq!(
            name("[.*norm]", "lion"),
            "LayerNorm tuning without PEFT",
            "PEFT's method has the name"
        );
        assert_eq!(name("['.*proj']", "rsvd"), "Partial fine-tuning, rSVD states");
        assert_eq!(name("['.*proj']", "galore"), "GaLore");
    }

    #[test]
    fn variants_of_lora_are_named() {
        let name = |adapter: &str, dtype: &str, keys: &[(&str, Datum)]| {
            let own = [
                ("adapter", adapter.into()),
                ("dtype", dtype.into()),
                ("rank", Datum::Int(8)),
            ];
            let all = own.into_iter().chain(keys.iter().cloned());
            super::name(&all.map(|(key, value)| (key.to_owned(), value)).collect())
        };
        let pissa = ("lora.init_lora_weights", Datum::from("pissa"));
        let plus = |ratio| ("lora.loraplus_lr_ratio", Datum::Float(ratio));
        assert_eq!(name("lora", "float32", &[pissa.clone(), plus(1.0)]), "PiSSA");
        assert_eq!(name("lora", "int4", std::slice::from_ref(&pissa)), "PiSSA on int4");
        assert_eq!(
            name("lora", "bfloat16", &[plus(16.0), pissa.clone()]),
            "LoRA+ with PiSSA"
        );
        assert_eq!(name("dora", "int4", &[pissa]), "DoRA with PiSSA on int4");
        let rslora = ("lora.use_rslora", Datum::Bool(true));
        assert_eq!(name("lora", "float32", &[rslora]), "rsLoRA");
        let unset = [("lora.use_rslora", Datum::Bool(false)), ("lora_fa", "none".into())];
        assert_eq!(name("lora", "int8", &unset), "LoRA on int8");
        assert_eq!(name("lora", "float32", &[("lora_fa", "frozen".into())]), "LoRA-FA");
        assert_eq!(name("miss", "int4", &[]), "MiSS on int4");
    }

    #[test]
    fn a_kept_frames_adapter_is_not_guessed() {
        let cell = |adapter: Option<&str>| {
            let adapter = adapter.map(|word| ("adapter".to_owned(), word.into()));
            let rank = ("rank".to_owned(), Datum::Int(8));
            name(&[rank].into_iter().chain(adapter).collect())
        };
        assert_eq!(cell(None), "LoRA", "from before the key");
        assert_eq!(cell(Some("boft")), "Adapters of another release");
    }
}
