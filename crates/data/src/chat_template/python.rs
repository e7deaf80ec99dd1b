//! Values as Python has them: how they are printed, and the methods of strings, lists and maps that minijinja's own
//! compatibility layer lacks or has without their arguments.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, Output, State, Value, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Prints a value as Python's `str`.
pub(super) fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let text = match value.kind() {
        ValueKind::Number if !value.is_integer() => float(value),
        ValueKind::Seq | ValueKind::Map => repr(value),
        _ => return escape_formatter(out, state, value),
    };
    out.write_str(&text).map_err(Error::from)
}

fn float(value: &Value) -> String {
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float_repr)
}

/// Python's `repr` of a float: the shortest text that reads as it.
pub(super) fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    // Rust writes an exponent from the same values on.
    let text = format!("{value:?}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, digits) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Python's `repr`.
fn repr(value: &Value) -> String {
    let list = |[open, close]: [&str; 2], items: Vec<String>| format!("{open}{}{close}", items.join(", "));
    match value.kind() {
        ValueKind::Undefined => "Undefined".into(),
        ValueKind::Number if !value.is_integer() => float(value),
        ValueKind::String => text_repr(value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let items: Vec<String> = value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect();
            match (value.is_tuple(), items.len()) {
                (true, 1) => list(["(", ",)"], items),
                (true, _) => list(["(", ")"], items),
                _ => list(["[", "]"], items),
            }
        }
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let item = |key: Value| format!("{}: {}", repr(&key), repr(&value.get_item(&key).unwrap_or_default()));
            list(["{", "}"], keys.map(item).collect())
        }
        _ => value.to_string(),
    }
}

fn text_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printed(c) => out.push(c),
            // Writing to a string cannot fail.
            c => {
                _ = match u32::from(c) {
                    code @ ..0x100 => write!(out, "\\x{code:02x}"),
                    code @ 0x100..0x1_0000 => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                }
            }
        }
    }
    out.push(quote);
    out
}

/// Python's `isprintable`, but for characters that Unicode has not assigned.
fn is_printed(c: char) -> bool {
    let is_space = c.is_whitespace() && c != ' ';
    let is_format = matches!(u32::from(c), 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x200b..=0x200f | 0x202a..=0x202e
        | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe000..=0xf8ff | 0xe0000..=0xe007f | 0xf0000..=0x0010_ffff);
    !(c.is_control() || is_space || is_format)
}

/// A method that minijinja does not know.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => of_text(value.as_str().unwrap_or_default(), name, args)?,
        ValueKind::Seq => of_list(value, name, args)?,
        ValueKind::Map if name == "copy" => Some(value.clone()),
        ValueKind::Number => of_number(value, name),
        _ => None,
    };
    match own {
        Some(value) => Ok(value),
        None => unknown_method_callback(state, value, name, args),
    }
}

/// Positional and named arguments of a call.
pub(super) struct Args<'a> {
    positional: &'a [Value],
    named: Kwargs,
}

impl<'a> Args<'a> {
    pub(super) fn new(positional: &'a [Value], named: Kwargs) -> Self {
        Self { positional, named }
    }

    fn of(args: &'a [Value]) -> Result<Self, Error> {
        let (positional, named) = from_args(args)?;
        Ok(Self { positional, named })
    }

    /// The argument at a place or of a name, unless it is left out.
    pub(super) fn get(&self, at: usize, name: &str) -> Option<Value> {
        self.positional.get(at).cloned().or_else(|| self.named.get(name).ok())
    }

    /// The same, of a type; none is as good as left out.
    pub(super) fn typed<T: TryFrom<Value, Error = Error>>(&self, at: usize, name: &str) -> Result<Option<T>, Error> {
        let given = self.get(at, name).filter(|value| !value.is_none());
        given.map(T::try_from).transpose()
    }

    /// The same, of a text.
    pub(super) fn text(&self, at: usize, name: &str) -> Result<Option<String>, Error> {
        let given = self.get(at, name).filter(|value| !value.is_none());
        let text = |value: Value| match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(wrong(&format!("`{name}` is {}, not a string", value.kind()))),
        };
        given.map(text).transpose()
    }

    pub(super) fn flag(&self, at: usize, name: &str) -> bool {
        self.get(at, name).is_some_and(|value| value.is_true())
    }

    /// True if there is one, without a name.
    fn is_alone(&self) -> bool {
        self.positional.len() == 1
    }

    /// Checks that there are no others.
    pub(super) fn finish(&self, most: usize) -> Result<(), Error> {
        if self.positional.len() > most {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        self.named.assert_all_used()
    }
}

fn of_number(value: &Value, name: &str) -> Option<Value> {
    match name {
        "is_integer" => f64::try_from(value.clone())
            .ok()
            .map(|number| (number.fract() == 0.0).into()),
        "conjugate" => Some(value.clone()),
        "bit_length" => {
            let number = i128::try_from(value.clone()).ok()?.unsigned_abs();
            Some((128 - number.leading_zeros()).into())
        }
        _ => None,
    }
}

