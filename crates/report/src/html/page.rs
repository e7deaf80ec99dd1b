//! The page around a report's content.

use std::collections::BTreeMap;

use base::text::hex;
use minijinja::{Environment, context};
use sha2::{Digest, Sha256};

use super::body::body;
use crate::error::ReportError;

/// The page, whose name ends so that minijinja escapes what it inserts.
const PAGE: (&str, &str) = ("page.html", include_str!("../../templates/html/page.html"));
const STYLE: &str = include_str!("../../templates/html/page.css");
const SCRIPT: &str = include_str!("../../templates/html/page.js");

/// The HTML file of a report's Markdown with its charts.
///
/// # Errors
/// The page's own template is wrong.
pub(crate) fn page(markdown: &str, charts: &BTreeMap<String, String>) -> Result<String, ReportError> {
    let body = body(markdown, charts);
    // Only the script with this word runs. Nobody can write the hash of a page into that page.
    let nonce = hex(&Sha256::digest(&body));
    let values = context! {
        title => title(markdown),
        style => STYLE,
        script => SCRIPT,
        nonce,
        body,
    };
    let mut env = Environment::new();
    let rendered = env
        .add_template(PAGE.0, PAGE.1)
        .and_then(|()| env.get_template(PAGE.0)?.render(values));
    rendered.map_err(|error| ReportError::Template(error.to_string()))
}

/// The text of the first heading.
fn title(markdown: &str) -> String {
    let heading = markdown.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("Report").replace('\\', "")
}
