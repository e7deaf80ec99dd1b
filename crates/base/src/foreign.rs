//! Files that somebody else wrote: a pipe or a device may never end, and a text may be larger than the memory.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The largest text that is read whole: eight times the largest tokenizer of 2026.
const LARGEST: u64 = 256 << 20;

/// The largest template: five times the largest chat template of 2026.
pub const LARGEST_TEMPLATE: u64 = 256 << 10;

/// Opens a regular file to read it.
///
/// # Errors
/// The system's, or it is a folder, a pipe or a device.
pub fn open(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => File::open(path),
        (false, true) => Err(ErrorKind::IsADirectory.into()),
        (false, false) => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Reads a regular file of any size.
///
/// # Errors
/// Those of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    open(path)?;
    fs::read(path)
}

/// Reads a regular file of at most 256 MiB, such as a configuration or a tokenizer.
///
/// # Errors
/// Those of [`open`], or it is larger.
pub fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, LARGEST)
}

fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let bytes = open(path)?.metadata()?.len();
    match bytes <= most {
        true => fs::read(path),
        false => Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("it has {bytes} bytes, more than {most}"),
        )),
    }
}

/// Reads a template: a regular file of UTF-8 of at most 256 KiB.
///
/// # Errors
/// Those of [`open`], it is larger, or not UTF-8.
pub fn read_template(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read_at_most(path, LARGEST_TEMPLATE)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_might_never_end_is_not_read() {
        let reason = |path: &Path| read_small(path).unwrap_err().to_string();
        assert_eq!(reason(Path::new("/dev/zero")), "it is not a regular file");
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(reason(folder.path()), "is a directory");
        assert_eq!(read(&folder.path().join("no")).unwrap_err().kind(), ErrorKind::NotFound);
        let path = folder.path().join("a");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_small(&path).unwrap(), [0xff]);
        assert_eq!(read_template(&path).unwrap_err().kind(), ErrorKind::InvalidData);
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(reason(&path), "it has 268435457 bytes, more than 268435456");
    }
}
