//! Horizontal stacked bars: memory by category.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, LEGEND_ROW, Legend, Mark, themed, tick_decimals, write};
use super::error::ChartError;
use super::theme::{LETTERS, MARGIN, TEXT, shortened, text_width};
use crate::text::format;

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The text to its left.
    pub label: String,
    /// A value for each entry of the legend.
    pub parts: Vec<f64>,
    /// The text at its end.
    pub note: String,
}

/// Bars with a shared scale and legend.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedBars {
    /// The chart's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The scale's title, with its unit.
    pub x_title: String,
    /// The parts, from the left.
    pub legend: Vec<(String, RGBColor)>,
    /// The bars, from above.
    pub bars: Vec<Bar>,
}

/// Height of a bar with the space around it, and of the bar alone.
const ROW: i32 = 30;
const BAR: i32 = 18;

impl StackedBars {
    /// The chart as SVG.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub fn draw(&self) -> Result<String, ChartError> {
        let legend = Legend::new(self.legend.clone(), Mark::Square, 20);
        let top = 62 + legend.rows() * LEGEND_ROW + 6;
        let height = top + self.bars.len() as i32 * ROW + 62;
        let widest = |text: fn(&Bar) -> &str| self.bars.iter().map(|bar| text_width(text(bar), LETTERS)).max();
        let label_width = widest(|bar| &bar.label).unwrap_or(0).clamp(40, 260) + 12;
        let note_width = widest(|bar| &bar.note).unwrap_or(0) + 12;
        canvas::draw(&self.title, height, |canvas| {
            canvas.subtitle(&self.subtitle)?;
            canvas.legend(&legend)?;

            let longest = self
                .bars
                .iter()
                .map(|bar| bar.parts.iter().sum::<f64>())
                .fold(0.0, f64::max);
            let end = if longest > 0.0 { longest * 1.02 } else { 1.0 };
            let decimals = tick_decimals(end);
            let mut chart = ChartBuilder::on(&canvas.area)
                .margin_top(top)
                .margin_left(MARGIN + label_width)
                .margin_right(MARGIN + note_width)
                .margin_bottom(8)
                .x_label_area_size(48)
                .build_cartesian_2d(0.0..end, 0.0..1.0)?;
            themed(&mut chart.configure_mesh())
                .disable_y_mesh()
                .disable_y_axis()
                .x_labels(8)
                .x_desc(self.x_title.as_str())
                .x_label_formatter(&|v| format::number((*v).into(), decimals))
                .draw()?;

            let area = chart.plotting_area();
            let pixel = |value: f64| area.map_coordinate(&(value, 0.0)).0;
            for (i, bar) in self.bars.iter().enumerate() {
                let y = top + i as i32 * ROW + ROW / 2;
                let label = shortened(&bar.label, LETTERS, label_width - 12);
                write(&canvas.area, &label, (MARGIN + label_width - 10, y), &TEXT, HPos::Right)?;
                let mut start = 0.0;
                for (part, (_, color)) in bar.parts.iter().zip(&self.legend) {
                    let (left, right) = (pixel(start), pixel(start + part));
                    if right > left {
                        let corners = [(left, y - BAR / 2), (right, y + BAR / 2)];
                        canvas.area.draw(&Rectangle::new(corners, color.filled()))?;
                    }
                    start += part;
                }
                write(&canvas.area, &bar.note, (pixel(start) + 8, y), &TEXT, HPos::Left)?;
            }
            Ok(())
        })
    }
}
