//! A text column of a Parquet file.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use polars_core::prelude::{ArrowDataType, PolarsResult};
use polars_io::SerReader;
use polars_io::parquet::read::{ParallelStrategy, ParquetReader};

use super::DataError;
use super::lines::{LONGEST_SAMPLE, LONGEST_SAMPLE_MIB};

/// Gives each text of `column` to `each`. Only this column is read, a row group at a time.
pub(super) fn read(
    path: &Path,
    column: &str,
    each: &mut dyn FnMut(&str) -> Result<(), DataError>,
) -> Result<(), DataError> {
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
        None => {
            return Err(DataError::MissingColumn {
                place: path.display().to_string(),
                column: column.into(),
                columns: schema
                    .iter_names()
                    .map(|name| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        }
    }
    let mut row = 0;
    for group in &metadata.row_groups {
        let mut reader = ParquetReader::new(open()?)
            .with_columns(Some(vec![column.into()]))
            .read_parallel(ParallelStrategy::None);
        // A file of this group alone: a slice of rows would go through the groups before it each time.
        let mut only = (*metadata).clone();
        only.num_rows = group.num_rows();
        only.row_groups = vec![group.clone()];
        reader.set_metadata(Arc::new(only));
        let frame = checked(path, || reader.finish())?;
        let texts = checked(path, || frame.column(column)?.str())?;
        for text in texts.iter() {
            row += 1;
            match text {
                Some(text) if text.len() > LONGEST_SAMPLE => {
                    return Err(DataError::TooLong {
                        path: path.into(),
                        line: row,
                        limit: LONGEST_SAMPLE_MIB,
                    });
                }
                Some(text) => each(text)?,
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
        let result = read(file.path(), column, &mut |text| {
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
