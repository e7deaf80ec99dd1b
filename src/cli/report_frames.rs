//! The frames that a report is made from: a study's records, or the frames that are kept beside its last report.

use std::path::{Path, PathBuf};

use anyhow::Context;
use polars_core::prelude::DataFrame;
use records::Status;
use records::store::StudyDir;
use results::collect::Collected;
use results::frame::KeptFrame;
use results::timeline;
use spec::{Invocation, Study};

use super::{studies, warn};

/// The frames of a study's results.
pub(super) struct Frames {
    pub(super) cells: DataFrame,
    pub(super) timeline: DataFrame,
}

impl Frames {
    /// Reads the records, and the timelines of the cells that ended well. `all` adds cells that the spec no longer has.
    pub(super) fn read(dir: &StudyDir, study: &Study, all: bool) -> anyhow::Result<Self> {
        let collection = studies::read(dir, study, all)?;
        let ok = |cell: &&Collected| cell.record.as_ref().is_some_and(|record| record.status == Status::Ok);
        let ids = collection.cells.iter().filter(ok).map(|cell| cell.cell_id.as_str());
        let (timeline, damaged) = timeline::build(dir, ids)?;
        for error in damaged {
            warn(&format!("{error}; the report is without it"));
        }
        Ok(Self {
            timeline,
            cells: collection.frame()?,
        })
    }

    /// The frames as a report's renderer takes them.
    pub(super) fn of_report(&self) -> report::Frames<'_> {
        report::Frames {
            cells: &self.cells,
            timeline: Some(&self.timeline),
        }
    }
}

/// The files of the frames that are kept beside a report. They are small enough to be committed with it.
pub(super) struct FramesBeside {
    /// A row for each cell.
    pub(super) cells: PathBuf,
    /// The timelines; there is no file if none was recorded.
    timeline: PathBuf,
}

impl FramesBeside {
    /// The files beside a Markdown file: `NAME.parquet` and `NAME.timeline.parquet`.
    pub(super) fn of(output: &Path) -> Self {
        Self {
            cells: output.with_extension("parquet"),
            timeline: output.with_extension("timeline.parquet"),
        }
    }

    /// Both files.
    pub(super) fn paths(&self) -> [&Path; 2] {
        [&self.cells, &self.timeline]
    }

    /// Reads the frames, and the command that their study came from.
    pub(super) fn read(&self) -> anyhow::Result<(Frames, Invocation)> {
        let cells = KeptFrame::read(&self.cells)?;
        let timeline = match self.timeline.exists() {
            true => KeptFrame::read(&self.timeline)?.frame().clone(),
            false => DataFrame::empty(),
        };
        let frames = Frames {
            cells: cells.cells()?,
            timeline,
        };
        Ok((frames, cells.invocation().clone()))
    }

    /// Makes sure that neither file would replace one that is not a kept frame.
    pub(super) fn check_replaceable(&self) -> anyhow::Result<()> {
        for path in self.paths() {
            KeptFrame::check_replaceable(path).with_context(|| {
                let shown = path.display();
                format!("the report's frame cannot be kept in `{shown}`; give the report another name")
            })?;
        }
        Ok(())
    }

    /// Writes the frames. Returns the files that changed.
    pub(super) fn write(&self, frames: &Frames, invocation: &Invocation) -> anyhow::Result<Vec<PathBuf>> {
        self.check_replaceable()?;
        let mut written = Vec::new();
        for (path, frame) in self.to_keep(frames, invocation) {
            written.extend(frame.write(path)?);
        }
        Ok(written)
    }

    /// The files that do not hold these frames.
    pub(super) fn stale(&self, frames: &Frames, invocation: &Invocation) -> Vec<&Path> {
        let kept = self.to_keep(frames, invocation).into_iter();
        kept.filter(|(path, frame)| !frame.is_at(path))
            .map(|(path, _)| path)
            .collect()
    }

    fn to_keep(&self, frames: &Frames, invocation: &Invocation) -> [(&Path, KeptFrame); 2] {
        let keep = |frame| KeptFrame::new(frame, invocation);
        [
            (&self.cells, keep(&frames.cells)),
            (&self.timeline, keep(&frames.timeline)),
        ]
    }
}
