//! Text for a terminal: the width of its lines, and colours for verdicts.

use anstyle::{AnsiColor, Style};
use records::prediction::Judgement;

/// Columns of a line of words. Terminals have at least as many.
const COLUMNS: usize = 80;

/// Columns of the screen: those that the variable `COLUMNS` says, or the terminal's. What is piped has no end.
pub(super) fn screen_width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    named.or_else(terminal).unwrap_or(usize::MAX)
}

/// Breaks a paragraph into lines; those after the first are indented.
pub(super) fn wrapped(text: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(COLUMNS.min(screen_width()))
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
