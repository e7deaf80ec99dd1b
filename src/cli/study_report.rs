//! The report that a study's spec asks for: its template, its place, its frames.

use std::path::{Component, Path, PathBuf};

use anyhow::ensure;
use polars_core::prelude::DataFrame;

use super::studies;
use crate::report::{self, About, Rendered, Template};
use crate::results::collect::Collected;
use crate::results::record::Status;
use crate::results::store::StudyDir;
use crate::results::{frame, timeline};
use crate::spec::Study;

/// A report of a study, before it is rendered.
pub(super) struct StudyReport<'s> {
    study: &'s Study,
    dir: &'s StudyDir,
    template: Template,
    /// The Markdown file.
    pub(super) output: PathBuf,
}

impl<'s> StudyReport<'s> {
    /// The report with the spec's template and output, or with the ones that are given instead.
    ///
    /// # Errors
    /// The report would replace a part of the study.
    pub(super) fn new(
        study: &'s Study,
        dir: &'s StudyDir,
        template: Option<&str>,
        output: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let output = output.or_else(|| study.report.output.clone());
        let report = Self {
            study,
            dir,
            template: template.map_or_else(|| template_of(study), Template::named),
            output: output.unwrap_or_else(|| dir.path().join("report.md")),
        };
        report.refuse_overwriting()?;
        Ok(report)
    }

    /// Makes sure before the training that the report can be written after it.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        self.template.verify()?;
        // The run itself checks the study's own folder.
        if self.study.report.output.is_some() {
            report::prepare_output(&self.output)?;
        }
        Ok(())
    }

    /// Renders the report of the records and the timelines.
    pub(super) fn render(&self, frames: &Frames) -> anyhow::Result<Rendered> {
        let frames = report::Frames {
            cells: &frames.cells,
            timeline: Some(&frames.timeline),
        };
        let about = About::new(self.study);
        Ok(report::render(&about, frames, &self.template, &stem(&self.output))?)
    }

    /// Writes the frames and the report. Returns the report and the files that changed.
    pub(super) fn write(&self, frames: &Frames) -> anyhow::Result<(Rendered, Vec<PathBuf>)> {
        let mut written = frame::write(&frames.cells, self.dir)?;
        written.extend(timeline::write(&frames.timeline, self.dir)?);
        let rendered = self.render(frames)?;
        written.extend(report::write(&rendered, &self.output)?);
        Ok((rendered, written))
    }

    /// A report may replace a report, and nothing else.
    fn refuse_overwriting(&self) -> anyhow::Result<()> {
        let Self { study, dir, .. } = self;
        let spec = study.directory.join(&study.file);
        let mut others = vec![
            spec,
            dir.study_yaml(),
            dir.cells_parquet(),
            dir.cells_csv(),
            dir.timeline_parquet(),
            dir.lock(),
        ];
        if let Template::File(path) = &self.template {
            others.push(path.clone());
        }
        let shown = self.output.display();
        let place = resolved(&self.output);
        let in_cells = place.starts_with(resolved(&dir.path().join("cells")));
        ensure!(
            !in_cells && others.iter().all(|other| resolved(other) != place),
            "the report cannot be `{shown}`: that is a part of the study; name another file"
        );
        ensure!(!place.is_dir(), "the report cannot be `{shown}`: that is a folder");
        Ok(())
    }
}

/// The frames of a study's results.
pub(super) struct Frames {
    cells: DataFrame,
    timeline: DataFrame,
}

impl Frames {
    /// Reads the records, and the timelines of the cells that ended well. `all` adds cells that the spec no longer has.
    pub(super) fn read(dir: &StudyDir, study: &Study, all: bool) -> anyhow::Result<Self> {
        let collection = studies::read(dir, study, all)?;
        let ok = |cell: &&Collected| cell.record.as_ref().is_some_and(|record| record.status == Status::Ok);
        let ids = collection.cells.iter().filter(ok).map(|cell| cell.cell_id.as_str());
        Ok(Self {
            timeline: timeline::build(dir, ids)?,
            cells: collection.frame()?,
        })
    }
}

/// The spec's template; a path is relative to the spec.
pub(super) fn template_of(study: &Study) -> Template {
    match Template::named(study.report.template()) {
        Template::File(path) => Template::File(study.directory.join(path)),
        built_in => built_in,
    }
}

/// The beginning of the charts' file names.
pub(super) fn stem(output: &Path) -> String {
    output.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The absolute path with links followed; the end of it need not exist.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let existing = path
        .ancestors()
        .find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    let Some((folder, mut resolved)) = existing else {
        return path;
    };
    for component in path.strip_prefix(folder).unwrap_or(Path::new("")).components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            component => resolved.push(component),
        }
    }
    resolved
}
