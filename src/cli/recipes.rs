//! `expctl list --recipes`.

use std::fmt::Write as _;

use base::text::{Table, to_flow_yaml};
use serde_json::json;
use spec::Recipe;

use super::Format;
use super::screen::wrapped;

/// The recipes that `--recipe` names.
pub(super) fn list(format: Format) -> String {
    match format {
        Format::Table => for_people(),
        format => {
            let mut table = Table::new(["recipe", "by", "source", "keys"]);
            let rows = Recipe::all().iter();
            table.rows.extend(rows.map(|recipe| {
                vec![
                    json!(recipe.name),
                    json!(recipe.by),
                    json!(recipe.source),
                    json!(keys(recipe)),
                ]
            }));
            format.render(&table)
        }
    }
}

fn for_people() -> String {
    let mut text = String::new();
    for (index, recipe) in Recipe::all().iter().enumerate() {
        let blank = if index > 0 { "\n" } else { "" };
        let _ = writeln!(text, "{blank}{}", wrapped(&format!("{recipe}: {}", recipe.by), 2));
        let _ = writeln!(text, "{}", wrapped(&format!("  read from {}", recipe.source), 4));
        let _ = writeln!(text, "{}", wrapped(&format!("  {}", keys(recipe)), 4));
    }
    text
}

fn keys(recipe: &Recipe) -> String {
    let keys = recipe
        .keys()
        .map(|(key, value)| format!("{key}={}", to_flow_yaml(value)));
    keys.collect::<Vec<_>>().join(" ")
}
