//! Values under a header, parted by commas or by tabs. A quoted value may hold commas and line ends.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use serde_json::Map;

use super::metered::{Meter, Metered};
use super::opened::open;
use super::place::Place;
use super::row::{EachRow, LONGEST_SAMPLE, LONGEST_SAMPLE_MIB, Row, missing};
use crate::DataError;

/// The names in the header.
pub(super) fn columns(path: &Arc<Path>, separator: u8) -> Result<Vec<String>, DataError> {
    Ok(Table::open(path, separator)?.header.iter().map(str::to_owned).collect())
}

/// Calls `each` with these columns of each row. All values are texts.
pub(super) fn read(path: &Arc<Path>, separator: u8, columns: &[&str], each: &mut EachRow) -> Result<(), DataError> {
    let mut table = Table::open(path, separator)?;
    let places: HashMap<&str, usize> = table.header.iter().enumerate().map(|(at, name)| (name, at)).collect();
    let index = |column: &&str| {
        let found = places.get(*column).copied();
        found.ok_or_else(|| missing(path.display().to_string(), column, table.header.iter()))
    };
    let indices = columns.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    let mut record = StringRecord::new();
    while table.next(&mut record)? {
        let place = Place::line(path, record.position().map_or(0, csv::Position::line));
        let mut values = Map::new();
        for (column, &index) in columns.iter().zip(&indices) {
            values.insert((*column).into(), record[index].into());
        }
        if !each(Row { place, values })? {
            break;
        }
    }
    Ok(())
}

struct Table<'a> {
    path: &'a Arc<Path>,
    reader: Reader<Metered>,
    meter: Meter,
    header: StringRecord,
}

impl<'a> Table<'a> {
    fn open(path: &'a Arc<Path>, separator: u8) -> Result<Self, DataError> {
        let (metered, meter) = Metered::new(open(path)?);
        let mut table = Self {
            path,
            reader: ReaderBuilder::new().delimiter(separator).from_reader(metered),
            meter,
            header: StringRecord::new(),
        };
        let header = table.reader.headers().cloned();
        table.header = header.map_err(|error| table.error(error))?;
        let mut seen = HashSet::new();
        match table.header.iter().find(|name| !name.is_empty() && !seen.insert(*name)) {
            None => Ok(table),
            Some(name) => Err(DataError::Csv {
                place: Place::line(path, 1).to_string(),
                reason: format!("the header has the name `{name}` twice"),
            }),
        }
    }

    /// Reads the next row; false at the end.
    fn next(&mut self, record: &mut StringRecord) -> Result<bool, DataError> {
        self.meter.begin_row();
        let is_row = self.reader.read_record(record).map_err(|error| self.error(error))?;
        match is_row && record.as_slice().len() > LONGEST_SAMPLE {
            true => Err(self.too_long(record.position().map_or(0, csv::Position::line))),
            false => Ok(is_row),
        }
    }

    fn too_long(&self, line: u64) -> DataError {
        DataError::TooLong {
            place: Place::line(self.path, line).to_string(),
            limit: LONGEST_SAMPLE_MIB,
        }
    }

    fn error(&self, error: csv::Error) -> DataError {
        if self.meter.is_exceeded() {
            return self.too_long(self.reader.position().line());
        }
        let line = error.position().map_or(1, csv::Position::line);
        let reason = match error.into_kind() {
            ErrorKind::Io(source) => {
                return DataError::Read {
                    path: self.path.to_path_buf(),
                    source,
                };
            }
            ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("the row has {len} values, and the header has {expected_len} names")
            }
            ErrorKind::Utf8 { err, .. } => format!("the value of column {} is not UTF-8", err.field() + 1),
            _ => "it cannot be read".into(),
        };
        DataError::Csv {
            place: Place::line(self.path, line).to_string(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &[u8], column: &str) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path: Arc<Path> = file.path().into();
        let mut all = Vec::new();
        let result = read(&path, b',', &[column], &mut |row| {
            all.push(row.values[column].as_str().unwrap().to_owned());
            Ok(true)
        });
        let name = path.display().to_string();
        result
            .map(|()| all)
            .map_err(|error| error.to_string().replace(&name, "x.csv"))
    }

    #[test]
    fn quoted_values_may_have_commas_quotes_and_line_ends() {
        let text = b"\xef\xbb\xbfid,text\r\n1,\"one, \"\"two\"\"\nthree\"\r\n2,four\n";
        assert_eq!(texts(text, "text").unwrap(), ["one, \"two\"\nthree", "four"]);
        assert_eq!(texts(text, "id").unwrap(), ["1", "2"]);
        assert!(texts(b"id,text\n", "text").unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            (&b"id,quote\n1,a\n"[..], "x.csv: no column `text`; there are: id, quote"),
            (
                b"id,text\n1,a\n2\n",
                "x.csv:3: not comma-separated values: the row has 1 values, and the header has 2 names",
            ),
            (
                b"text,text\na,b\n",
                "x.csv:1: not comma-separated values: the header has the name `text` twice",
            ),
            (
                b"text\n\xff\n",
                "x.csv:2: not comma-separated values: the value of column 1 is not UTF-8",
            ),
        ] {
            assert_eq!(texts(text, "text").unwrap_err(), message);
        }
    }

    #[test]
    fn a_quote_without_an_end_is_not_read_forever() {
        let mut text = b"text\nshort\n\"".to_vec();
        text.resize(3 * LONGEST_SAMPLE, b'a');
        assert_eq!(
            texts(&text, "text").unwrap_err(),
            "x.csv:3: a sample is longer than 16 MiB"
        );
    }
}
