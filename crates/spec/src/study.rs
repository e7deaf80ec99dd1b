//! A study: the sections of a spec, and the cells that they come to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::text::{Mistake, nearest, quoted};
use cell::Cell;
use hub::{Roots, Snapshot};
use indexmap::IndexMap;
use options::{ByteSize, StepsOrRatio};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value as Json;

use super::answer::AnswerSentence;
use super::axis_values::axis_values;
use super::by_key::{self, Untyped};
use super::claim::Claim;
use super::fit::FitSpec;
use super::invocation::Invocation;
use super::jobs::Jobs;
use super::lineage::{Fallback, Lineage};
use super::normal_path::normal_path;
use super::on_oom::OnOom;
use super::prose::Prose;
use super::published::Published;
use super::requires::{self, Requirement};
use super::selection::{Candidate, Selection};
use super::sweep::SweepSection;
use super::written::Written;

/// A spec, resolved: the layers merged, the sweep expanded, every cell checked.
///
/// Its serde form is the sections of a spec, in a spec's file and in `study.yaml`; so is its schema. What follows from
/// the sections is skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The study's name, and that of its folder under results/.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"), length(max = 100))]
    pub name: String,
    /// The question that the study answers. Figures in it are written by reports: `{{ mean('allocated_peak_bytes') | GiB }}`
    /// is evaluated, and `[published: 6 GB]` is a figure of a source.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Prose::is_empty")]
    #[schemars(with = "Option<String>")]
    pub description: Prose,
    /// What must be there before the study runs: other specs, and files that a command makes.
    #[serde(
        default,
        deserialize_with = "requires::one_or_more",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Option<requires::OneOrMore>")]
    pub requires: Vec<Requirement>,
    /// Values that all cells share; every key has a default.
    #[serde(default, skip_serializing)]
    #[schemars(with = "Option<Cell>")]
    pub(super) defaults: Untyped,
    /// Which keys vary.
    #[serde(default, skip_serializing)]
    #[schemars(with = "Option<SweepSection>")]
    pub(super) sweep: Untyped,
    /// Seeds for each cell: seed, seed + 1 and so on, each a cell of its own. Default: 1.
    #[serde(default = "one", deserialize_with = "repeats")]
    #[schemars(with = "Option<usize>", range(min = 1))]
    pub repeats: usize,
    /// The Python of `engine: python`: an interpreter, relative to the spec's file, or `uv`, which runs one with the releases that
    /// the cells' `torch` keys name. Default: that of an active virtual environment, `.venv` beside the spec, or python3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Cells that train side by side on this machine: a number, or auto for as many as threads and memory are there for. More than
    /// one needs `speeds: false`. Default: 1.
    #[serde(default, skip_serializing_if = "Jobs::is_one")]
    #[schemars(with = "Option<Jobs>")]
    pub jobs: Jobs,
    /// Memory of all cells that train side by side, such as 8GiB. Default: what is free when the run starts, less a tenth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_memory: Option<ByteSize>,
    /// False if times and speeds are not measured, so that cells may share the machine: reports then show none. Default: true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    #[schemars(with = "Option<bool>")]
    pub speeds: bool,
    /// Limits that end a cell.
    #[serde(default)]
    #[schemars(with = "Option<Limits>")]
    pub limits: Limits,
    /// The answer to a cell that runs out of memory. record: its row says so. {ladder: [...]}: cells that need less
    /// follow it. Default: record.
    #[serde(default, skip_serializing_if = "OnOom::is_record")]
    #[schemars(with = "Option<OnOom>")]
    pub on_oom: OnOom,
    /// After an out-of-memory, do not try cells that differ in batch_size, max_seq_length and rank alone, and are as
    /// large or larger in each. Their rows say so. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(with = "Option<bool>")]
    pub skip_larger: bool,
    /// Records that are kept of a run in addition to its figures.
    #[serde(default, skip_serializing_if = "RecordSpec::is_default")]
    #[schemars(with = "Option<RecordSpec>")]
    pub record: RecordSpec,
    /// How the results are shown.
    #[serde(default)]
    #[schemars(with = "Option<ReportSpec>")]
    pub report: ReportSpec,
    /// How far a search for what fits may go: `expctl fit`, and the advice of a plan. Not part of a cell.
    #[serde(default, skip_serializing_if = "FitSpec::is_default")]
    #[schemars(with = "Option<FitSpec>")]
    pub fit: FitSpec,
    /// Figures of others, compared with what is measured; not part of a cell.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Published>>")]
    pub published: Vec<Published>,
    /// Sentences that the study puts to the test; not part of a cell.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Claim>>")]
    pub claims: Vec<Claim>,

    /// The folder of the spec, absolute: input paths in the cells are relative to it.
    #[serde(skip)]
    pub directory: PathBuf,
    /// What was fetched from the hub for the cells.
    #[serde(skip)]
    pub snapshots: BTreeMap<String, Snapshot>,
    /// SHA-256 of the files that `adapter_config` names, as they were read with the spec.
    #[serde(skip)]
    pub(super) adapter_configs: BTreeMap<String, String>,
    /// The spec's file name.
    #[serde(skip)]
    pub file: String,
    /// In the order of the sweep, its last axis varying fastest, the repeats of a cell next to each other; then the
    /// included ones.
    #[serde(skip)]
    pub cells: Vec<StudyCell>,
    /// The keys that vary, dotted.
    #[serde(skip)]
    pub axes: Vec<String>,
    /// Remarks for the user: axes that an override has fixed, for example.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Where the values of its cells were written.
    #[serde(skip)]
    pub(super) written: Written,
    /// The command that the study came from.
    #[serde(skip)]
    pub invocation: Invocation,
}

