//! The answer of a page as plain text, for a terminal.

use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

/// The sentences of the page's answer, without Markdown; none where it has no answer.
pub(super) fn sentences(markdown: &str) -> Vec<String> {
    let mut events = Parser::new(markdown);
    let mut heading: Option<String> = None;
    let mut sentences: Vec<String> = Vec::new();
    let mut in_answer = false;
    for event in &mut events {
        match event {
            Event::Start(Tag::Heading { level, .. }) if in_answer || level == HeadingLevel::H2 => {
                if in_answer {
                    break;
                }
                heading = Some(String::new());
            }
            Event::End(TagEnd::Heading(_)) => in_answer = heading.take().as_deref() == Some("Answer"),
            Event::Text(text) | Event::Code(text) => match (&mut heading, in_answer) {
                (Some(heading), _) => heading.push_str(&text),
                (None, true) => sentences
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|last| last.push_str(&text)),
                _ => {}
            },
            Event::Start(Tag::Item) if in_answer => sentences.push(String::new()),
            Event::SoftBreak if in_answer => sentences.iter_mut().last().into_iter().for_each(|last| last.push(' ')),
            Event::End(TagEnd::List(_)) if in_answer => break,
            _ => {}
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_lose_their_marks_and_nothing_else() {
        let page = "# x\n\nText.\n\n## Answer\n\n* With `a_b` it is **1.67 ± 0.05×**\n  as fast.\n* Second: `c`.\n\n\
            <details>\n\n1. `ab`\n\n</details>\n\n## Results\n\n* no\n";
        assert_eq!(sentences(page), ["With a_b it is 1.67 ± 0.05× as fast.", "Second: c."]);
        assert!(sentences("# x\n\n## Results\n\n* no\n").is_empty());
        assert_eq!(sentences("## Answer\n\n* a\\_b\n"), ["a_b"]);
    }
}
