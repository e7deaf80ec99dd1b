//! The tool that a file is of, by its keys.

use yaml::tree::Node;

use crate::source::Document;
use crate::table::{Tool, tools};

/// A tool, and the keys that only its files have.
#[derive(Debug, Clone)]
pub struct Recognised {
    /// The tool.
    pub tool: &'static Tool,
    /// The keys that tell.
    pub keys: Vec<String>,
    /// True if the program of a command told, and `keys` has it.
    pub is_command: bool,
}

/// The tool that a document is of. A spec is of none.
pub fn recognise(document: &Document) -> Option<Recognised> {
    recognise_tree(&document.tree)
}

/// The same for a tree alone.
pub fn recognise_tree(tree: &Node) -> Option<Recognised> {
    let map = tree.as_map()?;
    if ["defaults", "sweep"].iter().any(|own| map.contains_key(*own)) {
        return None;
    }
    tools().iter().find_map(|tool| {
        let set = tool.recognised_by.iter().find_map(|set| {
            let found: Option<Vec<String>> = set.iter().map(|key| key_in(tree, key)).collect();
            found
        });
        Some(Recognised {
            tool,
            keys: set?,
            is_command: false,
        })
    })
}

/// The key as it stands in the tree: `*.x` is the first map that has an `x`.
fn key_in(tree: &Node, key: &str) -> Option<String> {
    if let Some(below) = key.strip_prefix("*.") {
        let map = tree.as_map()?;
        let found = map.iter().find(|(_, entry)| entry.value.get(&[below]).is_some());
        return found.map(|(name, _)| format!("{name}.{below}"));
    }
    let path: Vec<&str> = key.split('.').collect();
    tree.get(&path).map(|_| key.to_owned())
}

impl Recognised {
    /// The tool and what told it, for people.
    pub fn sentence(&self) -> String {
        let name = &self.tool.name;
        if self.keys.is_empty() {
            return format!("a configuration of {name}");
        }
        let keys: Vec<String> = self.keys.iter().map(|key| format!("`{key}`")).collect();
        let keys = match keys.as_slice() {
            [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            _ => keys.join(""),
        };
        match self.is_command {
            true => format!("a command of {name}: {keys}"),
            false => format!("a configuration of {name}: it has {keys}"),
        }
    }
}
