//! Charts as SVG: the same bytes for the same data, readable on light and dark pages, without a font of their own.

mod area;
mod bars;
mod canvas;
mod colour;
mod error;
mod growth;
mod heat_map;
mod hit;
mod labels;
mod legend;
mod scatter;
#[cfg(test)]
mod tests;
mod text;
mod theme;

pub use area::StackedArea;
pub use bars::{Bar, Bars, Part, Row};
pub use colour::{Colour, SERIES_COLOURS};
pub use error::ChartError;
pub use growth::{Growth, Sample, Series};
pub use heat_map::{HeatMap, Square};
pub use scatter::{Point, Scatter};
