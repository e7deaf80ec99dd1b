//! Markdown that is well-formed on GitHub and readable in an editor: escaped text, and tables with aligned columns.

/// Text escaped for a table's cell or a line.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Escaped text with its web addresses as links.
pub fn linked(text: &str) -> String {
    let word = |word: &str| {
        let Some(at) = ["https://", "http://"].iter().find_map(|scheme| word.find(scheme)) else {
            return escape(word);
        };
        let (before, address) = word.split_at(at);
        // The end of a sentence or a bracket is not part of the address.
        let end = address.trim_end_matches(['.', ',', ';', ':', ')', ']', '>']);
        // These would end the link, and begin HTML.
        let shown = end.replace('|', "%7C").replace('<', "%3C").replace('>', "%3E");
        format!("{}<{shown}>{}", escape(before), escape(&address[end.len()..]))
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Text as code in a table. Elsewhere the backslash before a `|` shows; see [`line_code`].
pub fn code(text: &str) -> String {
    line_code(&text.replace('|', "\\|"))
}

/// Text as code in a line outside of tables.
pub fn line_code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest == 0 {
        return format!("`{text}`");
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}

/// Aligns the columns of every table, removes spaces at the ends of lines and repeated empty lines, and ends with one
/// newline. Code blocks stay as they are.
pub fn tidy(markdown: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut table: Vec<&str> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in markdown.lines() {
        let start = line.trim_start();
        if let Some(marker) = fence {
            out.push(line.to_string());
            if start.starts_with(marker) {
                fence = None;
            }
            continue;
        }
        if start.starts_with('|') {
            table.push(line.trim());
            continue;
        }
        flush(&mut table, &mut out);
        fence = ["```", "~~~"].into_iter().find(|marker| start.starts_with(marker));
        let line = line.trim_end();
        if !(line.is_empty() && out.last().is_none_or(String::is_empty)) {
            out.push(line.to_string());
        }
    }
    flush(&mut table, &mut out);
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    let mut text = out.join("\n");
    text.push('\n');
    text
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Align {
    Left,
    Right,
    Center,
}

fn flush(table: &mut Vec<&str>, out: &mut Vec<String>) {
    let lines = std::mem::take(table);
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| cells(line)).collect();
    let Some(aligns) = rows.get(1).and_then(|row| delimiter(row)) else {
        out.extend(lines.iter().map(ToString::to_string));
        return;
    };
    let width = |column: usize| {
        let cells = rows.iter().enumerate().filter(|(i, _)| *i != 1);
        let widest = cells.map(|(_, row)| row.get(column).map_or(0, |cell| cell.chars().count()));
        widest.max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..aligns.len()).map(width).collect();
    for (i, row) in rows.iter().enumerate() {
        let mut line = String::from("|");
        for (column, (&width, &align)) in widths.iter().zip(&aligns).enumerate() {
            line.push(' ');
            let cell = row.get(column).copied().unwrap_or_default();
            if i == 1 {
                line.push_str(&rule(width, align));
            } else {
                line.push_str(&match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                    Align::Center => format!("{cell:^width$}"),
                });
            }
            line.push_str(" |");
        }
        out.push(line);
    }
}

fn rule(width: usize, align: Align) -> String {
    match align {
        Align::Left => "-".repeat(width),
        Align::Right => format!("{}:", "-".repeat(width - 1)),
        Align::Center => format!(":{}:", "-".repeat(width - 2)),
    }
}

/// The cells of a row, split at the pipes that are not escaped.
pub(super) fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').unwrap_or(line);
    let mut cells = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in inner.char_indices() {
        if c == '|' && !escaped {
            cells.push(inner[start..i].trim());
            start = i + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    if !inner[start..].trim().is_empty() {
        cells.push(inner[start..].trim());
    }
    cells
}

/// The alignments of a rule below a table's head; `None` if it is not a rule.
pub(super) fn delimiter(row: &[&str]) -> Option<Vec<Align>> {
    let align = |cell: &&str| {
        let (left, right) = (cell.starts_with(':'), cell.ends_with(':'));
        let dashes = cell.trim_matches(':');
        if dashes.is_empty() || dashes.bytes().any(|b| b != b'-') {
            return None;
        }
        Some(match (left, right) {
            (true, true) => Align::Center,
            (false, true) => Align::Right,
            _ => Align::Left,
        })
    };
    row.iter().map(align).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let text = "# T\n\n\n|rank|memory|\n|-|-:|\n|4|12.0|\n| a\\|b | 1,412.0 ± 3.0 |\n\n\n";
        assert_eq!(
            tidy(text),
            "# T\n\n\
             | rank |        memory |\n\
             | ---- | ------------: |\n\
             | 4    |          12.0 |\n\
             | a\\|b | 1,412.0 ± 3.0 |\n"
        );
    }

    #[test]
    fn code_blocks_and_stray_pipes_stay() {
        let text = "```\n|a|b|\n|-|-|\n\n\n```\n| no table\n";
        assert_eq!(tidy(text), text);
    }

    #[test]
    fn text_cannot_break_a_table() {
        assert_eq!(escape(" a|b\n<c> `d` \\ "), "a\\|b &lt;c&gt; \\`d\\` \\\\");
        assert_eq!(
            linked("A_b (see https://x.org/a_b|c). More"),
            "A\\_b (see <https://x.org/a_b%7Cc>). More"
        );
        assert_eq!(
            linked("https://x.org/a><img/src=x>b"),
            "<https://x.org/a%3E%3Cimg/src=x%3Eb>"
        );
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a`b"), "`` a`b ``");
    }
}
