//! Columns of a Parquet file: texts, numbers, truth values, and lists and structs of these.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::bounds::{Bounds, bounded};
use base::guarded::guarded;
use polars_core::prelude::{AnyValue, ArrowDataType, ArrowSchema, PolarsResult};
use polars_io::SerReader;
use polars_io::parquet::read::{ParallelStrategy, ParquetReader};
use serde_json::{Map, Value};

use super::place::Place;
use super::row::{EachRow, LONGEST_SAMPLE, LONGEST_SAMPLE_MIB, Row, missing};
use crate::DataError;

/// The bytes of rows that are read at a time, by what the file says of them.
const PIECE: usize = 128 << 20;

/// The fewest and the most rows that are read at a time, whatever the file says: a damaged one says anything, and one of
/// equal values has many rows in few bytes.
const ROWS: [usize; 2] = [1 << 7, 1 << 16];

/// What reading a piece may take: several times what a file says that is right.
const BOUNDS: Bounds = Bounds {
    bytes: 768 << 20,
    time: Duration::from_secs(20),
};

/// The names of a file's columns.
pub(super) fn columns(path: &Arc<Path>) -> Result<Vec<String>, DataError> {
    let schema = schema(path)?;
    Ok(schema.iter_names().map(|name| name.to_string()).collect())
}

/// The names of the columns whose values are read.
pub(super) fn readable_columns(path: &Arc<Path>) -> Result<Vec<String>, DataError> {
    let schema = schema(path)?;
    let fields = schema.iter_values().filter(|field| unreadable(&field.dtype).is_none());
    Ok(fields.map(|field| field.name.to_string()).collect())
}

/// The columns of lists.
pub(super) fn lists(path: &Arc<Path>) -> Result<Vec<String>, DataError> {
    let schema = schema(path)?;
    let fields = schema.iter_values();
    let lists = fields.filter(|field| matches!(field.dtype, ArrowDataType::List(_) | ArrowDataType::LargeList(_)));
    Ok(lists.map(|field| field.name.to_string()).collect())
}

fn schema(path: &Path) -> Result<Arc<ArrowSchema>, DataError> {
    let mut reader = ParquetReader::new(open(path)?);
    checked(path, || reader.schema())
}

/// The type within this one whose values are neither texts nor numbers, nor lists or structs of these, such as a date.
fn unreadable(dtype: &ArrowDataType) -> Option<&ArrowDataType> {
    use ArrowDataType as Type;
    match dtype {
        Type::Null | Type::Boolean | Type::Float32 | Type::Float64 | Type::Utf8 | Type::LargeUtf8 | Type::Utf8View => {
            None
        }
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => None,
        Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::UInt64 => None,
        Type::List(item) | Type::LargeList(item) => unreadable(&item.dtype),
        Type::Struct(fields) => fields.iter().find_map(|field| unreadable(&field.dtype)),
        other => Some(other),
    }
}

