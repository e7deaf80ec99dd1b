//! A report on disk.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use base::foreign;
use base::whole_file;
use records::store::{StoreError, write_if_changed, write_own};

use super::error::ReportError;
use super::html;
use super::render::Rendered;

/// A file on disk that differs from the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The file.
    pub path: PathBuf,
    /// The first differing line: its number from 1, its text, and the report's text. `None` if there is no file.
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

/// Makes sure that a report can be written at `output`, and makes its folder.
///
/// # Errors
/// The folder cannot be made, or not written to.
pub fn prepare_output(output: &Path) -> Result<(), ReportError> {
    make_folder(output)?;
    writable(output, tempfile::tempfile_in(whole_file::folder_of(output)).map(drop))
}

/// Makes the folder of a report at `output`.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(output: &Path) -> Result<(), ReportError> {
    writable(output, fs::create_dir_all(whole_file::folder_of(output)))
}

fn writable(output: &Path, tried: std::io::Result<()>) -> Result<(), ReportError> {
    tried.map_err(|error| {
        let store = StoreError::Io {
            action: "write",
            path: output.to_path_buf(),
            // tempfile's own message names the temporary file.
            source: error.kind().into(),
        };
        store.into()
    })
}

/// Writes the report: Markdown and its charts or, if `output` ends in `.html`, one page with the charts inside. A file
/// that would not change is left alone. In a study's own folder, `is_own`, what lies in the place of a file makes room.
/// Returns the files that changed.
///
/// # Errors
/// A file cannot be written, or the page cannot be made.
pub fn write(rendered: &Rendered, output: &Path, is_own: bool) -> Result<Vec<PathBuf>, ReportError> {
    make_folder(output)?;
    let write = if is_own { write_own } else { write_if_changed };
    let mut written = Vec::new();
    for (path, text) in files(rendered, output)? {
        if write(&path, text.as_bytes())? {
            written.push(path);
        }
    }
    Ok(written)
}

/// The files on disk that differ from those that [`write`] would leave.
///
/// # Errors
/// The page cannot be made.
pub fn stale_files(rendered: &Rendered, output: &Path) -> Result<Vec<Stale>, ReportError> {
    let stale = |(path, text): (PathBuf, Cow<'_, str>)| {
        let Ok(bytes) = foreign::read(&path) else {
            return Some(Stale { path, line: None });
        };
        let is = String::from_utf8_lossy(&bytes);
        (is != text).then(|| Stale {
            line: Some(first_difference(&is, &text)),
            path,
        })
    };
    Ok(files(rendered, output)?.into_iter().filter_map(stale).collect())
}

/// Each file with its text.
fn files<'a>(rendered: &'a Rendered, output: &Path) -> Result<Vec<(PathBuf, Cow<'a, str>)>, ReportError> {
    let Rendered { markdown, files, .. } = rendered;
    if is_html(output) {
        let page = html::page(markdown, files)?;
        return Ok(vec![(output.to_path_buf(), page.into())]);
    }
    let charts = files
        .iter()
        .map(|(name, svg)| (output.with_file_name(name), svg.into()));
    Ok(charts.chain([(output.to_path_buf(), markdown.into())]).collect())
}

fn is_html(output: &Path) -> bool {
    output
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("html"))
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
