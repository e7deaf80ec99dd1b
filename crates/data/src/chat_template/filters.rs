//! Jinja2's filters and tests where minijinja's differ, or have other arguments.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use super::python::{Args, padded, stripped};

/// Adds them.
pub(super) fn add(environment: &mut Environment) {
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("callable", is_callable);
    environment.add_test("divisibleby", is_divisible);
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    for name in ["length", "count"] {
        environment.add_filter(name, length);
    }
    environment.add_filter("first", |value: Value| match value.is_undefined() {
        true => Ok(value),
        false => minijinja::filters::first(&value),
    });
    environment.add_filter("last", |value: Value| match value.is_undefined() {
        true => Ok(value),
        false => minijinja::filters::last(value),
    });
    environment.add_filter("int", |value: Value, args: Rest<Value>, named: Kwargs| {
        let args = Args::new(&args, named);
        let (default, base) = (args.get(0, "default"), args.typed::<u32>(1, "base")?);
        args.finish(2)?;
        Ok::<_, Error>(
            integer(&value, base.unwrap_or(10))
                .or(default)
                .unwrap_or_else(|| 0.into()),
        )
    });
    environment.add_filter("float", |value: Value, args: Rest<Value>, named: Kwargs| {
        let args = Args::new(&args, named);
        let default = args.get(0, "default");
        args.finish(1)?;
        Ok::<_, Error>(float(&value).map(Value::from).or(default).unwrap_or_else(|| 0.0.into()))
    });
    environment.add_filter("trim", |value: Value, args: Rest<Value>, named: Kwargs| {
        let args = Args::new(&args, named);
        let chars = args.text(0, "chars")?;
        args.finish(1)?;
        Ok::<_, Error>(stripped(&value.to_string(), chars.as_deref(), true, true).to_owned())
    });
    environment.add_filter("center", |value: Value, args: Rest<Value>, named: Kwargs| {
        let args = Args::new(&args, named);
        let width = args.typed::<usize>(0, "width")?.unwrap_or(80);
        args.finish(1)?;
        Ok::<_, Error>(padded(&value.to_string(), "center", width, " "))
    });
    environment.add_filter("replace", replace);
    environment.add_filter("truncate", truncate);
    environment.add_filter("wordcount", |text: String| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .count()
    });
    for name in ["escape", "e"] {
        environment.add_filter(name, |value: Value| match value.is_safe() {
            true => value,
            false => Value::from_safe_string(escaped(&value.to_string())),
        });
    }
    environment.add_filter("forceescape", |value: Value| {
        Value::from_safe_string(escaped(&value.to_string()))
    });
    environment.add_filter(
        "sort",
        |state: &mut State, value: Value, args: Rest<Value>, named: Kwargs| {
            minijinja::filters::sort(
                state,
                value,
                by_name(&args, named, &["reverse", "case_sensitive", "attribute"])?,
            )
        },
    );
    environment.add_filter("dictsort", |value: &Value, args: Rest<Value>, named: Kwargs| {
        minijinja::filters::dictsort(value, by_name(&args, named, &["case_sensitive", "by", "reverse"])?)
    });
    environment.add_filter("indent", indent);
    environment.add_filter("reverse", |value: Value| match value.kind() {
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            keys.reverse();
            Ok(Value::from(keys))
        }
        _ => value.reverse(),
    });
}

