//! Points with labels: memory against speed.

use base::text::format;
use indexmap::IndexSet;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::canvas::{self, Head, LEGEND_ROW, themed, tick_decimals, write_lines};
use super::colour::{GRID, MUTED, TEXT, series_colour};
use super::error::ChartError;
use super::hit::Hit;
use super::labels::{self, Placed, Rect};
use super::legend::{Legend, Mark};
use super::text::{text_width, wrapped};
use super::theme::LETTERS;

/// One cell or group of repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The value on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: f64,
    /// The deviation of the horizontal value, drawn to both sides.
    pub deviation: Option<f64>,
    /// The text at the point.
    pub label: String,
    /// The text that the point says when it is pointed at.
    pub says: String,
    /// Points of equal series share a colour and a line in the legend.
    pub series: Option<String>,
    /// True for a point that is grey, beside others that are not. Its label gives way to theirs.
    pub is_muted: bool,
}

/// A chart of labelled points. Axis titles name their unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// The chart's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The horizontal axis.
    pub x_title: String,
    /// The vertical axis.
    pub y_title: String,
    /// True if the horizontal axis is logarithmic; its values are above zero.
    pub x_is_log: bool,
    /// The same of the vertical axis.
    pub y_is_log: bool,
    /// The points.
    pub points: Vec<Point>,
    /// A line behind the points, such as a front.
    pub line: Vec<(f64, f64)>,
    /// Lines that join points.
    pub curves: Vec<Vec<(f64, f64)>>,
}

/// Height of the plot with its axes.
const PLOT: i32 = 436;
const RADIUS: i32 = 5;
/// The widest label, in pixels. Longer ones have several lines.
const WIDEST: i32 = 220;

