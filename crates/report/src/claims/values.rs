//! A claim's named values as text.

use base::text::format;
use base::text::{Mistake, Unit, quoted};
use minijinja::Value;
use minijinja::value::ValueKind;
use spec::Measure;

use crate::group::Stat;

/// A value with its unit, and with the lowest and the highest if repeats differ.
pub(super) fn with_spread(mean: &Value, spread: Option<Stat>, measure: &Measure) -> Result<String, Mistake> {
    let text = with_unit(mean, measure)?;
    let ends = spread.map(|stat| [stat.min, stat.max].map(|number| in_unit(number, measure)));
    Ok(match ends {
        Some([low, high]) if low != high => format!("{text} ({low} to {high})"),
        _ => text,
    })
}

/// A value with its unit.
fn with_unit(value: &Value, measure: &Measure) -> Result<String, Mistake> {
    let number = |value: &Value| Some(in_unit(f64::try_from(value.clone()).ok()?, measure));
    let suffix = measure.unit.suffix();
    match value.kind() {
        ValueKind::Number => number(value).map(|text| text + &suffix),
        ValueKind::Bool => Some(value.to_string()),
        ValueKind::String if measure.unit == Unit::Plain => Some(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .ok()
            .and_then(|items| items.map(|item| number(&item)).collect::<Option<Vec<_>>>())
            .map(|items| items.join(" · ") + &suffix),
        _ => None,
    }
    .ok_or_else(|| {
        let (value, unit) = (quoted(&value.to_string()), quoted(measure.unit.name()));
        Mistake::new(format!("the expression gives {value}, and {unit} is a unit of numbers"))
    })
}

/// A number without its unit. A whole number without a unit has no decimals.
fn in_unit(number: f64, measure: &Measure) -> String {
    let is_count = measure.unit == Unit::Plain && number.fract() == 0.0;
    let default = if is_count { 0 } else { measure.unit.decimals() };
    format::in_unit(number.into(), measure.unit, measure.decimals.unwrap_or(default))
}
