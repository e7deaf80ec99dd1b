//! Plain text, one sample per paragraph.

use std::path::Path;

use super::DataError;
use super::lines::{LONGEST_SAMPLE, Lines};

/// Calls `each` with each paragraph of a file: the lines between blank lines, joined by `\n`.
pub(super) fn read(path: &Path, each: &mut dyn FnMut(&str) -> Result<(), DataError>) -> Result<(), DataError> {
    let mut lines = Lines::open(path)?;
    let mut paragraph = String::new();
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            if !paragraph.is_empty() {
                each(&paragraph)?;
                paragraph.clear();
            }
        } else if paragraph.len() + 1 + line.len() > LONGEST_SAMPLE {
            return Err(lines.too_long());
        } else {
            if !paragraph.is_empty() {
                paragraph.push('\n');
            }
            paragraph.push_str(line);
        }
    }
    if paragraph.is_empty() { Ok(()) } else { each(&paragraph) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraphs(text: &str) -> Result<Vec<String>, DataError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut all = Vec::new();
        read(file.path(), &mut |text| {
            all.push(text.to_owned());
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
