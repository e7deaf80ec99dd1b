//! The report as one HTML file.

use std::fs;

use crate::{Recorded, SPEC};

const PAGE: &str = "results/page.html";

/// The page of a study with this text.
fn page(recorded: &Recorded) -> String {
    recorded
        .expctl(&["report", &recorded.dir.path().display().to_string(), "--output", PAGE])
        .exits(0);
    recorded.read(PAGE)
}

/// The tags of a page in their order, without what its script, its style and comments hold.
fn tags(page: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        for raw in ["script", "style"] {
            if tag.split_whitespace().next() == Some(raw) {
                let end = format!("</{raw}");
                rest = &rest[rest.find(&end).expect("it ends")..];
            }
        }
        tags.push(tag);
    }
    tags
}

/// Panics unless every tag is closed in its order.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in tags(page) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        if tag.ends_with('/') || ["!doctype", "meta", "link", "br", "hr"].contains(&name) {
            continue;
        }
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "in {tag}"),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_page_has_the_whole_report_and_loads_nothing() {
    let recorded = Recorded::new(SPEC);
    let page = page(&recorded);
    assert_well_formed(&page);
    let markdown = recorded.markdown("comparison");
    let headings = |text: &str, mark: &str| text.matches(mark).count();
    assert_eq!(headings(&page, "<h2>"), headings(&markdown, "\n## "));
    assert_eq!(headings(&page, "<table>"), headings(&markdown, "\n\n|"));
    assert_eq!(headings(&page, "<svg "), headings(&markdown, "\n!["));
    for tag in tags(&page) {
        let loads = [
            " src=",
            " srcset=",
            "url(",
            " data=",
            " action=",
            "http-equiv=\"refresh",
        ];
        assert!(loads.iter().all(|word| !tag.contains(word)), "<{tag}>");
        let is_link = tag.starts_with("a ") || tag == "link rel=\"icon\" href=\"data:,\"";
        assert!(is_link || !tag.contains(" href="), "<{tag}>");
        assert!(
            !["img", "iframe", "object", "embed", "image", "use"].contains(&tag.split(' ').next().unwrap()),
            "<{tag}>"
        );
    }
    assert!(!page.contains("@import") && !page.contains("@font-face"));
    assert!(
        page.contains("content=\"default-src 'none'; "),
        "a policy refuses what is not here"
    );
}

#[test]
fn a_page_is_checked_like_any_report() {
    let recorded = Recorded::new(SPEC);
    let study = recorded.dir.path().display().to_string();
    let check = || recorded.expctl(&["report", &study, "--output", PAGE, "--check=pages"]);
    check().exits(1).stderr_has("is not there");
    let page = page(&recorded);
    check().exits(0).stdout_has("page.html is up to date");
    let written: Vec<String> = fs::read_dir(recorded.path("results"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        written.iter().all(|name| !name.ends_with(".svg")),
        "charts are inside: {written:?}"
    );
    recorded.write(PAGE, page.replace("<h1>", "<h1>x"));
    check().exits(1).stderr_has("page.html` is stale at line");
}

#[test]
fn the_format_decides_the_end_of_the_name() {
    let recorded = Recorded::new(SPEC);
    let report = |arguments: &[&str]| {
        let all: Vec<&str> = ["report", "results/rank_sweep"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        recorded.expctl(&all).exits(0)
    };
    report(&["--format", "html"]).stdout_has("wrote results/rank_sweep.html\n");
    report(&["--format", "html", "--check=pages"]).stdout_has("results/rank_sweep.html is up to date");
    report(&["--format", "html", "--output", "results/page.md"]).stdout_has("wrote results/page.html\n");
    report(&["--format", "markdown", "--output", "results/own.html"]).stdout_has("wrote results/own.md\n");
    assert!(recorded.read("results/rank_sweep.html").starts_with("<!doctype html>"));
    assert!(!recorded.path("results/rank_sweep.md").exists() && !recorded.path("results/own.html").exists());
    report(&["--format", "markdown"]).stdout_has("wrote results/rank_sweep.md\n");
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let recorded = Recorded::new(SPEC);
    recorded.write("results/file", "not a folder");
    let study = recorded.dir.path().display().to_string();
    recorded
        .expctl(&["report", &study, "--output", "results/file/page.html"])
        .exits(2)
        .stderr_has("file");
}

#[test]
fn text_of_a_spec_cannot_become_html() {
    let evil = "<script>alert(1)</script> <img src=x onerror=alert(2)> [x](javascript:alert(3)) </main>";
    let text = SPEC
        .replace("What does the LoRA rank cost in memory and time?", &format!("'{evil}'"))
        .replace("data: sample,", "data: sample, env: { SOME_NAME: \"<b onclick=x>\" },");
    let recorded = Recorded::new(&text);
    let page = page(&recorded);
    assert_well_formed(&page);
    let tags = tags(&page);
    assert_eq!(
        tags.iter().filter(|tag| tag.starts_with("script")).count(),
        1,
        "the page's own"
    );
    for tag in tags {
        assert!(!tag.starts_with("img") && !tag.starts_with("b "), "<{tag}>");
        assert!(
            !tag.contains("onerror") && !tag.contains("onclick") && !tag.contains("javascript:"),
            "<{tag}>"
        );
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}
