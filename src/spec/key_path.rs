//! Dotted keys with list indices, compared by their segments.

use super::tree::Node;

/// The node of a key such as `target_modules[1]`, or else of the innermost key around it that the tree has.
pub(crate) fn nearest_node<'n>(tree: &'n Node, key: &str) -> Option<&'n Node> {
    let path = segments(key);
    (1..=path.len()).rev().find_map(|depth| tree.get(&path[..depth]))
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
