//! The sheet that every chart is drawn on: an SVG with a title, a subtitle, a legend and a plot.

use std::cell::RefCell;

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::colour::{GRID, MUTED, TEXT};
use super::error::ChartError;
use super::hit::Hit;
use super::legend::{Legend, Mark};
use super::text::wrapped;
use super::theme::{LETTERS, MARGIN, WIDTH, bold, finish, letters};

/// A part of a sheet.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Middle of the title's first line and of the subtitle's, and its distance to the legend.
const TITLE_Y: i32 = 24;
const SUBTITLE_Y: i32 = 46;
/// Heights of lines: of the title, of other texts, and of a legend.
const TITLE_LINE: i32 = 20;
pub(super) const LINE: i32 = 15;
pub(super) const LEGEND_ROW: i32 = 22;
const TITLE_LETTERS: f64 = 15.0;
/// The most that bold letters are wider than plain ones.
const BOLD: f64 = 1.15;

/// The words above a plot.
pub(super) struct Head<'a> {
    title: &'a str,
    title_lines: Vec<String>,
    subtitle_lines: Vec<String>,
    legend: Legend,
}

impl<'a> Head<'a> {
    pub(super) fn new(title: &'a str, subtitle: &str, legend: Legend) -> Self {
        let width = WIDTH - 2 * MARGIN;
        Self {
            title,
            title_lines: wrapped(title, TITLE_LETTERS * BOLD, width),
            subtitle_lines: wrapped(subtitle, LETTERS, width),
            legend,
        }
    }

    fn subtitle_y(&self) -> i32 {
        SUBTITLE_Y + (self.title_lines.len() as i32 - 1) * TITLE_LINE
    }

    fn legend_y(&self) -> i32 {
        self.subtitle_y() + (self.subtitle_lines.len() as i32 - 1) * LINE + 24
    }

    /// The height of the words, with some space below.
    pub(super) fn height(&self) -> i32 {
        self.legend_y() - 6 + self.legend.rows() * LEGEND_ROW
    }
}

/// Draws a chart with these words above a plot of this height, and gives its SVG.
pub(super) fn draw(
    head: &Head<'_>,
    plot_height: i32,
    fill: impl FnOnce(&Canvas<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let height = head.height() + plot_height;
    let mut svg = String::new();
    let hits = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        let canvas = Canvas {
            area,
            hits: RefCell::default(),
        };
        canvas.head(head)?;
        fill(&canvas)?;
        canvas.area.present()?;
        canvas.hits.into_inner()
    };
    Ok(finish(&svg, head.title, height, &hits))
}

/// The sheet of one chart.
pub(super) struct Canvas<'a> {
    /// All of it.
    pub(super) area: Area<'a>,
    hits: RefCell<Vec<Hit>>,
}

impl Canvas<'_> {
    /// Adds a place that says its value. It lies above everything drawn.
    pub(super) fn hit(&self, hit: Hit) {
        self.hits.borrow_mut().push(hit);
    }

    fn head(&self, head: &Head<'_>) -> Result<(), ChartError> {
        let mut y = TITLE_Y;
        for line in &head.title_lines {
            let text = Text::new(line.clone(), (MARGIN, y), bold(TITLE_LETTERS, &TEXT));
            self.area.draw(&text)?;
            y += TITLE_LINE;
        }
        let mut y = head.subtitle_y();
        for line in &head.subtitle_lines {
            write(&self.area, line, (MARGIN, y), &MUTED, HPos::Left)?;
            y += LINE;
        }
        self.legend(&head.legend, head.legend_y())
    }

    /// Draws a legend whose first row has this middle.
    pub(super) fn legend(&self, legend: &Legend, top: i32) -> Result<(), ChartError> {
        for (x, row, name, color) in legend.entries() {
            let y = top + row * LEGEND_ROW;
            match legend.mark {
                Mark::Square => {
                    let corners = [(x, y - 6), (x + 12, y + 6)];
                    self.area.draw(&Rectangle::new(corners, color.filled()))?;
                }
                Mark::Dot { radius } => self.area.draw(&Circle::new((x + 6, y), radius, color.filled()))?,
                Mark::None => {}
            }
            for (at, line) in name.iter().enumerate() {
                let y = y + at as i32 * LEGEND_ROW;
                write(&self.area, line, (x + legend.mark.width(), y), &TEXT, HPos::Left)?;
            }
        }
        Ok(())
    }
}

/// Writes a text, whose middle is at the height of `at`.
pub(super) fn write(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    color: &RGBColor,
    horizontal: HPos,
) -> Result<(), ChartError> {
    Ok(area.draw(&Text::new(text.to_owned(), at, letters(LETTERS, color, horizontal)))?)
}

/// Writes lines, whose common middle is at the height of `at`.
pub(super) fn write_lines(
    area: &Area<'_>,
    lines: &[String],
    (x, y): (i32, i32),
    color: &RGBColor,
    horizontal: HPos,
) -> Result<(), ChartError> {
    let top = y - (lines.len() as i32 - 1) * LINE / 2;
    for (at, line) in lines.iter().enumerate() {
        write(area, line, (x, top + at as i32 * LINE), color, horizontal)?;
    }
    Ok(())
}

/// Decimals that the ticks of a scale need: they are a tenth of the range apart, or more.
pub(super) fn tick_decimals(range: f64) -> usize {
    (1.0 - range.log10().floor()).clamp(0.0, 6.0) as usize
}

type Mesh<'m, 'b, 'a> = MeshStyle<'m, 'b, RangedCoordf64, RangedCoordf64, SVGBackend<'a>>;

/// The grid and the letters of a plot.
pub(super) fn themed<'s, 'm, 'b, 'a>(mesh: &'s mut Mesh<'m, 'b, 'a>) -> &'s mut Mesh<'m, 'b, 'a> {
    mesh.bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(MUTED)
        .label_style(letters(LETTERS, &MUTED, HPos::Center))
        .axis_desc_style(letters(LETTERS, &TEXT, HPos::Center))
}
