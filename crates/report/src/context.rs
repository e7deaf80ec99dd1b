//! The values that a template sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::{Object, Serde};
use results::columns::{REPLANNED, category_column};
use results::datum::Datum;
use serde::Serialize;
use spec::SpecError;
use trace::{Category, Phase};

use super::about::About;
use super::answer::{Answers, Evidence};
use super::axes;
use super::claims::{self, ClaimResult, Purpose};
use super::entry::Entry;
use super::figures::{self, AnswerResult};
use super::group::{Group, compare_with_baseline, groups, mark_pareto};
use super::ladder;
use super::memory_unit::memory_unit;
use super::methods::{self, HELD_OUT, Losses};
use super::outcomes::{self, ComparedOutcome};
use super::paste::{self, PasteTable};
use super::planned::planned;
use super::profile_path::{self, ProfilePath, Twins};
use super::published::{self, ComparedFigure};
use super::speeds::{self, Speeds};
use super::stacks::stacks;
use super::timeline::{Timeline, timelines};
use super::value_count::{ValueCount, counted};

/// The values at a template's top level, each made when the template asks for it; `crates/report/templates/README.md`
/// describes them.
#[derive(Debug)]
pub(crate) struct Context {
    about: About,
    /// Every row of the frame.
    cells: Vec<Entry>,
    /// The rows of the timelines' frame.
    recorded: Vec<Entry>,
    /// Columns that vary.
    axes: Vec<String>,
    /// The rows in the order of the study, with repeats in one group.
    groups: Vec<Group>,
    losses: Losses,
    published: Vec<ComparedFigure>,
    outcomes: Vec<ComparedOutcome>,
    claims: Vec<ClaimResult>,
    answer: Vec<AnswerResult>,
    speeds: OnceLock<Speeds>,
    timelines: OnceLock<Vec<Timeline>>,
    paths: OnceLock<Vec<ProfilePath>>,
    twins: OnceLock<Vec<Twins>>,
    /// The values that the template has asked for.
    made: Mutex<BTreeMap<String, Value>>,
}

impl Object for Context {
    fn get_value(self: &Arc<Self>, name: &Value) -> Option<Value> {
        let name = name.as_str()?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.contains_key(name) {
            made.insert(name.to_owned(), self.value(name)?);
        }
        made.get(name).cloned()
    }
}

impl Context {
    /// The context of a study's frame and its timelines.
    ///
    /// # Errors
    /// A wrong expression of a claim.
    pub(crate) fn new(about: About, cells: Vec<Entry>, recorded: Vec<Entry>) -> Result<Self, SpecError> {
        let axes = axes::axes(&cells, &about.axes);
        let mut groups = groups(&cells, &axes);
        compare_with_baseline(&mut groups, about.baseline.as_deref());
        let losses = methods::losses(&groups);
        if losses.rank {
            mark_pareto(&mut groups, HELD_OUT);
        }
        let published = published::compare(&about.published, &groups);
        let outcomes = outcomes::compare(&about.published, &groups);
        let purpose = if about.is_plan { Purpose::Plan } else { Purpose::Report };
        let claims = claims::judge(&about.claims, &groups, purpose)?;
        let answer = figures::answer(&about, &groups, purpose)?;
        Ok(Self {
            about,
            cells,
            recorded,
            axes,
            groups,
            losses,
            published,
            outcomes,
            claims,
            answer,
            speeds: OnceLock::new(),
            timelines: OnceLock::new(),
            paths: OnceLock::new(),
            twins: OnceLock::new(),
            made: Mutex::default(),
        })
    }