fn of_list(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match name {
        "copy" => Some(value.clone()),
        "index" => {
            let args = Args::of(args)?;
            let wanted = args.get(0, "value").unwrap_or_default();
            args.finish(1)?;
            let found = value.try_iter()?.position(|item| item == wanted);
            Some(
                found
                    .map(Value::from)
                    .ok_or_else(|| wrong("the value is not in the list"))?,
            )
        }
        _ => None,
    })
}

fn wrong(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason.to_owned())
}

/// The methods of Python's strings. Places are counted in characters.
fn of_text(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let args = Args::of(args)?;
    let found = match name {
        "casefold" => text.to_lowercase().replace('ß', "ss").into(),
        "swapcase" => {
            let swapped = text.chars().flat_map(|c| match c.is_uppercase() {
                true => c.to_lowercase().collect::<Vec<_>>(),
                false => c.to_uppercase().collect(),
            });
            swapped.collect::<String>().into()
        }
        "capitalize" => {
            let mut rest = text.chars();
            let first = rest.next().map(titled).unwrap_or_default();
            (first + &rest.as_str().to_lowercase()).into()
        }
        "title" => title(text).into(),
        "center" | "ljust" | "rjust" => {
            let width = args.typed::<i64>(0, "width")?.unwrap_or(0);
            let fill = args.text(1, "fillchar")?.unwrap_or_else(|| " ".into());
            args.finish(2)?;
            if fill.chars().count() != 1 {
                return Err(wrong("the fill character must be exactly one character long"));
            }
            padded(text, name, usize::try_from(width).unwrap_or(0), &fill).into()
        }
        "zfill" => {
            let width = args.typed::<i64>(0, "width")?.unwrap_or(0);
            let (sign, digits) = match text.chars().next() {
                Some('+' | '-') => text.split_at(1),
                _ => ("", text),
            };
            let width = usize::try_from(width).unwrap_or(0).saturating_sub(sign.len());
            format!("{sign}{}", padded(digits, "rjust", width, "0")).into()
        }
        "count" | "find" | "rfind" | "index" | "rindex" => {
            let wanted = args
                .text(0, "sub")?
                .ok_or_else(|| wrong("a text to look for is missing"))?;
            let chars: Vec<char> = text.chars().collect();
            let range = part(chars.len(), args.typed(1, "start")?, args.typed(2, "end")?);
            args.finish(3)?;
            let Some(range) = range else {
                return Ok(Some(match name {
                    "count" => 0.into(),
                    "find" | "rfind" => (-1).into(),
                    _ => return Err(wrong("substring not found")),
                }));
            };
            let inner: String = chars[range.clone()].iter().collect();
            let place = |bytes: usize| range.start + inner[..bytes].chars().count();
            let at = if name.starts_with('r') {
                inner.rfind(&wanted)
            } else {
                inner.find(&wanted)
            };
            match name {
                "count" if wanted.is_empty() => (range.len() + 1).into(),
                "count" => inner.matches(&wanted).count().into(),
                _ => match at {
                    Some(bytes) => place(bytes).into(),
                    None if name.ends_with("find") => (-1).into(),
                    None => return Err(wrong("substring not found")),
                },
            }
        }
        "startswith" | "endswith" if !args.is_alone() => {
            let chars: Vec<char> = text.chars().collect();
            let range = part(chars.len(), args.typed(1, "start")?, args.typed(2, "end")?);
            let wanted = args.get(0, "prefix").unwrap_or_default();
            args.finish(3)?;
            let wanted: Vec<String> = match wanted.as_str() {
                Some(text) => vec![text.to_owned()],
                None => wanted.try_iter()?.map(|text| text.to_string()).collect(),
            };
            let Some(range) = range else {
                return Ok(Some(false.into()));
            };
            let inner: String = chars[range].iter().collect();
            let holds = |wanted: &String| match name {
                "startswith" => inner.starts_with(wanted.as_str()),
                _ => inner.ends_with(wanted.as_str()),
            };
            wanted.iter().any(holds).into()
        }
        "expandtabs" => {
            let size = args.typed::<usize>(0, "tabsize")?.unwrap_or(8);
            args.finish(1)?;
            let mut column = 0;
            let mut out = String::new();
            for c in text.chars() {
                match c {
                    '\t' if size > 0 => {
                        let spaces = (size - column % size).min(crate::formats::LONGEST_SAMPLE);
                        out.extend(std::iter::repeat_n(' ', spaces));
                        column += spaces;
                    }
                    '\t' => {}
                    c => {
                        out.push(c);
                        column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                    }
                }
            }
            out.into()
        }
        "partition" | "rpartition" => {
            let separator = args.text(0, "sep")?.filter(|text| !text.is_empty());
            let separator = separator.ok_or_else(|| wrong("empty separator"))?;
            let parts = match name {
                "partition" => text.split_once(&separator),
                _ => text.rsplit_once(&separator),
            };
            let [before, between, behind] = match (parts, name) {
                (Some((before, behind)), _) => [before, &separator, behind],
                (None, "partition") => [text, "", ""],
                (None, _) => ["", "", text],
            };
            Value::from([before, between, behind].map(str::to_owned).to_vec())
        }
        "split" | "rsplit" => {
            let separator = args.text(0, "sep")?;
            let most = args
                .typed::<i64>(1, "maxsplit")?
                .and_then(|most| usize::try_from(most).ok());
            args.finish(2)?;
            let parts = split(text, separator.as_deref(), most.unwrap_or(usize::MAX), name == "rsplit")?;
            Value::from(parts)
        }
        "splitlines" => Value::from(lines(text, args.flag(0, "keepends"))),
        "removeprefix" | "removesuffix" => {
            let part = args.text(0, "prefix")?.unwrap_or_default();
            args.finish(1)?;
            let rest = match name {
                "removeprefix" => text.strip_prefix(&*part),
                _ => text.strip_suffix(&*part),
            };
            rest.unwrap_or(text).into()
        }
        "strip" | "lstrip" | "rstrip" => {
            let chars = args.text(0, "chars")?;
            args.finish(1)?;
            stripped(text, chars.as_deref(), name != "rstrip", name != "lstrip").into()
        }
        "isdecimal" => (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into(),
        "isidentifier" => {
            let mut chars = text.chars();
            let begins = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
            (begins && chars.all(|c| c.is_alphanumeric() || c == '_')).into()
        }
        "isprintable" => text.chars().all(is_printed).into(),
        "istitle" => (text.chars().any(char::is_alphabetic) && title(text) == text).into(),
        _ => return Ok(None),
    };
    Ok(Some(found))
}

/// Upper case of a character that begins a word.
fn titled(c: char) -> String {
    match c {
        'ß' => "Ss".into(),
        c => c.to_uppercase().collect(),
    }
}

/// Every letter that follows no letter in upper case.
fn title(text: &str) -> String {
    let mut after_letter = false;
    let mut out = String::new();
    for c in text.chars() {
        match after_letter {
            true => out.extend(c.to_lowercase()),
            false => out.push_str(&titled(c)),
        }
        after_letter = c.is_alphabetic();
    }
    out
}

/// A text in the middle, at the left or at the right of so many characters.
pub(super) fn padded(text: &str, how: &str, width: usize, fill: &str) -> String {
    let missing = width
        .saturating_sub(text.chars().count())
        .min(crate::formats::LONGEST_SAMPLE);
    let before = match how {
        // Python's rule: an odd one goes to the left if the width is odd.
        "center" => missing / 2 + (missing & width & 1),
        "rjust" => missing,
        _ => 0,
    };
    [fill.repeat(before), text.to_owned(), fill.repeat(missing - before)].concat()
}

/// The places from `start` to `end` of so many, as a slice has them; `None` if they lie behind.
fn part(length: usize, start: Option<i64>, end: Option<i64>) -> Option<std::ops::Range<usize>> {
    let place = |at: i64| match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (start.map_or(0, place), end.map_or(length, place).min(length));
    (start <= end).then_some(start..end)
}

/// What Python's `str.isspace` knows beside Unicode's white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// A text without spaces, or the given characters, at its ends.
pub(super) fn stripped<'t>(text: &'t str, chars: Option<&str>, left: bool, right: bool) -> &'t str {
    let is_out = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(is_out) } else { text };
    if right { text.trim_end_matches(is_out) } else { text }
}