/// A cell of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyCell {
    /// The cell's name: [`Cell::id`].
    pub id: String,
    /// The configuration.
    pub cell: Cell,
    /// The cell's value for each of the study's axes, as the spec has it; null if the cell has none.
    pub axes: IndexMap<String, Json>,
    /// How the cell came into the study.
    pub lineage: Lineage,
}

impl StudyCell {
    /// The axes that the cell heeds as the spec has it, with their values there.
    pub fn heeded_axes(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.axes.iter().filter(|(axis, _)| self.asked().heeds(axis))
    }

    /// The values that tell the cell from the others of its study.
    pub fn selection(&self) -> Selection {
        let axes = self.heeded_axes();
        axes.map(|(axis, value)| (axis.clone(), value.clone())).collect()
    }

    /// The value of an axis as people are shown it: of a map what differs from its defaults, null if the cell does not heed
    /// the axis. A micro-batch that was searched is the one that was found.
    pub fn shown_axis(&self, axis: &str) -> Json {
        let is_found = axis == "batch_size" && self.has_found_batch();
        let mut value = match is_found {
            true => self.cell.value(axis),
            false => self.axes.get(axis).cloned().unwrap_or_default(),
        };
        if let Json::Object(map) = &mut value {
            let default = Cell::default().value(axis);
            map.retain(|name, value| default.get(name.as_str()) != Some(value));
            if map.is_empty() {
                return "default".into();
            }
        }
        value
    }

    /// The cell as the spec has it, with the values that it leaves open.
    pub fn asked(&self) -> &Cell {
        match &self.lineage {
            Lineage::Resolved(resolved) => &resolved.asked,
            Lineage::Written | Lineage::Fallback(_) => &self.cell,
        }
    }

    /// True if the cell's micro-batch was searched.
    pub fn has_found_batch(&self) -> bool {
        self.asked().auto_batch_size.is_some() && !self.cell.is_open()
    }

    /// True if the cell follows one that ran out of memory, and the spec does not have it.
    pub fn is_fallback(&self) -> bool {
        matches!(self.lineage, Lineage::Fallback(_))
    }

    pub(super) fn candidate(&self) -> Candidate {
        Candidate::new(&self.cell, (!self.is_fallback()).then(|| self.asked()))
    }

    /// True if the cell has all of these values, or the spec has them for it.
    pub fn has(&self, selection: &Selection) -> bool {
        self.candidate().has(selection)
    }
}

/// Limits that end a cell and are not part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How long a cell may take, such as 10m or 1h 30m; default: as long as it takes.
    #[serde(with = "super::duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("pattern" = r"^\s*([0-9]+(\.[0-9]+)?\s*[A-Za-z]+\s*)+$"))]
    pub timeout: Option<Duration>,
    /// Attempts that follow at once if a cell's process was killed or ended without a record. Default: 0. A cell that fails,
    /// runs out of memory or takes too long is not tried again.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    #[schemars(with = "Option<u32>")]
    pub retries: u32,
}

/// Records that are kept of a run in addition to its figures. They change neither the figures nor a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordSpec {
    /// Every allocation and release of tensor memory, with its time, category, phase and module; for the report's curves,
    /// peaks and tensors, and for `expctl export`. Needs the CPU. Default: false.
    pub timeline: bool,
    /// How many steps the timeline has, from the first; the loading before them is always part of it. Default: 3.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(range(min = 1))]
    pub timeline_steps: usize,
    /// A folder for the trained model, relative to the spec, in transformers' layout: weights, config.json and the tokenizer.
    /// `model` then names it in other specs. The study has one cell, which trains all weights; an adapter is always written.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// Write a checkpoint every n optimizer steps, or after this share of all steps if it is below 1. A cell that was killed,
    /// stopped or took too long goes on from its latest one, bit for bit; it lies in the cell's folder until the cell is
    /// done. Needs the CPU. Default: none, as for 0.
    #[serde(deserialize_with = "steps_or_ratio", skip_serializing_if = "Option::is_none")]
    pub save_steps: Option<StepsOrRatio>,
    /// How many checkpoints of a cell stay: the latest. Default: 2, so that there is one if the latest is damaged.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(range(min = 1))]
    pub save_total_limit: usize,
    /// Print a line every n steps where progress is printed as lines (`--progress plain`). Default: a line every ten seconds
    /// at most.
    #[serde(deserialize_with = "positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub log_interval: Option<usize>,
}

