//! Columns of frames.

use polars_core::prelude::*;

use crate::columns::Kind;
use crate::datum::Datum;

/// A column of this type.
///
/// # Errors
/// A value of another type.
pub fn column(name: &str, kind: Kind, values: impl Iterator<Item = Datum>) -> PolarsResult<Column> {
    let values: Vec<Datum> = values.collect();
    let series = match kind {
        Kind::Bool => Series::new(name.into(), typed(name, &values, Datum::as_bool)?),
        Kind::Int => {
            let signed = |value: &Datum| value.as_int().and_then(|n| i64::try_from(n).ok());
            Series::new(name.into(), typed(name, &values, signed)?)
        }
        Kind::Unsigned => Series::new(name.into(), typed(name, &values, Datum::as_int)?),
        Kind::Float => Series::new(name.into(), typed(name, &values, Datum::as_number)?),
        Kind::Text => Series::new(name.into(), typed(name, &values, Datum::as_text)?),
    };
    Ok(series.into_column())
}

/// Nulls stay null; a value of another type than the column's is an error, not a null.
fn typed<'a, T>(name: &str, values: &'a [Datum], get: impl Fn(&'a Datum) -> Option<T>) -> PolarsResult<Vec<Option<T>>> {
    let one = |value: &'a Datum| match get(value) {
        None if !value.is_null() => polars_bail!(SchemaMismatch: "column `{name}` cannot hold {value:?}"),
        got => Ok(got),
    };
    values.iter().map(one).collect()
}
