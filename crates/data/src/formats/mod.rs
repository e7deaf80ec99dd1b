//! Rows of data files, whatever their format: named columns with values of JSON.

mod csv;
mod json;
mod jsonl;
mod lines;
mod metered;
mod opened;
mod parquet;
mod place;
mod row;
mod text;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use options::{DataFormat, SampleBy};
use serde_json::{Map, Value};

use crate::DataError;
pub(super) use place::Place;
use row::EachRow;
pub(super) use row::{LONGEST_SAMPLE, LONGEST_SAMPLE_MIB, Row, TEXT_COLUMN, kind, missing};

/// A file of rows, and how it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) path: &'a Path,
    pub(super) format: DataFormat,
    /// What a sample of plain text is.
    pub(super) sample_by: SampleBy,
    /// What parts the values of a row, if it is not what the format says.
    pub(super) sep: Option<u8>,
}

impl File<'_> {
    /// The names of its columns, those of its first row if rows may differ; `None` if it has no row.
    pub(super) fn columns(self) -> Result<Option<Vec<String>>, DataError> {
        let path: Arc<Path> = self.path.into();
        match self.format {
            DataFormat::Text => Ok(Some(vec![TEXT_COLUMN.into()])),
            DataFormat::Csv | DataFormat::Tsv => csv::columns(&path, self.separator()).map(Some),
            DataFormat::Parquet => parquet::columns(&path).map(Some),
            DataFormat::Jsonl | DataFormat::Json => {
                let first = self.first_object()?;
                Ok(first.map(|object| object.into_iter().map(|(key, _)| key).collect()))
            }
        }
    }

    /// Its columns, without those of Parquet whose values are not read.
    pub(super) fn readable_columns(self) -> Result<Vec<String>, DataError> {
        match self.format {
            DataFormat::Parquet => parquet::readable_columns(&self.path.into()),
            _ => Ok(self.columns()?.unwrap_or_default()),
        }
    }

    /// The columns that hold lists, as far as the first row says if rows may differ.
    pub(super) fn lists(self) -> Result<Vec<String>, DataError> {
        match self.format {
            DataFormat::Text | DataFormat::Csv | DataFormat::Tsv => Ok(Vec::new()),
            DataFormat::Parquet => parquet::lists(&self.path.into()),
            DataFormat::Jsonl | DataFormat::Json => {
                let first = self.first_object()?.into_iter().flatten();
                let lists = first.filter(|(_, value)| value.is_array());
                Ok(lists.map(|(column, _)| column).collect())
            }
        }
    }

    /// Calls `each` with each row until it returns false: with the values of these columns, of which all rows must have
    /// all, and of those of the `optional` ones that there are. A row of objects has its other columns, too.
    pub(super) fn read(self, columns: &[&str], optional: &[&str], each: &mut EachRow) -> Result<(), DataError> {
        let path: Arc<Path> = self.path.into();
        let mut of_object = |place: Place, values: Map<String, Value>| {
            if let Some(column) = columns.iter().find(|column| !values.contains_key(**column)) {
                return Err(missing(place.to_string(), column, values.keys().map(String::as_str)));
            }
            each(Row { place, values })
        };
        let wanted = || -> Result<Vec<&str>, DataError> {
            let there: HashSet<String> = self.columns()?.into_iter().flatten().collect();
            let is_there = |column: &&&str| there.contains(**column);
            Ok(columns
                .iter()
                .chain(optional.iter().filter(is_there))
                .copied()
                .collect())
        };
        match self.format {
            DataFormat::Text => text::read(&path, self.sample_by, each),
            DataFormat::Csv | DataFormat::Tsv => csv::read(&path, self.separator(), &wanted()?, each),
            DataFormat::Parquet => parquet::read(&path, &wanted()?, each),
            DataFormat::Jsonl | DataFormat::Json => json::objects(&path, self.is_lines(), &mut of_object),
        }
    }

    fn separator(self) -> u8 {
        let by_format = if self.format == DataFormat::Tsv { b'\t' } else { b',' };
        self.sep.unwrap_or(by_format)
    }

    fn is_lines(self) -> bool {
        self.format == DataFormat::Jsonl
    }

    /// True if each row holds its other columns beside those that were asked for.
    pub(super) fn is_of_objects(self) -> bool {
        matches!(self.format, DataFormat::Jsonl | DataFormat::Json)
    }

    fn first_object(self) -> Result<Option<Map<String, Value>>, DataError> {
        let path: Arc<Path> = self.path.into();
        let mut first = None;
        let mut take = |_: Place, object| {
            first = Some(object);
            Ok(false)
        };
        json::objects(&path, self.is_lines(), &mut take)?;
        Ok(first)
    }
}
