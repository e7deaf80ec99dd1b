//! The report that a study's spec asks for: its template and its place.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, ensure};
use cell::Data;
use records::store::{StudyDir, make_room_unless_file};
use report::{About, Rendered, Template};
use results::frame;
use results::timeline;
use spec::Study;

use super::report_frames::{Frames, FramesBeside};
use super::{claims, print};

/// Where a report goes.
#[derive(Debug)]
pub(super) enum Place {
    /// The spec's `report.output` or, without one, the study's folder.
    Own,
    /// The spec's `report.publish`.
    Published,
    /// Another file.
    File(PathBuf),
}

/// The spec's place for the report that is committed.
///
/// # Errors
/// It names none.
pub(super) fn publish_of(study: &Study) -> anyhow::Result<&Path> {
    let place = study.report.publish.as_deref();
    place.with_context(|| {
        format!(
            "the `report` of `{}` names no place to publish; add `publish: reports/{}.md`",
            study.invocation.source(),
            study.name
        )
    })
}

/// A report of a study, before it is rendered.
pub(super) struct StudyReport<'s> {
    study: &'s Study,
    dir: &'s StudyDir,
    template: Template,
    /// The Markdown file.
    pub(super) output: PathBuf,
    /// True if it lies in the study's folder and the spec names no place: all of its files are the study's.
    is_own: bool,
    /// True if the page has no ids of cells.
    no_ids: bool,
    /// The frames beside a report in a place that the spec names; `None` if they are in the study's folder anyway.
    beside: Option<FramesBeside>,
}

impl<'s> StudyReport<'s> {
    /// The report at a place, with the spec's template or with the one that is given instead.
    ///
    /// # Errors
    /// The spec names no such place, or the report would replace a part of the study.
    pub(super) fn new(
        study: &'s Study,
        dir: &'s StudyDir,
        template: Option<&str>,
        place: Place,
    ) -> anyhow::Result<Self> {
        let is_own = matches!(place, Place::Own) && study.report.output.is_none();
        let (output, keeps_frames) = match place {
            Place::Own => (own_output(study, dir), true),
            Place::Published => (publish_of(study)?.to_path_buf(), true),
            Place::File(file) => (file, false),
        };
        let in_folder = resolved(&output).parent() == Some(&resolved(dir.path()));
        let report = Self {
            study,
            dir,
            template: template.map_or_else(|| template_of(study), Template::named),
            is_own,
            no_ids: false,
            beside: (keeps_frames && !in_folder).then(|| FramesBeside::of(&output)),
            output,
        };
        if report.is_own {
            make_room_unless_file(&report.output)
                .with_context(|| format!("cannot make room for `{}`", report.output.display()))?;
        }
        refuse_overwriting(&report.output, study, dir, &report.template)?;
        Ok(report)
    }

    /// The report with the ids of its cells, or without.
    pub(super) fn without_ids(self, no_ids: bool) -> Self {
        Self { no_ids, ..self }
    }

    /// Makes sure before the training that the report can be written after it.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        self.template.verify()?;
        // The run itself checks the study's own folder.
        if self.study.report.output.is_some() {
            report::prepare_output(&self.output)?;
        }
        self.beside.as_ref().map_or(Ok(()), FramesBeside::check_replaceable)
    }

    /// Renders the report of the records and the timelines.
    pub(super) fn render(&self, frames: &Frames) -> anyhow::Result<Rendered> {
        let about = About::new(self.study);
        let stem = stem(&self.output);
        let rendered = report::render(&about, frames.of_report(), &self.template, &stem)?;
        Ok(with_or_without_ids(rendered, self.no_ids))
    }

    /// Writes the frames of a study's records into its folder and beside the report. Returns the files that changed.
    pub(super) fn write_frames(&self, frames: &Frames) -> anyhow::Result<Vec<PathBuf>> {
        let mut written = frame::write(&frames.cells, self.dir)?;
        written.extend(timeline::write(&frames.timeline, self.dir)?);
        written.extend(self.write_beside(frames)?);
        Ok(written)
    }

    /// Writes the frames beside the report. Returns the files that changed.
    pub(super) fn write_beside(&self, frames: &Frames) -> anyhow::Result<Vec<PathBuf>> {
        let Some(beside) = &self.beside else {
            return Ok(Vec::new());
        };
        report::make_folder(&self.output)?;
        beside.write(frames, &self.study.invocation)
    }

    /// The files beside the report that do not hold these frames.
    pub(super) fn stale_frames(&self, frames: &Frames) -> Vec<&Path> {
        let beside = self.beside.as_ref();
        beside.map_or_else(Vec::new, |beside| beside.stale(frames, &self.study.invocation))
    }

    /// Writes the report. Returns it and the files that changed.
    pub(super) fn write(&self, frames: &Frames) -> anyhow::Result<(Rendered, Vec<PathBuf>)> {
        let rendered = self.render(frames)?;
        let written = report::write(&rendered, &self.output, self.is_own)?;
        Ok((rendered, written))
    }
}

