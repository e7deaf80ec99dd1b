//! Files of other programs that stand where a spec should.

use std::path::Path;

use yaml::diagnostic::Diagnostic;
use yaml::tree::Node;

use super::shell_word::quoted;

/// One mistake in place of one for each key, if a file is another program's.
pub(super) fn foreign_file(tree: &Node, path: &Path) -> Option<Diagnostic> {
    let found = import::recognise_tree(tree)?;
    let place = tree
        .as_map()
        .and_then(|map| map.first())
        .map_or(tree.place, |(_, entry)| entry.key);
    let file = quoted(&path.display().to_string());
    let message = format!("not a spec: {}", found.sentence());
    Some(Diagnostic::new(message).at(place).help(format!(
        "`expctl import {file}` writes the spec that it comes to, and `expctl plan {file} --import` plans that"
    )))
}

#[cfg(test)]
mod tests {
    use yaml::Budget;

    use super::*;

    #[test]
    fn a_file_of_another_program_is_told_by_its_keys() {
        let found = |text: &str| {
            let tree = yaml::parse(text, 0, 0, Budget::SPEC).unwrap();
            foreign_file(&tree, Path::new("my file.yml")).map(|found| (found.message, found.help))
        };
        let (message, help) = found("base_model: org/name\nlora_r: 8\nsequence_len: 512\n").unwrap();
        assert_eq!(
            message,
            "not a spec: a configuration of axolotl: it has `base_model` and `sequence_len`"
        );
        assert_eq!(
            help,
            [
                "`expctl import 'my file.yml'` writes the spec that it comes to, and `expctl plan 'my file.yml' --import` plans that"
            ]
        );
        assert!(
            found("model:\n  _component_: torchtune.models.llama3\n")
                .unwrap()
                .0
                .contains("torchtune")
        );
        assert_eq!(
            found("name: s\ndefaults: {model: tiny}\nbase_model: a\ndatasets: b\n"),
            None
        );
        assert_eq!(found("name: s\nbase_modle: a\n"), None);
    }
}
