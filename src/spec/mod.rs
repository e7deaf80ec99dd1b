//! The spec: a YAML file that declares a study.
//!
//! [`load`] reads it, lays the [`Overrides`] over it, expands its sweep and checks every cell; what comes back is a
//! [`Study`]. Nothing is parsed and then ignored: a key that is not known, a value that its key cannot have and a
//! combination that makes no sense are a [`SpecError`], which shows the file, the line and what would be right.
//!
//! The way of a value: `yaml` reads a tree without guessing types, which remembers where everything stands; `layers` merges
//! file and overrides; `sweep` and `expand` combine the axes; `de` types each value by its key as a [`cell::Cell`] is made.

use std::path::Path;
use std::sync::Arc;

pub mod cell;
mod claim;
mod de;
mod duration;
mod error;
mod expand;
mod file;
mod filter;
mod invocation;
mod keys;
mod layers;
mod pin_axes;
mod published;
mod scalar;
mod schema;
mod selection;
mod settings;
mod source;
mod study;
mod sweep;
mod tree;
mod yaml;

pub use claim::{Claim, Expected, Measure};
pub use error::SpecError;
pub use file::STUDY_FILE;
pub use invocation::Invocation;
pub(crate) use keys::suggestion;
pub use keys::{Key, keys};
pub use layers::Overrides;
pub use published::{Metric, Published};
pub use schema::schema;
pub use selection::Selection;
pub use source::Origin;
pub use study::{Limits, RecordSpec, ReportSpec, Study, StudyCell, TEMPLATES};

use source::Sources;
use yaml::Budget;

/// The largest file that is read as a spec.
const LARGEST: u64 = 4 << 20;

/// Reads the spec at `path`.
///
/// # Errors
/// Everything that is wrong with the file or the overrides; the user's mistakes, so exit code 2.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Study, SpecError> {
    let text = read_text(path, LARGEST)?;
    parse(path, &text, overrides)
}

/// Like [`load`], with the text of the file at hand.
///
/// # Errors
/// As [`load`].
pub fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<Study, SpecError> {
    let mut sources = Sources::default();
    let source = sources.add(path.display().to_string(), text);
    let parsed = yaml::parse(text, source, 0, Budget::SPEC);
    let parsed = parsed.and_then(|tree| Ok((tree, layers::read(overrides, &mut sources)?)));
    let sources = Arc::new(sources);
    let study = parsed.and_then(|(tree, layers)| settings::resolve(tree, &layers, &sources));
    let mut study = study.map_err(|error| SpecError::new(error, &sources))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    study.directory = std::path::absolute(folder).map_err(|error| cannot_read(path, &error.to_string()))?;
    study.invocation = Invocation::new(path.display().to_string(), overrides);
    study.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(study)
}

fn read_text(path: &Path, largest: u64) -> Result<String, SpecError> {
    let size = std::fs::metadata(path).map_err(|error| cannot_read(path, &error.to_string()))?;
    if size.is_dir() {
        return Err(cannot_read(path, "it is a directory"));
    }
    if !size.is_file() {
        return Err(cannot_read(path, "it is not a regular file"));
    }
    if size.len() > largest {
        return Err(cannot_read(
            path,
            &format!("it has {} bytes, more than {largest}", size.len()),
        ));
    }
    let bytes = std::fs::read(path).map_err(|error| cannot_read(path, &error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let (good, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let byte = rest.first().copied().unwrap_or_default();
        cannot_read(
            path,
            &format!("it is not UTF-8 (line {line} has the byte 0x{byte:02x})"),
        )
    })
}

fn cannot_read(path: &Path, why: &str) -> SpecError {
    SpecError::without_place(format!("cannot read {}: {why}", path.display()))
}
