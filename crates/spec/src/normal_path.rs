//! Paths without detours.

use std::path::{Component, Path, PathBuf};

/// The path without `.` and `..`, by its text alone.
pub fn normal_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
