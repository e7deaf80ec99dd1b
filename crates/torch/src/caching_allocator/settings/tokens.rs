//! The words of allocator settings: names, values and the separators `:`, `,`, `[` and `]`.

use std::ops::Range;

use base::text::Mistake;

/// Reads one word after the other.
pub(super) struct Tokens<'a> {
    text: &'a str,
    words: std::vec::IntoIter<Word>,
}

/// A word without the spaces in it, which PyTorch ignores, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub text: String,
    pub at: Range<usize>,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        let mut open: Option<Word> = None;
        for (start, c) in text.char_indices() {
            let at = start..start + c.len_utf8();
            if matches!(c, ',' | ':' | '[' | ']') {
                words.extend(open.take());
                words.push(Word { text: c.into(), at });
            } else if !c.is_whitespace() {
                let word = open.get_or_insert_with(|| Word {
                    text: String::new(),
                    at: at.clone(),
                });
                word.text.push(c);
                word.at.end = at.end;
            }
        }
        words.extend(open);
        Self {
            text,
            words: words.into_iter(),
        }
    }

    pub(super) fn next(&mut self) -> Option<Word> {
        self.words.next()
    }

    /// The next word if it is `separator`.
    pub(super) fn skip(&mut self, separator: &str) -> bool {
        let found = self.words.as_slice().first().is_some_and(|word| word.text == separator);
        if found {
            self.words.next();
        }
        found
    }

    /// Passes over `separator`, which has to follow.
    pub(super) fn expect(&mut self, separator: &str, option: &str) -> Result<(), Mistake> {
        match self.words.next() {
            Some(word) if word.text == separator => Ok(()),
            word => Err(self.error(
                word,
                format!("`{separator}` is missing in the allocator option `{option}`"),
            )),
        }
    }

    /// The value that has to follow; not a separator.
    pub(super) fn value(&mut self, option: &str) -> Result<Word, Mistake> {
        match self.words.next() {
            Some(word) if !matches!(word.text.as_str(), "," | ":" | "[" | "]") => Ok(word),
            word => Err(self.error(word, format!("the allocator option `{option}` has no value"))),
        }
    }

    /// An error at `word`, or at the end of the text.
    pub(super) fn error(&self, word: Option<Word>, message: String) -> Mistake {
        Mistake::new(message).at(Some(word.map_or(self.text.len()..self.text.len(), |word| word.at)))
    }
}
