//! Mistakes in texts that people write.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// A mistake in a text: the reason, the mend if there is one, and the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// One sentence in lower case.
    pub message: String,
    /// The right way, or a suggestion.
    pub help: Option<String>,
    /// The bytes of the text that are wrong; `None` for the whole text.
    pub range: Option<Range<usize>>,
}

impl Mistake {
    /// A mistake in the whole text, without help.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            range: None,
        }
    }

    /// Narrows the mistake to a part of the text.
    pub fn at(mut self, range: Option<Range<usize>>) -> Self {
        self.range = range;
        self
    }

    /// Adds help, if the mistake has none yet.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.get_or_insert_with(|| help.into());
        self
    }

    /// Adds help, if there is some and the mistake has none yet.
    pub fn help_if(self, help: Option<impl Into<String>>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// The mistake with a caret under its place in `text`, which came from `source`.
    pub fn shown_in(&self, source: &str, text: &str) -> String {
        let range = self.range.clone().filter(|range| range.end <= text.len());
        let snippet = Snippet::source(text)
            .path(source)
            .annotation(AnnotationKind::Primary.span(range.unwrap_or(0..text.len())));
        let mut group = Level::ERROR.no_name().primary_title(&self.message).element(snippet);
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        Renderer::plain().render(&[group])
    }
}

/// Message and help in one line.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for Mistake {}