fn split(text: &str, separator: Option<&str>, most: usize, from_right: bool) -> Result<Vec<String>, Error> {
    let owned = |parts: Vec<&str>| parts.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let most_parts = most.saturating_add(1);
    match separator {
        Some("") => Err(wrong("empty separator")),
        Some(separator) if from_right => {
            let mut parts = owned(text.rsplitn(most_parts, separator).collect());
            parts.reverse();
            Ok(parts)
        }
        Some(separator) => Ok(owned(text.splitn(most_parts, separator).collect())),
        None => {
            let mut parts = Vec::new();
            let mut rest = text;
            loop {
                rest = stripped(rest, None, !from_right, from_right);
                if rest.is_empty() {
                    break;
                }
                if parts.len() == most {
                    parts.push(rest.to_owned());
                    break;
                }
                let word = match from_right {
                    true => rest.rsplit(is_space).next().unwrap_or(rest),
                    false => rest.split(is_space).next().unwrap_or(rest),
                };
                parts.push(word.to_owned());
                rest = match from_right {
                    true => &rest[..rest.len() - word.len()],
                    false => &rest[word.len()..],
                };
            }
            if from_right {
                parts.reverse();
            }
            Ok(parts)
        }
    }
}

/// The lines of a text, by all ends of lines that Python knows.
fn lines(text: &str, keeps_ends: bool) -> Vec<String> {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_end) {
        let end = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(0, char::len_utf8),
        };
        lines.push(rest[..if keeps_ends { at + end } else { at }].to_owned());
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest.to_owned());
    }
    lines
}