/// A report, without the ids of its cells if `no_ids`.
pub(super) fn with_or_without_ids(rendered: Rendered, no_ids: bool) -> Rendered {
    match no_ids {
        true => Rendered {
            markdown: report::without_ids(&rendered.markdown),
            ..rendered
        },
        false => rendered,
    }
}

/// Endings of specs, data and frames: a file that has one is no report.
const NO_REPORTS: [&str; 6] = ["yaml", "yml", "csv", "json", "jsonl", "parquet"];

/// Makes sure that a report in `output` replaces a report and nothing else.
///
/// # Errors
/// There is a folder, or a part of the study: its spec, data, template, frames, records, or a file of this kind.
pub(super) fn refuse_overwriting(
    output: &Path,
    study: &Study,
    dir: &StudyDir,
    template: &Template,
) -> anyhow::Result<()> {
    let mut others = vec![
        study.directory.join(&study.file),
        dir.study_yaml(),
        dir.cells_parquet(),
        dir.cells_csv(),
        dir.timeline_parquet(),
        dir.lock(),
    ];
    let roots = study.roots();
    for study_cell in &study.cells {
        if let Data::File(file) = &study_cell.cell.data {
            others.extend(data::all_files(file, &roots));
        }
    }
    if let Template::File(path) = template {
        others.push(path.clone());
    }
    for place in [&study.report.output, &study.report.publish].into_iter().flatten() {
        others.extend(FramesBeside::of(place).paths().map(Path::to_path_buf));
    }
    let shown = output.display();
    let place = resolved(output);
    ensure!(!place.is_dir(), "the report cannot be `{shown}`: that is a folder");
    let is_part =
        place.starts_with(resolved(&dir.path().join("cells"))) || others.iter().any(|other| resolved(other) == place);
    ensure!(
        !is_part,
        "the report cannot be `{shown}`: that is a part of the study; name another file"
    );
    let ending = place.extension().and_then(OsStr::to_str).unwrap_or_default();
    ensure!(
        !place.exists() || !NO_REPORTS.contains(&ending.to_lowercase().as_str()),
        "the report cannot be `{shown}`: that file exists and is no report; name another file"
    );
    Ok(())
}

/// Makes sure that another page does not replace the study's own report.
///
/// # Errors
/// `output` is its place.
pub(super) fn refuse_own_report(output: &Path, study: &Study, dir: &StudyDir) -> anyhow::Result<()> {
    let own = [Some(own_output(study, dir)), study.report.publish.clone()];
    ensure!(
        own.iter().flatten().all(|own| resolved(output) != resolved(own)),
        "the comparison cannot be `{}`: that is the study's report; name another file",
        output.display()
    );
    Ok(())
}

/// Checks that a report's files are what `source` makes, and that the verdicts on its claims are the expected ones, and that its
/// answer holds.
/// `is_current` is false if something else was found to be stale.
pub(super) fn check(rendered: &Rendered, output: &Path, source: &Path, is_current: bool) -> anyhow::Result<bool> {
    let stale = report::stale_files(rendered, output)?;
    for file in &stale {
        eprintln!("{file}");
    }
    let is_fresh = stale.is_empty() && is_current;
    if is_fresh {
        print(&up_to_date(output, source))?;
    }
    if let Some(summary) = claims::summary(&rendered.claims) {
        print(&format!("{summary}\n"))?;
    }
    let holds = claims::answer_holds(&rendered.answer);
    Ok(is_fresh && claims::are_as_expected(&rendered.claims) && holds)
}

/// The line about a report that would not change.
pub(super) fn up_to_date(output: &Path, source: &Path) -> String {
    format!("{} is up to date with {}\n", output.display(), source.display())
}

/// The report that a run writes.
fn own_output(study: &Study, dir: &StudyDir) -> PathBuf {
    study.report.output.clone().unwrap_or_else(|| default_output(dir))
}

/// The report of a study whose spec names no place.
pub(super) fn default_output(dir: &StudyDir) -> PathBuf {
    dir.path().join("report.md")
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
