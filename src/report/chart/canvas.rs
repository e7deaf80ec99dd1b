//! The sheet that every chart is drawn on: an SVG with a title, a subtitle, a legend and a plot.

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::error::ChartError;
use super::theme::{
    GRID, LETTERS, MARGIN, MUTED, TEXT, WIDTH, bold, finish, legend_places, letters, shortened, text_width,
};

/// A part of a sheet.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Baselines of the title and the subtitle, and the middle of the legend's first row.
const TITLE_Y: i32 = 24;
const SUBTITLE_Y: i32 = 46;
const LEGEND_Y: i32 = 70;
/// Height of a row of the legend.
pub(super) const LEGEND_ROW: i32 = 22;

/// Draws a chart of this title and height, and gives its SVG.
pub(super) fn draw(
    title: &str,
    height: i32,
    fill: impl FnOnce(&Canvas<'_>) -> Result<(), ChartError>,
) -> Result<String, ChartError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        let canvas = Canvas { area };
        let short = shortened(title, 15.0, WIDTH - 2 * MARGIN);
        canvas
            .area
            .draw(&Text::new(short, (MARGIN, TITLE_Y), bold(15.0, &TEXT)))?;
        fill(&canvas)?;
        canvas.area.present()?;
    }
    Ok(finish(&svg, title, height))
}

/// The sheet of one chart.
pub(super) struct Canvas<'a> {
    /// All of it.
    pub(super) area: Area<'a>,
}

impl Canvas<'_> {
    pub(super) fn subtitle(&self, text: &str) -> Result<(), ChartError> {
        let short = shortened(text, LETTERS, WIDTH - 2 * MARGIN);
        write(&self.area, &short, (MARGIN, SUBTITLE_Y), &MUTED, HPos::Left)
    }

    pub(super) fn legend(&self, legend: &Legend) -> Result<(), ChartError> {
        for ((name, color), &(x, row)) in legend.entries.iter().zip(&legend.places) {
            let y = LEGEND_Y + row * LEGEND_ROW;
            match legend.mark {
                Mark::Square => {
                    let corners = [(x, y - 6), (x + 12, y + 6)];
                    self.area.draw(&Rectangle::new(corners, color.filled()))?;
                }
                Mark::Dot { radius } => self.area.draw(&Circle::new((x + 6, y), radius, color.filled()))?,
            }
            write(&self.area, name, (x + legend.mark.width(), y), &TEXT, HPos::Left)?;
        }
        Ok(())
    }
}

/// The mark of a legend's entries.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    Square,
    Dot { radius: i32 },
}

impl Mark {
    /// From an entry's left edge to its name.
    fn width(self) -> i32 {
        match self {
            Self::Square => 18,
            Self::Dot { .. } => 17,
        }
    }
}

/// Names and colours, in as many rows as they need.
pub(super) struct Legend {
    entries: Vec<(String, RGBColor)>,
    mark: Mark,
    places: Vec<(i32, i32)>,
}

impl Legend {
    /// A legend with `gap` pixels between two entries.
    pub(super) fn new(entries: Vec<(String, RGBColor)>, mark: Mark, gap: i32) -> Self {
        let width = |(name, _): &(String, RGBColor)| mark.width() + text_width(name, LETTERS);
        let places = legend_places(entries.iter().map(width), MARGIN, gap);
        Self { entries, mark, places }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> i32 {
        self.places.last().map_or(0, |(_, row)| row + 1)
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
    Ok(area.draw(&Text::new(text, at, letters(LETTERS, color, horizontal)))?)
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
