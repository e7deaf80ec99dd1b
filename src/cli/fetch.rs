//! Progress and remarks of what comes from the hub.

use std::io::{IsTerminal, Write, stderr};

use indicatif::ProgressBar;

use crate::hub::{self, Roots};
use crate::runner::{self, PreflightError, Purpose};
use crate::spec::Study;
use crate::text::format::bytes;

/// Files below this size are not worth a line, in bytes.
const SMALL: usize = 1 << 20;

/// Fetches what the study needs from the hub; prints progress and remarks to stderr.
///
/// # Errors
/// Those of [`runner::fetch`].
pub(super) fn fetch(study: &mut Study, purpose: Purpose) -> Result<(), PreflightError> {
    let notes = runner::fetch(study, purpose, &mut Downloads::default())?;
    for note in notes {
        let _ = writeln!(stderr(), "note: {note}");
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
        self.file = file.into();
        if stderr().is_terminal() {
            if is_new {
                self.bar = Some(ProgressBar::new(0));
            }
            if let Some(bar) = &mut self.bar {
                // An attempt starts again from what is there.
                bar.set_position(0);
                hub::Progress::init(bar, size, file);
            }
        } else if is_new {
            let _ = writeln!(stderr(), "fetching {file} ({})", bytes((size as u64).into()));
        }
    }

    fn update(&mut self, size: usize) {
        if let Some(bar) = &mut self.bar {
            hub::Progress::update(bar, size);
        }
    }

    fn finish(&mut self) {
        if let Some(mut bar) = self.bar.take() {
            hub::Progress::finish(&mut bar);
        }
        self.file.clear();
    }
}
