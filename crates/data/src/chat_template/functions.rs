//! What transformers adds to Jinja for chat templates, and what Jinja has besides minijinja.

use std::fmt::Write;

use chrono::NaiveDate;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::Value as Json;

use super::python::{Args, float_repr};

/// Adds the functions and filters.
pub(super) fn add(environment: &mut Environment) {
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", tojson);
}

/// The date for templates that tell the model today's. It is the one that Llama's templates fall back on, and the same
/// on every day, so that a cell trains on the same tokens whenever it runs.
fn strftime_now(format: &str) -> Result<String, Error> {
    let date = NaiveDate::from_ymd_opt(2024, 7, 26).and_then(|date| date.and_hms_opt(0, 0, 0));
    let mut text = String::new();
    match date.map(|date| write!(text, "{}", date.format(format))) {
        Some(Ok(())) => Ok(text),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("strftime_now has no format `{format}`"),
        )),
    }
}

/// Python's `json.dumps`, with its arguments `indent`, `separators`, `sort_keys` and `ensure_ascii`, which is false by
/// default.
fn tojson(value: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let args = Args::new(&args, named);
    let indent = match args.get(1, "indent") {
        Some(text) if text.kind() == ValueKind::String => Some(text.to_string()),
        _ => args.typed::<usize>(1, "indent")?.map(|width| " ".repeat(width)),
    };
    let separators = args.get(2, "separators").filter(|value| !value.is_none());
    let separators: Option<Vec<String>> = match separators {
        Some(separators) => Some(separators.try_iter()?.map(|text| text.to_string()).collect()),
        None => None,
    };
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ if indent.is_some() => (",".into(), ": ".into()),
        _ => (", ".into(), ": ".into()),
    };
    let writer = Writer {
        indent,
        item,
        key,
        sort_keys: args.flag(3, "sort_keys"),
        ensure_ascii: args.flag(0, "ensure_ascii"),
    };
    args.finish(4)?;
    let json =
        serde_json::to_value(&value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    let mut text = String::new();
    writer.write(&json, 0, &mut text);
    Ok(text)
}

struct Writer {
    indent: Option<String>,
    /// Between items.
    item: String,
    /// Between a key and its value.
    key: String,
    sort_keys: bool,
    ensure_ascii: bool,
}

impl Writer {
    fn write(&self, value: &Json, depth: usize, out: &mut String) {
        match value {
            Json::Array(items) => self.list(['[', ']'], items.iter(), depth, out, |item, out| {
                self.write(item, depth + 1, out);
            }),
            Json::Object(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                if self.sort_keys {
                    entries.sort_by_key(|(key, _)| *key);
                }
                self.list(['{', '}'], entries.into_iter(), depth, out, |(key, value), out| {
                    self.text(key, out);
                    out.push_str(&self.key);
                    self.write(value, depth + 1, out);
                });
            }
            Json::String(text) => self.text(text, out),
            Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => out.push_str(&float_repr(float)),
                None => out.push_str(&number.to_string()),
            },
            scalar => out.push_str(&scalar.to_string()),
        }
    }

    fn list<T>(
        &self,
        [open, close]: [char; 2],
        items: impl ExactSizeIterator<Item = T>,
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(T, &mut String),
    ) {
        out.push(open);
        let is_empty = items.len() == 0;
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push_str(&self.item);
            }
            self.new_line(depth + 1, out);
            write(item, out);
        }
        if !is_empty {
            self.new_line(depth, out);
        }
        out.push(close);
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn text(&self, text: &str, out: &mut String) {
        let quoted = Json::from(text).to_string();
        if !self.ensure_ascii {
            out.push_str(&quoted);
            return;
        }
        for c in quoted.chars() {
            if c.is_ascii() && c != '\x7f' {
                out.push(c);
            } else {
                let escaped = c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>();
                out.push_str(&escaped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;
    use minijinja::value::Serde;

    use super::*;

    fn rendered(template: &str) -> Result<String, String> {
        let mut environment = Environment::new();
        add(&mut environment);
        let value = serde_json::json!({"b": [1, 2.5, {"é": null}], "a": "x\"<'>\n", "c": [], "d": {}});
        let result = environment.render_str(template, context! { x => Value::from(Serde(value)) });
        result.map_err(|error| error.to_string())
    }

    /// The texts are those of Python's json.dumps with ensure_ascii=False.
    #[test]
    fn json_is_written_as_by_python() {
        for (template, expected) in [
            (
                "{{ x | tojson }}",
                r#"{"b": [1, 2.5, {"é": null}], "a": "x\"<'>\n", "c": [], "d": {}}"#,
            ),
            (
                "{{ x | tojson(indent=2) }}",
                "{\n  \"b\": [\n    1,\n    2.5,\n    {\n      \"é\": null\n    }\n  ],\n  \"a\": \"x\\\"<'>\\n\",\n  \"c\": [],\n  \"d\": {}\n}",
            ),
            (
                "{{ x | tojson(separators=(',', ':'), sort_keys=true) }}",
                r#"{"a":"x\"<'>\n","b":[1,2.5,{"é":null}],"c":[],"d":{}}"#,
            ),
            ("{{ 'é😀' | tojson(ensure_ascii=true) }}", r#""\u00e9\ud83d\ude00""#),
        ] {
            assert_eq!(rendered(template).unwrap(), expected, "{template}");
        }
        assert!(rendered("{{ x | tojson(colour=1) }}").is_err());
    }

    #[test]
    fn today_is_always_the_same_day() {
        assert_eq!(rendered("{{ strftime_now('%d %b %Y') }}").unwrap(), "26 Jul 2024");
        assert!(
            rendered("{{ strftime_now('%Q') }}")
                .unwrap_err()
                .contains("no format `%Q`")
        );
    }
}