impl Scatter {
    /// The chart as SVG. If a label has no room, grey points have none; if one of the others has none then, all points have
    /// numbers instead, with their labels below the plot.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub fn draw(&self) -> Result<String, ChartError> {
        let labels: Vec<String> = self.points.iter().map(|point| point.label.clone()).collect();
        let (svg, left_out) = self.draw_labelled(&labels, &Legend::empty())?;
        if left_out == 0 {
            return Ok(svg);
        }
        if self.points.iter().any(|point| point.is_muted) {
            let label = |point: &Point| {
                if point.is_muted {
                    String::new()
                } else {
                    point.label.clone()
                }
            };
            let labels: Vec<String> = self.points.iter().map(label).collect();
            let (svg, left_out) = self.draw_labelled(&labels, &Legend::empty())?;
            if left_out == 0 {
                return Ok(svg);
            }
        }
        // A point without a label has no number.
        let mut last = 0;
        let number = |label: &String| {
            last += usize::from(!label.is_empty());
            if label.is_empty() {
                String::new()
            } else {
                last.to_string()
            }
        };
        let numbers: Vec<String> = labels.iter().map(number).collect();
        let named = numbers.iter().zip(&labels).filter(|(_, label)| !label.is_empty());
        let entries = named
            .map(|(number, label)| (format!("{number}: {label}"), TEXT))
            .collect();
        let (svg, _) = self.draw_labelled(&numbers, &Legend::new(entries, Mark::None, 24))?;
        Ok(svg)
    }

    /// The chart with these texts at its points and this key below, and the number of texts that have no room.
    fn draw_labelled(&self, texts: &[String], key: &Legend) -> Result<(String, usize), ChartError> {
        let series = self.series();
        let entry = |(i, name): (usize, &String)| (name.clone(), series_colour(i));
        let entries = series.iter().enumerate().map(entry).collect();
        let legend = Legend::new(entries, Mark::Dot { radius: RADIUS }, 16);
        let head = Head::new(&self.title, &self.subtitle, legend);
        let ends = |p: &Point| p.deviation.map(|deviation| [p.x - deviation, p.x + deviation]);
        let extent = |p: &Point| ends(p).unwrap_or([p.x; 2]);
        let places = self.points.iter().flat_map(extent).map(|x| self.across(x));
        let (x_range, x_decimals) = match self.x_is_log {
            true => (decades(places), 0),
            false => axis(places),
        };
        let x_label = |place: f64| match self.x_is_log {
            true => power_of_ten(place),
            false => format::number(place.into(), x_decimals),
        };
        let x_labels = match self.x_is_log {
            true => (x_range.end - x_range.start) as usize + 1,
            false => 8,
        };
        let heights = self.points.iter().map(|p| self.height(p.y));
        let (y_range, y_decimals) = match self.y_is_log {
            true => (decades(heights), 0),
            false => axis(heights),
        };
        let y_label = |height: f64| match self.y_is_log {
            true => power_of_ten(height),
            false => format::number(height.into(), y_decimals),
        };
        let y_labels = match self.y_is_log {
            true => (y_range.end - y_range.start) as usize + 1,
            false => 8,
        };
        let widest = [y_range.start, y_range.end].map(|height| text_width(&y_label(height), LETTERS));
        let y_width = widest[0].max(widest[1]) + 44;
        let key_height = match key.rows() {
            0 => 0,
            rows => rows * LEGEND_ROW + 10,
        };
        let x_title = match self.x_is_log {
            true => self.x_title.clone(),
            false => with_start(&self.x_title, x_range.start),
        };
        let y_title = match self.y_is_log {
            true => self.y_title.clone(),
            false => with_start(&self.y_title, y_range.start),
        };
        let mut left_out = 0;
        let svg = canvas::draw(&head, PLOT + key_height, |canvas| {
            let mut chart = ChartBuilder::on(&canvas.area)
                .margin_top(head.height() + 4)
                .margin_right(24)
                .margin_bottom(14 + key_height)
                .margin_left(12)
                .x_label_area_size(48)
                .y_label_area_size(y_width)
                .build_cartesian_2d(x_range, y_range)?;
            themed(&mut chart.configure_mesh())
                .x_labels(x_labels)
                .y_labels(y_labels)
                .x_desc(x_title.as_str())
                .y_desc(y_title.as_str())
                .x_label_formatter(&|v| x_label(*v))
                .y_label_formatter(&|v| y_label(*v))
                .draw()?;

            let area = chart.plotting_area();
            let spots: Vec<(i32, i32)> = self
                .points
                .iter()
                .map(|p| area.map_coordinate(&(self.across(p.x), self.height(p.y))))
                .collect();
            let line: Vec<(i32, i32)> = self
                .line
                .iter()
                .map(|&(x, y)| area.map_coordinate(&(self.across(x), self.height(y))))
                .collect();
            for curve in &self.curves {
                let spots = curve
                    .iter()
                    .map(|&(x, y)| area.map_coordinate(&(self.across(x), self.height(y))));
                let path = PathElement::new(spots.collect::<Vec<_>>(), GRID.stroke_width(2));
                canvas.area.draw(&path)?;
            }
            let lines: Vec<labels::Line> = line.windows(2).map(|ends| (ends[0], ends[1])).collect();
            if !lines.is_empty() {
                canvas.area.draw(&DashedPathElement::new(line, 4, 4, MUTED))?;
            }
            let bar = |p: &Point| {
                let [from, to] = ends(p)?.map(|x| area.map_coordinate(&(self.across(x), self.height(p.y))));
                Some((from, to))
            };
            let bars: Vec<Option<labels::Line>> = self.points.iter().map(bar).collect();
            let obstacles: Vec<labels::Line> = lines.into_iter().chain(bars.iter().flatten().copied()).collect();
            let placed = place_labels(texts, &spots, &obstacles, Rect::inside(area.get_pixel_range()));
            for (from, to) in placed.iter().flatten().filter_map(|(_, label)| label.leader) {
                canvas.area.draw(&PathElement::new(vec![from, to], MUTED))?;
            }
            for ((point, &spot), bar) in self.points.iter().zip(&spots).zip(bars) {
                let of_series = |name: &String| series.iter().position(|s| s == name);
                let number = point.series.as_ref().and_then(of_series).unwrap_or(0);
                let colour = if point.is_muted { MUTED } else { series_colour(number) };
                if let Some((from, to)) = bar {
                    canvas
                        .area
                        .draw(&PathElement::new(vec![from, to], colour.stroke_width(2)))?;
                }
                canvas.area.draw(&Circle::new(spot, RADIUS, colour.filled()))?;
                canvas.hit(Hit::around(spot, 2 * RADIUS, &point.says));
            }
            for (text, label) in placed.iter().flatten() {
                let (at, horizontal) = label.text();
                write_lines(&canvas.area, text, at, &TEXT, horizontal)?;
            }
            left_out = placed.iter().filter(|label| label.is_none()).count();
            canvas.legend(key, head.height() + PLOT + 6)
        })?;
        Ok((svg, left_out))
    }

    /// A value's place on the horizontal axis.
    fn across(&self, x: f64) -> f64 {
        if self.x_is_log { x.log10() } else { x }
    }

    /// A value's height on the vertical axis.
    fn height(&self, y: f64) -> f64 {
        if self.y_is_log { y.log10() } else { y }
    }

    /// The names of the series in the order of their first point.
    fn series(&self) -> Vec<String> {
        let names: IndexSet<&String> = self.points.iter().filter_map(|p| p.series.as_ref()).collect();
        names.into_iter().cloned().collect()
    }
}

