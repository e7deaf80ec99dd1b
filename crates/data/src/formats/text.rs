//! Plain text: lines, paragraphs or whole files.

use std::path::Path;
use std::sync::Arc;

use options::SampleBy;
use serde_json::Map;

use super::lines::Lines;
use super::place::Place;
use super::row::{EachRow, LONGEST_SAMPLE, Row, TEXT_COLUMN};
use crate::DataError;

/// Calls `each` with each line that is not blank; each paragraph, which is the lines between blank ones, joined by `\n`; or
/// the whole text of a file.
pub(super) fn read(path: &Arc<Path>, sample_by: SampleBy, each: &mut EachRow) -> Result<(), DataError> {
    let mut lines = Lines::open(path)?;
    // The sample so far, and its first line.
    let mut sample: Option<(String, u64)> = None;
    let mut finish = |(text, first): (String, u64)| {
        each(Row {
            place: Place::line(path, first),
            values: Map::from_iter([(TEXT_COLUMN.into(), text.into())]),
        })
    };
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { break };
        if line.contains('\r') {
            return Err(DataError::CarriageReturn {
                path: path.to_path_buf(),
                line: number,
            });
        }
        let is_blank = line.trim().is_empty() && sample_by != SampleBy::Document;
        if is_blank || sample_by == SampleBy::Line {
            if let Some(done) = sample.take()
                && !finish(done)?
            {
                return Ok(());
            }
            if is_blank {
                continue;
            }
        }
        let (text, _) = match &mut sample {
            Some(sample) => {
                sample.0.push('\n');
                sample
            }
            none => none.insert((String::new(), number)),
        };
        if text.len() + line.len() > LONGEST_SAMPLE {
            return Err(lines.too_long());
        }
        text.push_str(line);
    }
    sample.map_or(Ok(()), |last| finish(last).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraphs(text: &str) -> Result<Vec<String>, DataError> {
        samples(text, SampleBy::Paragraph)
    }

    fn samples(text: &str, sample_by: SampleBy) -> Result<Vec<String>, DataError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut all = Vec::new();
        read(&file.path().into(), sample_by, &mut |row| {
            all.push(row.values[TEXT_COLUMN].as_str().unwrap().to_owned());
            Ok(true)
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
    fn a_sample_may_be_a_line_or_the_file() {
        let text = "one\n  two\n\nthree\n";
        assert_eq!(samples(text, SampleBy::Line).unwrap(), ["one", "  two", "three"]);
        assert_eq!(samples(text, SampleBy::Document).unwrap(), ["one\n  two\n\nthree"]);
    }

    #[test]
    fn a_carriage_return_ends_no_line() {
        let message = paragraphs("one\r\ntwo\rthree").unwrap_err().to_string();
        assert!(message.contains(":2: a carriage return stands alone"), "{message}");
    }

    #[test]
    fn reading_stops_when_no_more_is_wanted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n\ntwo\n\nthree").unwrap();
        let mut count = 0;
        read(&file.path().into(), SampleBy::Paragraph, &mut |_| {
            count += 1;
            Ok(count < 2)
        })
        .unwrap();
        assert_eq!(count, 2);
    }

    #[test]
    fn a_paragraph_has_the_limit_of_a_line() {
        let text = format!("{0}\n{0}\n{0}\n", "a".repeat(LONGEST_SAMPLE / 2));
        let message = paragraphs(&text).unwrap_err().to_string();
        assert!(message.ends_with(":2: a sample is longer than 16 MiB"), "{message}");
    }
}
