//! The pieces of a text: words, figures of sources, and expressions.

use std::ops::Range;

use base::text::Mistake;

/// The beginning of a source's figure.
const PUBLISHED: &str = "[published:";

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Words, which stay as they are.
    Words(&'t str),
    /// A figure of a source: `6 GB` of `[published: 6 GB]`.
    Published(&'t str),
    /// An expression, and its bytes in the text: what stands between `{{` and `}}`.
    Expression(&'t str, Range<usize>),
}

/// The pieces of a text, in their order.
///
/// # Errors
/// An expression or a figure without its end.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Mistake> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(['{', '[']).map(|found| at + found) {
        let rest = &text[start..];
        let wrong = |message: &str, begin: &str| Mistake::new(message).at(Some(start..start + begin.len()));
        let (piece, end) = if let Some(inside) = rest.strip_prefix("{{") {
            let length = end_of_expression(inside).ok_or_else(|| wrong("the expression has no end: `}}`", "{{"))?;
            let bytes = start + 2..start + 2 + length;
            (Piece::Expression(&text[bytes.clone()], bytes.clone()), bytes.end + 2)
        } else if let Some(inside) = rest.strip_prefix(PUBLISHED) {
            let length = inside
                .find(']')
                .ok_or_else(|| wrong("the published figure has no end: `]`", PUBLISHED))?;
            (
                Piece::Published(inside[..length].trim()),
                start + PUBLISHED.len() + length + 1,
            )
        } else {
            // Any other bracket is one of the words.
            let end = start + 1;
            pieces.push(Piece::Words(&text[at..end]));
            at = end;
            continue;
        };
        pieces.extend([Piece::Words(&text[at..start]), piece]);
        at = end;
    }
    pieces.push(Piece::Words(&text[at..]));
    Ok(pieces)
}

/// The place of the `}}` that ends an expression: not one in a text or in a map.
fn end_of_expression(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut open = 0_usize;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '{') => open += 1,
            (None, '}') if open > 0 => open -= 1,
            (None, '}') if text[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_falls_into_pieces() {
        let text = "a [b] {{ f('}}', {'x': {'y': 1}}) }}, not [published: 6 GB]{c}";
        let expression = " f('}}', {'x': {'y': 1}}) ";
        let start = text.find(expression).unwrap();
        let words: Vec<Piece<'_>> = pieces(text).unwrap();
        let expected = [
            Piece::Words("a ["),
            Piece::Words("b] "),
            Piece::Expression(expression, start..start + expression.len()),
            Piece::Words(", not "),
            Piece::Published("6 GB"),
            Piece::Words("{"),
            Piece::Words("c}"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_piece_has_an_end() {
        for (text, message, start) in [
            ("ä {{ 1 | count }", "the expression has no end: `}}`", 3),
            ("a {{ '}}'", "the expression has no end: `}}`", 2),
            ("[published: 6 GB", "the published figure has no end: `]`", 0),
        ] {
            let mistake = pieces(text).unwrap_err();
            assert_eq!((&mistake.message[..], mistake.range.unwrap().start), (message, start));
        }
    }
}
