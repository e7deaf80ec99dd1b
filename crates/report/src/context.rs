//! The values that a template sees.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use results::columns::category_column;
use results::datum::Datum;
use serde::Serialize;
use spec::SpecError;
use trace::{Category, Phase};

use super::about::About;
use super::answer::{Answers, Evidence};
use super::axes::{self, Setting};
use super::claims::{self, ClaimResult, Purpose};
use super::entry::Entry;
use super::group::{Group, compare_with_baseline, groups, mark_pareto};
use super::ladder::{self, Ladder};
use super::memory_unit::memory_unit;
use super::methods::{self, HELD_OUT, Losses, Method};
use super::planned::{Planned, planned};
use super::profile_path::{self, ProfilePath, Twins};
use super::published::{self, ComparedFigure};
use super::speeds::{self, Speeds};
use super::stacks::{StackCells, stacks};
use super::timeline::{Timeline, timelines};
use super::value_count::{ValueCount, counted};

/// The names at a template's top level; `templates/README.md` describes them.
#[derive(Debug, Serialize)]
pub(crate) struct Context<'a> {
    /// The study's own words.
    pub study: &'a About,
    /// The sentences that a report begins with, by kind of report.
    pub answers: Answers,
    /// Every row of the frame.
    pub cells: &'a [Entry],
    /// The rows in the order of the study, with repeats in one group.
    pub groups: Vec<Group>,
    /// The groups by peak allocated memory, the lowest first and unmeasured ones last.
    pub by_memory: Vec<Group>,
    /// The group that the others are compared with.
    pub baseline: Option<Group>,
    /// Columns that vary.
    pub axes: Vec<String>,
    /// The configuration that all cells share.
    pub fixed: Vec<Setting>,
    /// The machines of the cells, each once.
    pub machines: Vec<MachineRow>,
    /// Seeds in rising order.
    pub seeds: Vec<u64>,
    /// The distinct values of each provenance column, with the number of cells.
    pub provenance: IndexMap<&'static str, Vec<ValueCount>>,
    /// The starts of the first and the last cell; `None` if none ran.
    pub started: Option<Started>,
    /// The sum over all cells' processes.
    pub wall_seconds: f64,
    /// Cells that took more than one attempt.
    pub repeated_attempts: usize,
    /// The unit for all memory of the study: `KiB`, `MiB` or `GiB`.
    pub memory_unit: &'static str,
    /// Names of the categories that held anything at a peak, without host.
    pub categories: Vec<&'static str>,
    /// Names of all phases.
    pub phases: [&'static str; 5],
    /// The ways from profiles to trainings.
    pub paths: Vec<ProfilePath>,
    /// Profiles with trainings of equal micro-batches and accumulation.
    pub twins: Vec<Twins>,
    /// The loss that methods are compared by: `loss_eval` if all measured groups have one, else `loss_last`.
    pub loss: &'static str,
    /// The judgement on the losses.
    pub losses: Losses,
    /// The judgement on the speeds.
    pub speeds: Speeds,
    /// The groups as methods of fine-tuning, in the order of [`Self::by_memory`].
    pub methods: Vec<Method>,
    /// The axes that the names of methods leave unsaid.
    pub method_axes: Vec<String>,
    /// The origin of a plan; `None` for a study with records.
    pub planned: Option<Planned>,
    /// Published figures, each compared with the measured one.
    pub published: Vec<ComparedFigure>,
    /// The spec's claims with their verdicts.
    pub claims: Vec<ClaimResult>,
    /// The cells that followed others out of memory.
    pub ladders: Vec<Ladder>,
    /// The cells of each stack.
    pub stacks: Vec<StackCells>,
    /// A recorded cell of each group that has one.
    pub timelines: Vec<Timeline>,
}

impl<'a> Context<'a> {
    /// The context of a study's frame and its timelines.
    ///
    /// # Errors
    /// A wrong expression of a claim.
    pub(crate) fn new(study: &'a About, cells: &'a [Entry], timeline: &[Entry]) -> Result<Self, SpecError> {
        let axes = axes::axes(cells, &study.axes);
        let mut groups = groups(cells, &axes);
        compare_with_baseline(&mut groups, study.baseline.as_deref());
        let has_eval = |group: &Group| group.ok == 0 || group.mean("loss_eval").is_some();
        let loss = if groups.iter().all(has_eval) {
            "loss_eval"
        } else {
            "loss_last"
        };
        let losses = methods::losses(&groups);
        if losses.rank {
            mark_pareto(&mut groups, HELD_OUT);
        }
        let held = |category: &Category| {
            let column = category_column(category.name());
            category.is_tensor() && groups.iter().any(|group| group.mean(&column).is_some_and(|n| n > 0.0))
        };
        let published = published::compare(&study.published, &groups);
        let purpose = if study.is_plan { Purpose::Plan } else { Purpose::Report };
        let claims = claims::judge(&study.claims, &groups, purpose)?;
        let (paths, twins) = (profile_path::paths(&groups), profile_path::twins(&groups));
        let speeds = speeds::speeds(&groups);
        let answers = Answers::new(&Evidence {
            groups: &groups,
            axes: &axes,
            published: &published,
            claims: &claims,
            losses: &losses,
            speeds: &speeds,
            paths: &paths,
            twins: &twins,
            memory_unit: memory_unit(&groups),
        });
        Ok(Self {
            study,
            answers,
            cells,
            baseline: groups.iter().find(|group| group.baseline).cloned(),
            fixed: axes::fixed(cells, &axes),
            memory_unit: memory_unit(&groups).name(),
            categories: Category::ALL.into_iter().filter(held).map(Category::name).collect(),
            phases: Phase::ALL.map(Phase::name),
            loss,
            published,
            claims,
            ladders: ladder::ladders(cells),
            stacks: stacks(cells, &groups, &study.axes, study.is_plan),
            methods: methods::methods(&by_memory(&groups)),
            method_axes: methods::axes_beside_names(&axes),
            by_memory: by_memory(&groups),
            losses,
            speeds,
            planned: study.is_plan.then(|| planned(cells)).flatten(),
            paths,
            twins,
            machines: machines(cells),
            seeds: seeds(cells),
            provenance: provenance(cells),
            started: started(cells),
            wall_seconds: cells.iter().filter_map(|cell| cell.number("wall_seconds")).sum(),
            repeated_attempts: cells.iter().filter(|cell| cell.number("attempt") > Some(1.0)).count(),
            timelines: timelines(&groups, timeline),
            axes,
            groups,
        })
    }
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
    for cell in cells.iter().filter(|cell| cell.ran()) {
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

const PROVENANCE: [&str; 6] = [
    "expctl_version",
    "git_commit",
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
