//! A dry run of claims over made-up figures, so that a wrong expression is found before hours of training.

use base::text::Mistake;
use spec::{SpecError, Study};

use super::bases::bases;
use super::basis::Purpose;
use super::bound::{BoundClaim, bind};
use super::judge::judge;
use crate::group::Group;

/// Judges a study's claims over made-up groups.
///
/// # Errors
/// A mistake in a claim, with its place in the spec.
pub(crate) fn dry_run(study: &Study, groups: &[Group]) -> Result<(), SpecError> {
    let claims = bind(study);
    claims.iter().try_for_each(|claim| check_expectation(claim, groups))?;
    judge(&claims, groups, Purpose::DryRun).map(drop)
}

/// Makes sure that the claim has cells of the stacks for which it expects a verdict.
fn check_expectation(claim: &BoundClaim, groups: &[Group]) -> Result<(), SpecError> {
    let bases = bases(claim, groups, false);
    for stack in claim.claim.expect.stacks() {
        if bases.iter().all(|basis| basis.stack != Some(stack)) {
            let name = stack.name();
            let mistake = Mistake::new(format!("the claim is not judged on `stack: {name}`"))
                .help("a claim is judged on the stacks of its `cells` that its expressions read");
            return Err(claim.error(&format!("expect.{name}"), "", mistake));
        }
    }
    Ok(())
}
