//! Stacked areas over time: the live bytes by category.

use std::ops::Range;

use base::text::format;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use trace::Category;

use super::canvas::{self, Area, Canvas, Head, themed, tick_decimals, write};
use super::colour::{MUTED, TEXT, category_colour};
use super::error::ChartError;
use super::hit::Hit;
use super::legend::{Legend, Mark};
use super::text::text_width;
use super::theme::LETTERS;

/// A curve of several parts, which are constant between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedArea {
    /// The chart's title.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// The horizontal axis.
    pub x_title: String,
    /// The vertical axis.
    pub y_title: String,
    /// The parts from below.
    pub legend: Vec<(String, Category)>,
    /// Time and parts, in the order of time.
    pub moments: Vec<(f64, Vec<f64>)>,
    /// The beginnings of phases, with their names.
    pub phases: Vec<(f64, String)>,
    /// The height of a line across the chart, with its name.
    pub budget: Option<(f64, String)>,
    /// Points of the curve with a text above each.
    pub marks: Vec<(f64, f64, String)>,
    /// The unit of all parts.
    pub unit: &'static str,
}

/// Height of the plot with its axes and the strip.
const PLOT: i32 = 368;
/// The width of a place that says its values: the number of places is a compromise with the size of the file.
const COLUMN: i32 = 8;
/// Height of the strip that names the phases.
const STRIP: i32 = 20;
/// The highest budget that is drawn, in heights of the curve. A higher one would flatten the curve.
const FAR: f64 = 1.6;

