//! Keys of other tools in a spec: each is answered with ours, or with a reason.

use std::collections::BTreeSet;
use std::path::Path;

use expctl::cell::keys;
use expctl::import::tools;
use expctl::spec::{self, Overrides};

/// The mistake that a spec with this line below `defaults` has.
fn mistake(line: &str) -> String {
    let text = format!("name: x\ndefaults:\n  model: tiny\n{line}: 1\n");
    let parsed = spec::parse(Path::new("spec.yaml"), &text, &Overrides::default());
    parsed.map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn every_key_of_a_table_is_answered_wherever_it_stands() {
    let names: BTreeSet<&str> = tools().iter().flat_map(|tool| tool.top_level()).collect();
    let is_ours = |name: &str| {
        let path = [name.to_owned()];
        keys::is_known(&path) || keys::moved(name).is_some() || name == "name"
    };
    let others: Vec<&str> = names
        .into_iter()
        .filter(|name| !is_ours(name) && !name.contains('*'))
        .collect();
    assert!(others.len() > 800, "{}", others.len());
    let mut silent = Vec::new();
    for name in others {
        for line in [format!("  {name}"), name.to_owned()] {
            let mistake = mistake(&line);
            if !mistake.contains("= help: ") || mistake.contains("did you mean") {
                silent.push(format!("{line}\n{mistake}"));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n\n"));
}

#[test]
fn a_section_that_is_misspelt_is_no_key_of_another_tool() {
    let misspelt = mistake("limit: {timeout: 1h}\nx");
    assert!(misspelt.contains("did you mean `limits`?"), "{misspelt}");
}
