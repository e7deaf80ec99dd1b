//! Checks before a run.

use spec::Study;

use super::about::About;
use super::claims::Purpose;
use super::error::ReportError;
use super::{claims, figures, made_up, outcomes, paste, published};

/// Makes sure that a report can show what the spec asks for, before hours of training.
///
/// # Errors
/// The mistake, with its place in the spec.
pub fn check_study(study: &Study) -> Result<(), ReportError> {
    published::check(study)?;
    outcomes::check(study)?;
    paste::check(study)?;
    let answer = &study.report.answer;
    if study.claims.is_empty() && answer.is_empty() && !figures::has_figures(study) {
        return Ok(());
    }
    for (round, groups) in made_up::rounds(study)?.enumerate() {
        if round == 0 {
            figures::dry_run(study, &groups)?;
        }
        if study.claims.is_empty() && answer.is_empty() {
            break;
        }
        claims::dry_run(study, &groups)?;
        figures::answer(&About::new(study), &groups, Purpose::DryRun)?;
    }
    Ok(())
}
