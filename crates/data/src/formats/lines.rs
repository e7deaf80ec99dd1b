//! Lines of a text file, in bounded memory for any file.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::opened::open;
use super::row::{LONGEST_SAMPLE, LONGEST_SAMPLE_MIB};
use crate::DataError;

/// Some editors write it before a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads UTF-8 lines, each at most [`LONGEST_SAMPLE`] bytes long.
pub(super) struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    /// Bytes before the current line.
    offset: u64,
    /// Number of the current line, from 1.
    number: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self, DataError> {
        Ok(Self {
            path,
            reader: BufReader::with_capacity(1 << 16, open(path)?),
            line: Vec::new(),
            offset: 0,
            number: 0,
        })
    }

    /// Number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its line end; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<&str>, DataError> {
        self.offset += self.line.len() as u64;
        self.number += 1;
        self.line.clear();
        // Room for the line's end, and one more byte that shows that the line is too long.
        let limit = LONGEST_SAMPLE as u64 + 3;
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| DataError::Read {
            path: self.path.into(),
            source,
        })?;
        if read == 0 {
            return Ok(None);
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = match self.number {
            1 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            _ => line,
        };
        match check_text(line) {
            // The limit may cut a character in two.
            Err((at, _)) if line.len() > LONGEST_SAMPLE && at + 4 > line.len() => Err(self.too_long()),
            Err((at, what)) => Err(DataError::Binary {
                path: self.path.into(),
                offset: self.offset + at as u64,
                what,
            }),
            Ok(_) if line.len() > LONGEST_SAMPLE => Err(self.too_long()),
            Ok(text) => Ok(Some(text)),
        }
    }

    /// The error of a sample that is longer than [`LONGEST_SAMPLE`] and ends in the current line.
    pub(super) fn too_long(&self) -> DataError {
        DataError::TooLong {
            place: format!("{}:{}", self.path.display(), self.number),
            limit: LONGEST_SAMPLE_MIB,
        }
    }
}

/// Bytes as text, or the offset and the reason why they are not.
fn check_text(bytes: &[u8]) -> Result<&str, (usize, &'static str)> {
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err((at, "a NUL byte"));
    }
    std::str::from_utf8(bytes).map_err(|error| (error.valid_up_to(), "invalid UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<String>, DataError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut lines = Lines::open(file.path()).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_owned());
        }
        Ok(all)
    }

    #[test]
    fn ends_of_lines_and_a_byte_order_mark_are_no_text() {
        assert_eq!(
            lines(b"\xef\xbb\xbfone\r\n\ntwo\nthree").unwrap(),
            ["one", "", "two", "three"]
        );
        assert!(lines(b"").unwrap().is_empty());
    }

    #[test]
    fn binary_files_are_refused_with_the_offset() {
        for (bytes, offset) in [
            (&b"good\nba\0d"[..], 7),
            (b"go\xc3\xa9d\n\xff\xfe", 6),
            (b"cut \xc3", 4),
        ] {
            match lines(bytes) {
                Err(DataError::Binary { offset: found, .. }) => assert_eq!(found, offset),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        let mut text = vec![b'a'; LONGEST_SAMPLE];
        text.extend(b"\r\nshort\n");
        assert_eq!(lines(&text).unwrap().len(), 2);
        text.insert(0, b'a');
        let message = lines(&text).unwrap_err().to_string();
        assert!(message.ends_with(":1: a sample is longer than 16 MiB"), "{message}");
        // The limit falls into a character of three bytes: still too long, not binary.
        let message = lines("€".repeat(LONGEST_SAMPLE / 2).as_bytes())
            .unwrap_err()
            .to_string();
        assert!(message.ends_with("longer than 16 MiB"), "{message}");
    }
}