/// Calls `each` with these columns of each row. Reads only these columns, a row group or a piece of one at a time.
pub(super) fn read(path: &Arc<Path>, columns: &[&str], each: &mut EachRow) -> Result<(), DataError> {
    let schema = schema(path)?;
    for &column in columns {
        let names = schema.iter_names().map(|name| name.as_str());
        let field = schema.get(column);
        let field = field.ok_or_else(|| missing(path.display().to_string(), column, names))?;
        if let Some(dtype) = unreadable(&field.dtype) {
            return Err(DataError::ParquetType {
                path: path.to_path_buf(),
                column: column.into(),
                dtype: format!("{dtype:?}"),
            });
        }
    }
    let mut reader = ParquetReader::new(open(path)?);
    let metadata = checked(path, || Ok(reader.get_metadata()?.clone()))?;
    let mut number = 0;
    let pieces = metadata.row_groups.iter().flat_map(|group| {
        // The metadata of a file with this group alone: a slice of rows would read through all groups before it.
        let mut only = (*metadata).clone();
        only.num_rows = group.num_rows();
        only.row_groups = vec![group.clone()];
        let only = Arc::new(only);
        let parts = columns
            .iter()
            .filter_map(|column| group.columns_under_root_iter(column));
        let bytes = parts.flatten().map(|part| part.uncompressed_size().max(0) as usize);
        pieces(group.num_rows(), bytes.fold(0, usize::saturating_add)).map(move |rows| (Arc::clone(&only), rows))
    });
    for (metadata, rows) in pieces {
        let mut reader = ParquetReader::new(open(path)?)
            .with_columns(Some(columns.iter().map(|column| (*column).into()).collect()))
            .with_slice(Some((rows.start, rows.len())))
            .read_parallel(ParallelStrategy::None);
        reader.set_metadata(metadata);
        let what = format_args!("`{}`: reading {} of its rows", path.display(), rows.len());
        let frame = checked(path, || bounded(what, BOUNDS, || reader.finish()))?;
        for index in 0..frame.height() {
            number += 1;
            let place = Place::row(path, number);
            let mut values = Map::new();
            let mut left = LONGEST_SAMPLE;
            for &column in columns {
                let value = checked(path, || Ok(json(&frame.column(column)?.get(index)?, &mut left)))?;
                let value = value.ok_or_else(|| DataError::TooLong {
                    place: place.to_string(),
                    limit: LONGEST_SAMPLE_MIB,
                })?;
                values.insert(column.into(), value);
            }
            if !each(Row { place, values })? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The rows of a group of so many bytes in pieces that are read at a time.
fn pieces(rows: usize, bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let at_a_time = (PIECE / (bytes / rows.max(1)).max(1)).clamp(ROWS[0], ROWS[1]);
    let starts = (0..rows).step_by(at_a_time);
    starts.map(move |start| start..rows.min(start.saturating_add(at_a_time)))
}

/// Bytes of any value in JSON, at least: with what parts it from the next.
const LEAST_VALUE: usize = 2;

/// A value of a type that is not [`unreadable`] as JSON; null if it is no number that JSON has. `None` if that takes more
/// bytes of text than are `left`: lists of equal values are small in a file.
fn json(value: &AnyValue, left: &mut usize) -> Option<Value> {
    let text = |text: &str, left: &mut usize| {
        *left = left.checked_sub(text.len())?;
        Some(Value::from(text))
    };
    *left = left.checked_sub(LEAST_VALUE)?;
    let entry = |name: &str, value: &AnyValue, left: &mut usize| {
        *left = left.checked_sub(name.len())?;
        Some((name.to_owned(), json(value, left)?))
    };
    Some(match value {
        AnyValue::String(value) => text(value, left)?,
        AnyValue::StringOwned(value) => text(value, left)?,
        AnyValue::Boolean(value) => (*value).into(),
        AnyValue::List(values) => {
            let values = values.iter().map(|value| json(&value, left));
            Value::Array(values.collect::<Option<_>>()?)
        }
        AnyValue::Struct(_, _, fields) => {
            let pairs = fields.iter().zip(value._iter_struct_av());
            let entries = pairs.map(|(field, value)| entry(field.name(), &value, left));
            Value::Object(entries.collect::<Option<_>>()?)
        }
        AnyValue::StructOwned(owned) => {
            let (values, fields) = &**owned;
            let entries = fields.iter().zip(values);
            let entries = entries.map(|(field, value)| entry(field.name(), value, left));
            Value::Object(entries.collect::<Option<_>>()?)
        }
        AnyValue::UInt64(value) => (*value).into(),
        number if number.is_integer() => number.extract::<i64>().map_or(Value::Null, Value::from),
        number if number.is_float() => number.extract::<f64>().map_or(Value::Null, Value::from),
        _ => Value::Null,
    })
}

fn open(path: &Path) -> Result<File, DataError> {
    File::open(path).map_err(|source| DataError::Read {
        path: path.into(),
        source,
    })
}

/// Runs a step of polars' reader. It panics on some damaged files, and a damaged file is an error like any other.
fn checked<T>(path: &Path, step: impl FnOnce() -> PolarsResult<T>) -> Result<T, DataError> {
    let reason = match guarded(step) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("it is damaged ({panic})"),
    };
    Err(DataError::Parquet {
        path: path.into(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use polars_core::prelude::{Column, DataFrame};
    use polars_io::parquet::write::ParquetWriter;

    use super::*;

    fn write(columns: Vec<Column>) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut frame = DataFrame::new_infer_height(columns).unwrap();
        ParquetWriter::new(file.reopen().unwrap())
            .with_row_group_size(Some(2))
            .finish(&mut frame)
            .unwrap();
        file
    }

    fn values(file: &tempfile::NamedTempFile, column: &str) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        let result = read(&file.path().into(), &[column], &mut |row| {
            all.push(row.values[column].clone());
            Ok(true)
        });
        let path = file.path().display().to_string();
        result
            .map(|()| all)
            .map_err(|error| error.to_string().replace(&path, "x.parquet"))
    }

    #[test]
    fn columns_are_read_through_all_row_groups() {
        let words: Vec<String> = (0..5).map(|number| format!("text {number}")).collect();
        let file = write(vec![
            Column::new("text".into(), &words),
            Column::new("n".into(), [1i32, 2, 3, 4, 5]),
            Column::new("real".into(), [Some(0.5), None, Some(1.0), None, None]),
        ]);
        assert_eq!(values(&file, "text").unwrap(), words);
        assert_eq!(values(&file, "n").unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(values(&file, "real").unwrap()[..2], [Value::from(0.5), Value::Null]);
        assert_eq!(
            values(&file, "texts").unwrap_err(),
            "x.parquet: no column `texts`; there are: text, n, real; did you mean `text`?"
        );
        assert_eq!(columns(&file.path().into()).unwrap(), ["text", "n", "real"]);
    }

    #[test]
    fn a_large_group_is_read_in_pieces() {
        let count = ROWS[1] + 3;
        let numbers: Vec<u32> = (0..count as u32).collect();
        let texts: Vec<String> = numbers.iter().map(|number| format!("text {number}")).collect();
        let mut frame = DataFrame::new_infer_height(vec![
            Column::new("text".into(), &texts),
            Column::new("n".into(), &numbers),
        ])
        .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = ParquetWriter::new(file.reopen().unwrap()).with_row_group_size(Some(count));
        writer.finish(&mut frame).unwrap();
        assert_eq!(values(&file, "text").unwrap(), texts);
        assert_eq!(values(&file, "n").unwrap(), numbers);
        assert_eq!(pieces(600, 3 * PIECE).collect::<Vec<_>>(), [0..200, 200..400, 400..600]);
        assert_eq!(
            pieces(200, usize::MAX).collect::<Vec<_>>(),
            [0..128, 128..200],
            "no file has so much"
        );
        assert_eq!(pieces(0, 0).count(), 0);
    }

    #[test]
    fn a_small_file_may_have_too_long_a_sample() {
        for (file, column) in [("long_list", "messages"), ("long_text", "text")] {
            let path = format!("{}/../../tests/fixtures/{file}.parquet", env!("CARGO_MANIFEST_DIR"));
            let error = read(&Path::new(&path).into(), &[column], &mut |_| Ok(true)).unwrap_err();
            assert!(matches!(error, DataError::TooLong { .. }), "{error}");
        }
    }

    #[test]
    fn large_numbers_stay_and_bytes_are_refused_by_their_column() {
        let file = write(vec![
            Column::new("n".into(), [u64::MAX, 1]),
            Column::new("raw".into(), [&b"a"[..], b"b"]),
        ]);
        assert_eq!(values(&file, "n").unwrap(), [u64::MAX, 1]);
        let message = values(&file, "raw").unwrap_err();
        assert!(
            message.starts_with("x.parquet: column `raw` has values of type `Binary"),
            "{message}"
        );
    }

    /// pyarrow wrote it: a column of each type.
    #[test]
    fn dates_and_times_are_refused_by_their_column() {
        let path: Arc<Path> = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/fixtures/types.parquet"
        ))
        .into();
        let read = |column: &str| {
            let mut first = None;
            let result = read(&path, &[column], &mut |row| {
                first = Some(row.values[column].clone());
                Ok(true)
            });
            result.map(|()| first).map_err(|error| error.to_string())
        };
        assert_eq!(read("text").unwrap(), Some("a".into()));
        for (column, dtype) in [
            ("date", "Date32"),
            ("time", "Timestamp(Microsecond, None)"),
            ("bytes", "Binary"),
            ("messages", "Timestamp(Microsecond, None)"),
        ] {
            let message = read(column).unwrap_err();
            let expected = format!("types.parquet: column `{column}` has values of type `{dtype}");
            assert!(message.contains(&expected), "{message}");
        }
        assert_eq!(lists(&path).unwrap(), ["messages"]);
    }

    #[test]
    fn lists_of_structs_are_arrays_of_objects() {
        // pyarrow wrote it: two rows of messages, in a row group each.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/messages.parquet");
        let mut all = Vec::new();
        read(&Path::new(path).into(), &["messages"], &mut |row| {
            all.push(row.values["messages"].clone());
            Ok(true)
        })
        .unwrap();
        let message = |role: &str, content: &str| serde_json::json!({ "role": role, "content": content });
        let first = [message("user", "What floats?"), message("assistant", "A cork.")];
        assert_eq!(all[0], Value::from(first.to_vec()));
        assert_eq!(all[1][0]["content"], Value::Null);
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_file_that_is_not_parquet_or_was_cut_is_an_error() {
        let file = write(vec![Column::new("text".into(), ["a", "b", "c"])]);
        let bytes = std::fs::read(file.path()).unwrap();
        for part in [0, 3, 20, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(file.path(), &bytes[..part]).unwrap();
            let message = values(&file, "text").unwrap_err();
            assert!(message.contains("not a Parquet file"), "{message}");
        }
    }
}
