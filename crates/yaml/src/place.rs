//! Where a value was written: the texts that values come from, and places in them.

use std::ops::Range;

/// A stretch of bytes in one of the [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The source's number.
    pub source: u32,
    /// Its first byte.
    pub start: u32,
    /// The byte behind its last one.
    pub end: u32,
}

impl Place {
    /// True if no byte is in it.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// True in the first source, which is the spec's file.
    pub fn is_in_file(self) -> bool {
        self.source == 0
    }

    /// The place of some bytes of `text`, a scalar that was written here. `None` if the scalar does not stand here as
    /// it reads, with or without quotes.
    pub fn part(self, text: &str, bytes: &Range<usize>) -> Option<Self> {
        if bytes.end > text.len() {
            return None;
        }
        let quotes = ((self.end - self.start) as usize).checked_sub(text.len())?;
        let start = self.start + u32::from(quotes == 2);
        (quotes == 0 || quotes == 2).then(|| Self {
            start: start + bytes.start as u32,
            end: start + bytes.end as u32,
            ..self
        })
    }
}

/// A text that values come from: the spec's file, an environment variable or an option.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file's path as it was given, `environment`, or the option, such as `--set`.
    pub name: String,
    /// The text.
    pub text: String,
    /// Who wrote it.
    pub kind: SourceKind,
}

/// Who wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A file, which has lines.
    File,
    /// An argument of the command line or a variable, which stands behind its name.
    Argument,
    /// The program, for an argument that stands for keys. Nobody knows its lines.
    Generated,
}

/// All texts that one load reads.
#[derive(Debug, Clone, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    /// Adds a file's text and returns its number.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        self.add_of(SourceKind::File, name, text)
    }

    /// Adds the value of an argument, such as `--set`, and returns its number.
    pub fn add_argument(&mut self, name: impl Into<String>, text: impl Into<String>) -> u32 {
        self.add_of(SourceKind::Argument, name, text)
    }

    /// Adds a text of some kind and returns its number.
    pub fn add_of(&mut self, kind: SourceKind, name: impl Into<String>, text: impl Into<String>) -> u32 {
        self.0.push(Source {
            name: name.into(),
            text: text.into(),
            kind,
        });
        (self.0.len() - 1) as u32
    }

    /// The source with this number.
    pub fn get(&self, source: u32) -> &Source {
        &self.0[source as usize]
    }

    /// The place of some bytes of `text`, a scalar that was written at `place`: with or without quotes, in one line or
    /// in several that were folded. `None` if it was written with escapes.
    pub fn part(&self, place: Place, text: &str, bytes: &Range<usize>) -> Option<Place> {
        if bytes.end > text.len() {
            return None;
        }
        let source = &self.get(place.source).text;
        let mut start = place.start as usize;
        let scalar = source.get(start..place.end as usize)?;
        match scalar.chars().next()? {
            '>' | '|' => start += scalar.find('\n')?,
            '\'' | '"' => start += 1,
            _ => {}
        }
        // Folding changes nothing but white space.
        let solid = |(_, c): &(usize, char)| !c.is_whitespace();
        let mut written = source[start..].char_indices().filter(solid);
        let (mut first, mut end) = (None, 0);
        for (at, c) in text.char_indices().filter(solid).take_while(|(at, _)| *at < bytes.end) {
            let (there, _) = written.next().filter(|(_, written)| *written == c)?;
            if at >= bytes.start {
                first.get_or_insert(start + there);
                end = start + there + c.len_utf8();
            }
        }
        Some(Place {
            start: first? as u32,
            end: end as u32,
            ..place
        })
    }

    /// The name, line and column (both from 1) of a place.
    pub fn locate(&self, place: Place) -> (&str, usize, usize) {
        let source = self.get(place.source);
        let before = &source.text[..floor_boundary(&source.text, place.start as usize)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        (&source.name, line, before[line_start..].chars().count() + 1)
    }
}

/// The last char boundary of `text` at or before `index`.
pub fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_scalar_is_found_where_it_was_written() {
        let found = |yaml: &str, text: &str, part: &str| {
            let mut sources = Sources::default();
            let source = sources.add("x.yaml", yaml);
            let place = Place {
                source,
                start: yaml.find(": ").unwrap() as u32 + 2,
                end: yaml.len() as u32,
            };
            let start = text.find(part).unwrap();
            let place = sources.part(place, text, &(start..start + part.len()))?;
            Some(yaml[place.start as usize..place.end as usize].to_owned())
        };
        assert_eq!(found("a: b ä c", "b ä c", "c").unwrap(), "c");
        assert_eq!(found("a: 'b ä c'", "b ä c", "ä c").unwrap(), "ä c");
        assert_eq!(found("a: b\n  c d", "b c d", "d").unwrap(), "d");
        assert_eq!(found("a: >-\n  b\n  c\n\n  d", "b c\nd", "c").unwrap(), "c");
        assert_eq!(found("a: |\n  b\n  c\n", "b\nc\n", "b\nc").unwrap(), "b\n  c");
        assert_eq!(found("a: \"b\\tc d\"", "b\tc d", "d"), None);
    }
}