impl StackedArea {
    /// The chart as SVG.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub fn draw(&self) -> Result<String, ChartError> {
        let colored = |(name, category): &(String, Category)| (name.clone(), category_colour(*category));
        let legend = Legend::new(self.legend.iter().map(colored).collect(), Mark::Square, 20);
        let highest = self
            .moments
            .iter()
            .map(|(_, parts)| parts.iter().sum::<f64>())
            .fold(0.0, f64::max);
        let budget = self.budget.as_ref().filter(|(budget, _)| *budget <= highest * FAR);
        let subtitle = match (&self.budget, budget) {
            (Some((_, name)), None) => format!("{} The {name} is above the chart.", self.subtitle),
            _ => self.subtitle.clone(),
        };
        let end = self.moments.last().map_or(1.0, |(time, _)| time.max(1e-6));
        let top = budget.map_or(highest, |(budget, _)| highest.max(*budget)).max(1e-9) * 1.2;
        let (x_decimals, y_decimals) = (tick_decimals(end), tick_decimals(top));
        let y_width = text_width(&format::number(top.into(), y_decimals), LETTERS) + 44;
        let head = Head::new(&self.title, &subtitle, legend);
        canvas::draw(&head, PLOT, |canvas| {
            let mut chart = ChartBuilder::on(&canvas.area)
                .margin_top(head.height() + 8 + STRIP)
                .margin_right(24)
                .margin_bottom(14)
                .margin_left(12)
                .x_label_area_size(48)
                .y_label_area_size(y_width)
                .build_cartesian_2d(0.0..end, 0.0..top)?;
            themed(&mut chart.configure_mesh())
                .x_labels(10)
                .y_labels(8)
                .x_desc(self.x_title.as_str())
                .y_desc(self.y_title.as_str())
                .x_label_formatter(&|v| format::number((*v).into(), x_decimals))
                .y_label_formatter(&|v| format::number((*v).into(), y_decimals))
                .draw()?;

            let area = chart.plotting_area();
            let pixel = |time: f64, height: f64| area.map_coordinate(&(time, height));
            // From above: each area reaches down to the ground, and the next one covers the rest of it.
            for (at, (_, category)) in self.legend.iter().enumerate().rev() {
                let height = |parts: &[f64]| parts[..=at].iter().sum::<f64>();
                let points = self.outline(end, |time, parts| pixel(time, height(parts)), pixel(0.0, 0.0).1);
                let color = category_colour(*category).filled();
                canvas.area.draw(&Polygon::new(points, color))?;
            }
            let (_, y) = area.get_pixel_range();
            let y_start = y.start;
            self.phases(&canvas.area, end, |time| pixel(time, 0.0).0, y_start)?;
            if let Some((budget, name)) = budget {
                let (left, right) = (pixel(0.0, *budget), pixel(end, *budget));
                canvas
                    .area
                    .draw(&DashedPathElement::new(vec![left, right], 6, 4, TEXT))?;
                write(&canvas.area, name, (right.0 - 4, right.1 - 10), &TEXT, HPos::Right)?;
            }
            self.values(canvas, y, |time| pixel(time, 0.0).0);
            self.marks(&canvas.area, y_start, pixel)
        })
    }

    /// The curve in pixels, closed along the ground. Each column of pixels has its first, lowest, highest and last
    /// point.
    fn outline(&self, end: f64, pixel: impl Fn(f64, &[f64]) -> (i32, i32), ground: i32) -> Vec<(i32, i32)> {
        let mut corners: Vec<(i32, i32)> = Vec::new();
        for (i, (time, parts)) in self.moments.iter().enumerate() {
            let until = self.moments.get(i + 1).map_or(end, |(next, _)| *next);
            corners.extend([pixel(*time, parts), pixel(until, parts)]);
        }
        let mut points = Vec::new();
        let mut rest = corners.as_slice();
        while let Some(&(x, first)) = rest.first() {
            let (column, after) = rest.split_at(rest.iter().take_while(|(other, _)| *other == x).count());
            rest = after;
            let heights = || column.iter().map(|(_, y)| *y);
            let extremes = [heights().max(), heights().min(), heights().next_back()];
            for y in std::iter::once(first).chain(extremes.into_iter().flatten()) {
                if points.last() != Some(&(x, y)) {
                    points.push((x, y));
                }
            }
        }
        if let (Some(&(left, _)), Some(&(right, _))) = (points.first(), points.last()) {
            points.extend([(right, ground), (left, ground)]);
        }
        points
    }

    /// Draws a strip above the plot: the phases' names, if they have room, and the lines between them.
    fn phases(&self, sheet: &Area<'_>, end: f64, pixel: impl Fn(f64) -> i32, top: i32) -> Result<(), ChartError> {
        for (i, (start, name)) in self.phases.iter().enumerate() {
            let until = self.phases.get(i + 1).map_or(end, |(next, _)| *next);
            let (left, right) = (pixel(*start), pixel(until));
            if right - left < 2 {
                continue;
            }
            sheet.draw(&PathElement::new(vec![(left, top - STRIP), (left, top)], MUTED))?;
            sheet.draw(&PathElement::new(vec![(left, top - 4), (right - 1, top - 4)], MUTED))?;
            if text_width(name, LETTERS) + 6 <= right - left {
                let at = ((left + right) / 2, top - STRIP / 2 - 3);
                write(sheet, name, at, &MUTED, HPos::Center)?;
            }
        }
        Ok(())
    }

    /// Adds places that say the highest moment of some columns of pixels.
    fn values(&self, canvas: &Canvas<'_>, y: Range<i32>, pixel: impl Fn(f64) -> i32) {
        let mut rest = self.moments.as_slice();
        while let Some((first, _)) = rest.first() {
            let left = pixel(*first);
            let near = |(time, _): &&(f64, Vec<f64>)| pixel(*time) < left + COLUMN;
            let (column, after) = rest.split_at(rest.iter().take_while(near).count().max(1));
            let right = after.first().map_or(left + COLUMN, |(next, _)| pixel(*next));
            rest = after;
            let sum = |parts: &[f64]| parts.iter().sum::<f64>();
            let highest = column.iter().max_by(|(_, a), (_, b)| sum(a).total_cmp(&sum(b)));
            if let Some((time, parts)) = highest {
                canvas.hit(Hit::between((left, y.start), (right, y.end), &self.said(*time, parts)));
            }
        }
    }

    /// The values of a moment in words.
    fn said(&self, time: f64, parts: &[f64]) -> String {
        let shown = |value: f64| format!("{} {}", format::number(value.into(), 1), self.unit);
        let phase = self.phases.iter().rev().find(|(start, _)| *start <= time);
        let phase = phase.map_or(String::new(), |(_, name)| format!(", {name}"));
        let held = self.legend.iter().zip(parts).filter(|(_, part)| **part > 0.0);
        let held: Vec<String> = held
            .map(|((name, _), part)| format!("{name} {}", shown(*part)))
            .collect();
        let time = format::number(time.into(), 1);
        format!(
            "{time} ms{phase}: {} allocated; {}",
            shown(parts.iter().sum()),
            held.join(", ")
        )
    }

    /// Draws the marks, each with its text above.
    fn marks(&self, sheet: &Area<'_>, top: i32, pixel: impl Fn(f64, f64) -> (i32, i32)) -> Result<(), ChartError> {
        let spots: Vec<(i32, i32)> = self
            .marks
            .iter()
            .map(|(time, height, _)| pixel(*time, *height))
            .collect();
        let mut taken: Vec<(i32, i32, i32)> = Vec::new();
        for (&(x, y), (.., text)) in spots.iter().zip(&self.marks) {
            let points = vec![(x, y - 1), (x - 4, y - 8), (x + 4, y - 8)];
            sheet.draw(&Polygon::new(points, TEXT.filled()))?;
            // Above the mark, and above the text of a neighbour.
            let half = text_width(text, LETTERS) / 2 + 2;
            let mut at = y - 16;
            while let Some(&(_, other, _)) = taken
                .iter()
                .find(|(other_x, other_y, other)| (x - other_x).abs() < half + other && (at - other_y).abs() < 13)
            {
                at = other - 13;
            }
            if at - 6 >= top {
                write(sheet, text, (x, at), &TEXT, HPos::Center)?;
                taken.push((x, at, half));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(budget: f64) -> StackedArea {
        StackedArea {
            title: "t".into(),
            subtitle: "s".into(),
            x_title: "x".into(),
            y_title: "y".into(),
            legend: vec![
                ("parameter".into(), Category::Parameter),
                ("temporary".into(), Category::Temporary),
            ],
            moments: vec![(0.0, vec![50.0, 0.0]), (1.0, vec![50.0, 50.0]), (2.0, vec![50.0, 0.0])],
            phases: vec![(0.0, "forward".into()), (1.0, "backward".into())],
            budget: Some((budget, "budget 120 B".into())),
            marks: vec![(1.0, 100.0, "1".into()), (1.001, 100.0, "2".into())],
            unit: "MiB",
        }
    }

    #[test]
    fn a_budget_is_a_line_where_it_is_near() {
        let near = chart(120.0).draw().unwrap();
        assert!(
            near.contains("budget 120 B") && !near.contains("above the chart"),
            "{near}"
        );
        let far = chart(1000.0).draw().unwrap();
        assert!(far.contains("The budget 120 B is above the chart."), "{far}");
        for svg in [&near, &far] {
            assert_eq!(svg.matches("<polygon").count(), 4, "two areas and two marks: {svg}");
            assert!(svg.contains("\nforward\n") && svg.contains("\nbackward\n"), "{svg}");
            assert!(svg.contains("fill=\"#478163\"] { fill: #3AAC75"), "{svg}");
        }
    }

    #[test]
    fn an_outline_keeps_the_extremes_of_a_column() {
        let mut chart = chart(120.0);
        chart.moments = (0..1000)
            .map(|at| (f64::from(at), vec![f64::from(at % 10), 0.0]))
            .collect();
        let outline = chart.outline(1000.0, |time, parts| ((time / 100.0) as i32, -(parts[0] as i32)), 0);
        assert!(outline.len() < 50, "{outline:?}");
        for column in 0..10 {
            let heights = || outline.iter().filter(|(x, _)| *x == column).map(|(_, y)| *y);
            assert_eq!((heights().min(), heights().max()), (Some(-9), Some(0)), "{column}");
        }
    }
}
