//! Rows of data files, whatever their format: named columns with values of JSON.

mod csv;
mod json;
mod jsonl;
mod lines;
mod metered;
mod parquet;
mod place;
mod row;
mod text;

use std::path::Path;
use std::sync::Arc;

use options::DataFormat;
use serde_json::{Map, Value};

use crate::DataError;
pub(super) use place::Place;
use row::{EachObject, EachRow};
pub(super) use row::{LONGEST_SAMPLE, LONGEST_SAMPLE_MIB, Row, TEXT_COLUMN, kind, missing};

/// The names of a file's columns, those of its first row if rows may differ; `None` if it has no row.
pub(super) fn columns(path: &Path, format: DataFormat) -> Result<Option<Vec<String>>, DataError> {
    let path: Arc<Path> = path.into();
    let first = match format {
        DataFormat::Text => return Ok(Some(vec![TEXT_COLUMN.into()])),
        DataFormat::Csv => return csv::columns(&path).map(Some),
        DataFormat::Parquet => return parquet::columns(&path).map(Some),
        DataFormat::Jsonl => first_object(|each| jsonl::objects(&path, each))?,
        DataFormat::Json => first_object(|each| json::objects(&path, each))?,
    };
    Ok(first.map(|object| object.into_iter().map(|(key, _)| key).collect()))
}

/// The columns that hold lists, as far as the first row says if rows may differ.
pub(super) fn lists(path: &Path, format: DataFormat) -> Result<Vec<String>, DataError> {
    let path: Arc<Path> = path.into();
    let first = match format {
        DataFormat::Text | DataFormat::Csv => return Ok(Vec::new()),
        DataFormat::Parquet => return parquet::lists(&path),
        DataFormat::Jsonl => first_object(|each| jsonl::objects(&path, each))?,
        DataFormat::Json => first_object(|each| json::objects(&path, each))?,
    };
    let lists = first.into_iter().flatten().filter(|(_, value)| value.is_array());
    Ok(lists.map(|(column, _)| column).collect())
}

/// Calls `each` with each row of a file: the values of these columns, of which all rows must have all.
pub(super) fn read(path: &Path, format: DataFormat, columns: &[&str], each: &mut EachRow) -> Result<(), DataError> {
    let path: Arc<Path> = path.into();
    let mut of_object = |place: Place, mut object: Map<String, Value>| {
        let mut values = Map::new();
        for &column in columns {
            let Some(value) = object.remove(column) else {
                // Other columns that were asked for are taken out already.
                let names = object.keys().chain(values.keys());
                return Err(missing(place.to_string(), column, names.map(String::as_str)));
            };
            values.insert(column.into(), value);
        }
        each(Row { place, values })?;
        Ok(true)
    };
    match format {
        DataFormat::Text => text::read(&path, each),
        DataFormat::Csv => csv::read(&path, columns, each),
        DataFormat::Parquet => parquet::read(&path, columns, each),
        DataFormat::Jsonl => jsonl::objects(&path, &mut of_object),
        DataFormat::Json => json::objects(&path, &mut of_object),
    }
}

fn first_object(
    objects: impl FnOnce(&mut EachObject) -> Result<(), DataError>,
) -> Result<Option<Map<String, Value>>, DataError> {
    let mut first = None;
    objects(&mut |_, object| {
        first = Some(object);
        Ok(false)
    })?;
    Ok(first)
}
