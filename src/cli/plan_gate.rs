//! Plans for other programs' gates: SARIF for code scanning, JUnit for test reports.

use plan::advice::{CellPlan, changes};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use records::prediction::{Judgement, Prediction};
use serde_json::{Value, json};
use spec::{Study, StudyCell};

use super::cells::axis_values;
use super::plan_answer::subject;
use super::prediction_view::verdict;

/// A study's cells with their plans, and bytes of the budget that stay free.
pub(super) struct Planned<'a> {
    pub study: &'a Study,
    pub plans: &'a [CellPlan],
    pub headrooms: Vec<u64>,
}

/// What is said of one cell.
struct Finding {
    cell: String,
    message: String,
    level: Level,
}

/// How bad it is. An error alone ends a gate: its cell is the reason for exit code 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    None,
    Note,
    Warning,
    Error,
}

impl Level {
    fn of(prediction: &Prediction, judgement: Option<Judgement>) -> Self {
        match judgement {
            _ if prediction.is_oversize() => Self::Error,
            None | Some(Judgement::Fits) => Self::None,
            Some(Judgement::Tight) => Self::Note,
            // What is likely fits.
            Some(Judgement::MayNotFit | Judgement::DoesNotFit) => Self::Warning,
        }
    }

    /// The word in SARIF.
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Planned<'_> {
    fn findings(&self) -> impl Iterator<Item = Finding> + '_ {
        let cells = self.study.cells.iter().zip(self.plans).zip(&self.headrooms);
        cells.map(|((study_cell, plan), &headroom)| {
            let (verdict, judgement) = verdict(&plan.prediction, headroom);
            let mut message = format!("{}: {verdict}", subject(&study_cell.cell));
            if let Some(least) = plan.advice.first() {
                message += &format!("; it would fit with {}", changes(least).join(", "));
            }
            Finding {
                cell: name(study_cell),
                message,
                level: Level::of(&plan.prediction, judgement),
            }
        })
    }
}

/// The cell's values of the axes, and its id.
fn name(study_cell: &StudyCell) -> String {
    let values = axis_values(study_cell).chain([study_cell.id.clone()]);
    values.collect::<Vec<_>>().join(", ")
}

/// A log in SARIF 2.1.0: a result for each cell that does not fit, may not, or is tight.
pub(super) fn sarif(studies: &[Planned<'_>]) -> String {
    let results = studies.iter().flat_map(|planned| {
        let invocation = &planned.study.invocation;
        let findings = planned.findings().filter(|finding| finding.level != Level::None);
        findings.map(move |finding| {
            let mut result = json!({
                "ruleId": "memory",
                "level": finding.level.name(),
                "message": { "text": format!("{} ({})", finding.message, finding.cell) },
            });
            // A model by name stands in no file.
            if !invocation.spec.is_empty() {
                result["locations"] = json!([{ "physicalLocation": {
                    "artifactLocation": { "uri": invocation.spec },
                    "region": { "startLine": 1 },
                } }]);
            }
            result
        })
    });
    let results: Vec<Value> = results.collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "expctl",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": [{
                    "id": "memory",
                    "shortDescription": { "text": "The configuration needs more memory than the device has" },
                }],
            } },
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// A report in JUnit's XML: a test for each cell, which fails if it does not fit.
pub(super) fn junit(studies: &[Planned<'_>]) -> String {
    let mut report = Report::new("expctl plan");
    for planned in studies {
        let mut suite = TestSuite::new(planned.study.invocation.source());
        for finding in planned.findings() {
            let fails = finding.level == Level::Error;
            let mut status = match fails {
                true => TestCaseStatus::non_success(NonSuccessKind::Failure),
                false => TestCaseStatus::success(),
            };
            if fails {
                status.set_message(finding.message.clone());
            }
            // The id of a spec's only cell says less than the spec's name.
            let name = match planned.study.cells.len() {
                1 => planned.study.name.clone(),
                _ => finding.cell,
            };
            let mut case = TestCase::new(name, status);
            if !fails {
                case.set_system_out(finding.message);
            }
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    report
        .to_string()
        .map_or_else(|error| error.to_string(), |text| text + "\n")
}
