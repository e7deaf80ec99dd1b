//! Widths, lines and escapes of texts. There is no font to measure with, so widths are upper estimates.

/// Widths of the characters from the space to `~`, in hundredths of the letters' height. DejaVu Sans is the widest of
/// the sans-serif fonts that browsers fall back to.
#[rustfmt::skip]
const WIDTHS: [i32; 95] = [
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84,
    84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73, 68, 99, 69, 61,
    69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59,
    82, 59, 59, 52, 64, 34, 64, 84,
];

/// Width of a text in letters of this height, in pixels.
pub(super) fn text_width(text: &str, size: f64) -> i32 {
    let hundredths: i32 = text.chars().map(character).sum();
    (f64::from(hundredths) / 100.0 * size).ceil() as i32
}

fn character(c: char) -> i32 {
    let at = (c as usize).checked_sub(' ' as usize);
    match at.and_then(|at| WIDTHS.get(at)) {
        Some(width) => *width,
        None if c == '·' || c == '\u{a0}' => 32,
        None => 100,
    }
}

/// Text of an XML element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The text in lines of at most `width` pixels. A word that is too long for a line is broken, at a sign if it has one.
pub(super) fn wrapped(text: &str, size: f64, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let longer = if line.is_empty() {
            word.to_owned()
        } else {
            format!("{line} {word}")
        };
        if text_width(&longer, size) <= width {
            line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut rest = word;
        while text_width(rest, size) > width {
            let (piece, after) = rest.split_at(break_of(rest, size, width));
            lines.push(piece.to_owned());
            rest = after;
        }
        rest.clone_into(&mut line);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// The length of the piece of a word that fits: up to the last sign in its second half, else all that fits.
fn break_of(word: &str, size: f64, width: i32) -> usize {
    let ends = || word.char_indices().map(|(at, c)| (at + c.len_utf8(), c));
    let first = ends().next().map_or(word.len(), |(end, _)| end);
    let fits = ends()
        .map(|(end, _)| end)
        .take_while(|&end| text_width(&word[..end], size) <= width)
        .last()
        .unwrap_or(first);
    let signs = ends()
        .take_while(|(end, _)| *end <= fits)
        .filter(|(_, c)| ",:;=/_-\u{a0}".contains(*c));
    let ends = signs.map(|(end, _)| end).filter(|end| 2 * end > fits);
    ends.max().unwrap_or(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_wider_than_asked_and_lose_nothing() {
        let texts = [
            "rank 4",
            "bfloat16 · flash_attention_2 · expandable_segments:True,max_split_size_mb:64",
            "an_identifier_without_any_space_that_is_longer_than_every_line",
            "日本語のとても長いラベル",
            "",
        ];
        for text in texts {
            for width in [20, 60, 100, 400] {
                let lines = wrapped(text, 12.0, width);
                assert!(lines.iter().all(|line| text_width(line, 12.0) <= width), "{lines:?}");
                assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""), "{lines:?}");
            }
        }
        let lines = wrapped("expandable_segments:True,max_split_size_mb:64", 12.0, 180);
        assert_eq!(lines, ["expandable_segments:True,", "max_split_size_mb:64"]);
    }

    #[test]
    fn a_line_holds_at_least_one_character() {
        assert_eq!(wrapped("ab", 12.0, 1), ["a", "b"]);
    }
}
