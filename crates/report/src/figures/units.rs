//! The filters that write a number with its unit.

use std::fmt;
use std::sync::Arc;

use base::text::format::Quantity;
use base::text::{Unit, format, quoted};
use expression::mistake;
use minijinja::value::{Object, ObjectRepr};
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::claims::MISSING;

/// The filters, each with its unit.
pub(super) const UNITS: [(&str, Unit); 18] = [
    ("bytes", Unit::Bytes),
    ("KB", Unit::KB),
    ("MB", Unit::MB),
    ("GB", Unit::GB),
    ("TB", Unit::TB),
    ("KiB", Unit::KiB),
    ("MiB", Unit::MiB),
    ("GiB", Unit::GiB),
    ("TiB", Unit::TiB),
    ("ms", Unit::Milliseconds),
    ("seconds", Unit::Seconds),
    ("minutes", Unit::Minutes),
    ("hours", Unit::Hours),
    ("tokens_per_second", Unit::TokensPerSecond),
    ("percent", Unit::Percent),
    ("ratio", Unit::Times),
    ("count", Unit::Count),
    ("number", Unit::Plain),
];

/// A figure with its unit. It is not a text, so that an operator after a filter is a mistake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// In bytes, seconds or ones.
    pub(super) number: f64,
    unit: Unit,
    decimals: usize,
}

impl Written {
    /// Its text, such as `1.67 ± 0.04×`.
    pub(super) fn text(self, deviation: Option<f64>) -> String {
        // What rounding leaves of equal repeats is no deviation.
        let deviation = deviation.filter(|deviation| *deviation > 1e-9 * self.number.abs());
        let quantity = Quantity {
            mean: self.number,
            deviation,
        };
        format::in_unit(quantity, self.unit, self.decimals) + &self.unit.suffix()
    }
}

impl Object for Written {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(None))
    }
}

/// Adds the filters: `| GiB` has the unit's usual decimals, `| GiB(1)` has one.
pub(super) fn add(environment: &mut Environment<'_>) {
    for (name, unit) in UNITS {
        environment.add_filter(name, move |value: &Value, decimals: Option<usize>| {
            write(value, unit, decimals).map(Value::from_object)
        });
    }
}

fn write(value: &Value, unit: Unit, decimals: Option<usize>) -> Result<Written, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, MISSING));
    }
    let number = f64::try_from(value.clone()).map_err(|_| {
        let message = format!(
            "{} is not a number, and {} writes one",
            quoted(&value.to_string()),
            unit.name()
        );
        mistake(message, None)
    })?;
    if !number.is_finite() {
        return Err(Error::new(ErrorKind::InvalidOperation, MISSING));
    }
    let decimals = decimals.unwrap_or(unit.decimals()).min(12);
    Ok(Written { number, unit, decimals })
}
