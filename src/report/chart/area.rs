//! Stacked areas over time: what was alive when.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::ChartError;
use super::theme::{GRID, MUTED, TEXT, WIDTH, bold, category_color, finish, letters, shortened, text_width};
use crate::memory::Category;
use crate::text::format;

/// A curve whose parts stay as they are from one moment to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedArea {
    pub title: String,
    pub subtitle: String,
    pub x_title: String,
    pub y_title: String,
    /// The parts from below.
    pub legend: Vec<(String, Category)>,
    /// Time and parts, in the order of time.
    pub moments: Vec<(f64, Vec<f64>)>,
    /// When phases begin, and what they are called.
    pub phases: Vec<(f64, String)>,
    /// A line across the chart, and what it is called.
    pub budget: Option<(f64, String)>,
    /// Points of the curve with a text above each.
    pub marks: Vec<(f64, f64, String)>,
}

const HEIGHT: i32 = 460;
const LETTERS: f64 = 12.0;
const MARGIN: i32 = 20;
/// Of the strip that names the phases.
const STRIP: i32 = 20;
/// A budget further above the curve than this many times its height would flatten it.
const FAR: f64 = 1.6;

impl StackedArea {
    /// The chart as SVG.
    pub fn draw(&self) -> Result<String, ChartError> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH as u32, HEIGHT as u32)).into_drawing_area();
        let highest = self
            .moments
            .iter()
            .map(|(_, parts)| parts.iter().sum::<f64>())
            .fold(0.0, f64::max);
        let budget = self.budget.as_ref().filter(|(budget, _)| *budget <= highest * FAR);
        self.head(&root, budget.is_none())?;

        let end = self.moments.last().map_or(1.0, |(time, _)| time.max(1e-6));
        let top = budget.map_or(highest, |(budget, _)| highest.max(*budget)).max(1e-9) * 1.2;
        let decimals = |range: f64| (1.0 - range.log10().floor()).clamp(0.0, 6.0) as usize;
        let (x_decimals, y_decimals) = (decimals(end), decimals(top));
        let y_width = text_width(&format::number(top.into(), y_decimals), LETTERS) + 44;
        let mut chart = ChartBuilder::on(&root)
            .margin_top(92 + STRIP)
            .margin_right(24)
            .margin_bottom(14)
            .margin_left(12)
            .x_label_area_size(48)
            .y_label_area_size(y_width)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(10)
            .y_labels(8)
            .label_style(letters(LETTERS, &MUTED, HPos::Center))
            .axis_desc_style(letters(LETTERS, &TEXT, HPos::Center))
            .x_desc(self.x_title.as_str())
            .y_desc(self.y_title.as_str())
            .x_label_formatter(&|v| format::number((*v).into(), x_decimals))
            .y_label_formatter(&|v| format::number((*v).into(), y_decimals))
            .draw()?;

        let area = chart.plotting_area();
        let pixel = |time: f64, height: f64| area.map_coordinate(&(time, height));
        // From above: each area reaches down to the ground, and the next one covers what is not its own.
        for (at, (_, category)) in self.legend.iter().enumerate().rev() {
            let height = |parts: &[f64]| parts[..=at].iter().sum::<f64>();
            let points = self.outline(end, |time, parts| pixel(time, height(parts)), pixel(0.0, 0.0).1);
            root.draw(&Polygon::new(points, category_color(*category).filled()))?;
        }
        let (_, y) = area.get_pixel_range();
        self.phases(&root, end, |time| pixel(time, 0.0).0, y.start)?;
        if let Some((budget, name)) = budget {
            let (left, right) = (pixel(0.0, *budget), pixel(end, *budget));
            root.draw(&DashedPathElement::new(vec![left, right], 6, 4, TEXT))?;
            let at = (right.0 - 4, right.1 - 10);
            root.draw(&Text::new(name.as_str(), at, letters(LETTERS, &TEXT, HPos::Right)))?;
        }
        self.marks(&root, y.start, pixel)?;
        root.present()?;
        drop(chart);
        drop(root);
        Ok(finish(&svg, &self.title, HEIGHT))
    }

    fn head<DB: DrawingBackend>(&self, root: &Root<'_, DB>, name_budget: bool) -> Result<(), ChartError>
    where
        DB::ErrorType: 'static,
    {
        let title = shortened(&self.title, 15.0, WIDTH - 2 * MARGIN);
        root.draw(&Text::new(title, (MARGIN, 24), bold(15.0, &TEXT)))?;
        let subtitle = match &self.budget {
            Some((_, name)) if name_budget => format!("{} The {name} is above the chart.", self.subtitle),
            _ => self.subtitle.clone(),
        };
        let subtitle = shortened(&subtitle, LETTERS, WIDTH - 2 * MARGIN);
        root.draw(&Text::new(subtitle, (MARGIN, 46), letters(LETTERS, &MUTED, HPos::Left)))?;
        let mut x = MARGIN;
        for (name, category) in &self.legend {
            root.draw(&Rectangle::new(
                [(x, 64), (x + 12, 76)],
                category_color(*category).filled(),
            ))?;
            root.draw(&Text::new(
                name.as_str(),
                (x + 18, 70),
                letters(LETTERS, &TEXT, HPos::Left),
            ))?;
            x += 18 + text_width(name, LETTERS) + 20;
        }
        Ok(())
    }

    /// The steps of the curve in pixels, closed along the ground; of one column of pixels the first, the lowest, the
    /// highest and the last.
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

    /// A strip above the plot with the phases' names, where they have room, and lines where they meet.
    fn phases<DB: DrawingBackend>(
        &self,
        root: &Root<'_, DB>,
        end: f64,
        pixel: impl Fn(f64) -> i32,
        top: i32,
    ) -> Result<(), ChartError>
    where
        DB::ErrorType: 'static,
    {
        for (i, (start, name)) in self.phases.iter().enumerate() {
            let until = self.phases.get(i + 1).map_or(end, |(next, _)| *next);
            let (left, right) = (pixel(*start), pixel(until));
            if right - left < 2 {
                continue;
            }
            root.draw(&PathElement::new(vec![(left, top - STRIP), (left, top)], MUTED))?;
            root.draw(&PathElement::new(vec![(left, top - 4), (right - 1, top - 4)], MUTED))?;
            if text_width(name, LETTERS) + 6 <= right - left {
                let at = ((left + right) / 2, top - STRIP / 2 - 3);
                root.draw(&Text::new(name.as_str(), at, letters(LETTERS, &MUTED, HPos::Center)))?;
            }
        }
        Ok(())
    }

    fn marks<DB: DrawingBackend>(
        &self,
        root: &Root<'_, DB>,
        top: i32,
        pixel: impl Fn(f64, f64) -> (i32, i32),
    ) -> Result<(), ChartError>
    where
        DB::ErrorType: 'static,
    {
        let spots: Vec<(i32, i32)> = self
            .marks
            .iter()
            .map(|(time, height, _)| pixel(*time, *height))
            .collect();
        let mut taken: Vec<(i32, i32, i32)> = Vec::new();
        for (&(x, y), (.., text)) in spots.iter().zip(&self.marks) {
            let points = vec![(x, y - 1), (x - 4, y - 8), (x + 4, y - 8)];
            root.draw(&Polygon::new(points, TEXT.filled()))?;
            // Above the mark, and above the text of another that is there.
            let half = text_width(text, LETTERS) / 2 + 2;
            let mut at = y - 16;
            while let Some(&(_, other, _)) = taken
                .iter()
                .find(|(other_x, other_y, other)| (x - other_x).abs() < half + other && (at - other_y).abs() < 13)
            {
                at = other - 13;
            }
            if at - 6 >= top {
                root.draw(&Text::new(
                    text.as_str(),
                    (x, at),
                    letters(LETTERS, &TEXT, HPos::Center),
                ))?;
                taken.push((x, at, half));
            }
        }
        Ok(())
    }
}

type Root<'a, DB> = DrawingArea<DB, plotters::coord::Shift>;

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
            assert!(svg.contains("fill=\"#006400\"] { fill: #2E8B57"), "{svg}");
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
