//! Checkpoints of a cell that is being trained: files in its folder that go when it is done.
//!
//! Each ends in the SHA-256 of what stands before it, and of the cell's id and the step. One that is cut short, changed,
//! or of another cell does not hold.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use base::text::hex;
use base::whole_file;
use sha2::{Digest, Sha256};

use super::error::{StoreError, io_error, is_absent};
use super::folders::CellDir;
use super::place::{make_room, make_room_unless_file, make_room_unless_folder};

/// What stands before the step in a file's name, as in those of transformers.
const PREFIX: &str = "checkpoint-";
const EXTENSION: &str = ".bin";
/// Digits of a seal.
const SEAL: u64 = 64;

/// The file of a cell's checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last step that it has.
    pub step: usize,
    path: PathBuf,
    /// What its seal is over, besides its content.
    name: String,
}

impl Checkpoint {
    fn new(dir: &CellDir, step: usize) -> Self {
        Self {
            step,
            path: dir.checkpoints().join(format!("{PREFIX}{step}{EXTENSION}")),
            name: format!("{} {step}", dir.id()),
        }
    }

    /// The checkpoints of a cell, the latest first. None of them is read.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn all(dir: &CellDir) -> Result<Vec<Self>, StoreError> {
        let folder = dir.checkpoints();
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(io_error("list", &folder)(error)),
        };
        let mut steps = Vec::new();
        for entry in entries {
            let name = entry.map_err(io_error("list", &folder))?.file_name();
            let name = name.to_string_lossy();
            let step = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(EXTENSION));
            steps.extend(step.and_then(|step| step.parse::<usize>().ok()));
        }
        steps.sort_unstable();
        Ok(steps.into_iter().rev().map(|step| Self::new(dir, step)).collect())
    }

    /// Writes a checkpoint whole or not at all, and then removes all but the latest `limit`.
    ///
    /// # Errors
    /// It cannot be written; the others then stay.
    pub fn write(
        dir: &CellDir,
        step: usize,
        limit: usize,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let (folder, checkpoint) = (dir.checkpoints(), Self::new(dir, step));
        make_room_unless_folder(&folder)
            .and_then(|()| fs::create_dir_all(&folder))
            .map_err(io_error("create", &folder))?;
        let path = &checkpoint.path;
        make_room_unless_file(path).map_err(io_error("replace", path))?;
        let sealed = |file: &mut File| {
            let mut out = Hashed {
                to: BufWriter::new(file),
                hash: Sha256::new(),
            };
            fill(&mut out)?;
            out.hash.update(checkpoint.name.as_bytes());
            out.to.write_all(hex(&out.hash.finalize()).as_bytes())?;
            out.to.flush()
        };
        whole_file::write(path, sealed).map_err(io_error("write", path))?;
        for older in Self::all(dir)?.iter().skip(limit) {
            older.remove()?;
        }
        Ok(())
    }

    /// Its content, once the seal is known to hold.
    ///
    /// # Errors
    /// It cannot be read, or its seal does not hold.
    pub fn open(&self) -> Result<impl BufRead + use<>, StoreError> {
        let path = &self.path;
        match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.is_file() => return Err(StoreError::NotAFile(path.clone())),
            metadata => metadata.map_err(io_error("read", path))?,
        };
        let mut file = File::open(path).map_err(io_error("read", path))?;
        let content = match holds(&mut file, &self.name).map_err(io_error("read", path))? {
            Some(content) => content,
            None => return Err(StoreError::Damaged(path.clone())),
        };
        file.rewind().map_err(io_error("read", path))?;
        Ok(BufReader::new(file.take(content)))
    }

    /// Removes it; a folder in its place gets another name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(&self) -> Result<(), StoreError> {
        make_room(&self.path).map_err(io_error("remove", &self.path))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes all checkpoints of a cell, with their folder.
///
/// # Errors
/// The system refuses.
pub fn remove_checkpoints(dir: &CellDir) -> io::Result<()> {
    make_room_unless_folder(&dir.checkpoints())?;
    match fs::remove_dir_all(dir.checkpoints()) {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The bytes before the seal of a file if it holds.
fn holds(file: &mut File, name: &str) -> io::Result<Option<u64>> {
    let Some(content) = file.metadata()?.len().checked_sub(SEAL) else {
        return Ok(None);
    };
    let mut hash = Hashed {
        to: io::sink(),
        hash: Sha256::new(),
    };
    io::copy(&mut (&*file).take(content), &mut hash)?;
    hash.hash.update(name.as_bytes());
    let mut seal = Vec::new();
    file.read_to_end(&mut seal)?;
    Ok((seal == hex(&hash.hash.finalize()).as_bytes()).then_some(content))
}

/// Passes bytes on, and hashes them.
struct Hashed<W> {
    to: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &CellDir, step: usize, limit: usize) {
        Checkpoint::write(dir, step, limit, |out| write!(out, "of step {step}")).unwrap();
    }

    fn steps(dir: &CellDir) -> Vec<usize> {
        Checkpoint::all(dir)
            .unwrap()
            .iter()
            .map(|checkpoint| checkpoint.step)
            .collect()
    }

    #[test]
    fn the_latest_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let dir = CellDir::new(root.path().join("0123456789ab"));
        assert_eq!(steps(&dir), [0; 0]);
        fs::create_dir_all(dir.path()).unwrap();
        (1..=12).for_each(|step| write(&dir, step, 3));
        fs::write(dir.checkpoints().join("checkpoint-mine.bin"), "").unwrap();
        assert_eq!(steps(&dir), [12, 11, 10]);
        let mut text = String::new();
        Checkpoint::all(&dir).unwrap()[1]
            .open()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "of step 11");
        remove_checkpoints(&dir).unwrap();
        assert!(!dir.checkpoints().exists());
        remove_checkpoints(&dir).unwrap();
    }

    #[test]
    fn what_does_not_hold_is_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let dir = CellDir::new(root.path().join("0123456789ab"));
        fs::create_dir_all(dir.path()).unwrap();
        write(&dir, 7, 2);
        let checkpoint = Checkpoint::new(&dir, 7);
        let whole = fs::read(checkpoint.path()).unwrap();
        let with = |place: usize| {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            bytes
        };
        let damaged = [
            Vec::new(),
            whole[..whole.len() - 1].to_vec(),
            whole[..8].to_vec(),
            [&whole[..], b"x"].concat(),
            with(0),
            with(whole.len() - 1),
        ];
        for bytes in damaged {
            fs::write(checkpoint.path(), bytes).unwrap();
            assert!(matches!(checkpoint.open(), Err(StoreError::Damaged(_))));
        }
        for name in ["checkpoint-8.bin", "../../ba9876543210/checkpoints/checkpoint-7.bin"] {
            let path = dir.checkpoints().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &whole).unwrap();
        }
        let other = CellDir::new(root.path().join("ba9876543210"));
        for foreign in [Checkpoint::new(&dir, 8), Checkpoint::new(&other, 7)] {
            assert!(matches!(foreign.open(), Err(StoreError::Damaged(_))), "{foreign:?}");
        }
    }
}
