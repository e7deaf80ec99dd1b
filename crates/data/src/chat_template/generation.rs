//! `{% generation %}`, transformers' block around what the assistant says.
//!
//! minijinja has no blocks of one's own. The block becomes `{% filter generation %}`, which puts a mark before and
//! behind its text; the marks are taken out of the whole text again. What is set in the block stays there: it is also a
//! `{% with %}`.

use std::ops::Range;

use minijinja::Environment;

/// Characters that Unicode keeps free for such use.
const MARKS: [char; 2] = ['\u{fdd0}', '\u{fdd1}'];

/// A text, and the parts of it that were marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    pub text: String,
    /// Ranges of bytes.
    pub parts: Vec<Range<usize>>,
}

impl Marked {
    /// Takes the marks out of a text.
    pub(super) fn read(marked: &str) -> Self {
        let (mut text, mut parts, mut start) = (String::with_capacity(marked.len()), Vec::new(), 0);
        let mut rest = marked;
        while let Some(at) = rest.find(MARKS) {
            text.push_str(&rest[..at]);
            if rest[at..].starts_with(MARKS[0]) {
                start = text.len();
            } else {
                parts.push(start..text.len());
            }
            rest = &rest[at + MARKS[0].len_utf8()..];
        }
        text.push_str(rest);
        Self { text, parts }
    }
}

/// Adds the filter that marks its text.
pub(super) fn add(environment: &mut Environment) {
    environment.add_filter("generation", |text: String| format!("{}{text}{}", MARKS[0], MARKS[1]));
}

/// The template with its blocks as filters, on the same lines; true if it has some. Comments, outputs and raw text
/// stay.
pub(super) fn as_filter(template: &str) -> (String, bool) {
    let mut result = String::with_capacity(template.len());
    let (mut rest, mut found, mut is_raw) = (template, false, false);
    while let Some((at, close)) = next_tag(rest, is_raw) {
        let start = at + "{%".len();
        let Some(length) = rest[start..].find(close) else { break };
        let inner = &rest[start..start + length];
        result.push_str(&rest[..start]);
        let word = inner.trim_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
        match word {
            "generation" if close == "%}" && !is_raw => {
                result.push_str(&inner.replace(word, "filter generation %}{% with of_generation = true"));
                found = true;
            }
            "endgeneration" if close == "%}" && !is_raw => {
                result.push_str(&inner.replace(word, "endwith %}{% endfilter"))
            }
            _ => result.push_str(inner),
        }
        is_raw = close == "%}" && if is_raw { word != "endraw" } else { word == "raw" };
        rest = &rest[start + length..];
    }
    result.push_str(rest);
    (result, found)
}

/// The next block, comment or output, and what closes it. Raw text has blocks alone.
pub(super) fn next_tag(text: &str, is_raw: bool) -> Option<(usize, &'static str)> {
    let tags = [("{%", "%}"), ("{#", "#}"), ("{{", "}}")];
    let known = &tags[..if is_raw { 1 } else { tags.len() }];
    let places = known
        .iter()
        .filter_map(|(open, close)| Some((text.find(open)?, *close)));
    places.min_by_key(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_out() {
        let marked = Marked::read("a\u{fdd0}bc\u{fdd1}d\u{fdd0}é\u{fdd1}");
        assert_eq!((marked.text.as_str(), marked.parts), ("abcdé", vec![1..3, 4..6]));
        assert!(Marked::read("").parts.is_empty());
    }

    #[test]
    fn blocks_become_filters_on_their_lines() {
        let template = "{% if x %}a{% endif %}\n{%- generation -%}\n{{ y }}\n{% endgeneration %}{% x";
        let (filtered, found) = as_filter(template);
        assert!(found);
        assert_eq!(
            filtered,
            "{% if x %}a{% endif %}\n{%- filter generation %}{% with of_generation = true -%}\n{{ y }}\n{% endwith %}{% endfilter \
             %}{% x"
        );
        assert!(!as_filter("{% set generation = 1 %}").1);
    }

    #[test]
    fn a_block_in_a_comment_or_in_raw_text_marks_nothing() {
        for template in [
            "{# {% generation %} #}a",
            "{% raw %}{% generation %}{{ {# {% endraw %}b",
            "{{ '{% generation %}' }}",
        ] {
            assert_eq!(as_filter(template), (template.to_owned(), false));
        }
        assert!(as_filter("{# a #}{{ b }}{% raw %}c{% endraw %}{% generation %}d{% endgeneration %}").1);
    }
}
