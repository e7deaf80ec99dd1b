//! Dotted keys with list indices, compared by their segments.

use yaml::tree::Node;

/// The node of a key such as `target_modules[1]`, or else of the innermost key around it that the tree has.
pub(crate) fn nearest_node<'n>(tree: &'n Node, key: &str) -> Option<&'n Node> {
    tree.get(&nearest_path(tree, key)?)
}

/// The segments that lead to the node of a key, or else to that of the innermost key around it. A name in a map may
/// have dots and brackets of its own.
pub(crate) fn nearest_path<'k>(tree: &Node, key: &'k str) -> Option<Vec<&'k str>> {
    // The longest name that the tree has.
    let ends = key.char_indices().filter(|(_, letter)| matches!(letter, '.' | '['));
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([key.len()]).collect();
    ends.into_iter().rev().find_map(|end| {
        let names = [Some(&key[..end]), key[..end].strip_suffix(']')];
        let (name, node) = names
            .into_iter()
            .flatten()
            .find_map(|name| Some((name, tree.get(&[name])?)))?;
        let below = key.get(end + 1..).and_then(|rest| nearest_path(node, rest));
        Some([vec![name], below.unwrap_or_default()].concat())
    })
}

/// True if `key` is `outer`, or a key within it: `target_modules[1]` lies in `target_modules`.
pub(crate) fn lies_in(key: &str, outer: &str) -> bool {
    segments(key).starts_with(&segments(outer))
}

/// The segments of a key such as `target_modules[1]` or `torch.use_cache`.
fn segments(key: &str) -> Vec<&str> {
    let segments = key.split(['.', '[']);
    segments.map(|segment| segment.trim_end_matches(']')).collect()
}

#[cfg(test)]
mod tests {
    use yaml::{Budget, parse};

    use super::*;

    #[test]
    fn names_with_dots_and_brackets_are_found() {
        let text = "a: {'layers.0.mlp.*': one, '.*norm': two, '[qv]_proj': three}\nb: [four, {c: five}]\n";
        let tree = parse(text, 0, 0, Budget::SPEC).expect("YAML");
        let found = |key| nearest_node(&tree, key).and_then(Node::text).map(str::to_owned);
        for (key, value) in [
            ("a.layers.0.mlp.*", "one"),
            ("a..*norm", "two"),
            ("a.[qv]_proj", "three"),
            ("b[0]", "four"),
            ("b[1].c", "five"),
            ("b[1].c.d", "five"),
        ] {
            assert_eq!(found(key).as_deref(), Some(value), "{key}");
        }
        assert!(
            nearest_node(&tree, "a.layers.0").is_some_and(|node| node.as_map().is_some()),
            "the key around it"
        );
        assert!(nearest_node(&tree, "z").is_none());
    }
}
