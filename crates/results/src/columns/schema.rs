//! All columns of a frame of cells.

use super::keys::key_kinds;
use super::kind::{IDENTITY, Kind, REPLANNED};
use super::lineage::LINEAGE;
use super::outcome::outcomes;
use super::prediction::predictions;

/// The columns of a frame of cells with their types, in their order. The type is `None` for a map of free names, whose
/// entries are columns of text.
pub fn schema() -> Vec<(String, Option<Kind>)> {
    let identity = IDENTITY.into_iter().chain(LINEAGE);
    let identity = identity.map(|(name, kind)| (name.to_owned(), Some(kind)));
    let is_identity = |name: &str| IDENTITY.iter().any(|(identity, _)| *identity == name);
    let keys = key_kinds().into_iter().filter(|(name, _)| !is_identity(name));
    let outcomes = outcomes().into_iter().map(|column| (column.name, Some(column.kind)));
    let predictions = predictions().into_iter().map(|column| (column.name, Some(column.kind)));
    let columns = identity.chain(keys).chain(outcomes).chain(predictions);
    columns.chain([(REPLANNED.to_owned(), Some(Kind::Text))]).collect()
}