/// Checkpoints of a cell that stay, unless a spec says how many.
pub const DEFAULT_SAVE_TOTAL_LIMIT: usize = 2;

impl Default for RecordSpec {
    /// The first step makes the optimizer's state; those after it are like any other.
    fn default() -> Self {
        Self {
            timeline: false,
            timeline_steps: 3,
            model: None,
            save_steps: None,
            save_total_limit: DEFAULT_SAVE_TOTAL_LIMIT,
            log_interval: None,
        }
    }
}

impl RecordSpec {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the results are shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReportSpec {
    /// A template that comes with expctl, or the path of one, relative to the spec. Default: comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("anyOf" = [
        { "enum": TEMPLATES }, { "type": "string", "pattern": r"[/\\.]" }, { "type": "null" }
    ]))]
    template: Option<String>,
    /// The Markdown file, relative to the current directory. Its charts are written beside it, and its frame with the
    /// extension `.parquet`. From the frame the report can be checked and made again without the study's folder. A file
    /// that ends in `.html` is one page with the charts inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// The file of the report that is committed and cited, relative to the current directory; its charts and frame lie
    /// beside it, too. Only `expctl report --publish SPEC` writes it, so a run changes nothing that is committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<PathBuf>,
    /// Values that name the cell which the others are compared with.
    #[serde(skip_serializing_if = "Selection::is_empty")]
    #[schemars(schema_with = "by_key::values")]
    pub baseline: Selection,
    /// The columns of the table to paste, at most seven of cells.csv: `[allocated_peak_bytes, train_seconds, loss_eval]`.
    /// Default: the peak, the speed, both over the base's, and the held-out loss where weights are not random.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>", length(max = 7))]
    pub columns: Vec<Prose>,
    /// The answer to the study's question: up to four sentences of your own, with figures in them as in the description.
    /// The report begins with them. A figure shows how far its repeats or its steps differ. A sentence that the data leave
    /// open says so.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<AnswerSentence>>", length(max = 4))]
    pub answer: Vec<AnswerSentence>,
}

/// The templates that come with expctl.
pub const TEMPLATES: [&str; 5] = ["comparison", "method_comparison", "profiler_vs_epoch", "claims", "plan"];

impl ReportSpec {
    /// The name of a template that comes with expctl, or the path of one, relative to the spec.
    pub fn template(&self) -> &str {
        self.template.as_deref().unwrap_or(TEMPLATES[0])
    }
}

impl Study {
    /// True if no cell has an engine: the study is planned, and nothing of it runs.
    pub fn is_planned(&self) -> bool {
        self.cells.iter().all(|study_cell| study_cell.cell.engine().is_none())
    }

    /// Where the names in its cells lead.
    pub fn roots(&self) -> Roots {
        Roots::new(&self.directory).with_snapshots(self.snapshots.clone())
    }

    /// Where the value that a cell has for a key was written, such as `/home/me/x.yaml:3:10` or `--set rank=8`; the
    /// spec's file if the key was left out.
    pub fn place_of(&self, study_cell: &StudyCell, key: &str) -> String {
        let file = (!self.file.is_empty()).then(|| self.directory.join(&self.file).display().to_string());
        self.written.place(study_cell.asked(), key, file.as_deref())
    }

    /// ` (cell 1234…)` where the study has several cells.
    pub fn name_in_study(&self, study_cell: &StudyCell) -> String {
        match self.cells.len() {
            0 | 1 => String::new(),
            _ => format!(" (cell {})", study_cell.id),
        }
    }

    /// SHA-256 of the file that a cell's adapter keys came from.
    pub fn adapter_config_sha256(&self, cell: &Cell) -> Option<String> {
        self.adapter_configs.get(cell.adapter_config.as_ref()?).cloned()
    }

    /// True if only their seed tells some cells apart, and it is not an axis that is shown anyway.
    pub fn shows_seeds(&self) -> bool {
        self.repeats > 1 && !self.axes.iter().any(|axis| axis == "seed")
    }

    /// True if the report compares other cells with this one (or with its repeats).
    pub fn is_baseline(&self, cell: &StudyCell) -> bool {
        let baseline = &self.report.baseline;
        !baseline.is_empty() && cell.has(baseline)
    }

