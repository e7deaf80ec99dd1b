//! Reports: a frame and a template become Markdown and the charts beside it. Nothing here reads records; the same frame
//! gives the same bytes.

pub mod accuracy;
mod axes;
pub mod chart;
mod claims;
pub mod compare;
mod context;
mod entry;
mod figures;
mod filters;
mod group;
pub mod markdown;
mod pairs;
mod published;
mod template;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minijinja::value::Serde;
use polars_core::prelude::{DataFrame, PolarsError};

pub use axes::axes;
pub use claims::{Judged, Shown, Verdict};
pub use context::About;
pub use entry::{Entry, entries};
pub use template::Template;

use crate::results::frame::FrameError;
use crate::results::store::{StoreError, write_if_changed};
use crate::spec::{SpecError, Study};
use chart::ChartError;
use context::Context;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read the template `{}`", path.display())]
    TemplateFile { path: PathBuf, source: io::Error },
    /// The message shows the place in the template.
    #[error("{0}")]
    Template(String),
    #[error("cannot read the frame")]
    Frame(#[from] PolarsError),
    /// Something that the spec asks the report to show; the message shows the place in the spec.
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Build(#[from] FrameError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    /// A row a cell.
    pub cells: &'a DataFrame,
    /// The study's timelines, where some were recorded.
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
    pub markdown: String,
    /// Charts that the Markdown links to, by the name of their file beside it.
    pub files: BTreeMap<String, String>,
    /// The spec's claims with their verdicts.
    pub claims: Vec<Judged>,
}

/// A file on disk that is not what the report would be now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    pub path: PathBuf,
    /// The first line that differs, from 1, as it is and as it would be; none where the file is not there.
    pub line: Option<(usize, String, String)>,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.line {
            None => write!(f, "`{}` is not there", self.path.display()),
            Some((line, is, would_be)) => write!(
                f,
                "`{}` is stale at line {line}:\n  is:       {is}\n  would be: {would_be}",
                self.path.display()
            ),
        }
    }
}

/// Makes sure that what a study asks its report to show is there to be shown: known before hours of training, not after.
///
/// # Errors
/// What is wrong, with its place in the spec.
pub fn check_study(study: &Study) -> Result<(), ReportError> {
    published::check(study)?;
    claims::rehearse(study)
}

/// Renders frames; `stem` is the name of the Markdown file without its extension, which the charts' names begin with.
pub fn render<'a>(
    about: &About,
    frames: impl Into<Frames<'a>>,
    template: &Template,
    stem: &str,
) -> Result<Rendered, ReportError> {
    let frames = frames.into();
    let cells = entries(frames.cells)?;
    let timeline = frames.timeline.map(entries).transpose()?.unwrap_or_default();
    let context = Context::new(about, &cells, &timeline)?;
    let charts = draw(&context)?;
    let file = |name: &str| format!("{stem}-{}.svg", name.replace(['_', ' '], "-"));
    let names: BTreeMap<String, Option<String>> = charts
        .iter()
        .map(|(name, svg)| (name.clone(), svg.as_ref().map(|_| file(name))))
        .collect();
    let names = Arc::new(names);

    let (mut env, name) = template.environment()?;
    let ids: Vec<&str> = cells.iter().filter_map(|cell| cell.text("cell_id")).collect();
    filters::add(&mut env, short_id_length(&ids), Arc::clone(&names));
    let markdown = env
        .get_template(&name)
        .and_then(|loaded| loaded.render(Serde(&context)))
        .map_err(|error| ReportError::Template(template.explain(&error)))?;
    let markdown = markdown::tidy(&markdown);

    let linked = |(name, svg): (String, Option<String>)| {
        let file = names.get(&name).cloned().flatten()?;
        markdown.contains(&file).then_some((file, svg?))
    };
    let files = charts.into_iter().filter_map(linked).collect();
    let claims = context.claims;
    Ok(Rendered {
        markdown,
        files,
        claims,
    })
}

