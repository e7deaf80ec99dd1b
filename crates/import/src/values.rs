//! Values of other programs: what they come to as JSON, in our words, and which ask for nothing.

use serde_json::Value as Json;
use yaml::place::Place;
use yaml::tree::{Node, Scalar, Value};

use crate::pattern::holds;
use crate::table::Rule;

/// A value with our words for the tool's; of a list, each item.
pub(crate) fn in_our_words(rule: &Rule, value: Node) -> Node {
    if let Value::List(items) = &value.value {
        let items: Vec<Node> = items.iter().map(|item| in_our_words(rule, item.clone())).collect();
        return Node {
            value: Value::List(items.into()),
            place: value.place,
        };
    }
    let found = rule
        .values
        .iter()
        .find(|(word, _)| holds(&Json::String((*word).clone()), Some(&value)));
    match (found, value.text()) {
        (Some((_, ours)), _) => Node::of_json(ours, value.place),
        (None, Some(text)) if rule.list => {
            let items = text.split(',').map(|item| scalar(item.trim(), value.place));
            Node {
                value: Value::List(items.collect::<Vec<_>>().into()),
                place: value.place,
            }
        }
        _ => value,
    }
}

/// False, none, zero and empty lists ask for nothing.
pub(crate) fn is_nothing(value: &Node) -> bool {
    match &value.value {
        Value::Scalar(scalar) => {
            let text = scalar.text.to_lowercase();
            scalar.is_null() || ["false", "none", "no", ""].contains(&&*text) || text.parse::<f64>() == Ok(0.0)
        }
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Hole => true,
    }
}

/// The value as JSON: a scalar without quotes is a number, a truth value or null if it reads as one.
pub(crate) fn json_of(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(scalar) => json_of_scalar(scalar),
        Value::List(items) => items.iter().map(json_of).collect(),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, entry)| (key.to_string(), json_of(&entry.value)));
            Json::Object(entries.collect())
        }
        Value::Hole => Json::Null,
    }
}

fn json_of_scalar(scalar: &Scalar) -> Json {
    let text = &*scalar.text;
    if !scalar.plain {
        return text.into();
    }
    match text.to_lowercase().as_str() {
        "true" => true.into(),
        "false" => false.into(),
        "" | "~" | "null" => Json::Null,
        _ => {
            let whole = text.parse::<i64>().map(Json::from);
            let number = whole.or_else(|_| text.parse::<f64>().map(Json::from));
            number
                .ok()
                .filter(|number| !number.is_null())
                .unwrap_or_else(|| text.into())
        }
    }
}

/// A scalar of a text that nobody quoted.
pub(crate) fn scalar(text: &str, place: Place) -> Node {
    Node {
        value: Value::Scalar(Scalar {
            text: text.into(),
            plain: true,
        }),
        place,
    }
}
