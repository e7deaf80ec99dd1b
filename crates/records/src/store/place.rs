//! Files in their place: where a folder or a link lies in place of one, nothing is read or written through it.

use std::fs;
use std::io;
use std::path::Path;

use super::error::{StoreError, io_error, is_absent};

/// Reads a file; `None` if there is none.
///
/// # Errors
/// It cannot be read, or is a folder, a link or a pipe.
pub(super) fn read_in_place(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(StoreError::NotAFile(path.to_path_buf())),
        Ok(_) => {}
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io_error("read", path)(error)),
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

/// Makes room for a file: removes what is no folder, and moves a folder aside.
///
/// # Errors
/// The system refuses.
pub fn make_room(path: &Path) -> io::Result<()> {
    let is_folder = match fs::symlink_metadata(path) {
        Err(error) if is_absent(&error) => return Ok(()),
        metadata => metadata?.is_dir(),
    };
    match is_folder {
        true => move_aside(path),
        false => fs::remove_file(path),
    }
}

/// Gives a file or a folder another name beside its own, one that is free.
///
/// # Errors
/// The system refuses.
pub fn move_aside(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let names = (1..).map(|number| path.with_file_name(format!("{name}.moved-{number}")));
    let mut free = names.filter(|aside| fs::symlink_metadata(aside).is_err());
    free.next().map_or(Ok(()), |aside| fs::rename(path, aside))
}

/// Makes room for a folder: removes a file or a link in its place.
///
/// # Errors
/// The system refuses.
pub fn make_room_unless_folder(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_dir() => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Makes room for a file that is written whole: a file stays until the new one takes its place.
///
/// # Errors
/// The system refuses.
pub fn make_room_unless_file(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => make_room(path),
        _ => Ok(()),
    }
}
