//! All charts of a report, by the names that templates use.

use std::collections::BTreeMap;

use chart::ChartError;

use super::view::View;
use super::{allocator, categories, growth, scatter, waterfall};
use crate::context::Context;
use crate::memory_unit::memory_unit;

/// The SVG of a chart, or the reason why there is nothing to draw.
pub(crate) type Drawing = Result<String, String>;

/// Draws all charts.
///
/// # Errors
/// plotters cannot draw one of them.
pub(crate) fn draw(context: &Context<'_>) -> Result<BTreeMap<String, Drawing>, ChartError> {
    let unit = memory_unit(&context.groups);
    let view = View::new(&context.groups, &context.axes, unit);
    let mut charts = BTreeMap::new();
    macro_rules! add {
        ($($name:literal: $chart:expr),* $(,)?) => {
            $(charts.insert($name.to_owned(), match $chart {
                Ok(chart) => Ok(chart.draw()?),
                Err(reason) => Err(reason),
            });)*
        };
    }
    add! {
        "allocator": allocator::allocator(&view),
        "categories": categories::categories(&view),
        "file_loss": scatter::file_loss(&view, context.loss),
        "growth": growth::growth(&view),
        "memory_loss": scatter::memory_loss(&view, context.loss),
        "memory_speed": scatter::memory_speed(&view, &context.speeds),
        "waterfall": waterfall::waterfall(&view),
    }
    for timeline in &context.timelines {
        charts.insert(timeline.chart.clone(), Ok(timeline.area(unit).draw()?));
    }
    Ok(charts)
}