/// The labels that have room, each with its lines, in the order of the points.
fn place_labels(
    texts: &[String],
    spots: &[(i32, i32)],
    lines: &[labels::Line],
    bounds: Rect,
) -> Vec<Option<(Vec<String>, Placed)>> {
    let texts: Vec<Vec<String>> = texts.iter().map(|text| wrapped(text, LETTERS, WIDEST)).collect();
    let sizes: Vec<(i32, i32)> = texts.iter().map(|lines| labels::size(lines, LETTERS)).collect();
    let placed = labels::place(spots, RADIUS, &sizes, bounds, lines);
    let with_text = |(text, label): (Vec<String>, Option<Placed>)| label.map(|label| (text, label));
    texts.into_iter().zip(placed).map(with_text).collect()
}

/// An axis' title, which says so if the axis does not start at zero.
fn with_start(title: &str, start: f64) -> String {
    match start > 0.0 {
        true => format!("{title}, not from 0"),
        false => title.to_owned(),
    }
}

/// A range with room around the values, and the decimals of its ticks. It begins at zero if that costs little.
fn axis(values: impl Iterator<Item = f64>) -> (std::ops::Range<f64>, usize) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let spread = if high > low {
        high - low
    } else {
        high.abs().max(1.0) * 0.2
    };
    let start = low - 0.15 * spread;
    let start = if start < 0.4 * high { 0.0 } else { start };
    let end = high + 0.15 * spread;
    (start..end, tick_decimals(end - start))
}

/// The range of whole decades around these logarithms.
fn decades(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
        (low.min(v), high.max(v))
    });
    let start = low.floor();
    start..high.ceil().max(start + 1.0)
}

/// The number that a height on a logarithmic axis stands for.
fn power_of_ten(height: f64) -> String {
    format::number(10_f64.powf(height).into(), (-height).max(0.0).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_are_whole() {
        assert_eq!(decades([-1.2, 2.5].into_iter()), -2.0..3.0);
        assert_eq!(decades([1.0, 1.0].into_iter()), 1.0..2.0, "one value");
        assert_eq!([-2.0, 0.0, 3.0].map(power_of_ten), ["0.01", "1", "1,000"]);
    }

    #[test]
    fn axes_have_room_and_enough_decimals() {
        assert_eq!(axis([100.0, 900.0].into_iter()), (0.0..1020.0, 0));
        let (range, decimals) = axis([1.90, 1.98].into_iter());
        assert!(
            range.start > 1.8 && range.end < 2.0 && decimals >= 2,
            "{range:?} {decimals}"
        );
        let (range, _) = axis(std::iter::once(5.0));
        assert!(range.start < 5.0 && range.end > 5.0);
    }
}
