//! A report on disk.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::ReportError;
use super::render::Rendered;
use crate::results::store::{StoreError, write_if_changed};

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
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let tried = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder).map(drop));
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

/// Writes the report and its charts. A file that would not change is left alone. Returns the files that changed.
///
/// # Errors
/// A file cannot be written.
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

/// The files on disk that differ from the report.
pub fn stale_files(rendered: &Rendered, output: &Path) -> Vec<Stale> {
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
