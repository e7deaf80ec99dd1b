//! Token ids in memory, or in a temporary file if there are many.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use bytemuck::{cast_slice, cast_slice_mut};

use super::DataError;

/// Ids that are kept in memory: 32 MiB.
const IN_MEMORY: usize = 8 << 20;

/// Ids that are written and read at once: 1 MiB.
const BLOCK: usize = 1 << 18;

/// Token ids one after the other. More than 32 MiB of them go to a file without a name, which ends with the process. It
/// is read, not mapped: mapped pages would count as the process's memory.
#[derive(Debug)]
pub(super) struct TokenIds {
    /// All ids without a file, else those that are yet to be written.
    memory: Vec<u32>,
    file: Option<File>,
    /// The folder of the file.
    folder: PathBuf,
    most_in_memory: usize,
}

impl TokenIds {
    /// No ids; a file of them would lie in `folder`.
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            memory: Vec::new(),
            file: None,
            folder: folder.into(),
            most_in_memory: IN_MEMORY,
        }
    }

    /// These ids with another limit on those in memory.
    #[cfg(test)]
    pub(super) fn at_most_in_memory(self, most_in_memory: usize) -> Self {
        Self { most_in_memory, ..self }
    }

    /// Adds ids at the end.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(super) fn extend(&mut self, ids: &[u32]) -> Result<(), DataError> {
        let most = if self.file.is_some() {
            BLOCK
        } else {
            self.most_in_memory
        };
        if self.memory.len() + ids.len() > most {
            self.write_out()?;
        }
        self.memory.extend_from_slice(ids);
        Ok(())
    }

    /// Ends the adding, and frees what it needed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(&mut self) -> Result<(), DataError> {
        if self.file.is_some() {
            self.write_out()?;
        }
        self.memory.shrink_to_fit();
        Ok(())
    }

    /// Copies the ids of this range, all of them added before [`finish`](Self::finish).
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read(&self, range: Range<u64>, into: &mut [u32]) -> Result<(), DataError> {
        match &self.file {
            None => into.copy_from_slice(&self.memory[range.start as usize..range.end as usize]),
            Some(file) => {
                let read = file.read_exact_at(cast_slice_mut(into), range.start * size_of::<u32>() as u64);
                read.map_err(|source| self.error(source))?;
            }
        }
        Ok(())
    }

    /// Calls `each` with the ids of samples that lie one after the other and have these lengths.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn for_each(
        &self,
        lengths: impl Iterator<Item = usize>,
        mut each: impl FnMut(&[u32]),
    ) -> Result<(), DataError> {
        let mut reader: Box<dyn Read> = match &self.file {
            None => Box::new(cast_slice(&self.memory)),
            Some(file) => {
                let mut file = file;
                file.rewind().map_err(|source| self.error(source))?;
                Box::new(BufReader::with_capacity(BLOCK * size_of::<u32>(), file))
            }
        };
        let mut ids = Vec::new();
        for length in lengths {
            ids.resize(length, 0);
            let read = reader.read_exact(cast_slice_mut(&mut ids));
            read.map_err(|source| self.error(source))?;
            each(&ids);
        }
        Ok(())
    }

    /// Moves the ids in memory to the file, which is made first if there is none.
    fn write_out(&mut self) -> Result<(), DataError> {
        let file = match self.file.take() {
            Some(file) => Ok(file),
            None => tempfile::tempfile_in(&self.folder),
        };
        let written = file.and_then(|mut file| {
            file.write_all(cast_slice(&self.memory))?;
            Ok(file)
        });
        self.file = Some(written.map_err(|source| self.error(source))?);
        self.memory = Vec::with_capacity(BLOCK);
        Ok(())
    }

    fn error(&self, source: io::Error) -> DataError {
        DataError::TokenIds {
            folder: self.folder.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_a_file_are_those_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let samples: Vec<Vec<u32>> = (0..40).map(|length| (length..3 * length).collect()).collect();
        let all: Vec<u32> = samples.concat();
        for most in [0, 1, 100, all.len(), IN_MEMORY] {
            let mut ids = TokenIds::new(folder.path()).at_most_in_memory(most);
            samples.iter().for_each(|sample| ids.extend(sample).unwrap());
            ids.finish().unwrap();
            assert_eq!(ids.file.is_some(), most < all.len());
            let mut read = vec![0; 50];
            ids.read(200..250, &mut read).unwrap();
            assert_eq!(read, all[200..250]);
            let mut found = Vec::new();
            ids.for_each(samples.iter().map(Vec::len), |ids| found.push(ids.to_vec()))
                .unwrap();
            assert_eq!(found, samples);
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "the file has no name"
        );
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let mut ids = TokenIds::new("/nowhere").at_most_in_memory(1);
        let message = ids.extend(&[1, 2]).unwrap_err().to_string();
        assert!(
            message.starts_with("cannot keep the token ids in a temporary file in /nowhere: "),
            "{message}"
        );
    }
}