/// All charts by their name in templates; none where there is nothing to draw.
fn draw(context: &Context<'_>) -> Result<BTreeMap<String, Option<String>>, ChartError> {
    let unit = context::memory_unit(&context.groups);
    let memory_speed = figures::memory_speed(&context.groups, &context.axes, unit);
    let memory_loss = figures::memory_loss(&context.groups, &context.axes, unit, context.loss);
    let growth = figures::growth(&context.groups, &context.axes, unit);
    let categories = figures::categories(&context.groups, &context.axes, unit);
    let mut charts = BTreeMap::from([
        (
            "memory_speed".into(),
            memory_speed.map(|chart| chart.draw()).transpose()?,
        ),
        ("memory_loss".into(), memory_loss.map(|chart| chart.draw()).transpose()?),
        ("growth".into(), growth.map(|chart| chart.draw()).transpose()?),
        ("categories".into(), categories.map(|chart| chart.draw()).transpose()?),
    ]);
    for timeline in &context.timelines {
        charts.insert(timeline.chart.clone(), Some(timeline.area(unit).draw()?));
    }
    Ok(charts)
}

/// How much of an id tells it from all others: at least six digits.
fn short_id_length(ids: &[&str]) -> usize {
    let distinct = ids.iter().collect::<BTreeSet<_>>().len();
    let enough = |length: &usize| {
        let short: BTreeSet<&str> = ids.iter().map(|id| id.get(..*length).unwrap_or(id)).collect();
        short.len() == distinct
    };
    (6..12).find(enough).unwrap_or(12)
}

/// Makes sure that a report can be written there; its folder is made.
pub fn make_place(output: &Path) -> Result<(), ReportError> {
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let tried = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop));
    tried.map_err(|error| {
        let store = StoreError::Io {
            action: "write",
            path: output.to_path_buf(),
            // Not tempfile's own words: they name its file.
            source: error.kind().into(),
        };
        store.into()
    })
}

/// Writes the report and its charts, each only where it changes, and says which files it wrote.
pub fn write(rendered: &Rendered, output: &Path) -> Result<Vec<PathBuf>, ReportError> {
    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder).map_err(|source| StoreError::Io {
            action: "create",
            path: folder.to_path_buf(),
            source,
        })?;
    }
    let mut written = Vec::new();
    for (path, text) in files(rendered, output) {
        if write_if_changed(&path, text.as_bytes())? {
            written.push(path);
        }
    }
    Ok(written)
}

/// The files on disk that are not what the report would be now.
pub fn check(rendered: &Rendered, output: &Path) -> Vec<Stale> {
    let stale = |(path, text): (PathBuf, &str)| {
        let Ok(bytes) = fs::read(&path) else {
            return Some(Stale { path, line: None });
        };
        let is = String::from_utf8_lossy(&bytes);
        (is != text).then(|| Stale {
            line: Some(first_difference(&is, text)),
            path,
        })
    };
    files(rendered, output).filter_map(stale).collect()
}

fn files<'a>(rendered: &'a Rendered, output: &'a Path) -> impl Iterator<Item = (PathBuf, &'a str)> {
    let charts = rendered
        .files
        .iter()
        .map(|(name, svg)| (output.with_file_name(name), svg.as_str()));
    charts.chain([(output.to_path_buf(), rendered.markdown.as_str())])
}

fn first_difference(is: &str, would_be: &str) -> (usize, String, String) {
    let (mut left, mut right) = (is.split('\n'), would_be.split('\n'));
    let mut line = 1;
    loop {
        match (left.next(), right.next()) {
            (Some(a), Some(b)) if a == b => line += 1,
            (a, b) => {
                let shown = |text: Option<&str>| text.map_or("(end of file)".to_string(), |text| text.to_string());
                return (line, shown(a), shown(b));
            }
        }
    }
}
