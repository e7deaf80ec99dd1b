//! Errors of charts.

/// A chart could not be drawn; plotters' message.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw a chart: {0}")]
pub struct ChartError(String);

impl<E: std::error::Error + Send + Sync> From<plotters::drawing::DrawingAreaErrorKind<E>> for ChartError {
    fn from(error: plotters::drawing::DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}
