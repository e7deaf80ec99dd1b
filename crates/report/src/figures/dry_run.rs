//! A dry run of the figures in texts, so that a wrong expression is found before hours of training.

use spec::{SpecError, Study};

use super::evaluate::Figures;
use super::pieces::{Piece, pieces};
use crate::about::About;
use crate::claims::Purpose;
use crate::group::Group;

/// True if the study's texts have anything to check.
pub(crate) fn has_figures(study: &Study) -> bool {
    let published = study.published.iter().filter_map(|figure| figure.note.as_deref());
    let claims = study.claims.iter();
    let claims = claims.flat_map(|claim| [claim.note.as_deref(), claim.untested.as_deref()]);
    let mut texts = published.chain(claims.flatten()).chain([&*study.description]);
    texts.any(|text| pieces(text).map_or(true, |pieces| !matches!(pieces.as_slice(), [Piece::Words(_)])))
}

/// Writes the figures of all texts over made-up groups.
///
/// # Errors
/// A mistake in an expression, with its place in the spec.
pub(crate) fn dry_run(study: &Study, groups: &[Group]) -> Result<(), SpecError> {
    let about = About::new(study);
    Figures::new(&about, groups, Purpose::DryRun).write_in(&mut about.clone())
}
