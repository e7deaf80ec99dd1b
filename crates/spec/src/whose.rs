//! Files of other programs that stand where a spec should.

use yaml::diagnostic::Diagnostic;
use yaml::tree::Node;

use super::ours::{in_spec, lines_of_spec};

/// A program by keys that its files have at the root, of which all must be there.
const PROGRAMS: [(&str, &[&str]); 9] = [
    ("axolotl", &["base_model", "datasets"]),
    ("axolotl", &["base_model", "micro_batch_size"]),
    ("axolotl", &["base_model", "sequence_len"]),
    ("LLaMA-Factory", &["model_name_or_path", "stage"]),
    ("LLaMA-Factory", &["model_name_or_path", "finetuning_type"]),
    ("LLaMA-Factory", &["model_name_or_path", "cutoff_len"]),
    (
        "TRL or transformers",
        &["model_name_or_path", "per_device_train_batch_size"],
    ),
    ("accelerate", &["compute_environment", "distributed_type"]),
    ("DeepSpeed", &["zero_optimization", "train_micro_batch_size_per_gpu"]),
];

/// The key that torchtune's files have in every part.
const COMPONENT: &str = "_component_";

/// One mistake in place of one for each key, if a file is another program's: what its keys are here.
pub(super) fn foreign_file(tree: &Node) -> Option<Diagnostic> {
    let map = tree
        .as_map()
        .filter(|map| !map.contains_key("defaults") && !map.contains_key("sweep"))?;
    let has_all = |keys: &[&str]| keys.iter().all(|key| map.contains_key(*key));
    let is_component = |node: &Node| node.as_map().is_some_and(|part| part.contains_key(COMPONENT));
    let known = PROGRAMS
        .iter()
        .find(|(_, keys)| has_all(keys))
        .map(|(program, _)| *program);
    let is_torchtune = || map.values().any(|entry| is_component(&entry.value));
    let program = known.or_else(|| is_torchtune().then_some("torchtune"))?;
    let mut written = Vec::new();
    let mut others = Vec::new();
    for (key, entry) in map {
        let value = entry.value.to_flow_yaml();
        if cell::keys::is_known(&[key.to_string()]) {
            written.push(format!("{key}: {value}"));
        } else if let Some(lines) = lines_of_spec(key, &value) {
            written.extend(lines);
        } else {
            others.push(match in_spec(key, Some(&value)) {
                Some(help) => format!("`{key}`: {help}"),
                None => format!("`{key}` has no counterpart"),
            });
        }
    }
    // Keys of one map stand in it together.
    let of_data = |line: &String| Some(line.strip_prefix("data: {")?.strip_suffix('}')?.to_owned());
    let data: Vec<String> = written.iter().filter_map(of_data).collect();
    if data.len() > 1 {
        written.retain(|line| of_data(line).is_none());
        written.push(format!("data: {{{}}}", data.join(", ")));
    }
    let message = format!("this is a configuration of {program}, not a spec");
    let place = map.first().map_or(tree.place, |(_, entry)| entry.key);
    let spec = written.iter().map(|line| format!("\n  {line}"));
    let help = format!(
        "as a spec it begins with\nname: NAME\ndefaults:{}",
        spec.collect::<String>()
    );
    let mut diagnostic = Diagnostic::new(message).at(place).help(help);
    diagnostic.help.extend(others);
    Some(diagnostic)
}

#[cfg(test)]
mod tests {
    use yaml::Budget;

    use super::*;

    fn help(text: &str) -> Option<(String, Vec<String>)> {
        let tree = yaml::parse(text, 0, 0, Budget::SPEC).unwrap();
        foreign_file(&tree).map(|found| (found.message.clone(), found.help.clone()))
    }

    #[test]
    fn a_file_of_another_program_is_told_by_its_keys() {
        let (title, help) =
            help("base_model: org/name\nlora_r: 8\nlearning_rate: 1e-4\nsequence_len: 512\nfrobnicate: 1\n").unwrap();
        assert_eq!(title, "this is a configuration of axolotl, not a spec");
        assert_eq!(
            help[0],
            "as a spec it begins with\nname: NAME\ndefaults:\n  model: org/name\n  rank: 8\n  learning_rate: 1e-4\n  \
             max_seq_length: 512"
        );
        assert_eq!(help[1], "`frobnicate` has no counterpart");
    }

    #[test]
    fn what_words_say_stands_behind_the_spec() {
        let (_, help) = help("base_model: org/FILE...7b\nsequence_len: 512\nmonitor_tensors: true\n").unwrap();
        assert_eq!(
            help[0],
            "as a spec it begins with\nname: NAME\ndefaults:\n  model: org/FILE...7b\n  max_seq_length: 512"
        );
        assert_eq!(
            help[1],
            "`monitor_tensors`: write `record: {timeline: true}` in the spec, next to `defaults`"
        );
    }

    #[test]
    fn a_spec_is_no_file_of_another_program() {
        assert_eq!(
            help("name: s\ndefaults: {model: tiny}\nbase_model: a\ndatasets: b\n"),
            None
        );
        assert_eq!(help("name: s\nbase_modle: a\n"), None);
        let (title, _) = help("model:\n  _component_: torchtune.models.llama3\n").unwrap();
        assert!(title.contains("torchtune"));
    }
}
