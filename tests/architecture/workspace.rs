//! The crates and what their manifests name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::root;

/// A crate of the workspace.
pub struct Member {
    /// Where its manifest lies.
    pub folder: PathBuf,
    /// The names that its code has for what it depends on; what tests need does not count.
    pub dependencies: BTreeSet<String>,
}

/// The crates of the workspace, by the names that imports have for them.
pub struct Workspace {
    pub crates: BTreeMap<String, Member>,
}

impl Workspace {
    /// Asks cargo.
    pub fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root())
            .output()
            .unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("what `cargo metadata` prints");
        let packages = metadata["packages"].as_array().unwrap().iter();
        let crates = packages.map(|package| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let name = text(&package["name"]);
            let of_code = |dependency: &&Value| dependency["kind"].is_null();
            let named = |dependency: &Value| {
                text(
                    dependency
                        .get("rename")
                        .filter(|name| !name.is_null())
                        .unwrap_or(&dependency["name"]),
                )
            };
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let member = Member {
                folder: PathBuf::from(text(&package["manifest_path"]))
                    .parent()
                    .unwrap()
                    .to_owned(),
                dependencies: dependencies.filter(of_code).map(named).collect(),
            };
            (name.strip_prefix("expctl-").unwrap_or(&name).to_owned(), member)
        });
        Self {
            crates: crates.collect(),
        }
    }

    /// How `from` comes to need `what`: the crates on the way, with both.
    pub fn way(&self, from: &str, what: &str) -> Option<Vec<String>> {
        if from == what {
            return Some(vec![what.to_owned()]);
        }
        let mut dependencies = self.crates.get(from)?.dependencies.iter();
        let rest = dependencies.find_map(|next| self.way(next, what))?;
        Some([vec![from.to_owned()], rest].concat())
    }
}
