//! Reads the text of a file.

use std::path::Path;

use super::error::SpecError;

/// The text of a regular file of at most `largest` bytes.
///
/// # Errors
/// It is not there, not a regular file, too large, or not UTF-8.
pub(crate) fn read_text(path: &Path, largest: u64) -> Result<String, SpecError> {
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

/// The error of a file that cannot be read.
pub(crate) fn cannot_read(path: &Path, why: &str) -> SpecError {
    SpecError::without_place(format!("cannot read {}: {why}", path.display()))
}
