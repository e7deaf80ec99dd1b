//! String literals of templates with Python's escapes: minijinja knows those of JSON.

use super::generation::next_tag;

/// The template with the characters themselves in place of escapes that minijinja reads otherwise. Lines stay lines.
pub(super) fn plain(template: &str) -> String {
    let mut result = String::with_capacity(template.len());
    let (mut rest, mut is_raw) = (template, false);
    while let Some((at, close)) = next_tag(rest, is_raw) {
        let start = at + 2;
        let Some(length) = end_of_tag(&rest[start..], close) else {
            break;
        };
        let inner = &rest[start..start + length];
        result.push_str(&rest[..start]);
        match close {
            "#}" => result.push_str(inner),
            _ => write_tag(inner, &mut result),
        }
        let word = inner.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
        is_raw = close == "%}" && if is_raw { word != "endraw" } else { word == "raw" };
        rest = &rest[start + length..];
    }
    result.push_str(rest);
    result
}

/// Where a tag ends: not within a literal.
fn end_of_tag(text: &str, close: &str) -> Option<usize> {
    if close == "#}" {
        return text.find(close);
    }
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => _ = chars.next(),
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if text[at..].starts_with(close) => return Some(at),
            _ => {}
        }
    }
    None
}

fn write_tag(inner: &str, out: &mut String) {
    let mut quote: Option<char> = None;
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        let length = match (quote, c) {
            (Some(_), '\\') => escape(rest, out),
            (open, '\'' | '"') => {
                quote = match open {
                    None => Some(c),
                    Some(open) if open == c => None,
                    open => open,
                };
                out.push(c);
                1
            }
            _ => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
}

/// Writes what an escape at the beginning of `text` stands for, and returns how long it is.
fn escape(text: &str, out: &mut String) -> usize {
    let mut chars = text[1..].chars();
    let kind = chars.next();
    let digits = |count: usize| {
        let digits = text.get(2..2 + count)?;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    };
    match kind {
        Some('a') => out.push('\u{7}'),
        Some('v') => out.push('\u{b}'),
        Some('b') => out.push('\u{8}'),
        Some('f') => out.push('\u{c}'),
        Some('U') if digits(8).is_some_and(is_plain) => {
            out.extend(digits(8));
            return 10;
        }
        // The line's end stays out, and what follows is on the same line as before.
        Some('\n') => {}
        Some('n' | 'r' | 't' | '\\' | '\'' | '"' | 'x' | 'u' | 'U' | '0'..='7' | 'N') | None => {
            out.push('\\');
            out.extend(kind);
        }
        // Python keeps the backslash of what is no escape.
        Some(other) => {
            out.push_str("\\\\");
            out.push(other);
        }
    }
    1 + kind.map_or(0, char::len_utf8)
}

fn is_plain(c: char) -> bool {
    !matches!(c, '\'' | '"' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_escapes_become_their_characters() {
        for (template, expected) in [
            (r"{{ 'a\n\U0001F600\q' }}\q", r"{{ 'a\n😀\\q' }}\q"),
            (
                r#"{% set a = "\/ %} '" %}{{ '\'' }}"#,
                r#"{% set a = "\\/ %} '" %}{{ '\'' }}"#,
            ),
            (
                "{# '\\q #}{% raw %}{{ '\\q' }}{% endraw %}",
                "{# '\\q #}{% raw %}{{ '\\q' }}{% endraw %}",
            ),
            ("{{ 'a\\\nb' }}", "{{ 'ab' }}"),
            ("it's {{ x", "it's {{ x"),
        ] {
            assert_eq!(plain(template), expected);
        }
    }
}
