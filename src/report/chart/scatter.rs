//! Points with labels: memory against speed.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::ChartError;
use super::labels::{self, Placed, Rect};
use super::theme::{GRID, MUTED, SERIES, TEXT, WIDTH, bold, finish, letters, shortened, text_width};
use crate::text::format;

/// One cell or group of repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub label: String,
    /// Points of equal series share a colour and a line in the legend.
    pub series: Option<String>,
}

/// A chart of labelled points. Axis titles name their unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    pub title: String,
    pub subtitle: String,
    pub x_title: String,
    pub y_title: String,
    pub points: Vec<Point>,
    /// A line behind the points, such as a front.
    pub line: Vec<(f64, f64)>,
}

const HEIGHT: i32 = 500;
const RADIUS: i32 = 5;
const LABEL: f64 = 12.0;
/// Of a label, in pixels.
const WIDEST: i32 = 220;
/// More points than this are a cloud: none has a label.
const MOST_LABELS: usize = 200;

impl Scatter {
    /// The chart as SVG.
    pub fn draw(&self) -> Result<String, ChartError> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, HEIGHT as u32)).into_drawing_area();
        root.draw(&Text::new(self.title.as_str(), (20, 24), bold(15.0, &TEXT)))?;
        let series = self.series();
        self.legend(&root, &series)?;

        let (x_range, x_decimals) = axis(self.points.iter().map(|p| p.x));
        let (y_range, y_decimals) = axis(self.points.iter().map(|p| p.y));
        let y_width = text_width(&format::number(y_range.end.into(), y_decimals), LABEL) + 44;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(if series.is_empty() { 64 } else { 88 })
            .margin_right(24)
            .margin_bottom(14)
            .margin_left(12)
            .x_label_area_size(48)
            .y_label_area_size(y_width)
            .build_cartesian_2d(x_range, y_range)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(8)
            .y_labels(8)
            .label_style(letters(LABEL, &MUTED, HPos::Center))
            .axis_desc_style(letters(LABEL, &TEXT, HPos::Center))
            .x_desc(self.x_title.as_str())
            .y_desc(self.y_title.as_str())
            .x_label_formatter(&|v| format::number((*v).into(), x_decimals))
            .y_label_formatter(&|v| format::number((*v).into(), y_decimals))
            .draw()?;

        let area = chart.plotting_area();
        let spots: Vec<(i32, i32)> = self.points.iter().map(|p| area.map_coordinate(&(p.x, p.y))).collect();
        let color = |point: &Point| {
            let found = point
                .series
                .as_ref()
                .and_then(|name| series.iter().position(|s| s == name));
            SERIES[found.unwrap_or(0) % SERIES.len()]
        };
        let texts: Vec<String> = self.points.iter().map(|p| shortened(&p.label, LABEL, WIDEST)).collect();
        let sizes: Vec<(i32, i32)> = texts.iter().map(|text| labels::size(text, LABEL)).collect();
        let bounds = Rect::inside(area.get_pixel_range());
        let line: Vec<(i32, i32)> = self.line.iter().map(|at| area.map_coordinate(at)).collect();
        let lines: Vec<labels::Line> = line.windows(2).map(|ends| (ends[0], ends[1])).collect();
        if !lines.is_empty() {
            root.draw(&DashedPathElement::new(line, 4, 4, MUTED))?;
        }
        let placed = match spots.len() {
            0..=MOST_LABELS => labels::place(&spots, RADIUS, &sizes, bounds, &lines),
            n => vec![None; n],
        };
        for line in placed.iter().flatten().filter_map(|label| label.leader) {
            root.draw(&PathElement::new(vec![line.0, line.1], MUTED))?;
        }
        for (point, &spot) in self.points.iter().zip(&spots) {
            root.draw(&Circle::new(spot, RADIUS, color(point).filled()))?;
        }
        for (text, label) in texts.iter().zip(&placed) {
            if let Some((at, horizontal)) = label.as_ref().map(Placed::text) {
                root.draw(&Text::new(text.as_str(), at, letters(LABEL, &TEXT, horizontal)))?;
            }
        }
        let left_out = placed.iter().filter(|label| label.is_none()).count();
        let subtitle = match left_out {
            0 => self.subtitle.clone(),
            n => format!("{} {n} labels have no room.", self.subtitle),
        };
        let subtitle = shortened(&subtitle, LABEL, WIDTH - 40);
        root.draw(&Text::new(subtitle, (20, 46), letters(LABEL, &MUTED, HPos::Left)))?;
        root.present()?;
        drop(chart);
        drop(root);
        Ok(finish(&svg, &self.title, HEIGHT))
    }

    /// The names of the series in the order of their first point; none where there is nothing to tell apart.
    fn series(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.points.iter().filter_map(|p| p.series.as_ref()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    fn legend<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, plotters::coord::Shift>,
        series: &[String],
    ) -> Result<(), ChartError>
    where
        DB::ErrorType: 'static,
    {
        let mut x = 26;
        for (i, name) in series.iter().enumerate() {
            let name = shortened(name, LABEL, 200);
            root.draw(&Circle::new((x, 70), RADIUS, SERIES[i % SERIES.len()].filled()))?;
            root.draw(&Text::new(
                name.as_str(),
                (x + 11, 70),
                letters(LABEL, &TEXT, HPos::Left),
            ))?;
            x += 11 + text_width(&name, LABEL) + 22;
        }
        Ok(())
    }
}

/// A range with room around the values, from zero where that costs little, and the decimals its ticks need.
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
    // Ticks are a tenth of the range apart, or more.
    let decimals = (1.0 - (end - start).log10().floor()).clamp(0.0, 6.0) as usize;
    (start..end, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

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
