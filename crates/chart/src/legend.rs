//! Names and colours above a plot, in as many rows as they need.

use plotters::style::RGBColor;

use super::colour::Colour;
use super::text::{text_width, wrapped};
use super::theme::{LETTERS, MARGIN, WIDTH};

/// The mark of a legend's entries.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    Square,
    Dot { radius: i32 },
    None,
}

impl Mark {
    /// From an entry's left edge to its name.
    pub(super) fn width(self) -> i32 {
        match self {
            Self::Square => 18,
            Self::Dot { .. } => 17,
            Self::None => 0,
        }
    }
}

/// Names and colours with their places. A name that is wider than the chart has several lines, each a row high.
pub(super) struct Legend {
    pub(super) mark: Mark,
    entries: Vec<(Vec<String>, RGBColor)>,
    /// Left edge and first row of each entry.
    places: Vec<(i32, i32)>,
    rows: i32,
}

impl Legend {
    /// A legend with `gap` pixels between two entries.
    pub(super) fn new(entries: Vec<(String, RGBColor)>, mark: Mark, gap: i32) -> Self {
        let widest = WIDTH - 2 * MARGIN - mark.width();
        let lines = |(name, color): (String, RGBColor)| (wrapped(&name, LETTERS, widest), color);
        let entries: Vec<(Vec<String>, RGBColor)> = entries.into_iter().map(lines).collect();
        let (mut x, mut row, mut rows) = (MARGIN, 0, 0);
        let mut places = Vec::new();
        for (lines, _) in &entries {
            let name = lines.iter().map(|line| text_width(line, LETTERS)).max();
            let width = mark.width() + name.unwrap_or(0);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, row) = (MARGIN, rows);
            }
            places.push((x, row));
            x += width + gap;
            rows = rows.max(row + lines.len() as i32);
        }
        Self {
            mark,
            entries,
            places,
            rows,
        }
    }

    /// A legend of named colours, each beside a square of it.
    pub(super) fn of_colours(colours: &[(String, Colour)]) -> Self {
        let entries = colours.iter().map(|(name, colour)| (name.clone(), colour.light()));
        Self::new(entries.collect(), Mark::Square, 20)
    }

    /// A legend without entries.
    pub(super) fn empty() -> Self {
        Self::new(Vec::new(), Mark::None, 0)
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> i32 {
        self.rows
    }

    /// Left edge, first row, lines and colour of each entry.
    pub(super) fn entries(&self) -> impl Iterator<Item = (i32, i32, &[String], RGBColor)> {
        let placed = self.entries.iter().zip(&self.places);
        placed.map(|((lines, color), &(x, row))| (x, row, lines.as_slice(), *color))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_clear_of_each_other_and_of_the_edge() {
        let names = ["short", "a name of medium length", &"long ".repeat(60), "after it"];
        let entries: Vec<(String, RGBColor)> = names
            .iter()
            .cycle()
            .take(14)
            .map(|name| ((*name).into(), RGBColor(0, 0, 0)))
            .collect();
        let legend = Legend::new(entries, Mark::Square, 20);
        let mut taken: Vec<(i32, i32, i32)> = Vec::new();
        for (x, row, lines, _) in legend.entries() {
            for (at, line) in lines.iter().enumerate() {
                let (row, end) = (row + at as i32, x + Mark::Square.width() + text_width(line, LETTERS));
                assert!(end <= WIDTH - MARGIN && row < legend.rows(), "{line}");
                assert!(
                    taken
                        .iter()
                        .all(|&(other, from, to)| other != row || x >= to || end <= from),
                    "{line}"
                );
                taken.push((row, x, end));
            }
        }
    }
}
