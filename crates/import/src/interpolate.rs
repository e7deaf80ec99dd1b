//! References to other keys, `${key}` as OmegaConf has them.

use std::rc::Rc;

use yaml::diagnostic::Diagnostic;
use yaml::tree::{Entry, Node, Scalar, Value};

/// References within references.
const MOST: usize = 8;

/// The tree with each `${a.b}` replaced by the value there. One that leads to nothing stays.
///
/// # Errors
/// A reference leads to itself.
pub(crate) fn interpolated(tree: Node) -> Result<Node, Diagnostic> {
    filled(&tree, &tree, 0)
}

fn filled(node: &Node, root: &Node, depth: usize) -> Result<Node, Diagnostic> {
    let value = match &node.value {
        Value::Scalar(scalar) if scalar.text.contains("${") => return reference(node, scalar, root, depth),
        // Python's YAML reads `500_000` as a number.
        Value::Scalar(scalar) if scalar.plain && is_grouped(&scalar.text) => Value::Scalar(Scalar {
            text: scalar.text.replace('_', "").into(),
            plain: true,
        }),
        Value::List(items) => {
            let items: Result<Vec<Node>, _> = items.iter().map(|item| filled(item, root, depth)).collect();
            Value::List(Rc::new(items?))
        }
        Value::Map(map) => {
            let entries = map.iter().map(|(key, entry)| {
                let value = filled(&entry.value, root, depth)?;
                Ok((key.clone(), Entry { key: entry.key, value }))
            });
            Value::Map(Rc::new(entries.collect::<Result<_, Diagnostic>>()?))
        }
        other => other.clone(),
    };
    Ok(Node {
        value,
        place: node.place,
    })
}

fn is_grouped(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '_')
}

/// The value of a scalar with references; one that is a reference alone has the type of what it names.
fn reference(node: &Node, scalar: &Scalar, root: &Node, depth: usize) -> Result<Node, Diagnostic> {
    if depth == MOST {
        let message = format!("`{}` leads to itself", scalar.text);
        return Err(Diagnostic::new(message).at(node.place));
    }
    let text = &*scalar.text;
    let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    if let Some(named) = whole
        .filter(|name| !name.contains('$'))
        .and_then(|name| find(name, root))
    {
        let found = filled(named, root, depth + 1)?;
        return Ok(Node {
            place: node.place,
            ..found
        });
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        let named = find(&rest[start + 2..start + length], root);
        let value = named.map(|named| filled(named, root, depth + 1)).transpose()?;
        out += &rest[..start];
        match value.as_ref().and_then(Node::text) {
            Some(value) => out += value,
            None => out += &rest[start..=start + length],
        }
        rest = &rest[start + length + 1..];
    }
    out += rest;
    Ok(Node {
        value: Value::Scalar(Scalar {
            text: out.into(),
            plain: scalar.plain,
        }),
        place: node.place,
    })
}

fn find<'t>(name: &str, root: &'t Node) -> Option<&'t Node> {
    root.get(&name.trim().split('.').collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use yaml::Budget;

    use super::*;

    fn parsed(text: &str) -> Node {
        yaml::parse(text, 0, 0, Budget::SPEC).unwrap()
    }

    #[test]
    fn a_reference_has_the_value_of_its_key() {
        let grouped = interpolated(parsed("a: 500_000")).unwrap();
        assert_eq!(grouped.get(&["a"]).and_then(Node::text), Some("500000"));
        let tree = interpolated(parsed("a: {b: 4}\nc: ${a.b}\nd: x/${c}/y\ne: ${nothing}/z\n")).unwrap();
        for (key, text) in [("c", "4"), ("d", "x/4/y"), ("e", "${nothing}/z")] {
            assert_eq!(tree.get(&[key]).and_then(Node::text), Some(text), "{key}");
        }
    }

    #[test]
    fn a_circle_is_a_mistake() {
        let error = interpolated(parsed("a: ${b}\nb: ${a}\n")).unwrap_err();
        assert_eq!(error.message, "`${b}` leads to itself");
    }
}
