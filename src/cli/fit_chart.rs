//! The front of memory against price as a chart.

use base::text::format::{self, ByteUnit};
use chart::{Bar, Bars, ChartError, Colour, Part, Row};
use plan::advice::changes;
use trace::Category;

use super::fit_view::CellFit;

/// A bar for each row of the front, the least change first, and a line at the budget.
///
/// # Errors
/// plotters cannot draw it.
pub(super) fn chart(name: &str, fit: &CellFit) -> Result<String, ChartError> {
    let largest = fit
        .front
        .iter()
        .map(|found| found.prediction.needed_bytes)
        .max()
        .unwrap_or(0);
    let unit = ByteUnit::of(largest as f64);
    let scaled = |bytes: u64| bytes as f64 / unit.bytes();
    let rows = fit.front.iter().map(|found| {
        let prediction = &found.prediction;
        let of = |colour, name: &str, bytes: u64| Part {
            length: scaled(bytes),
            colour,
            says: format!("{name}: {}", format::bytes_in((bytes as f64).into(), unit)),
        };
        let categories = Category::ALL.into_iter().filter_map(|category| {
            let bytes = prediction.allocated_peak_by_category.get(category.name()).copied()?;
            (bytes > 0).then(|| of(Colour::Category(category), category.name(), bytes))
        });
        let mut parts: Vec<Part> = categories.collect();
        let named: u64 = Category::ALL
            .into_iter()
            .filter_map(|category| prediction.allocated_peak_by_category.get(category.name()))
            .sum();
        let rest = prediction.needed_bytes.saturating_sub(named);
        if rest > 0 {
            parts.push(of(Colour::Rounding, REST, rest));
        }
        Row {
            label: match found.changes.is_empty() {
                true => "as it is".to_owned(),
                false => changes(found).join(", "),
            },
            bars: vec![Bar {
                start: 0.0,
                parts,
                note: format::bytes_in((prediction.needed_bytes as f64).into(), unit),
            }],
            carry: None,
        }
    });
    let rows: Vec<Row> = rows.collect();
    let has = |colour| {
        rows.iter()
            .flat_map(|row| &row.bars)
            .flat_map(|bar| &bar.parts)
            .any(|part| part.colour == colour)
    };
    let categories = Category::ALL
        .into_iter()
        .map(|category| (category.name().replace('_', " "), Colour::Category(category)));
    let colours = categories.chain([(REST.to_owned(), Colour::Rounding)]);
    Bars {
        title: format!("{name}: memory against price"),
        subtitle: "Predicted; the least change first, mild ones before harsh ones".into(),
        x_title: format!("needed memory ({})", unit.name()),
        legend: colours.filter(|(_, colour)| has(*colour)).collect(),
        rows,
        line: fit.budget.map(|budget| (scaled(budget), "budget".to_owned())),
    }
    .draw()
}

/// What the allocator holds beyond live tensors, and the CUDA context.
const REST: &str = "allocator and context";
