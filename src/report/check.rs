//! Checks before a run.

use super::error::ReportError;
use super::{claims, published};
use crate::spec::Study;

/// Makes sure that a report can show what the spec asks for, before hours of training.
///
/// # Errors
/// The mistake, with its place in the spec.
pub fn check_study(study: &Study) -> Result<(), ReportError> {
    published::check(study)?;
    claims::dry_run(study)
}
