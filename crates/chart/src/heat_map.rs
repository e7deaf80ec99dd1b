//! A heat map: squares in rows and columns, each with a colour, a strength and a few words.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Canvas, Head, LINE, write_lines};
use super::colour::{Colour, MUTED, TEXT};
use super::error::ChartError;
use super::hit::Hit;
use super::legend::Legend;
use super::text::{text_width, wrapped};
use super::theme::{LETTERS, MARGIN, WIDTH};

/// A square.
#[derive(Debug, Clone, PartialEq)]
pub struct Square {
    /// The colour, which the legend explains.
    pub colour: Colour,
    /// How strong the colour is, from 0 to 1.
    pub strength: f64,
    /// The lines in it.
    pub lines: Vec<String>,
    /// The text that it says when it is pointed at.
    pub says: String,
}

/// Squares in rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// The chart's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The name of what the columns differ in.
    pub x_title: String,
    /// The names of the colours.
    pub legend: Vec<(String, Colour)>,
    /// The names of the columns, from the left.
    pub columns: Vec<String>,
    /// The rows from above: a name, and a square for each column that has one.
    pub rows: Vec<(String, Vec<Option<Square>>)>,
}

/// Space between two squares, and above and below their lines.
const GAP: i32 = 2;
const PADDING: i32 = 4;
/// Space between a name and its row.
const SPACE: i32 = 10;
/// The widest name of a row, in pixels. Longer ones have several lines.
const WIDEST: i32 = 260;
/// The opacity of a colour whose strength is 0, and of one whose strength is 1: letters stand out from both.
const FAINTEST: f64 = 0.06;
pub(super) const STRONGEST: f64 = 0.42;

impl HeatMap {
    /// The chart as SVG.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub fn draw(&self) -> Result<String, ChartError> {
        let head = Head::new(&self.title, &self.subtitle, Legend::of_colours(&self.legend));
        let names: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|(name, _)| wrapped(name, LETTERS, WIDEST))
            .collect();
        let widest = names.iter().flatten().map(|line| text_width(line, LETTERS)).max();
        let left = MARGIN + widest.unwrap_or(0) + SPACE;
        let width = (WIDTH - MARGIN - left) / self.columns.len().max(1) as i32;
        let fitted = |text: &String| wrapped(text, LETTERS, width - GAP);
        let columns: Vec<Vec<String>> = self.columns.iter().map(fitted).collect();
        let column_lines = columns.iter().map(Vec::len).max().unwrap_or(0) as i32;
        let title = wrapped(&self.x_title, LETTERS, WIDTH - MARGIN - left);
        let title_lines = title.len() as i32;
        let lines_of = |square: &Square| square.lines.iter().flat_map(fitted).collect::<Vec<String>>();
        let heights: Vec<i32> = self
            .rows
            .iter()
            .zip(&names)
            .map(|((_, squares), name)| {
                let lines = squares.iter().flatten().map(|square| lines_of(square).len()).max();
                lines.unwrap_or(0).max(name.len()) as i32 * LINE + 2 * PADDING + GAP
            })
            .collect();
        let top = head.height() + (title_lines + column_lines) * LINE + 2 * PADDING;
        let bottom = top + heights.iter().sum::<i32>() + 2 * PADDING;
        canvas::draw(&head, bottom - head.height(), |canvas| {
            let title_top = head.height() + PADDING;
            let middle = (
                left + width * self.columns.len() as i32 / 2,
                title_top + title_lines * LINE / 2,
            );
            write_lines(&canvas.area, &title, middle, &TEXT, HPos::Center)?;
            let column_y = title_top + title_lines * LINE + column_lines * LINE / 2;
            let centre = |column: usize| left + width * column as i32 + (width - GAP) / 2;
            for (at, lines) in columns.iter().enumerate() {
                write_lines(&canvas.area, lines, (centre(at), column_y), &MUTED, HPos::Center)?;
            }
            let mut y = top;
            for (((_, squares), name), height) in self.rows.iter().zip(&names).zip(heights) {
                let middle = y + (height - GAP) / 2;
                write_lines(&canvas.area, name, (left - SPACE, middle), &TEXT, HPos::Right)?;
                for (at, square) in squares.iter().enumerate() {
                    let Some(square) = square else { continue };
                    let start = left + width * at as i32;
                    let corners = [(start, y), (start + width - GAP, y + height - GAP)];
                    square.draw(canvas, &lines_of(square), corners)?;
                }
                y += height;
            }
            Ok(())
        })
    }
}

impl Square {
    fn draw(&self, canvas: &Canvas<'_>, lines: &[String], corners: [(i32, i32); 2]) -> Result<(), ChartError> {
        let opacity = FAINTEST + (STRONGEST - FAINTEST) * self.strength.clamp(0.0, 1.0);
        let fill = self.colour.light().mix(opacity).filled();
        canvas.area.draw(&Rectangle::new(corners, fill))?;
        let [(left, top), (right, bottom)] = corners;
        let middle = ((left + right) / 2, (top + bottom) / 2);
        write_lines(&canvas.area, lines, middle, &TEXT, HPos::Center)?;
        canvas.hit(Hit::between((left, top), (right, bottom), &self.says));
        Ok(())
    }
}
