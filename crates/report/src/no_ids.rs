//! Reports without the ids of cells, to paste elsewhere.

use super::markdown::{cells, tidy};

/// Headings of columns and of rows that have ids.
const HEADINGS: [&str; 2] = ["Cell", "Cells"];

/// Beginnings of lines that are about ids alone.
const LINES: [&str; 2] = ["   * cells", "`expctl show ID`"];

/// The summary of the folded list of ids below an answer.
const FOLDED: &str = "<summary>The cells of each sentence</summary>";

/// A report's Markdown without the ids of its cells: their columns, their rows, and the lists of them.
pub fn without_ids(markdown: &str) -> String {
    let (mut out, mut is_code, mut is_folded) = (Vec::new(), false, false);
    let mut dropped: Option<Vec<bool>> = None;
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        is_code ^= line.starts_with("```");
        if line == "<details>" && lines.peek() == Some(&FOLDED) {
            is_folded = true;
        }
        if !line.starts_with('|') {
            dropped = None;
        }
        if is_folded || LINES.iter().any(|beginning| line.starts_with(beginning)) {
            is_folded &= line != "</details>";
        } else if is_code || !line.starts_with('|') {
            out.push(line.to_owned());
        } else {
            let row = cells(line);
            let is_id: Vec<bool> = row.iter().map(|cell| HEADINGS.contains(cell)).collect();
            let dropped = dropped.get_or_insert(is_id);
            if dropped.first() != Some(&true) && row.first().is_some_and(|first| HEADINGS.contains(first)) {
                continue;
            }
            let kept = row.iter().zip(dropped.iter()).filter(|(_, is_dropped)| !**is_dropped);
            let kept: Vec<&str> = kept.map(|(cell, _)| *cell).collect();
            out.push(format!("| {} |", kept.join(" | ")));
        }
    }
    tidy(&out.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_and_all_else_stays() {
        let text = "\
# A study

* It is.

<details>
<summary>The cells of each sentence</summary>

1. `aa`, `bb`

</details>

| rank | Peak | Cell |
| ---- | ---: | ---- |
| 4    |  1.0 | `aa` |

| What | a    |
| ---- | ---: |
| Peak |  2.0 |
| Cell | `aa` |

1. A claim.
   * cells: `aa`

```sh
| Cell |
```

`expctl show ID` prints a cell.
";
        let kept = "\
# A study

* It is.

| rank | Peak |
| ---- | ---: |
| 4    |  1.0 |

| What |   a |
| ---- | --: |
| Peak | 2.0 |

1. A claim.

```sh
| Cell |
```
";
        assert_eq!(without_ids(text), kept);
    }
}
