//! A report in memory: Markdown and its charts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::Value;
use polars_core::prelude::DataFrame;

use super::about::About;
use super::answer_text;
use super::charts::Charts;
use super::claims::ClaimResult;
use super::context::Context;
use super::entry::entries;
use super::error::ReportError;
use super::figures::AnswerResult;
use super::filters::{self, chart_file};
use super::paste::PasteTable;
use super::template::Template;
use super::{figures, markdown};

/// The frames of a report.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    /// One row per cell.
    pub cells: &'a DataFrame,
    /// The study's timelines, if some were recorded.
    pub timeline: Option<&'a DataFrame>,
}

impl<'a> From<&'a DataFrame> for Frames<'a> {
    fn from(cells: &'a DataFrame) -> Self {
        Self { cells, timeline: None }
    }
}

/// A report in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The page.
    pub markdown: String,
    /// The charts that the page links to, by their file name.
    pub files: BTreeMap<String, String>,
    /// The spec's claims with their verdicts.
    pub claims: Vec<ClaimResult>,
    /// The sentences of the spec's answer.
    pub answer: Vec<AnswerResult>,
}

impl Rendered {
    /// The sentences of the page's answer, without Markdown; none where it has no answer.
    pub fn answer_text(&self) -> Vec<String> {
        answer_text::sentences(&self.markdown)
    }
}

/// Renders frames. `stem` is the Markdown file's name without its extension, and begins the charts' names.
///
/// # Errors
/// A mistake in the template, a text or a claim, or a frame or a chart that fails.
pub fn render<'a>(
    about: &About,
    frames: impl Into<Frames<'a>>,
    template: &Template,
    stem: &str,
) -> Result<Rendered, ReportError> {
    let frames = frames.into();
    let cells = entries(frames.cells)?;
    let timeline = frames.timeline.map(entries).transpose()?.unwrap_or_default();
    let about = figures::write_all(about, &cells)?;
    let context = Arc::new(Context::new(about, cells, timeline)?);
    let charts = Arc::new(Charts::new(Arc::clone(&context)));

    let ids: Vec<&str> = context.ids().collect();
    let (mut env, name) = template.environment(ids.len())?;
    filters::add(&mut env, short_id_length(&ids));
    filters::add_charts(&mut env, stem, Arc::clone(&charts));
    let markdown = template.work(ids.len(), || {
        let loaded = env.get_template(&name)?;
        loaded.render(Value::from_dyn_object(Arc::clone(&context)))
    })?;
    let markdown = markdown::tidy(&markdown);

    let mut files = BTreeMap::new();
    for name in charts.names() {
        let file = chart_file(stem, name);
        if markdown.contains(&file)
            && let Some(Ok(svg)) = charts.get(name).transpose()?
        {
            files.insert(file, svg.clone());
        }
    }
    Ok(Rendered {
        files,
        markdown,
        claims: context.claims().to_vec(),
        answer: context.answer().to_vec(),
    })
}

/// The table to paste of a frame.
///
/// # Errors
/// A mistake in a text or a claim, or a frame that cannot be read.
pub fn paste_table(about: &About, cells: &DataFrame) -> Result<PasteTable, ReportError> {
    Ok(Context::new(about.clone(), entries(cells)?, Vec::new())?.paste())
}

/// The length that distinguishes all ids: at least six digits.
fn short_id_length(ids: &[&str]) -> usize {
    let distinct = ids.iter().collect::<BTreeSet<_>>().len();
    let enough = |length: &usize| {
        let short: BTreeSet<&str> = ids.iter().map(|id| id.get(..*length).unwrap_or(id)).collect();
        short.len() == distinct
    };
    (6..12).find(enough).unwrap_or(12)
}
