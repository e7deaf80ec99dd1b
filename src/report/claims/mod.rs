//! Claims, each with its verdict: an expression over the study's groups that holds, or does not, or cannot be told.

mod doubt;
mod functions;
mod judging;
mod rehearsal;
mod scope;

use indexmap::IndexSet;
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Serialize;

use super::group::{Group, Stat, repeats};
use crate::spec::{Claim, Expected, Measure, SpecError, Study};
use crate::text::format::{self, ABSENT};
use crate::text::{Unit, quoted};
use doubt::{doubt, spread};
use judging::{Evaluated, evaluate};
use scope::Scope;

pub use rehearsal::rehearse;

/// A claim and the groups that it is about, by their `group_id`; from `study.yaml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Posed {
    /// Its place in the spec, from 0.
    pub index: usize,
    pub claim: Claim,
    pub groups: IndexSet<String>,
}

/// The claims of a study.
pub fn posed(study: &Study) -> Vec<Posed> {
    let posed = |(index, claim): (usize, &Claim)| Posed {
        index,
        claim: claim.clone(),
        groups: study.groups(&claim.cells),
    };
    study.claims.iter().enumerate().map(posed).collect()
}

/// How a claim fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Supported,
    Refuted,
    /// Repeats leave it open: some alone hold and some do not, or a value is too close to where the verdict changes.
    Undecided,
    /// What it needs was not measured: cells did not run, failed, or ran out of memory.
    Untested,
}

impl Verdict {
    pub const ALL: [Self; 4] = [Self::Supported, Self::Refuted, Self::Undecided, Self::Untested];

    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
            Self::Untested => "untested",
        }
    }
}

/// A claim with its verdict, as templates see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// From 1, in the spec's order.
    pub number: usize,
    pub claim: String,
    pub source: String,
    pub note: Option<String>,
    pub verdict: Verdict,
    /// Whether it is the verdict that the spec expects; what is undecided goes against no expectation.
    pub expected: bool,
    /// The expression.
    pub holds: String,
    pub measured: Vec<Shown>,
    /// The ids of the cells that the verdict rests on.
    pub cells: Vec<String>,
    /// The measured columns that it rests on.
    pub columns: Vec<String>,
    /// Why it is undecided or untested.
    pub why: Option<String>,
    /// Where the spec states it.
    pub place: String,
}

/// A value that a verdict rests on, as text with its unit; with the lowest and the highest where repeats differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub name: String,
    pub text: String,
    /// How it was computed.
    pub value: String,
}

/// Judges every claim by the groups of a study.
///
/// # Errors
/// An expression that is wrong, with its place in the spec.
pub fn judge(posed: &[Posed], groups: &[Group]) -> Result<Vec<Judged>, SpecError> {
    let repeats = repeats(groups);
    posed.iter().map(|posed| judge_one(posed, groups, &repeats)).collect()
}

fn judge_one(posed: &Posed, groups: &[Group], repeats: &[Vec<Group>]) -> Result<Judged, SpecError> {
    let claim = &posed.claim;
    let scope = Scope::new(groups, &posed.groups);
    let whole = evaluate(posed, &scope)?;
    // Rows may be counted, and a repeat alone has fewer of them.
    let repeats = if scope.read_means_only() { repeats } else { &[] };
    let alone = repeats
        .iter()
        .map(|groups| evaluate(posed, &Scope::new(groups, &posed.groups)));
    let alone = alone.collect::<Result<Vec<Evaluated>, SpecError>>()?;
    let (verdict, why) = match whole.holds {
        None => (Verdict::Untested, scope.missing()),
        Some(holds) => match doubt(posed, &scope, &whole, holds, &alone)? {
            Some(why) => (Verdict::Undecided, Some(why)),
            None if holds => (Verdict::Supported, None),
            None => (Verdict::Refuted, None),
        },
    };
    let shown = |(name, measure): (&String, &Measure)| {
        let mean = whole.values.get(name);
        let spread = mean.and_then(|mean| spread(mean, name, &alone));
        let text = mean
            .map_or(Ok(ABSENT.to_owned()), |mean| shown(mean, spread, measure))
            .map_err(|message| posed.wrong(&format!("measured.{name}.value"), message))?;
        Ok(Shown {
            name: name.clone(),
            text,
            value: measure.value.clone(),
        })
    };
    Ok(Judged {
        number: posed.index + 1,
        claim: claim.claim.clone(),
        source: claim.source.clone(),
        note: claim.note.clone(),
        verdict,
        expected: match verdict {
            Verdict::Supported => claim.expect == Expected::Supported,
            Verdict::Refuted => claim.expect == Expected::Refuted,
            Verdict::Undecided => true,
            Verdict::Untested => false,
        },
        holds: claim.holds.clone(),
        measured: claim.measured.iter().map(shown).collect::<Result<_, SpecError>>()?,
        cells: scope.read_cells(),
        columns: scope.read_columns(),
        why,
        place: claim.origin.to_string(),
    })
}

/// A value as people read it, with the lowest and the highest where repeats differ; the message says why it is no such
/// value.
fn shown(mean: &Value, spread: Option<Stat>, measure: &Measure) -> Result<String, String> {
    let text = written(mean, measure)?;
    let ends = spread.map(|stat| [stat.min, stat.max].map(|number| in_unit(number, measure)));
    Ok(match ends {
        Some([low, high]) if low != high => format!("{text} ({low} to {high})"),
        _ => text,
    })
}

/// A value with its unit, as people read it; the message says why it is none.
fn written(value: &Value, measure: &Measure) -> Result<String, String> {
    let number = |value: &Value| Some(in_unit(f64::try_from(value.clone()).ok()?, measure));
    let suffix = measure.unit.suffix();
    match value.kind() {
        ValueKind::Number => number(value).map(|text| text + &suffix),
        ValueKind::Bool => Some(value.to_string()),
        ValueKind::String if measure.unit == Unit::Plain => Some(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .ok()
            .and_then(|items| items.map(|item| number(&item)).collect::<Option<Vec<_>>>())
            .map(|items| items.join(" · ") + &suffix),
        _ => None,
    }
    .ok_or_else(|| {
        let value = quoted(&value.to_string());
        format!(
            "the expression gives {value}, and {} is the unit of numbers",
            quoted(measure.unit.name())
        )
    })
}

/// A number alone.
fn in_unit(number: f64, measure: &Measure) -> String {
    let decimals = measure.decimals.unwrap_or_else(|| decimals(number, measure.unit));
    format::in_unit(number.into(), measure.unit, decimals)
}

/// A whole number has no decimals where no unit asks for them.
fn decimals(number: f64, unit: Unit) -> usize {
    if unit == Unit::Plain && number.fract() == 0.0 {
        0
    } else {
        unit.decimals()
    }
}
