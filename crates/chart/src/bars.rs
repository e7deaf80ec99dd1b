//! Horizontal bars: stacked parts, several bars a row, or changes from row to row.

use base::text::format;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Canvas, Head, LINE, themed, tick_decimals, write, write_lines};
use super::colour::{BACKGROUND, Colour, MUTED, TEXT};
use super::error::ChartError;
use super::hit::Hit;
use super::legend::Legend;
use super::text::{text_width, wrapped};
use super::theme::{LETTERS, MARGIN, WIDTH};

/// A coloured part of a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The length.
    pub length: f64,
    /// The colour, which the legend explains.
    pub colour: Colour,
    /// The text that the part says when it is pointed at.
    pub says: String,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The place where the first part begins.
    pub start: f64,
    /// The parts, from the left.
    pub parts: Vec<Part>,
    /// The text at its end.
    pub note: String,
}

/// The bars of one label.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The text to the left.
    pub label: String,
    /// The bars, from above.
    pub bars: Vec<Bar>,
    /// A value from which a line leads to the next row.
    pub carry: Option<f64>,
}

/// Rows of bars with a shared scale from zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The chart's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The scale's title, with its unit.
    pub x_title: String,
    /// The names of the colours.
    pub legend: Vec<(String, Colour)>,
    /// The rows, from above.
    pub rows: Vec<Row>,
    /// A line across all rows, with its name.
    pub line: Option<(f64, String)>,
}

/// Height of a bar, and the space between two rows.
const BAR: i32 = 18;
const GAP: i32 = 12;
/// Space between a label and its bar, and between a bar and its note.
const SPACE: i32 = 10;
/// The widest labels, in pixels. Longer ones have several lines.
const WIDEST: i32 = 300;

impl Bars {
    /// The chart as SVG.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub fn draw(&self) -> Result<String, ChartError> {
        let head = Head::new(&self.title, &self.subtitle, Legend::of_colours(&self.legend));
        let labels: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| wrapped(&row.label, LETTERS, WIDEST))
            .collect();
        let label_width = labels.iter().flatten().map(|line| text_width(line, LETTERS)).max();
        let left = MARGIN + label_width.unwrap_or(0).max(30) + SPACE;
        let notes = self
            .rows
            .iter()
            .flat_map(|row| &row.bars)
            .map(|bar| text_width(&bar.note, LETTERS));
        let right = MARGIN + SPACE + notes.max().unwrap_or(0);
        let heights: Vec<i32> = self
            .rows
            .iter()
            .zip(&labels)
            .map(|(row, lines)| row.height(lines))
            .collect();
        // A line's name stands above the rows.
        let line_name = self.line.as_ref().map_or(0, |_| LINE + 2);
        let top = head.height() + 6 + line_name;
        let plot_height = 6 + line_name + heights.iter().sum::<i32>() + 62;
        canvas::draw(&head, plot_height, |canvas| {
            let end = self.end();
            let decimals = tick_decimals(end);
            let mut chart = ChartBuilder::on(&canvas.area)
                .margin_top(top)
                .margin_left(left)
                .margin_right(right)
                .margin_bottom(8)
                .x_label_area_size(48)
                .build_cartesian_2d(0.0..end, 0.0..1.0)?;
            // Fewer ticks where long labels leave little room.
            let ticks = ((WIDTH - left - right) / 70).clamp(2, 8);
            themed(&mut chart.configure_mesh())
                .disable_y_mesh()
                .disable_y_axis()
                .x_labels(ticks as usize)
                .x_desc(self.x_title.as_str())
                .x_label_formatter(&|v| format::number((*v).into(), decimals))
                .draw()?;
            let area = chart.plotting_area();
            let pixel = |value: f64| area.map_coordinate(&(value, 0.0)).0;
            let mut y = top;
            for ((row, lines), height) in self.rows.iter().zip(&labels).zip(heights) {
                let middle = y + height / 2;
                write_lines(&canvas.area, lines, (left - SPACE, middle), &TEXT, HPos::Right)?;
                row.draw(canvas, middle, height, pixel)?;
                y += height;
            }
            self.draw_line(canvas, (top, y), pixel)
        })
    }

    /// The end of the scale.
    fn end(&self) -> f64 {
        let bars = self.rows.iter().flat_map(|row| &row.bars).map(Bar::end);
        let longest = bars.chain(self.line.iter().map(|(at, _)| *at)).fold(0.0, f64::max);
        if longest > 0.0 { longest * 1.02 } else { 1.0 }
    }

    fn draw_line(
        &self,
        canvas: &Canvas<'_>,
        (top, bottom): (i32, i32),
        pixel: impl Fn(f64) -> i32,
    ) -> Result<(), ChartError> {
        let Some((at, name)) = &self.line else {
            return Ok(());
        };
        let x = pixel(*at);
        let line = DashedPathElement::new(vec![(x, top - 2), (x, bottom)], 4, 4, TEXT);
        canvas.area.draw(&line)?;
        // The name stays on the sheet, on the side with more room.
        let (width, y) = (text_width(name, LETTERS), top - LINE / 2 - 3);
        let (at, side) = if x + width + MARGIN <= WIDTH {
            (x, HPos::Left)
        } else {
            (x, HPos::Right)
        };
        write(&canvas.area, name, (at, y), &TEXT, side)
    }
}

impl Row {
    fn height(&self, label: &[String]) -> i32 {
        GAP + (self.bars.len() as i32 * BAR).max(label.len() as i32 * LINE)
    }

    fn draw(
        &self,
        canvas: &Canvas<'_>,
        middle: i32,
        height: i32,
        pixel: impl Fn(f64) -> i32,
    ) -> Result<(), ChartError> {
        let mut y = middle - self.bars.len() as i32 * BAR / 2;
        let bottom = y + self.bars.len() as i32 * BAR;
        for bar in &self.bars {
            let mut start = bar.start;
            for part in &bar.parts {
                let (left, right) = (pixel(start), pixel(start + part.length));
                start += part.length;
                if right <= left {
                    continue;
                }
                let corners = [(left, y + 1), (right, y + BAR - 1)];
                canvas
                    .area
                    .draw(&Rectangle::new(corners, part.colour.light().filled()))?;
                // A gap helps readers who cannot tell two colours apart.
                if right - left > 2 {
                    let edge = vec![(right, y), (right, y + BAR)];
                    canvas.area.draw(&PathElement::new(edge, BACKGROUND))?;
                }
                canvas.hit(Hit::between((left, y), (right, y + BAR), &part.says));
            }
            let at = (pixel(bar.end()) + SPACE - 2, y + BAR / 2);
            write(&canvas.area, &bar.note, at, &TEXT, HPos::Left)?;
            y += BAR;
        }
        if let Some(value) = self.carry {
            let (x, next) = (pixel(value), middle + height);
            let line = PathElement::new(vec![(x, bottom), (x, next - BAR / 2)], MUTED);
            canvas.area.draw(&line)?;
        }
        Ok(())
    }
}

impl Bar {
    fn end(&self) -> f64 {
        self.start + self.parts.iter().map(|part| part.length).sum::<f64>()
    }
}
