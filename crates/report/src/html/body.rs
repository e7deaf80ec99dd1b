//! The HTML of a report's Markdown, with its charts inside.

use std::collections::BTreeMap;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

/// The page's content. HTML in the Markdown is shown as text, links lead to the web or into the page, and images other
/// than the charts become links: the page loads nothing.
pub(super) fn body(markdown: &str, charts: &BTreeMap<String, String>) -> String {
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    let mut safe = Safe {
        charts,
        links: Vec::new(),
        image: None,
        block: None,
    };
    let events = parser.flat_map(|event| safe.events(event));
    let mut html = String::new();
    pulldown_cmark::html::push_html(&mut html, events);
    html
}

/// The state of the translation.
struct Safe<'c> {
    charts: &'c BTreeMap<String, String>,
    /// For each open link, true if it stays a link.
    links: Vec<bool>,
    /// The address and the text so far of an open image.
    image: Option<(String, String)>,
    /// The text so far of an open block of HTML.
    block: Option<String>,
}

impl Safe<'_> {
    fn events<'a>(&mut self, event: Event<'a>) -> Vec<Event<'a>> {
        if let Some((_, alt)) = &mut self.image {
            match event {
                Event::End(TagEnd::Image) => return self.end_image(),
                Event::Text(text) | Event::Code(text) => alt.push_str(&text),
                _ => {}
            }
            return Vec::new();
        }
        match event {
            Event::Start(Tag::HtmlBlock) => {
                self.block = Some(String::new());
                Vec::new()
            }
            Event::Html(text) if self.block.is_some() => {
                self.block.get_or_insert_default().push_str(&text);
                Vec::new()
            }
            Event::End(TagEnd::HtmlBlock) => {
                let text = self.block.take().unwrap_or_default();
                match text.lines().all(is_fold) {
                    true => vec![Event::Html(text.into())],
                    false => vec![
                        Event::Start(Tag::Paragraph),
                        Event::Text(text.into()),
                        Event::End(TagEnd::Paragraph),
                    ],
                }
            }
            Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.image = Some((dest_url.into_string(), String::new()));
                Vec::new()
            }
            Event::Start(Tag::Link {
                dest_url, link_type, ..
            }) => {
                let stays = is_harmless(&dest_url) || link_type == LinkType::Email;
                self.links.push(stays);
                let link = Tag::Link {
                    link_type,
                    dest_url,
                    title: CowStr::Borrowed(""),
                    id: CowStr::Borrowed(""),
                };
                stays.then_some(Event::Start(link)).into_iter().collect()
            }
            Event::End(TagEnd::Link) => {
                let stays = self.links.pop().unwrap_or(false);
                stays.then_some(Event::End(TagEnd::Link)).into_iter().collect()
            }
            // Wide tables scroll on their own.
            Event::Start(Tag::Table(_)) => vec![Event::Html("<div class=\"table\">".into()), event],
            Event::End(TagEnd::Table) => vec![event, Event::Html("</div>\n".into())],
            event => vec![event],
        }
    }

    fn end_image<'a>(&mut self) -> Vec<Event<'a>> {
        let Some((address, alt)) = self.image.take() else {
            return Vec::new();
        };
        if let Some(svg) = self.charts.get(&address) {
            return vec![Event::InlineHtml(format!("<span class=\"chart\">{svg}</span>").into())];
        }
        let text = Event::Text(alt.into());
        if !is_harmless(&address) {
            return vec![text];
        }
        let link = Tag::Link {
            link_type: LinkType::Inline,
            dest_url: address.into(),
            title: CowStr::Borrowed(""),
            id: CowStr::Borrowed(""),
        };
        vec![Event::Start(link), text, Event::End(TagEnd::Link)]
    }
}

/// True for a line that begins or ends a part that readers can fold, as reports write it.
fn is_fold(line: &str) -> bool {
    let summary = line
        .strip_prefix("<summary>")
        .and_then(|rest| rest.strip_suffix("</summary>"));
    let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == ' ');
    matches!(line, "" | "<details>" | "</details>") || summary.is_some_and(is_plain)
}

/// True for an address on the web, and for one without a scheme: next to the page or in it.
fn is_harmless(address: &str) -> bool {
    let address = address.to_ascii_lowercase();
    let has_scheme = address
        .split(['/', '?', '#'])
        .next()
        .is_some_and(|first| first.contains(':'));
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| address.starts_with(scheme))
        || !has_scheme
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(markdown: &str) -> String {
        let charts = BTreeMap::from([("a.svg".to_owned(), "<svg></svg>".to_owned())]);
        body(markdown, &charts)
    }

    #[test]
    fn html_in_the_text_is_text() {
        for text in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div onclick=\"x()\">\n\ntext\n\n</div>",
            "| a |\n| - |\n| <b onmouseover=x>y</b> |",
            "`<script>`",
            "```\n<script>\n```",
            "# <script>",
            "<details>\n<script>x</script>",
            "<details onclick=x>\n\na",
            "<summary><b onmouseover=x>y</b></summary>",
        ] {
            let html = html(text);
            let tags = ["<script", "<img", "<div o", "<b "];
            assert!(tags.iter().all(|tag| !html.contains(tag)), "{html}");
            assert!(html.contains("&lt;"), "{html}");
        }
    }

    #[test]
    fn addresses_cannot_run_or_load() {
        let bad = html(
            "[a](javascript:alert(1)) [b](JavaScript:x) ![c](data:image/svg+xml,x) [d](vbscript:x) <javascript:x>",
        );
        assert_eq!(bad, "<p>a b c d javascript:x</p>\n");
        let image = html("![a picture](https://x.org/a.png)");
        assert_eq!(image, "<p><a href=\"https://x.org/a.png\">a picture</a></p>\n");
        let links = html("<https://x.org/?a=1&b=2> [b](#results) [c](../other.md) <a@b.org>");
        for link in [
            "https://x.org/?a=1&amp;b=2",
            "#results",
            "../other.md",
            "mailto:a@b.org",
        ] {
            assert!(links.contains(&format!("<a href=\"{link}\">")), "{links}");
        }
        let quoted = html("[a](https://x.org/\"onclick=\"x)");
        assert!(!quoted.contains("\"onclick"), "{quoted}");
    }

    #[test]
    fn parts_fold() {
        let text = "<details>\n<summary>All axes</summary>\n\n| a |\n| - |\n| 1 |\n\n</details>\n\nb\n";
        let html = html(text);
        assert!(
            html.starts_with("<details>\n<summary>All axes</summary>\n<div class=\"table\">"),
            "{html}"
        );
        assert!(html.ends_with("</div>\n</details>\n<p>b</p>\n"), "{html}");
    }

    #[test]
    fn charts_stand_where_they_are_linked() {
        assert_eq!(
            html("![of *it*](a.svg)"),
            "<p><span class=\"chart\"><svg></svg></span></p>\n"
        );
    }

    #[test]
    fn tables_scroll_on_their_own() {
        let table = html("| a | b |\n| - | -: |\n| 1 | 2 |\n");
        assert!(table.starts_with("<div class=\"table\"><table>"), "{table}");
        assert!(
            table.ends_with("</table>\n</div>\n") && table.contains("<td style=\"text-align: right\">2</td>"),
            "{table}"
        );
    }
}
