//! A Parquet file's column of text, and perhaps one of labels.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use polars_core::prelude::{ArrowDataType, Column, DataType, PolarsResult};
use polars_io::SerReader;
use polars_io::parquet::read::{ParallelStrategy, ParquetReader};

use super::DataError;
use super::labels::{Each, LabelValue, RawLabel};
use super::lines::{LONGEST_SAMPLE, LONGEST_SAMPLE_MIB};

/// Calls `each` with each text of `column`, and with its label if `labels` names a column. Reads only these columns, one
/// row group at a time.
pub(super) fn read(path: &Path, column: &str, labels: Option<&str>, each: &mut Each) -> Result<(), DataError> {
    let read_error = |source| DataError::Read {
        path: path.into(),
        source,
    };
    let open = || File::open(path).map_err(read_error);
    let mut reader = ParquetReader::new(open()?);
    let (schema, metadata) = checked(path, || Ok((reader.schema()?, reader.get_metadata()?.clone())))?;
    match schema.get(column).map(|field| field.dtype()) {
        Some(ArrowDataType::Utf8View | ArrowDataType::LargeUtf8 | ArrowDataType::Utf8) => {}
        Some(other) => {
            return Err(DataError::NotText {
                place: path.display().to_string(),
                column: column.into(),
                got: format!("{other:?}"),
            });
        }
        None => return Err(missing(path, column, schema.iter_names().map(|name| name.as_str()))),
    }
    match labels {
        Some(labels) if schema.get(labels).is_none() => {
            return Err(missing(path, labels, schema.iter_names().map(|name| name.as_str())));
        }
        _ => {}
    }
    let columns: Vec<_> = std::iter::once(column).chain(labels).map(Into::into).collect();
    let mut row = 0;
    for group in &metadata.row_groups {
        let mut reader = ParquetReader::new(open()?)
            .with_columns(Some(columns.clone()))
            .read_parallel(ParallelStrategy::None);
        // The metadata of a file with this group alone: a slice of rows would read through all groups before it.
        let mut only = (*metadata).clone();
        only.num_rows = group.num_rows();
        only.row_groups = vec![group.clone()];
        reader.set_metadata(Arc::new(only));
        let frame = checked(path, || reader.finish())?;
        let texts = checked(path, || frame.column(column)?.str())?;
        let of_labels = labels.map(|labels| {
            let column = checked(path, || frame.column(labels))?;
            LabelColumn::new(path, column)
        });
        let of_labels = of_labels.transpose()?;
        for (index, text) in texts.iter().enumerate() {
            row += 1;
            match text {
                Some(text) if text.len() > LONGEST_SAMPLE => {
                    return Err(DataError::TooLong {
                        path: path.into(),
                        line: row,
                        limit: LONGEST_SAMPLE_MIB,
                    });
                }
                Some(text) => match &of_labels {
                    None => each(text, None)?,
                    Some(of_labels) => {
                        let place = || format!("{}: row {row}", path.display());
                        let label = RawLabel {
                            value: of_labels.get(index, &place)?,
                            place: &place,
                            column: &of_labels.name,
                        };
                        each(text, Some(label))?;
                    }
                },
                None => {
                    return Err(DataError::NotText {
                        place: format!("{}: row {row}", path.display()),
                        column: column.into(),
                        got: "null".into(),
                    });
                }
            }
        }
    }
    Ok(())
}

/// A row group's labels.
struct LabelColumn {
    name: String,
    values: Column,
}

impl LabelColumn {
    fn new(path: &Path, column: &Column) -> Result<Self, DataError> {
        let name = column.name().to_string();
        let dtype = column.dtype();
        let known = if dtype.is_integer() {
            &DataType::Int64
        } else {
            &DataType::String
        };
        if !dtype.is_integer() && dtype != known {
            return Err(DataError::Label {
                place: path.display().to_string(),
                column: name,
                reason: format!("is {dtype}, not integers or text"),
            });
        }
        let values = checked(path, || column.cast(known))?;
        Ok(Self { name, values })
    }

