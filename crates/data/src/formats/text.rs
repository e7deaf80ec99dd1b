//! Plain text, one sample per paragraph.

use std::path::Path;
use std::sync::Arc;

use serde_json::Map;

use super::lines::Lines;
use super::place::Place;
use super::row::{EachRow, LONGEST_SAMPLE, Row, TEXT_COLUMN};
use crate::DataError;

/// Calls `each` with each paragraph of a file: the lines between blank lines, joined by `\n`.
pub(super) fn read(path: &Arc<Path>, each: &mut EachRow) -> Result<(), DataError> {
    let mut lines = Lines::open(path)?;
    let (mut paragraph, mut first) = (String::new(), 0);
    let mut finish = |paragraph: &mut String, first| {
        let text = std::mem::take(paragraph);
        each(Row {
            place: Place::line(path, first),
            values: Map::from_iter([(TEXT_COLUMN.into(), text.into())]),
        })
    };
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { break };
        if line.trim().is_empty() {
            if !paragraph.is_empty() {
                finish(&mut paragraph, first)?;
            }
        } else if paragraph.len() + 1 + line.len() > LONGEST_SAMPLE {
            return Err(lines.too_long());
        } else {
            match paragraph.is_empty() {
                true => first = number,
                false => paragraph.push('\n'),
            }
            paragraph.push_str(line);
        }
    }
    match paragraph.is_empty() {
        true => Ok(()),
        false => finish(&mut paragraph, first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraphs(text: &str) -> Result<Vec<String>, DataError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut all = Vec::new();
        read(&file.path().into(), &mut |row| {
            all.push(row.values[TEXT_COLUMN].as_str().unwrap().to_owned());
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn blank_lines_part_paragraphs() {
        let text = "\n \none\n  two\n\t\n\n\nthree\r\n\r\nfour";
        assert_eq!(paragraphs(text).unwrap(), ["one\n  two", "three", "four"]);
        assert!(paragraphs(" \n\n").unwrap().is_empty());
    }

    #[test]
    fn a_paragraph_has_the_limit_of_a_line() {
        let text = format!("{0}\n{0}\n{0}\n", "a".repeat(LONGEST_SAMPLE / 2));
        let message = paragraphs(&text).unwrap_err().to_string();
        assert!(message.ends_with(":2: a sample is longer than 16 MiB"), "{message}");
    }
}