/// Arguments with names in place of those by their order, for filters that know names alone.
fn by_name(args: &[Value], named: Kwargs, names: &[&'static str]) -> Result<Kwargs, Error> {
    if args.len() > names.len() {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut all: Vec<(String, Value)> = Vec::new();
    for name in named.args() {
        all.push((name.to_owned(), named.get(name)?));
    }
    let by_order = names
        .iter()
        .zip(args)
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    Ok(by_order.chain(all).collect())
}

/// A text whose lines begin with spaces, or with another text.
fn indent(value: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let args = Args::new(&args, named);
    let before = match args.get(0, "width") {
        Some(text) if text.kind() == ValueKind::String => text.to_string(),
        Some(width) => " ".repeat(usize::try_from(width)?.min(crate::formats::LONGEST_SAMPLE)),
        None => " ".repeat(4),
    };
    let (first, blank) = (args.flag(1, "first"), args.flag(2, "blank"));
    args.finish(3)?;
    let text = value.to_string().replace("\r\n", "\n");
    let lines = text.split('\n').enumerate().map(|(number, line)| match (number, line) {
        (0, line) if first => format!("{before}{line}"),
        (0, line) => line.to_owned(),
        (_, "") if !blank => String::new(),
        (_, line) => format!("{before}{line}"),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// What can be gone through: not none, which minijinja goes through as an empty list.
fn is_iterable(value: &Value) -> bool {
    match value.kind() {
        ValueKind::None | ValueKind::Number | ValueKind::Bool => false,
        ValueKind::Undefined => true,
        _ => value.try_iter().is_ok(),
    }
}

/// What has a length and items by number or key. Texts and maps do.
fn is_sequence(value: &Value) -> bool {
    let has_length = || value.kind() == ValueKind::Iterable && value.len().is_some();
    let kinds = [ValueKind::Undefined, ValueKind::String, ValueKind::Seq, ValueKind::Map];
    kinds.contains(&value.kind()) || has_length()
}

/// A method without its call is undefined here, and undefined values can be called in Jinja2.
fn is_callable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Undefined | ValueKind::Plain)
}

fn is_divisible(value: &Value, other: &Value) -> Result<bool, Error> {
    let wrong = || {
        Error::new(
            ErrorKind::InvalidOperation,
            "divisibleby needs whole numbers, and no division by 0",
        )
    };
    let number = |value: &Value| i128::try_from(value.clone()).map_err(|_| wrong());
    number(value)?
        .checked_rem(number(other)?)
        .map(|rest| rest == 0)
        .ok_or_else(wrong)
}

/// The default of what is undefined, or of all that is not true.
fn default(value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let args = Args::new(&args, named);
    let (default, is_for_all) = (args.get(0, "default_value"), args.flag(1, "boolean"));
    args.finish(2)?;
    Ok(match value.is_undefined() || is_for_all && !value.is_true() {
        true => default.unwrap_or_else(|| "".into()),
        false => value,
    })
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    let wrong = || Error::new(ErrorKind::InvalidOperation, format!("{} has no length", value.kind()));
    value.len().ok_or_else(wrong)
}

fn integer(value: &Value, base: u32) -> Option<Value> {
    let text = match value.kind() {
        ValueKind::Bool => return Some(i64::from(value.is_true()).into()),
        ValueKind::Number => {
            let whole = i128::try_from(value.clone()).ok();
            let cut = || f64::try_from(value.clone()).ok().filter(|number| number.is_finite());
            return whole.or_else(|| cut().map(|number| number as i128)).map(Value::from);
        }
        ValueKind::String => value.as_str()?,
        _ => return None,
    };
    let digits = text.trim().replace('_', "");
    let prefix = match base {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    let digits = digits.to_lowercase();
    let digits = digits.strip_prefix(prefix).unwrap_or(&digits);
    let whole = (2..=36)
        .contains(&base)
        .then(|| i128::from_str_radix(digits, base).ok())
        .flatten();
    let cut = || {
        float(value)
            .filter(|number| number.is_finite())
            .map(|number| number as i128)
    };
    whole.or_else(cut).map(Value::from)
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::String => value.as_str()?.trim().replace('_', "").parse().ok(),
        _ => None,
    }
}

fn replace(value: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let args = Args::new(&args, named);
    let missing = || Error::from(ErrorKind::MissingArgument);
    let old = args.get(0, "old").ok_or_else(missing)?.to_string();
    let new = args.get(1, "new").ok_or_else(missing)?.to_string();
    let most = args.typed::<i64>(2, "count")?;
    args.finish(3)?;
    let text = value.to_string();
    Ok(match most.and_then(|most| usize::try_from(most).ok()) {
        Some(most) => text.replacen(&old, &new, most),
        None => text.replace(&old, &new),
    })
}

/// The beginning of a text, at a word's end unless `killwords`.
fn truncate(value: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let args = Args::new(&args, named);
    let length = args.typed::<usize>(0, "length")?.unwrap_or(255);
    let cuts_words = args.flag(1, "killwords");
    let end = args.text(2, "end")?.unwrap_or_else(|| "...".into());
    let leeway = args.typed::<usize>(3, "leeway")?.unwrap_or(5);
    args.finish(4)?;
    let text = value.to_string();
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take(length.saturating_sub(end.chars().count())).collect();
    let kept = match kept.rsplit_once(' ') {
        Some((words, _)) if !cuts_words => words,
        _ => &kept,
    };
    Ok(format!("{kept}{end}"))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
