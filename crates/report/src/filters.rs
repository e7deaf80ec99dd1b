//! The filters and functions of templates, besides minijinja's own.

use std::sync::Arc;

use base::text::Unit;
use base::text::format::{self, ABSENT, ByteUnit, Quantity};
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::charts::Charts;
use super::{markdown, sentences, table};

/// The argument of a filter: a number, or a mean with its deviation; `None` for a missing measurement.
fn quantity(value: &Value) -> Result<Option<Quantity>, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(mean) = f64::try_from(value.clone()) {
        return Ok(Some(mean.into()));
    }
    let part = |name: &str| f64::try_from(value.get_attr(name)?);
    match part("mean") {
        Ok(mean) => Ok(Some(Quantity {
            mean,
            deviation: part("deviation").ok(),
        })),
        Err(_) => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("expected a number or a statistic, not {value:?}"),
        )),
    }
}

fn written(value: &Value, write: impl FnOnce(Quantity) -> String) -> Result<String, Error> {
    Ok(quantity(value)?.map_or_else(|| ABSENT.to_string(), write))
}

/// `{{ n | bytes }}` chooses a unit and names it; `{{ n | bytes("MiB") }}` is the number alone.
fn bytes(value: &Value, unit: Option<&str>) -> Result<String, Error> {
    let Some(name) = unit else {
        return written(value, format::bytes);
    };
    let unit = ByteUnit::parse(name).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("unknown unit `{name}`; the units are B, KiB, MiB and GiB"),
        )
    })?;
    written(value, |quantity| format::bytes_in(quantity, unit))
}

/// `{{ n | part_bytes("MiB") }}`: a part of a peak. Repeats that peak at different instants have it or have it not, so
/// the lowest and the highest are shown then, and no mean.
fn part_bytes(value: &Value, unit: &str) -> Result<String, Error> {
    let end = |name: &str| {
        value
            .get_attr(name)
            .ok()
            .filter(|end| !end.is_undefined() && !end.is_none())
    };
    match (end("min"), end("max")) {
        (Some(low), Some(high)) if f64::try_from(low.clone()).is_ok_and(|low| low == 0.0) && low != high => {
            let [low, high] = [low, high].map(|end| bytes(&end, Some(unit)));
            Ok(format!("{} to {}", low?, high?))
        }
        _ => bytes(value, Some(unit)),
    }
}

/// `{{ n | number(decimals=2) }}`.
fn number(value: &Value, options: Kwargs) -> Result<String, Error> {
    let decimals: Option<usize> = options.get("decimals")?;
    options.assert_all_used()?;
    written(value, |quantity| {
        format::number(quantity, decimals.unwrap_or(0).min(12))
    })
}

/// A unit by its name.
fn unit(name: &Value) -> Result<Unit, Error> {
    let json = serde_json::Value::String(name.to_string());
    serde_json::from_value(json).map_err(|_| {
        let message = format!("unknown unit `{name}`; the units are those of `published`, such as MiB, seconds and %");
        Error::new(ErrorKind::InvalidOperation, message)
    })
}

/// `{{ n | in_unit("MiB") }}`, `{{ n | in_unit("%", decimals=2) }}`: the number alone.
fn in_unit(value: &Value, name: &Value, options: Kwargs) -> Result<String, Error> {
    let unit = unit(name)?;
    let decimals: Option<usize> = options.get("decimals")?;
    options.assert_all_used()?;
    let decimals = decimals.unwrap_or(unit.decimals()).min(12);
    written(value, |quantity| format::in_unit(quantity, unit, decimals))
}

/// Escaped text; a dash for a missing value.
fn text(value: &Value, escape: fn(&str) -> String) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    if value.is_none() {
        return Ok(ABSENT.to_string());
    }
    Ok(escape(&value.to_string()))
}

/// Adds the filters.
pub(crate) fn add(env: &mut Environment<'_>, id_length: usize) {
    env.add_filter("bytes", |value: &Value, unit: Option<&str>| bytes(value, unit));
    env.add_filter("part_bytes", |value: &Value, unit: &str| part_bytes(value, unit));
    env.add_filter("seconds", |value: &Value| written(value, format::seconds));
    env.add_filter("number", |value: &Value, options: Kwargs| number(value, options));
    env.add_filter("count", |value: &Value| written(value, |n| format::number(n, 0)));
    env.add_filter("rate", |value: &Value| written(value, format::rate));
    env.add_filter("percent", |value: &Value| written(value, format::percent));
    env.add_filter("ratio", |value: &Value| written(value, format::ratio));
    env.add_filter("in_unit", |value: &Value, unit: &Value, options: Kwargs| {
        in_unit(value, unit, options)
    });
    env.add_filter("suffix", |name: &Value| unit(name).map(Unit::suffix));
    env.add_filter("linked", |value: &Value| text(value, markdown::linked));
    env.add_filter("md", |value: &Value| text(value, markdown::escape));
    env.add_filter("code", |value: &Value| text(value, markdown::code));
    env.add_filter("head", |text: &str| sentences::head(text).to_owned());
    env.add_filter("rest", |text: &str| sentences::rest(text).to_owned());
    env.add_filter("varying", |text: &str, names: usize| table::varying(text, names));
    env.add_filter("short", move |id: &str| id.chars().take(id_length).collect::<String>());
}

/// Adds `chart(name)`, which is the file name of a chart and begins with `stem`, and `has_chart(name)`, which is false if
/// there is nothing to draw.
pub(crate) fn add_charts(env: &mut Environment<'_>, stem: &str, charts: Arc<Charts>) {
    let (known, stem) = (Arc::clone(&charts), stem.to_owned());
    env.add_function("has_chart", move |name: &str| {
        Ok::<_, Error>(find(&known, name)?.is_none())
    });
    env.add_function("chart", move |name: &str| match find(&charts, name)? {
        None => Ok(chart_file(&stem, name)),
        Some(reason) => {
            let message = format!("nothing to draw in the chart `{name}`: {reason}; ask `has_chart(\"{name}\")` first");
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
    });
}

/// The name of a chart's file.
pub(crate) fn chart_file(stem: &str, chart: &str) -> String {
    format!("{stem}-{}.svg", chart.replace(['_', ' '], "-"))
}

/// The reason why there is nothing to draw in the chart of this name; `None` if there is.
fn find(charts: &Charts, name: &str) -> Result<Option<String>, Error> {
    match charts.get(name) {
        Some(Ok(drawing)) => Ok(drawing.as_ref().err().cloned()),
        Some(Err(error)) => Err(Error::new(ErrorKind::InvalidOperation, error.to_string())),
        None => {
            let known: Vec<&str> = charts.names().collect();
            let message = format!("unknown chart `{name}`; the charts are {}", known.join(", "));
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Stat;

    #[test]
    fn a_part_that_only_some_peaks_have_is_no_mean() {
        let part = |values: &[f64]| part_bytes(&Value::from(minijinja::value::Serde(Stat::of(values))), "MiB").unwrap();
        let mib = f64::from(1 << 20);
        assert_eq!(part(&[0.0, 35.0 * mib]), "0.0 to 35.0");
        assert_eq!(part(&[0.0, 35.0 * mib, 35.5 * mib]), "0.0 to 35.5");
        assert_eq!(part(&[35.0 * mib, 35.0 * mib]), "35.0");
        assert_eq!(part(&[34.0 * mib, 36.0 * mib]), "35.0 ± 1.4");
        assert_eq!(part(&[0.0, 0.0]), "0.0");
        assert_eq!(part(&[]), ABSENT);
    }
}
