//! Charts as SVG: deterministic text, readable on light and dark pages, without a font of their own.

mod area;
mod bars;
mod growth;
mod labels;
mod scatter;
mod theme;

pub use area::StackedArea;
pub use bars::{Bar, StackedBars};
pub use growth::{Growth, Sample, Series};
pub use scatter::{Point, Scatter};

/// How many series of a chart can be told apart.
pub const SERIES_COLOURS: usize = theme::SERIES.len();

/// A chart could not be drawn; plotters' message.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw a chart: {0}")]
pub struct ChartError(String);

impl<E: std::error::Error + Send + Sync> From<plotters::drawing::DrawingAreaErrorKind<E>> for ChartError {
    fn from(error: plotters::drawing::DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}
