//! Quotations in messages.

/// `text` in backticks, with control characters escaped, and cut if it is long.
pub fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut escaped: String = text.chars().take(LONGEST).flat_map(escape).collect();
    if text.chars().nth(LONGEST).is_some() {
        escaped.push('…');
    }
    format!("`{escaped}`")
}

fn escape(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = escaped.is_none().then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// `a, b or c`, each in backticks.
pub fn either<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_short_line() {
        assert_eq!(quoted("a\nb\u{7f}"), "`a\\nb\\u{7f}`");
        assert_eq!(quoted(&"x".repeat(99)).chars().count(), 63);
    }
}
