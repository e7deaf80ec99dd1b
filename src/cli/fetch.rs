//! Progress and remarks of what comes from the hub.

use std::io::{IsTerminal, Write, stderr};

use base::text::format::bytes;
use base::text::visible;
use hub::Roots;
use indicatif::{ProgressBar, ProgressStyle};
use runner::{PreflightError, Purpose};
use spec::{Study, StudyCell};

/// Files below this size are not worth a line, in bytes.
const SMALL: usize = 1 << 20;

/// Fetches what the study's due cells need from the hub; prints progress and remarks to stderr.
///
/// # Errors
/// Those of [`runner::fetch`].
pub(super) fn fetch(
    study: &mut Study,
    purpose: Purpose,
    is_due: impl Fn(&StudyCell) -> bool,
) -> Result<(), PreflightError> {
    let notes = runner::fetch(study, purpose, is_due, &mut Downloads::default())?;
    for note in notes {
        let _ = writeln!(stderr(), "note: {}", visible(&note));
    }
    Ok(())
}

/// Fetches the configuration of a model that `--model` names, unless it is here.
///
/// # Errors
/// The name leads to nothing.
pub(super) fn fetch_description(model: &str) -> Result<Roots, PreflightError> {
    runner::fetch_description(model, &mut Downloads::default())
}

/// A bar for each file on a terminal, a line elsewhere.
#[derive(Default)]
struct Downloads {
    file: String,
    bar: Option<ProgressBar>,
}

impl hub::Progress for Downloads {
    fn init(&mut self, size: usize, file: &str) {
        if size < SMALL {
            return;
        }
        let is_new = self.file != file;
        if is_new {
            self.finish();
            self.file = file.into();
        }
        if stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| bar(size as u64, file));
            // An attempt starts again from what is there.
            bar.set_position(0);
        } else if is_new {
            let _ = writeln!(stderr(), "fetching {} ({})", visible(file), bytes((size as u64).into()));
        }
    }

    fn update(&mut self, size: usize) {
        if let Some(bar) = &self.bar {
            bar.inc(size as u64);
        }
    }

    /// Leaves the bar where it is, which after a failure is not its end.
    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.abandon();
        }
        self.file.clear();
    }
}

fn bar(size: u64, file: &str) -> ProgressBar {
    let style = "{msg} [{elapsed_precise}] [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} ({eta})";
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(size)
        .with_style(style)
        .with_message(visible(file).into_owned())
}
