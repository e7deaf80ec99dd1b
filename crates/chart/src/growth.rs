//! Lines over a quantity that a study varies: how memory and speed grow with it.

use std::ops::Range;

use base::text::format;
use plotters::prelude::*;

use super::canvas::{self, Area, Canvas, Head, themed, tick_decimals, write_lines};
use super::colour::{MUTED, TEXT, series_colour};
use super::error::ChartError;
use super::hit::Hit;
use super::labels::{self, Rect};
use super::legend::{Legend, Mark};
use super::text::{text_width, wrapped};
use super::theme::LETTERS;

/// The values at one point of the quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The quantity.
    pub x: f64,
    /// A value for each panel.
    pub y: Vec<f64>,
    /// The text that the point says when it is pointed at.
    pub says: String,
    /// A text at the point, for a quantity that is not its own name.
    pub label: Option<String>,
}

/// Points of one colour, joined in the order of the quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points in the order of the quantity.
    pub samples: Vec<Sample>,
}

/// Panels one below the other over the same quantity. All scales are linear and begin at zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The chart's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The quantity's name.
    pub x_title: String,
    /// The titles of the panels' scales, with their units.
    pub panels: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
}

const RADIUS: i32 = 4;
/// Height of a panel.
const PANEL: i32 = 250;
/// Height of the quantity's labels and title below the last panel.
const FOOT: i32 = 44;
/// The widest label of a point, in pixels. Longer ones have several lines.
const WIDEST: i32 = 160;

impl Growth {
    /// The chart as SVG.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub fn draw(&self) -> Result<String, ChartError> {
        let head = Head::new(&self.title, &self.subtitle, self.legend());
        let height = self.panels.len() as i32 * PANEL + FOOT;
        canvas::draw(&head, height, |canvas| {
            let (_, mut rest) = canvas.area.split_vertically(head.height());
            for panel in 0..self.panels.len() {
                let is_last = panel + 1 == self.panels.len();
                let (area, below) = rest.split_vertically(PANEL + if is_last { FOOT } else { 0 });
                self.panel(canvas, &area, panel, is_last)?;
                rest = below;
            }
            Ok(())
        })
    }

    /// The series' names; empty for a single series.
    fn legend(&self) -> Legend {
        let entry = |(at, series): (usize, &Series)| (series.name.clone(), series_colour(at));
        let entries = match self.series.len() {
            0 | 1 => Vec::new(),
            _ => self.series.iter().enumerate().map(entry).collect(),
        };
        Legend::new(entries, Mark::Dot { radius: RADIUS }, 22)
    }

    fn panel(&self, canvas: &Canvas<'_>, root: &Area<'_>, panel: usize, is_last: bool) -> Result<(), ChartError> {
        let samples = || self.series.iter().flat_map(|series| &series.samples);
        let (x_end, x_decimals) = scale(samples().map(|sample| sample.x));
        let (y_end, y_decimals) = scale(samples().map(|sample| sample.y[panel]));
        // One width for all panels, so that their scales stand one below the other.
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
        themed(&mut chart.configure_mesh())
            .x_labels(8)
            .y_labels(6)
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
            screen.draw(&PathElement::new(spots.clone(), series_colour(at).stroke_width(2)))?;
            for (&spot, sample) in spots.iter().zip(&series.samples) {
                screen.draw(&Circle::new(spot, RADIUS, series_colour(at).filled()))?;
                canvas.hit(Hit::around(spot, 2 * RADIUS, &sample.says));
            }
            // Once is enough: the points of other series and panels stand above and below.
            if panel == 0 && at == 0 {
                label(&screen, series, &spots, area.get_pixel_range())?;
            }
        }
        Ok(())
    }
}

/// Writes the labels of a series' points, beside the points and clear of their line.
fn label(
    screen: &Area<'_>,
    series: &Series,
    spots: &[(i32, i32)],
    area: (Range<i32>, Range<i32>),
) -> Result<(), ChartError> {
    let labelled = || {
        series
            .samples
            .iter()
            .zip(spots)
            .filter_map(|(sample, &spot)| Some((sample.label.as_ref()?, spot)))
    };
    let points: Vec<(i32, i32)> = labelled().map(|(_, spot)| spot).collect();
    let texts: Vec<Vec<String>> = labelled().map(|(text, _)| wrapped(text, LETTERS, WIDEST)).collect();
    let sizes: Vec<(i32, i32)> = texts.iter().map(|lines| labels::size(lines, LETTERS)).collect();
    let lines: Vec<labels::Line> = spots.windows(2).map(|ends| (ends[0], ends[1])).collect();
    let placed = labels::place(&points, RADIUS, &sizes, Rect::inside(area), &lines);
    for (lines, placed) in texts.iter().zip(placed) {
        let Some(placed) = placed else { continue };
        if let Some((from, to)) = placed.leader {
            screen.draw(&PathElement::new(vec![from, to], MUTED))?;
        }
        let (at, horizontal) = placed.text();
        write_lines(screen, lines, at, &TEXT, horizontal)?;
    }
    Ok(())
}

/// The end of a scale from zero, with room above the values, and the decimals of its ticks.
fn scale(values: impl Iterator<Item = f64>) -> (f64, usize) {
    let high = values.fold(0.0, f64::max);
    let end = if high > 0.0 { high * 1.12 } else { 1.0 };
    (end, tick_decimals(end))
}