    /// The value of a name; `None` if there is no such name.
    fn value(&self, name: &str) -> Option<Value> {
        let Self {
            about,
            cells,
            axes,
            groups,
            ..
        } = self;
        Some(match name {
            // The study's own words.
            "study" => serialised(about),
            // The sentences that a report begins with, by kind of report.
            "answers" => serialised(self.answers()),
            "cells" => serialised(cells),
            "groups" => serialised(groups),
            // The groups by peak allocated memory, the lowest first and unmeasured ones last.
            "by_memory" => serialised(by_memory(groups)),
            // The group that the others are compared with.
            "baseline" => serialised(groups.iter().find(|group| group.baseline)),
            "axes" => serialised(axes),
            // The configuration that all cells share.
            "fixed" => serialised(axes::fixed(cells, axes)),
            // The machines of the cells, each once.
            "machines" => serialised(machines(cells)),
            // Seeds in rising order.
            "seeds" => serialised(seeds(cells)),
            // The distinct values of each provenance column, with the number of cells.
            "provenance" => serialised(provenance(cells)),
            // The programs that planned the memory of measured cells again.
            "replanned" => serialised(replanned(cells)),
            // The starts of the first and the last cell; none if none ran.
            "started" => serialised(started(cells)),
            // The sum over all cells' processes.
            "wall_seconds" => {
                let seconds = cells.iter().filter_map(|cell| cell.number("wall_seconds"));
                seconds.sum::<f64>().into()
            }
            // Cells that took more than one attempt.
            "repeated_attempts" => {
                let repeated = cells.iter().filter(|cell| cell.number("attempt") > Some(1.0));
                repeated.count().into()
            }
            // The unit for all memory of the study: `KiB`, `MiB` or `GiB`.
            "memory_unit" => memory_unit(groups).name().into(),
            // Names of the categories that held anything at a peak, without host.
            "categories" => serialised(self.categories()),
            // Names of all phases.
            "phases" => serialised(Phase::ALL.map(Phase::name)),
            // The ways from profiles to trainings.
            "paths" => serialised(self.paths()),
            // Profiles with trainings of equal micro-batches and accumulation.
            "twins" => serialised(self.twins()),
            "loss" => self.loss().into(),
            // The judgements on losses and speeds.
            "losses" => serialised(&self.losses),
            "speeds" => serialised(self.speeds()),
            // The groups as methods of fine-tuning, in the order of `by_memory`.
            "methods" => serialised(methods::methods(&by_memory(groups))),
            // The axes that the names of methods leave unsaid.
            "method_axes" => serialised(methods::axes_beside_names(axes)),
            // The origin of a plan; none for a study with records.
            "planned" => serialised(about.is_plan.then(|| planned(cells)).flatten()),
            // Published figures, each compared with the measured one.
            "published" => serialised(&self.published),
            // Published outcomes, each compared with the plan's verdict or the run's own.
            "outcomes" => serialised(&self.outcomes),
            // The spec's claims with their verdicts.
            "claims" => serialised(&self.claims),
            // The cells that followed others out of memory.
            "ladders" => serialised(ladder::ladders(cells)),
            // The cells of each stack.
            "stacks" => serialised(stacks(cells, groups, &about.axes, about.is_plan)),
            "timelines" => serialised(self.timelines()),
            // What each configuration costs, in few columns.
            "paste" => serialised(self.paste()),
            _ => return None,
        })
    }

    pub(crate) fn axes(&self) -> &[String] {
        &self.axes
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn claims(&self) -> &[ClaimResult] {
        &self.claims
    }

    pub(crate) fn answer(&self) -> &[AnswerResult] {
        &self.answer
    }

    /// The ids of the cells.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().filter_map(|cell| cell.text("cell_id"))
    }

    /// The loss that methods are compared by: `loss_eval` if all measured groups have one, else `loss_last`.
    pub(crate) fn loss(&self) -> &'static str {
        let has_eval = |group: &Group| group.ok == 0 || group.mean("loss_eval").is_some();
        match self.groups.iter().all(has_eval) {
            true => "loss_eval",
            false => "loss_last",
        }
    }

    /// The judgement on the speeds.
    pub(crate) fn speeds(&self) -> &Speeds {
        self.speeds.get_or_init(|| speeds::speeds(&self.groups))
    }

    /// A recorded cell of each group that has one.
    pub(crate) fn timelines(&self) -> &[Timeline] {
        self.timelines.get_or_init(|| timelines(&self.groups, &self.recorded))
    }

    /// The table to paste.
    pub(crate) fn paste(&self) -> PasteTable {
        PasteTable::new(&paste::Source {
            groups: &self.groups,
            axes: &self.axes,
            speeds: self.speeds(),
            unit: memory_unit(&self.groups),
            columns: &self.about.columns,
            is_plan: self.about.is_plan,
        })
    }

    fn paths(&self) -> &[ProfilePath] {
        self.paths.get_or_init(|| profile_path::paths(&self.groups))
    }

    fn twins(&self) -> &[Twins] {
        self.twins.get_or_init(|| profile_path::twins(&self.groups))
    }

    fn answers(&self) -> Answers {
        Answers::new(&Evidence {
            groups: &self.groups,
            axes: &self.axes,
            published: &self.published,
            outcomes: &self.outcomes,
            claims: &self.claims,
            own: &self.answer,
            losses: &self.losses,
            speeds: self.speeds(),
            paths: self.paths(),
            twins: self.twins(),
            memory_unit: memory_unit(&self.groups),
        })
    }

    fn categories(&self) -> Vec<&'static str> {
        let held = |category: &Category| {
            let column = category_column(category.name());
            let is_held = |group: &Group| group.mean(&column).is_some_and(|bytes| bytes > 0.0);
            category.is_tensor() && self.groups.iter().any(is_held)
        };
        Category::ALL.into_iter().filter(held).map(Category::name).collect()
    }
}

