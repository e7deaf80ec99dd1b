//! The sentences of a text: a report begins with the first of its description.

/// Sentences of a description that stand at the head of a report.
const AT_HEAD: usize = 3;

/// The first sentences of a description.
pub(crate) fn head(text: &str) -> &str {
    text[..end(text)].trim_end()
}

/// The other sentences.
pub(crate) fn rest(text: &str) -> &str {
    text[end(text)..].trim_start()
}

/// The place behind the sentences at the head.
fn end(text: &str) -> usize {
    let stops = text.match_indices(['.', '?', '!']).map(|(at, _)| at + 1);
    let mut ends = stops.filter(|&end| is_end(text, end));
    ends.nth(AT_HEAD - 1).unwrap_or(text.len())
}

/// True if a sentence ends before this place: what follows is a space, and a word that begins one. Neither a decimal point
/// nor the point of an abbreviation such as `e.g.` is followed so.
fn is_end(text: &str, place: usize) -> bool {
    let after = &text[place..];
    let next = after.trim_start().chars().next();
    after.starts_with(char::is_whitespace) && next.is_some_and(|next| !next.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_cut_behind_a_sentence() {
        let text = "What does 4.5 GiB hold, e.g. on a T4? It was measured. \"Twice!\" says one. Then more. And more.";
        assert_eq!(
            (head(text), rest(text)),
            (
                "What does 4.5 GiB hold, e.g. on a T4? It was measured. \"Twice!\" says one.",
                "Then more. And more."
            )
        );
        for short in ["", "Why?", "One. Two. Three."] {
            assert_eq!((head(short), rest(short)), (short, ""));
        }
    }
}
