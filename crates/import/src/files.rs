//! Files that a configuration names.

use std::path::{Path, PathBuf};

/// The file that a configuration names by a path: relative to its own folder, to the current one, or to one above its
/// own, as tools are started in a repository's folder.
pub(crate) fn find(path: &str, folder: &Path) -> Option<PathBuf> {
    let folder = absolute(folder)?;
    let above = folder.ancestors().map(|folder| folder.join(path));
    let here = std::iter::once(PathBuf::from(path));
    above
        .take(1)
        .chain(here)
        .chain(folder.ancestors().skip(1).map(|folder| folder.join(path)))
        .find(|path| path.is_file())
}

/// The path as a spec in `folder` has it.
pub(crate) fn seen_from(folder: &Path, path: &Path) -> String {
    let real = |path: &Path| path.canonicalize().ok().or_else(|| absolute(path));
    let below = real(path).zip(real(folder)).and_then(|(path, folder)| {
        let rest = path.strip_prefix(&folder).ok()?;
        Some(rest.to_path_buf())
    });
    let seen = below.or_else(|| real(path)).unwrap_or_else(|| path.to_path_buf());
    seen.display().to_string()
}

/// The path from the root; the current folder for an empty one.
fn absolute(path: &Path) -> Option<PathBuf> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).ok()
}