fn serialised(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}

/// The machine and the settings that cells ran on.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct MachineRow {
    pub cpu: Datum,
    pub cores: Datum,
    pub memory_bytes: Datum,
    pub os: Datum,
    pub device: Datum,
    pub instruction_set: Datum,
    pub threads: Datum,
    /// The number of cells that ran on it.
    pub cells: usize,
}

fn machines(cells: &[Entry]) -> Vec<MachineRow> {
    let mut machines: Vec<MachineRow> = Vec::new();
    // A cell that was left out, or whose worker never started, was on no machine.
    let is_known = |cell: &&Entry| cell.ran() && !cell.get("machine_cpu").is_null();
    for cell in cells.iter().filter(is_known) {
        let mut machine = MachineRow {
            cpu: cell.get("machine_cpu").clone(),
            cores: cell.get("machine_cores").clone(),
            memory_bytes: cell.get("machine_memory_bytes").clone(),
            os: cell.get("machine_os").clone(),
            device: cell.get("device").clone(),
            instruction_set: cell.get("instruction_set").clone(),
            threads: cell.get("threads").clone(),
            cells: 1,
        };
        let same = |other: &&mut MachineRow| {
            machine.cells = other.cells;
            **other == machine
        };
        match machines.iter_mut().find(same) {
            Some(known) => known.cells += 1,
            None => machines.push(MachineRow { cells: 1, ..machine }),
        }
    }
    machines
}

const PROVENANCE: [&str; 8] = [
    "expctl_version",
    "sources",
    "git_commit",
    "releases",
    "device",
    "instruction_set",
    "threads",
    "data_sha256",
];

fn provenance(cells: &[Entry]) -> IndexMap<&'static str, Vec<ValueCount>> {
    let count = |column: &'static str| {
        let ran = cells.iter().filter(|cell| cell.ran());
        let values = ran.map(|cell| cell.get(column)).filter(|value| !value.is_null());
        (column, counted(values.cloned()))
    };
    PROVENANCE
        .into_iter()
        .map(count)
        .filter(|(_, values)| !values.is_empty())
        .collect()
}

fn replanned(cells: &[Entry]) -> Vec<ValueCount> {
    let programs = cells.iter().map(|cell| cell.get(REPLANNED));
    counted(programs.filter(|program| !program.is_null()).cloned())
}

/// The first and the last start: RFC 3339 in UTC, which sorts as text.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Started {
    pub first: String,
    pub last: String,
}

fn started(cells: &[Entry]) -> Option<Started> {
    let times = || cells.iter().filter_map(|cell| cell.text("started_at"));
    Some(Started {
        first: times().min()?.to_string(),
        last: times().max()?.to_string(),
    })
}

fn seeds(cells: &[Entry]) -> Vec<u64> {
    let seeds: BTreeSet<u64> = cells.iter().filter_map(|cell| cell.get("seed").as_int()).collect();
    seeds.into_iter().collect()
}

fn by_memory(groups: &[Group]) -> Vec<Group> {
    let mut sorted = groups.to_vec();
    let peak = |group: &Group| group.mean("allocated_peak_bytes").unwrap_or(f64::INFINITY);
    sorted.sort_by(|a, b| peak(a).total_cmp(&peak(b)));
    sorted
}
