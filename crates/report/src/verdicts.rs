//! The page of all claims with their verdicts, the refuted ones first.

use std::path::PathBuf;

use minijinja::value::Serde;
use options::Stack;
use polars_core::prelude::DataFrame;
use serde::Serialize;

use super::about::About;
use super::claims::{self, BasisVerdict, ClaimResult, ClaimVerdict, Evidence, Purpose};
use super::entry::entries;
use super::error::ReportError;
use super::group::groups;
use super::template::Template;
use super::{axes, figures, filters, markdown};

/// A study with its claims and the frame that they are judged by.
pub struct ClaimingStudy {
    /// The spec's path.
    pub spec: String,
    /// The report that the spec names.
    pub report: Option<PathBuf>,
    /// The study's own words.
    pub about: About,
    /// A row for each cell.
    pub cells: DataFrame,
}

/// What the template sees.
#[derive(Debug, Serialize)]
struct Page {
    parts: Vec<Part>,
    /// The number of claims.
    count: usize,
}

/// A part of the page: the claims whose worst verdict it is.
#[derive(Debug, Serialize)]
struct Part {
    verdict: ClaimVerdict,
    rows: Vec<Row>,
}

/// A claim of a study.
#[derive(Debug, Serialize)]
struct Row {
    study: String,
    /// The report, or the spec of a study without one.
    link: String,
    #[serde(flatten)]
    claim: ClaimResult,
    /// The verdict by PyTorch's cells.
    torch: Option<BasisVerdict>,
    /// The verdict by our trainer's cells.
    candle: Option<BasisVerdict>,
    /// The verdict without cells: by the claim's own numbers, or none at all.
    alone: Option<BasisVerdict>,
}

/// The verdicts in the order of the page.
const ORDER: [ClaimVerdict; 5] = [
    ClaimVerdict::Refuted,
    ClaimVerdict::Exceeded,
    ClaimVerdict::Undecided,
    ClaimVerdict::Untested,
    ClaimVerdict::Supported,
];

/// The page as Markdown.
///
/// # Errors
/// A wrong expression of a claim, or a mistake in the template.
pub fn page(studies: &[ClaimingStudy]) -> Result<String, ReportError> {
    let mut rows = Vec::new();
    for study in studies {
        rows.extend(rows_of(study)?);
    }
    let count = rows.len();
    // What all stacks refute comes first.
    rows.sort_by_key(|row| row.claim.weight());
    let mut parts: Vec<Part> = Vec::new();
    for verdict in ORDER {
        let (of_verdict, others) = rows.into_iter().partition(|row| worst(&row.claim) == verdict);
        rows = others;
        parts.push(Part {
            verdict,
            rows: of_verdict,
        });
    }
    parts.retain(|part| !part.rows.is_empty());
    let template = Template::BuiltIn("verdicts");
    let (mut env, name) = template.environment(0)?;
    filters::add(&mut env, 6);
    let page = env
        .get_template(&name)
        .and_then(|loaded| loaded.render(Serde(Page { parts, count })))
        .map_err(|error| ReportError::Template(template.explain(&error)))?;
    Ok(markdown::tidy(&page))
}

fn rows_of(study: &ClaimingStudy) -> Result<Vec<Row>, ReportError> {
    let cells = entries(&study.cells)?;
    let about = figures::write_all(&study.about, &cells)?;
    let groups = groups(&cells, &axes::axes(&cells, &about.axes));
    let purpose = if about.is_plan { Purpose::Plan } else { Purpose::Report };
    let row = |claim: ClaimResult| {
        let of = |wanted: Option<Stack>| {
            let is_its = |verdict: &&BasisVerdict| match verdict.basis.evidence {
                Evidence::Computed | Evidence::None => wanted.is_none(),
                Evidence::Measured | Evidence::Predicted => wanted.is_some() && verdict.basis.stack == wanted,
            };
            claim.verdicts.iter().find(is_its).cloned()
        };
        let (torch, candle, alone) = (of(Some(Stack::Torch)), of(Some(Stack::Candle)), of(None));
        let link = study.report.as_ref().map(|report| report.display().to_string());
        Row {
            study: about.name.clone(),
            link: link.unwrap_or_else(|| study.spec.clone()),
            torch,
            candle,
            alone,
            claim,
        }
    };
    let judged = claims::judge(&about.claims, &groups, purpose)?;
    Ok(judged.into_iter().map(row).collect())
}

/// The first of the claim's verdicts in the order of the page.
fn worst(claim: &ClaimResult) -> ClaimVerdict {
    let has = |verdict: &ClaimVerdict| claim.verdicts.iter().any(|there| there.verdict == *verdict);
    ORDER.into_iter().find(has).unwrap_or(ClaimVerdict::Untested)
}
