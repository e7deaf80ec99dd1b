//! All charts of a report, by the names that templates use.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use chart::ChartError;

use super::view::View;
use super::{allocator, categories, growth, heat_map, rates, scatter, waterfall};
use crate::context::Context;
use crate::memory_unit::memory_unit;

/// The SVG of a chart, or the reason why there is nothing to draw.
pub(crate) type Drawing = Result<String, String>;

/// The charts of a study; that of a recorded cell comes in addition.
const NAMES: [&str; 9] = [
    "allocator",
    "categories",
    "file_loss",
    "growth",
    "heat_map",
    "loss_rates",
    "memory_loss",
    "memory_speed",
    "waterfall",
];

/// The charts of a report, each drawn when it is asked for.
#[derive(Debug)]
pub(crate) struct Charts {
    context: Arc<Context>,
    drawn: BTreeMap<String, OnceLock<Drawing>>,
}

impl Charts {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let names = NAMES.iter().map(ToString::to_string);
        let recorded = context.timelines().iter().map(|timeline| timeline.chart.clone());
        Self {
            drawn: names.chain(recorded).map(|name| (name, OnceLock::new())).collect(),
            context,
        }
    }

    /// The names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.drawn.keys().map(String::as_str)
    }

    /// A chart by its name; `None` if there is none of that name.
    ///
    /// # Errors
    /// plotters cannot draw it.
    pub(crate) fn get(&self, name: &str) -> Option<Result<&Drawing, ChartError>> {
        let drawn = self.drawn.get(name)?;
        if drawn.get().is_none() {
            match self.draw(name) {
                Ok(drawing) => drop(drawn.set(drawing)),
                Err(error) => return Some(Err(error)),
            }
        }
        drawn.get().map(Ok)
    }

    fn draw(&self, name: &str) -> Result<Drawing, ChartError> {
        let context = &*self.context;
        let unit = memory_unit(context.groups());
        let view = View::new(context.groups(), context.axes(), unit);
        macro_rules! drawn {
            ($chart:expr) => {
                match $chart {
                    Ok(chart) => Ok(chart.draw()?),
                    Err(reason) => Err(reason),
                }
            };
        }
        Ok(match name {
            "allocator" => drawn!(allocator::allocator(&view)),
            "categories" => drawn!(categories::categories(&view)),
            "file_loss" => drawn!(scatter::file_loss(&view, context.loss())),
            "growth" => drawn!(growth::growth(&view)),
            "heat_map" => drawn!(heat_map::heat_map(&view)),
            "loss_rates" => drawn!(rates::rates(&view, context.loss())),
            "memory_loss" => drawn!(scatter::memory_loss(&view, context.loss())),
            "memory_speed" => drawn!(scatter::memory_speed(&view, context.speeds())),
            "waterfall" => drawn!(waterfall::waterfall(&view)),
            recorded => match context.timelines().iter().find(|timeline| timeline.chart == recorded) {
                Some(timeline) => Ok(timeline.area(unit).draw()?),
                None => Err("there is no such chart".to_owned()),
            },
        })
    }
}
