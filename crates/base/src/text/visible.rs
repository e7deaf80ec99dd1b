//! Text of others on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text of files or of libraries as it may be shown: characters that steer a terminal, or turn its writing around, are
/// written out as in `\u001b`. Line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, |c| c.is_control() || turns(c), |_| 0)
}

/// A text of our own, in which others' text may be: colours stay, and so do marks that turn the writing around, which JSON
/// and names have.
pub fn visible_but_styles(text: &str) -> Cow<'_, str> {
    shown(text, char::is_control, style)
}

/// Writes characters that steer a terminal out as JSON does. `style` gives the bytes at the beginning of a text that stay
/// as they are.
fn shown(text: &str, steers: impl Fn(char) -> bool, style: impl Fn(&str) -> usize) -> Cow<'_, str> {
    let steers = |c: char| !matches!(c, '\n' | '\t') && steers(c);
    if !text.chars().any(steers) {
        return text.into();
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let length = style(rest).max(c.len_utf8());
        match steers(c) && length == c.len_utf8() {
            true => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            false => out.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    out.into()
}

/// True for a mark that turns the writing around.
fn turns(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Bytes of the colour or weight that a text begins with (ECMA-48's "select graphic rendition"); 0 if there is none.
fn style(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let is_parameter = |c: char| c.is_ascii_digit() || c == ';';
    let end = rest
        .find(|c| !is_parameter(c))
        .filter(|&end| rest[end..].starts_with('m'));
    end.map_or(0, |end| 2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        assert_eq!(visible("a\tb\nc – é"), "a\tb\nc – é");
        assert_eq!(visible("a\u{1b}[2Jb\r\u{7f}\u{9b}"), r"a\u001b[2Jb\u000d\u007f\u009b");
        assert_eq!(visible("\u{202e}gpj"), r"\u202egpj");
    }

    #[test]
    fn our_colours_stay_and_json_is_json() {
        let text = "\u{1b}[1m\u{1b}[38;5;9mred\u{1b}[0m\u{1b}[2J\u{1b}[";
        let shown = "\u{1b}[1m\u{1b}[38;5;9mred\u{1b}[0m\\u001b[2J\\u001b[";
        assert_eq!(visible_but_styles(text), shown);
        assert_eq!(visible_but_styles("\"\u{200f}\u{7f}\""), "\"\u{200f}\\u007f\"");
    }
}
