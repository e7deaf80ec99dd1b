//! Tables without the columns that say nothing.

use base::text::format::ABSENT;

use super::markdown::{cells, delimiter};

/// A Markdown table with only those columns in which its rows differ, and a line with the values of the others. The
/// first `names` columns name a row, the last one links it; if no column between differs, the line replaces the table.
/// Text that is not a table stays as it is.
pub(crate) fn varying(markdown: &str, names: usize) -> String {
    let lines: Vec<&str> = markdown
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| cells(line)).collect();
    let [head, rule, body @ ..] = &rows[..] else {
        return markdown.to_owned();
    };
    let is_table = lines.iter().all(|line| line.starts_with('|')) && delimiter(rule).is_some();
    if !is_table || body.is_empty() {
        return markdown.to_owned();
    }
    let value = |row: &[&'_ str], column: usize| row.get(column).map_or(String::new(), ToString::to_string);
    let shared = |column: usize| {
        let first = value(&body[0], column);
        let same = body.iter().all(|row| value(row, column) == first);
        // A single row shares nothing, but an empty column says nothing in it either.
        (same && (body.len() > 1 || first == ABSENT)).then_some(first)
    };
    let columns = 0..head.len();
    let differing: Vec<usize> = columns.clone().filter(|column| shared(*column).is_none()).collect();
    let same = |column: usize| {
        let value = shared(column).filter(|value| !value.is_empty() && value != ABSENT)?;
        Some(format!("{} {value}", head[column]))
    };
    let same: Vec<String> = columns.filter_map(same).collect();
    let mut out = String::new();
    let last = head.len() - 1;
    if differing.iter().any(|column| (names..last).contains(column)) {
        for row in &rows {
            let shown: Vec<String> = differing.iter().map(|column| value(row, *column)).collect();
            out += &format!("| {} |\n", shown.join(" | "));
        }
    }
    if !same.is_empty() {
        out += &format!("\nThe same in all rows: {}.\n", same.join(" · "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_a_difference_become_a_line() {
        let table = "| `rank` | Status | Peak (MiB) | Loss | Cell |\n| --- | --- | ---: | ---: | --- |\n\
                     | 4 | ok | 1.0 | — | `a` |\n| 8 | ok | 2.0 | — | `b` |\n";
        assert_eq!(
            varying(table, 1),
            "| `rank` | Peak (MiB) | Cell |\n| --- | ---: | --- |\n| 4 | 1.0 | `a` |\n| 8 | 2.0 | `b` |\n\n\
             The same in all rows: Status ok.\n"
        );
    }

    #[test]
    fn a_table_without_differences_is_a_line() {
        let table = "| `a` | Peak | Cell |\n| --- | ---: | --- |\n| x | 1 | `a` |\n| y | 1 | `b` |\n";
        assert_eq!(varying(table, 1), "\nThe same in all rows: Peak 1.\n");
    }

    #[test]
    fn a_single_row_keeps_what_it_says() {
        let table = "| Peak | Loss | Cell |\n| ---: | ---: | --- |\n| 1 | — | `a` |\n";
        assert_eq!(varying(table, 0), "| Peak | Cell |\n| ---: | --- |\n| 1 | `a` |\n");
        for text in ["no table\n", "| a |\n", ""] {
            assert_eq!(varying(text, 0), text);
        }
    }
}
