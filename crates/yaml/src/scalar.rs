//! The meaning of a scalar's text, once the key has said what it must be.
//!
//! Nothing is guessed: a number's key takes `1e-4` and not `"1e-4"`, a string's key takes `08` as it is written, and
//! `no` is neither a string nor a truth value, since YAML 1.1 and 1.2 read it differently.

use base::text::{Mistake, quoted};

use super::tree::Scalar;

fn mismatch(expected: &str, scalar: &Scalar) -> Mistake {
    Mistake::new(format!("expected {expected}, got {}", scalar.describe()))
}

/// The numbers, truth values and nulls of YAML 1.2's core schema; everything else is text.
pub(crate) enum Core<'s> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'s str),
}

pub(crate) fn core(scalar: &Scalar) -> Core<'_> {
    let text = &*scalar.text;
    if !scalar.plain {
        return Core::Text(text);
    }
    if scalar.is_null() {
        return Core::Null;
    }
    if let Some(value) = truth(text) {
        return Core::Bool(value);
    }
    if is_decimal(text) {
        if let Ok(value) = text.parse() {
            return Core::Unsigned(value);
        }
        if let Ok(value) = text.parse() {
            return Core::Signed(value);
        }
    }
    number(text).map_or(Core::Text(text), Core::Float)
}

pub(crate) fn unsigned(scalar: &Scalar) -> Result<u64, Mistake> {
    const EXPECTED: &str = "a whole number of 0 or more";
    let text = &*scalar.text;
    let mismatch = mismatch(EXPECTED, scalar);
    if !scalar.plain {
        return Err(if is_decimal(text) {
            mismatch.help("leave the quotes out")
        } else {
            mismatch
        });
    }
    if is_decimal(text) {
        return text.parse().map_err(|_| mismatch);
    }
    let digits = text.strip_prefix('+').unwrap_or(text);
    let bare: String = digits.chars().filter(|&c| c != '_').collect();
    let stripped = bare.trim_start_matches('0');
    let as_float = number(text).filter(|value| value.fract() == 0.0 && (0.0..1e15).contains(value));
    Err(if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit()) {
        mismatch.help(format!("write {}", if stripped.is_empty() { "0" } else { stripped }))
    } else if let Some(value) = as_float {
        mismatch.help(format!("write {value:.0}"))
    } else {
        mismatch
    })
}

pub(crate) fn signed(scalar: &Scalar) -> Result<i64, Mistake> {
    let mismatch = || mismatch("a whole number", scalar);
    if scalar.plain && is_decimal(&scalar.text) {
        scalar.text.parse().map_err(|_| mismatch())
    } else {
        Err(mismatch())
    }
}

pub(crate) fn float(scalar: &Scalar) -> Result<f64, Mistake> {
    let mismatch = mismatch("a number", scalar);
    match number(&scalar.text) {
        // Minus zero is zero: equal settings must have equal texts.
        Some(value) if scalar.plain => Ok(value + 0.0),
        Some(_) => Err(mismatch.help("leave the quotes out")),
        None => Err(mismatch),
    }
}

pub(crate) fn boolean(scalar: &Scalar) -> Result<bool, Mistake> {
    let mismatch = mismatch("true or false", scalar);
    match truth(&scalar.text) {
        Some(value) if scalar.plain => Ok(value),
        Some(_) => Err(mismatch.help("leave the quotes out")),
        None => match old_truth(&scalar.text) {
            Some(value) => Err(mismatch.help(format!("write {value}"))),
            None => Err(mismatch),
        },
    }
}

pub(crate) fn string(scalar: &Scalar) -> Result<&str, Mistake> {
    let text = &*scalar.text;
    let ambiguous = truth(text).or_else(|| old_truth(text)).is_some();
    if scalar.is_null() || scalar.plain && ambiguous {
        let mismatch = mismatch("a string", scalar);
        return Err(if text.is_empty() {
            mismatch.help("write \"\" for an empty string")
        } else {
            mismatch.help(format!(
                "quote it to make it a string: {}",
                quoted(&format!("\"{text}\""))
            ))
        });
    }
    Ok(text)
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// The words that YAML 1.1 reads as truth values.
fn old_truth(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Digits with an optional minus and no leading zero, which YAML 1.1 reads as octal.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let padded = digits.len() > 1 && digits.starts_with('0');
    !digits.is_empty() && !padded && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A finite decimal number: `1`, `0.5`, `.5`, `1e-4`.
fn number(text: &str) -> Option<f64> {
    let begins = text
        .trim_start_matches(['-', '+'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let padded = text.trim_start_matches(['-', '+']);
    let padded = padded.len() > 1 && padded.starts_with('0') && padded.as_bytes()[1].is_ascii_digit();
    if !begins || padded {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar {
            text: text.into(),
            plain: true,
        }
    }

    fn string_quoted(text: &str) -> Scalar {
        Scalar {
            text: text.into(),
            plain: false,
        }
    }

    #[test]
    fn numbers_are_what_people_write() {
        for (text, value) in [
            ("1e-4", 1e-4),
            (".5", 0.5),
            ("3", 3.0),
            ("-2.5E+3", -2500.0),
            ("0", 0.0),
            ("0.1", 0.1),
        ] {
            assert_eq!(float(&plain(text)).ok(), Some(value), "{text}");
        }
        for text in [
            "", "inf", "nan", ".inf", "1_0", "0x1F", "1e999", "08", "--1", "abc", "1 2",
        ] {
            assert!(float(&plain(text)).is_err(), "{text}");
        }
        assert!(float(&string_quoted("1e-4")).is_err());
        assert!(float(&plain("-0")).is_ok_and(|value| value.is_sign_positive()));
    }

    #[test]
    fn whole_numbers_have_one_spelling_and_errors_give_it() {
        assert_eq!(unsigned(&plain("16")).ok(), Some(16));
        assert_eq!(unsigned(&plain("18446744073709551615")).ok(), Some(u64::MAX));
        for (text, right) in [
            ("08", "write 8"),
            ("1_000", "write 1000"),
            ("1e3", "write 1000"),
            ("16.0", "write 16"),
        ] {
            let help = unsigned(&plain(text)).err().and_then(|mismatch| mismatch.help);
            assert_eq!(help.as_deref(), Some(right), "{text}");
        }
        for text in ["-1", "", "1.5", "0x10", "18446744073709551616", "ten"] {
            assert!(unsigned(&plain(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn no_is_neither_a_string_nor_a_truth_value() {
        assert!(string(&plain("no")).is_err());
        assert!(boolean(&plain("no")).is_err());
        assert_eq!(string(&string_quoted("no")).ok(), Some("no"));
        assert_eq!(boolean(&plain("false")).ok(), Some(false));
        assert!(boolean(&string_quoted("false")).is_err());
        assert_eq!(string(&plain("08")).ok(), Some("08"));
        assert!(string(&plain("~")).is_err());
    }
}
