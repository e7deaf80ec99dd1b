//! The comparison as Markdown.

use super::pair::{Pair, pairs};
use super::paragraph;
use super::pick::{Pick, pick};
use super::table;
use crate::about::About;
use crate::axes::axes;
use crate::entry::entries;
use crate::error::ReportError;
use crate::group::groups;
use crate::markdown::{line_code as code, tidy};
use crate::render::Frames;

/// Markdown that compares the cells of `only` with those of `baseline`: values of one axis, or names of methods.
/// Configurations that agree in all other axes are compared.
///
/// # Errors
/// There are no such values, or no two configurations to compare; or the frame cannot be read.
pub fn one_method(about: &About, frames: Frames<'_>, only: &str, baseline: &str) -> Result<String, ReportError> {
    let cells = entries(frames.cells)?;
    let axes = axes(&cells, &about.axes);
    let groups = groups(&cells, &axes);
    let picked = |word| pick(&groups, &axes, word).map_err(ReportError::OneMethod);
    let (only, baseline) = (picked(only)?, picked(baseline)?);
    let pairs = pairs(&groups, &axes, &only, &baseline).map_err(ReportError::OneMethod)?;
    let name = |pick: &Pick| code(&pick.to_string());
    let names = (name(&only), name(&baseline));
    let parts: Vec<String> = pairs.iter().map(|pair| markdown(pair, about, &names)).collect();
    Ok(tidy(&parts.join("\n\n")))
}

/// One pair: the paragraph, the table, and where its figures come from.
fn markdown(pair: &Pair<'_>, about: &About, (only, baseline): &(String, String)) -> String {
    let sentences = paragraph::sentences(pair, only, baseline).join(" ");
    let table = table::table(pair, only, baseline);
    format!("{sentences}\n\n{table}\n\n{}", paragraph::legend(pair, &about.name))
}
