//! Charts as SVG: the same bytes for the same data, readable on light and dark pages, without a font of their own.

mod area;
mod bars;
mod canvas;
mod error;
mod growth;
mod labels;
mod scatter;
mod theme;

pub use area::StackedArea;
pub use bars::{Bar, StackedBars};
pub use error::ChartError;
pub use growth::{Growth, Sample, Series};
pub use scatter::{Point, Scatter};
pub use theme::{SERIES_COLOURS, bar_color};
