//! Patterns of values: a word, a word with `*`, a list of patterns of which one must hold, or null for a key that is not
//! there.

use serde_json::Value as Json;
use yaml::tree::{Node, Value};

/// True if a value, or one item of a list, is as the pattern says.
pub(crate) fn holds(pattern: &Json, value: Option<&Node>) -> bool {
    if let Json::Array(any) = pattern {
        return any.iter().any(|pattern| holds(pattern, value));
    }
    let value = value.filter(|value| !value.is_null());
    match (pattern, value.map(|value| &value.value)) {
        (Json::Null, None) => true,
        (Json::Null, Some(_)) | (_, None | Some(Value::Hole)) => false,
        (_, Some(Value::List(items))) => {
            items.iter().any(|item| holds(pattern, Some(item))) || pattern.as_str() == Some("*")
        }
        (_, Some(Value::Map(_))) => pattern.as_str() == Some("*"),
        (_, Some(Value::Scalar(scalar))) => is_word(&word(pattern), &scalar.text),
    }
}

/// A scalar of a table as text.
fn word(pattern: &Json) -> String {
    match pattern {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// True if `text` is the word, in any case, or the same number.
fn is_word(word: &str, text: &str) -> bool {
    let (word, text) = (word.to_lowercase(), text.trim().to_lowercase());
    if let (Ok(a), Ok(b)) = (word.parse::<f64>(), text.parse::<f64>()) {
        return a == b;
    }
    let mut parts = word.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(part) => text.ends_with(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use yaml::Budget;

    use super::*;

    #[test]
    fn a_pattern_is_a_word_a_number_or_a_part() {
        for (pattern, value, expected) in [
            (json!(true), "True", true),
            (json!(true), "1", false),
            (json!("*"), "x", true),
            (json!("*"), "~", false),
            (json!(null), "", true),
            (json!(null), "x", false),
            (json!(0), "0.0", true),
            (json!("*.qlora_*8b"), "torchtune.models.llama3.qlora_llama3_8b", true),
            (
                json!("*.qlora_*8b"),
                "torchtune.models.llama3.qlora_llama3_8b_instruct",
                false,
            ),
            (json!(["a", "b"]), "b", true),
            (json!("*Liger*"), "[x.LigerPlugin, y]", true),
            (json!("*Liger*"), "[x, y]", false),
            (json!("a*"), "{a: 1}", false),
        ] {
            let node = yaml::parse(value, 0, 0, Budget::SPEC).unwrap();
            assert_eq!(holds(&pattern, Some(&node)), expected, "{pattern} {value}");
        }
        assert!(holds(&json!(null), None));
    }
}
