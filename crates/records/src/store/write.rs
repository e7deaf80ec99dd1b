//! Atomic writes.

use std::io::Write;
use std::path::Path;

use base::foreign;
use base::whole_file;

use super::error::{StoreError, io_error};
use super::place::make_room_unless_file;

/// Replaces a file: writes a temporary file beside it, flushes that to the disk, renames it, and flushes the folder.
///
/// # Errors
/// One of these fails; the old file then stays.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    whole_file::write(path, |file| file.write_all(bytes)).map_err(io_error("write", path))
}

/// Like [`write_atomically`], but leaves a file alone that already has these bytes. Returns true if it wrote.
///
/// # Errors
/// Those of [`write_atomically`].
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    if foreign::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    write_atomically(path, bytes).map(|()| true)
}

/// [`write_if_changed`] of a study's own file: makes room for it if a folder or a link lies in its place.
///
/// # Errors
/// Those of [`write_atomically`].
pub fn write_own(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    make_room_unless_file(path).map_err(io_error("replace", path))?;
    write_if_changed(path, bytes)
}