    /// Adds a cell that follows another on its ladder.
    pub fn add_fallback(&mut self, cell: Cell, fallback: Fallback) {
        let keys = cell.to_map();
        self.cells.push(StudyCell {
            id: cell.id_of(&keys),
            axes: axis_values(&self.axes, &cell, &keys),
            cell,
            lineage: Lineage::Fallback(fallback),
        });
    }

    /// The mistakes in sections, each with its key.
    pub(super) fn check(&self) -> Vec<(String, Mistake)> {
        let empty = |path: &Option<PathBuf>| {
            let path = path.as_ref().filter(|path| path.as_os_str().is_empty());
            path.map(|_| Mistake::new("the path is empty"))
        };
        let (output, publish) = (&self.report.output, &self.report.publish);
        // The frames and charts of two reports of one name are the same files.
        let name = |path: &Path| normal_path(path).with_extension("");
        let default = || Path::new("results").join(&self.name).join("report");
        let own = output.as_deref().map_or_else(default, name);
        let same = publish.as_deref().filter(|publish| name(publish) == own);
        let same = same.map(|_| {
            Mistake::new("a run would replace the published report").help("give it another name than `output`")
        });
        let side_by_side = (self.speeds && !self.jobs.is_one()).then(|| {
            Mistake::new("cells that share the machine say nothing of speeds, which this study measures")
                .help("write `speeds: false`, and reports show none; or leave `jobs` at 1")
        });
        let found = [
            ("name", check_name(&self.name)),
            ("jobs", side_by_side),
            ("report.template", check_template(self.report.template())),
            ("report.output", empty(output)),
            ("report.publish", empty(publish).or(same)),
            ("report.columns", check_columns(self.report.columns.len())),
            ("on_oom.ladder", self.on_oom.check()),
        ];
        let placed = |(key, mistake): (&str, Option<Mistake>)| Some((key.to_owned(), mistake?));
        found.into_iter().filter_map(placed).chain(self.fit.check()).collect()
    }
}

/// A page shows eight columns, and the first is the configuration's.
fn check_columns(count: usize) -> Option<Mistake> {
    const MOST: usize = 7;
    let mistake = Mistake::new(format!(
        "a table to paste has at most {MOST} columns of figures, not {count}"
    ));
    (count > MOST).then(|| mistake.help("the report's second table and cells.csv have all"))
}

/// The name becomes a folder, on any system.
fn check_name(name: &str) -> Option<Mistake> {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && name.len() <= 100 && name.chars().all(safe) && !name.ends_with('.') {
        return None;
    }
    let slug: String = name.chars().take(100).map(|c| if safe(c) { c } else { '_' }).collect();
    let mistake = Mistake::new(format!("{} is not safe as the name of a folder", quoted(name)));
    Some(mistake.help(match slug.trim_matches(['.', '-', '_']) {
        "" => "use letters, digits, `_`, `-` and `.`".to_owned(),
        slug => format!("write {}, for example", quoted(slug)),
    }))
}

/// A name must be one that we have. Anything with a slash or a dot is a path, which the report reads.
fn check_template(template: &str) -> Option<Mistake> {
    if TEMPLATES.contains(&template) || template.contains(['/', '\\', '.']) {
        return None;
    }
    let all = || {
        format!(
            "the templates are {}; a path has a slash or a dot",
            TEMPLATES.join(", ")
        )
    };
    let help = nearest(template, TEMPLATES).map_or_else(all, base::text::did_you_mean);
    Some(Mistake::new(format!("there is no template {}", quoted(template))).help(help))
}

/// Reads null like a key that was left out.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_true(flag: &bool) -> bool {
    *flag
}

fn one() -> usize {
    1
}

/// Reads a number of seeds; null is one.
fn repeats<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    check_count(Option::deserialize(deserializer)?.unwrap_or(1))
}

/// Reads a count of 1 or more.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    check_count(usize::deserialize(deserializer)?)
}

/// Reads a count of 1 or more, or null.
fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    Option::deserialize(deserializer)?.map(check_count).transpose()
}

/// Reads whole steps from 1 on, or a share of them below it; 0 and null are none.
fn steps_or_ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StepsOrRatio>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(steps) if !(0.0..=1e15).contains(&steps) || steps >= 1.0 && steps.fract() != 0.0 => {
            Err(de::Error::custom(format!(
                "must be a whole number of steps, or a share of them below 1, got {steps}"
            )))
        }
        steps => Ok(steps.filter(|steps| *steps > 0.0).map(StepsOrRatio)),
    }
}

fn check_count<E: de::Error>(count: usize) -> Result<usize, E> {
    match count {
        0 => Err(E::custom("must be at least 1, got 0")),
        count => Ok(count),
    }
}
