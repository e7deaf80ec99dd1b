//! JSON lines: one object a line, with the text and perhaps a label among its values.

use std::path::Path;

use serde_json::{Map, Value};

use super::DataError;
use super::labels::{Each, LabelValue, RawLabel};
use super::lines::Lines;

/// Calls `each` with the text in `column` of each line, and with its label if `labels` names a column. Skips blank lines.
pub(super) fn read(path: &Path, column: &str, labels: Option<&str>, each: &mut Each) -> Result<(), DataError> {
    let mut lines = Lines::open(path)?;
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { return Ok(()) };
        if line.trim().is_empty() {
            continue;
        }
        let object: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| json_error(path, number, &error))?;
        let place = || format!("{}:{number}", path.display());
        let value = |column: &str| {
            object.get(column).ok_or_else(|| DataError::MissingColumn {
                place: place(),
                column: column.into(),
                columns: object.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            })
        };
        let text = match value(column)? {
            Value::String(text) => text,
            other => {
                return Err(DataError::NotText {
                    place: place(),
                    column: column.into(),
                    got: kind(other).into(),
                });
            }
        };
        let Some(labels) = labels else {
            each(text, None)?;
            continue;
        };
        let value = match value(labels)? {
            Value::String(name) => LabelValue::Name(name),
            Value::Number(number) if number.is_i64() => LabelValue::Number(number.as_i64().unwrap_or(i64::MAX)),
            other => {
                return Err(DataError::Label {
                    place: place(),
                    column: labels.into(),
                    reason: format!("is {}, not an integer or a text", kind(other)),
                });
            }
        };
        let label = RawLabel {
            value,
            place: &place,
            column: labels,
        };
        each(text, Some(label))?;
    }
}

fn json_error(path: &Path, line: u64, error: &serde_json::Error) -> DataError {
    let reason = error.to_string();
    // serde_json reads a single line, so its "at line 1" would mislead.
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

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut all = Vec::new();
        let result = read(file.path(), "text", None, &mut |text, _| {
            all.push(text.to_owned());
            Ok(())
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
            ("{\"text\": 7}", "x.jsonl:2: column `text` is a number, not text"),
            ("{\"text\": null}", "x.jsonl:2: column `text` is null, not text"),
        ] {
            assert_eq!(texts(&format!("{good}{line}\n")).unwrap_err(), message);
        }
    }

    #[test]
    fn labels_are_integers_or_texts() {
        let labels = |line: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), line).unwrap();
            let mut all = Vec::new();
            let result = read(file.path(), "text", Some("label"), &mut |_, label| {
                all.push(format!("{:?}", label.unwrap().value));
                Ok(())
            });
            let path = file.path().display().to_string();
            result
                .map(|()| all.concat())
                .map_err(|error| error.to_string().replace(&path, "x.jsonl"))
        };
        assert_eq!(labels(r#"{"text": "a", "label": 1}"#).unwrap(), "Number(1)");
        assert_eq!(labels(r#"{"text": "a", "label": "pos"}"#).unwrap(), r#"Name("pos")"#);
        for (line, message) in [
            (
                r#"{"text": "a", "label": 0.5}"#,
                "x.jsonl:1: column `label` is a number, not an integer or a text",
            ),
            (
                r#"{"text": "a", "label": null}"#,
                "x.jsonl:1: column `label` is null, not an integer or a text",
            ),
            (
                r#"{"text": "a", "class": 1}"#,
                "x.jsonl:1: no column `label`; there are: text, class",
            ),
        ] {
            assert_eq!(labels(line).unwrap_err(), message);
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
