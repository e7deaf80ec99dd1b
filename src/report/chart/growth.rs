//! Lines over a quantity that a study varies: how memory and speed grow with it.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::ChartError;
use super::labels::{self, Rect};
use super::theme::{GRID, MUTED, SERIES, TEXT, WIDTH, bold, finish, legend_places, letters, shortened, text_width};
use crate::text::format;

/// What is told of one value of the quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The quantity.
    pub x: f64,
    /// A value for each panel.
    pub y: Vec<f64>,
    /// What stands at the point, where the quantity alone does not say what it is.
    pub label: Option<String>,
}

/// Points of one colour, joined in the order of the quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub samples: Vec<Sample>,
}

/// Panels one below the other over the same quantity. All scales are linear and begin at zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    pub title: String,
    pub subtitle: String,
    pub x_title: String,
    /// The titles of the panels' scales, with their units.
    pub panels: Vec<String>,
    pub series: Vec<Series>,
}

const LETTERS: f64 = 12.0;
const RADIUS: i32 = 4;
const MARGIN: i32 = 20;
const PANEL: i32 = 250;
/// What the quantity's labels and title need below the last panel.
const FOOT: i32 = 44;
const LEGEND_ROW: i32 = 22;

impl Growth {
    /// The chart as SVG.
    pub fn draw(&self) -> Result<String, ChartError> {
        let places = self.legend_places();
        let head = 62 + places.last().map_or(0, |(_, row)| row + 1) * LEGEND_ROW;
        let height = head + self.panels.len() as i32 * PANEL + FOOT;
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        root.draw(&Text::new(self.title.as_str(), (MARGIN, 24), bold(15.0, &TEXT)))?;
        root.draw(&Text::new(
            shortened(&self.subtitle, LETTERS, WIDTH - 2 * MARGIN),
            (MARGIN, 46),
            letters(LETTERS, &MUTED, HPos::Left),
        ))?;
        for (at, (series, (x, row))) in self.series.iter().zip(places).enumerate() {
            let y = 70 + row * LEGEND_ROW;
            root.draw(&Circle::new((x + 6, y), RADIUS, color(at).filled()))?;
            let name = shortened(&series.name, LETTERS, WIDTH / 2);
            root.draw(&Text::new(name, (x + 17, y), letters(LETTERS, &TEXT, HPos::Left)))?;
        }
        let (_, mut rest) = root.split_vertically(head);
        for panel in 0..self.panels.len() {
            let is_last = panel + 1 == self.panels.len();
            let (area, below) = rest.split_vertically(PANEL + if is_last { FOOT } else { 0 });
            self.panel(&area, panel, is_last)?;
            rest = below;
        }
        root.present()?;
        drop(rest);
        drop(root);
        Ok(finish(&svg, &self.title, height))
    }

    fn panel<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, Shift>,
        panel: usize,
        is_last: bool,
    ) -> Result<(), ChartError>
    where
        DB::ErrorType: 'static,
    {
        let samples = || self.series.iter().flat_map(|series| &series.samples);
        let (x_end, x_decimals) = scale(samples().map(|sample| sample.x));
        let (y_end, y_decimals) = scale(samples().map(|sample| sample.y[panel]));
        // The same for all panels, so that their scales stand one below the other.
        let widest = (0..self.panels.len())
            .map(|panel| {
                let (end, decimals) = scale(samples().map(|sample| sample.y[panel]));
                text_width(&format::number(end.into(), decimals), LETTERS)
            })
            .max();
        let mut chart = ChartBuilder::on(root)
            .margin_top(12)
            .margin_right(24)
            .margin_bottom(if is_last { 8 } else { 14 })
            .margin_left(12)
            .x_label_area_size(if is_last { FOOT } else { 0 })
            .y_label_area_size(widest.unwrap_or(0) + 44)
            .build_cartesian_2d(0.0..x_end, 0.0..y_end)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(8)
            .y_labels(6)
            .label_style(letters(LETTERS, &MUTED, HPos::Center))
            .axis_desc_style(letters(LETTERS, &TEXT, HPos::Center))
            .x_desc(if is_last { self.x_title.as_str() } else { "" })
            .y_desc(self.panels[panel].as_str())
            .x_label_formatter(&|v| format::number((*v).into(), x_decimals))
            .y_label_formatter(&|v| format::number((*v).into(), y_decimals))
            .draw()?;
        let area = chart.plotting_area();
        let screen = area.use_screen_coord();
        for (at, series) in self.series.iter().enumerate() {
            let spot = |sample: &Sample| area.map_coordinate(&(sample.x, sample.y[panel]));
            let spots: Vec<(i32, i32)> = series.samples.iter().map(spot).collect();
            screen.draw(&PathElement::new(spots.clone(), color(at).stroke_width(2)))?;
            for &spot in &spots {
                screen.draw(&Circle::new(spot, RADIUS, color(at).filled()))?;
            }
            // Once is enough: the points of other series and panels stand above and below.
            if panel == 0 && at == 0 {
                label(&screen, series, &spots, area.get_pixel_range())?;
            }
        }
        Ok(())
    }

    /// Left edge and row of each entry of the legend; none where there is one series only.
    fn legend_places(&self) -> Vec<(i32, i32)> {
        if self.series.len() < 2 {
            return Vec::new();
        }
        let width = |series: &Series| 17 + text_width(&series.name, LETTERS).min(WIDTH / 2);
        legend_places(self.series.iter().map(width), MARGIN, 22)
    }
}

/// Writes what stands at a series' points, beside them and clear of their line.
fn label<DB: DrawingBackend>(
    screen: &DrawingArea<DB, Shift>,
    series: &Series,
    spots: &[(i32, i32)],
    area: (Range<i32>, Range<i32>),
) -> Result<(), ChartError>
where
    DB::ErrorType: 'static,
{
    let labelled = || {
        series
            .samples
            .iter()
            .zip(spots)
            .filter_map(|(sample, &spot)| Some((sample.label.as_ref()?, spot)))
    };
    let points: Vec<(i32, i32)> = labelled().map(|(_, spot)| spot).collect();
    let sizes: Vec<(i32, i32)> = labelled().map(|(text, _)| labels::size(text, LETTERS)).collect();
    let lines: Vec<labels::Line> = spots.windows(2).map(|ends| (ends[0], ends[1])).collect();
    let placed = labels::place(&points, RADIUS, &sizes, Rect::inside(area), &lines);
    for ((text, _), placed) in labelled().zip(placed) {
        let Some(placed) = placed else { continue };
        if let Some((from, to)) = placed.leader {
            screen.draw(&PathElement::new(vec![from, to], MUTED))?;
        }
        let (at, horizontal) = placed.text();
        screen.draw(&Text::new(text.as_str(), at, letters(LETTERS, &TEXT, horizontal)))?;
    }
    Ok(())
}

fn color(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()]
}

/// The end of a scale from zero, with room above the values, and the decimals that its ticks need.
fn scale(values: impl Iterator<Item = f64>) -> (f64, usize) {
    let high = values.fold(0.0, f64::max);
    let end = if high > 0.0 { high * 1.12 } else { 1.0 };
    (end, (1.0 - end.log10().floor()).clamp(0.0, 6.0) as usize)
}
