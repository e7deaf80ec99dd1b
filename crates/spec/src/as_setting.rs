//! Keys as the command line sets them: `--set dtype=int4` for `dtype: int4`.

use cell::keys;
use yaml::Budget;
use yaml::tree::Node;

use super::shell_word::quoted;

/// Sections of a spec that helps name, besides a cell's keys.
const SECTIONS: [&str; 4] = ["record", "report", "limits", "fit"];

/// What a help says after a section of a spec, which the command line does not have.
const IN_A_SPEC: &str = " in the spec, next to `defaults`";

/// A help's text, with what it would write in a spec as options. `is_named` is true for a model by name, whose options
/// stand for some keys.
pub(crate) fn as_settings(help: &str, is_named: bool) -> String {
    let help = help.replace(IN_A_SPEC, "");
    let mut parts = help.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    // Every other part is between backticks.
    for (index, part) in parts.enumerate() {
        let option = (index % 2 == 0).then(|| option(part, is_named)).flatten();
        text.push('`');
        text += option.as_deref().unwrap_or(part);
    }
    text
}

/// The option for `key: value`; `None` for another text.
fn option(text: &str, is_named: bool) -> Option<String> {
    text.split_once(": ")?;
    // A value that the reader fills in.
    let text = text.replace("...", "VALUE");
    let tree = yaml::parse(&text, 0, 0, Budget::SPEC).ok()?;
    let (path, value) = leaf(&tree)?;
    Some(option_of(&path, &value.to_flow_yaml(), is_named))
}

/// The option that sets a dotted key.
pub(crate) fn option_of(key: &str, value: &str, is_named: bool) -> String {
    match key {
        "model" | "gpu" | "stack" | "data" if is_named => format!("--{key} {}", quoted(value)),
        "data.path" if is_named => format!("--data {}", quoted(value)),
        key => format!("--set {}", quoted(&format!("{key}={value}"))),
    }
}

/// The only key of a map, down to one that is known, and its value.
fn leaf(tree: &Node) -> Option<(String, &Node)> {
    let mut path: Vec<String> = Vec::new();
    let mut node = tree;
    while let Some(map) = node.as_map() {
        let Some((key, entry)) = map.first().filter(|_| map.len() == 1) else {
            break;
        };
        path.push(key.to_string());
        if !is_key(&path) {
            path.pop();
            break;
        }
        node = &entry.value;
    }
    (!path.is_empty()).then(|| (path.join("."), node))
}

fn is_key(path: &[String]) -> bool {
    keys::is_known(path) || SECTIONS.contains(&path[0].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_spec_would_say_is_an_option() {
        for (help, named, option) in [
            (
                "use `attn_implementation: sdpa`",
                false,
                "use `--set attn_implementation=sdpa`",
            ),
            (
                "write `torch: {use_reentrant: ...}`",
                false,
                "write `--set torch.use_reentrant=VALUE`",
            ),
            (
                "write `record: {log_interval: ...}` in the spec, next to `defaults`",
                false,
                "write `--set record.log_interval=VALUE`",
            ),
            (
                "write `data: {path: a.txt, column: b}`",
                false,
                "write `--set 'data={path: a.txt, column: b}'`",
            ),
            ("`stack: torch` can", true, "`--stack torch` can"),
            ("`stack: torch` can", false, "`--set stack=torch` can"),
            ("did you mean `rank`?", true, "did you mean `rank`?"),
            ("`https: //x` and `a", false, "`https: //x` and `a"),
        ] {
            assert_eq!(as_settings(help, named), option);
        }
    }
}
