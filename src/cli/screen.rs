//! Text for a terminal: lines of at most 80 columns, and colours for verdicts.

use anstyle::{AnsiColor, Style};
use records::prediction::Judgement;

/// Columns of a line. Terminals have at least as many.
const COLUMNS: usize = 80;

/// Breaks a paragraph into lines; those after the first are indented.
pub(super) fn wrapped(text: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(COLUMNS)
        .subsequent_indent(&indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(text, options)
}

/// A judgement's words in its colour. The colour is printed to a terminal alone.
pub(super) fn judged(words: &str, judgement: Judgement) -> String {
    let colour = match judgement {
        Judgement::Fits => AnsiColor::Green,
        Judgement::Tight | Judgement::MayNotFit => AnsiColor::Yellow,
        Judgement::DoesNotFit => AnsiColor::Red,
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    format!("{style}{words}{style:#}")
}
