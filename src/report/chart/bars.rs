//! Horizontal stacked bars: where the memory went.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::ChartError;
use super::theme::{GRID, MUTED, TEXT, WIDTH, bold, finish, legend_places, letters, shortened, text_width};
use crate::text::format;

/// One bar; the parts are in the order of the chart's legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub label: String,
    pub parts: Vec<f64>,
    /// What stands at the bar's end.
    pub note: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StackedBars {
    pub title: String,
    pub subtitle: String,
    pub x_title: String,
    pub legend: Vec<(String, RGBColor)>,
    pub bars: Vec<Bar>,
}

const LETTERS: f64 = 12.0;
const ROW: i32 = 30;
const BAR: i32 = 18;
const MARGIN: i32 = 20;

impl StackedBars {
    /// The chart as SVG.
    pub fn draw(&self) -> Result<String, ChartError> {
        let width = |(name, _): &(String, RGBColor)| 18 + text_width(name, LETTERS);
        let legend = legend_places(self.legend.iter().map(width), MARGIN, 20);
        let legend_rows = legend.last().map_or(0, |(_, row)| row + 1);
        let top = 62 + legend_rows * 22 + 6;
        let height = top + self.bars.len() as i32 * ROW + 62;
        let widest = self.bars.iter().map(|bar| text_width(&bar.label, LETTERS)).max();
        let label_width = widest.unwrap_or(0).clamp(40, 260) + 12;
        let note_width = self
            .bars
            .iter()
            .map(|bar| text_width(&bar.note, LETTERS))
            .max()
            .unwrap_or(0)
            + 12;

        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        root.draw(&Text::new(self.title.as_str(), (MARGIN, 24), bold(15.0, &TEXT)))?;
        root.draw(&Text::new(
            shortened(&self.subtitle, LETTERS, WIDTH - 2 * MARGIN),
            (MARGIN, 46),
            letters(LETTERS, &MUTED, HPos::Left),
        ))?;
        for ((name, color), &(x, row)) in self.legend.iter().zip(&legend) {
            let y = 70 + row * 22;
            root.draw(&Rectangle::new([(x, y - 6), (x + 12, y + 6)], color.filled()))?;
            root.draw(&Text::new(
                name.as_str(),
                (x + 18, y),
                letters(LETTERS, &TEXT, HPos::Left),
            ))?;
        }

        let longest = self
            .bars
            .iter()
            .map(|bar| bar.parts.iter().sum::<f64>())
            .fold(0.0, f64::max);
        let end = if longest > 0.0 { longest * 1.02 } else { 1.0 };
        let decimals = (1.0 - end.log10().floor()).clamp(0.0, 6.0) as usize;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(top)
            .margin_left(MARGIN + label_width)
            .margin_right(MARGIN + note_width)
            .margin_bottom(8)
            .x_label_area_size(48)
            .build_cartesian_2d(0.0..end, 0.0..1.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(8)
            .label_style(letters(LETTERS, &MUTED, HPos::Center))
            .axis_desc_style(letters(LETTERS, &TEXT, HPos::Center))
            .x_desc(self.x_title.as_str())
            .x_label_formatter(&|v| format::number((*v).into(), decimals))
            .draw()?;

        let area = chart.plotting_area();
        let pixel = |value: f64| area.map_coordinate(&(value, 0.0)).0;
        for (i, bar) in self.bars.iter().enumerate() {
            let y = top + i as i32 * ROW + ROW / 2;
            root.draw(&Text::new(
                shortened(&bar.label, LETTERS, label_width - 12),
                (MARGIN + label_width - 10, y),
                letters(LETTERS, &TEXT, HPos::Right),
            ))?;
            let mut start = 0.0;
            for (part, (_, color)) in bar.parts.iter().zip(&self.legend) {
                let (left, right) = (pixel(start), pixel(start + part));
                if right > left {
                    let corners = [(left, y - BAR / 2), (right, y + BAR / 2)];
                    root.draw(&Rectangle::new(corners, color.filled()))?;
                }
                start += part;
            }
            let at = (pixel(start) + 8, y);
            root.draw(&Text::new(bar.note.as_str(), at, letters(LETTERS, &TEXT, HPos::Left)))?;
        }
        root.present()?;
        drop(chart);
        drop(root);
        Ok(finish(&svg, &self.title, height))
    }
}
