//! JSON lines: one object a line.

use std::path::Path;
use std::sync::Arc;

use super::lines::Lines;
use super::place::Place;
use super::row::EachObject;
use crate::DataError;

/// Calls `each` with the object of each line. Skips blank lines.
pub(super) fn lines(path: &Arc<Path>, each: &mut EachObject) -> Result<(), DataError> {
    let mut lines = Lines::open(path)?;
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { return Ok(()) };
        if line.trim().is_empty() {
            continue;
        }
        let object = serde_json::from_str(line).map_err(|error| json_error(path, number, &error))?;
        if !each(Place::line(path, number), object)? {
            return Ok(());
        }
    }
}

/// The error of JSON that ends or is wrong in this line.
pub(super) fn json_error(path: &Path, line: u64, error: &serde_json::Error) -> DataError {
    let reason = error.to_string();
    // The line in serde_json's message would be that of a text of one line.
    let reason = reason
        .rsplit_once(" at line ")
        .map_or(reason.as_str(), |(reason, _)| reason);
    DataError::Json {
        path: path.into(),
        line,
        column: error.column(),
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use options::{DataFormat, SampleBy};

    use super::super::File;

    fn texts(text: &str) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut all = Vec::new();
        let opened = File {
            path: file.path(),
            format: DataFormat::Jsonl,
            sample_by: SampleBy::Paragraph,
            sep: None,
        };
        let result = opened.read(&["text"], &[], &mut |row| {
            all.push(row.values["text"].as_str().unwrap().to_owned());
            Ok(true)
        });
        let path = file.path().display().to_string();
        result
            .map(|()| all)
            .map_err(|error| error.to_string().replace(&path, "x.jsonl"))
    }

    #[test]
    fn the_column_of_each_line_is_read() {
        let text = "{\"text\": \"one\", \"n\": 1}\n\n{\"text\": \"two\\nlines\"}";
        assert_eq!(texts(text).unwrap(), ["one", "two\nlines"]);
    }

    #[test]
    fn errors_name_line_and_column() {
        let good = "{\"text\": \"one\"}\n";
        for (line, message) in [
            (
                "{\"text\": \"two\"",
                "x.jsonl:2:14: not a JSON object: EOF while parsing an object",
            ),
            ("{\"text\" \"two\"}", "x.jsonl:2:9: not a JSON object: expected `:`"),
            (
                "[1]",
                "x.jsonl:2:0: not a JSON object: invalid type: sequence, expected a map",
            ),
            (
                "{\"body\": \"\", \"id\": 7}",
                "x.jsonl:2: no column `text`; there are: body, id",
            ),
        ] {
            assert_eq!(texts(&format!("{good}{line}\n")).unwrap_err(), message);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let message = texts(&"[".repeat(100_000)).unwrap_err();
        assert!(message.contains("not a JSON object"), "{message}");
        let message = texts(&format!("{{\"a\": {}", "[".repeat(100_000))).unwrap_err();
        assert!(message.contains("recursion limit"), "{message}");
    }
}