    fn get(&self, index: usize, place: &dyn Fn() -> String) -> Result<LabelValue<'_>, DataError> {
        let number = self.values.i64().ok().and_then(|numbers| numbers.get(index));
        let name = self.values.str().ok().and_then(|names| names.get(index));
        let value = number.map(LabelValue::Number).or(name.map(LabelValue::Name));
        value.ok_or_else(|| DataError::Label {
            place: place(),
            column: self.name.clone(),
            reason: "is null, not an integer or a text".into(),
        })
    }
}

fn missing<'a>(path: &Path, column: &str, columns: impl Iterator<Item = &'a str>) -> DataError {
    DataError::MissingColumn {
        place: path.display().to_string(),
        column: column.into(),
        columns: columns.collect::<Vec<_>>().join(", "),
    }
}

/// Runs a step of polars' reader. It panics on some damaged files, and a damaged file is an error like any other.
fn checked<T>(path: &Path, step: impl FnOnce() -> PolarsResult<T>) -> Result<T, DataError> {
    let reason = match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it is damaged".into(),
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

    fn texts(file: &tempfile::NamedTempFile, column: &str) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        let result = read(file.path(), column, None, &mut |text, _| {
            all.push(text.to_owned());
            Ok(())
        });
        let path = file.path().display().to_string();
        result
            .map(|()| all)
            .map_err(|error| error.to_string().replace(&path, "x.parquet"))
    }

    #[test]
    fn a_text_column_is_read_through_all_row_groups() {
        let words: Vec<String> = (0..5).map(|number| format!("text {number}")).collect();
        let file = write(vec![
            Column::new("text".into(), &words),
            Column::new("n".into(), [1i64, 2, 3, 4, 5]),
        ]);
        assert_eq!(texts(&file, "text").unwrap(), words);
        assert_eq!(
            texts(&file, "n").unwrap_err(),
            "x.parquet: column `n` is Int64, not text"
        );
        assert_eq!(
            texts(&file, "body").unwrap_err(),
            "x.parquet: no column `body`; there are: text, n"
        );
    }

    #[test]
    fn labels_are_read_beside_their_texts() {
        let file = write(vec![
            Column::new("text".into(), ["a", "b", "c"]),
            Column::new("n".into(), [2i32, 0, 1]),
            Column::new("name".into(), [Some("x"), None, Some("z")]),
            Column::new("real".into(), [0.5, 1.0, 2.0]),
        ]);
        let labels = |column: &str| {
            let mut all = Vec::new();
            let result = read(file.path(), "text", Some(column), &mut |text, label| {
                all.push(format!("{text} {:?}", label.unwrap().value));
                Ok(())
            });
            let path = file.path().display().to_string();
            result
                .map(|()| all)
                .map_err(|error| error.to_string().replace(&path, "x.parquet"))
        };
        assert_eq!(labels("n").unwrap(), ["a Number(2)", "b Number(0)", "c Number(1)"]);
        for (column, message) in [
            (
                "name",
                "x.parquet: row 2: column `name` is null, not an integer or a text",
            ),
            ("real", "x.parquet: column `real` is f64, not integers or text"),
            ("none", "x.parquet: no column `none`; there are: text, n, name, real"),
        ] {
            assert_eq!(labels(column).unwrap_err(), message);
        }
    }

    #[test]
    fn null_is_no_text() {
        let file = write(vec![Column::new("text".into(), [Some("a"), Some("b"), None])]);
        assert_eq!(
            texts(&file, "text").unwrap_err(),
            "x.parquet: row 3: column `text` is null, not text"
        );
    }

    #[test]
    fn a_file_that_is_not_parquet_or_was_cut_is_an_error() {
        let file = write(vec![Column::new("text".into(), ["a", "b", "c"])]);
        let bytes = std::fs::read(file.path()).unwrap();
        for part in [0, 3, 20, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(file.path(), &bytes[..part]).unwrap();
            let message = texts(&file, "text").unwrap_err();
            assert!(message.contains("not a Parquet file"), "{message}");
        }
    }
}
