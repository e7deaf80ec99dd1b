//! One key of another tool, on its own: what it means in a spec.

use indexmap::IndexMap;
use serde_json::Value as Json;
use yaml::Budget;
use yaml::tree::Node;

use crate::pattern::holds;
use crate::table::{Case, Kind, Tool, reference, tools};
use crate::values::json_of;

/// What a key of another tool means here.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// These keys do it.
    Keys(IndexMap<String, Json>),
    /// Nothing needs to be written, for this reason.
    Idle(String),
    /// Nothing here does it, for this reason.
    Lost(String),
}

/// What a key of another tool means, with the value that it was given, in one line of YAML. `None` for a key of no tool.
pub fn answer(key: &str, value: Option<&str>) -> Option<Answer> {
    let key = key.to_lowercase().replace('-', "_");
    let value = yaml::parse(value.unwrap_or("true"), 0, 0, Budget::SPEC).ok()?;
    let answers = tools().iter().filter_map(|tool| of_tool(tool, &key, &value));
    // Keys of ours are the better answer than a reason.
    let all: Vec<Answer> = answers.collect();
    let keys = all.iter().find(|answer| matches!(answer, Answer::Keys(_)));
    keys.or(all.first()).cloned()
}

fn of_tool(tool: &Tool, key: &str, value: &Node) -> Option<Answer> {
    let alone = |case: &&Case| {
        let mut patterns = case.when.iter();
        case.reads().any(|read| read == key)
            && patterns.all(|(read, pattern)| match read == key {
                true => holds(pattern, Some(value)),
                false => {
                    pattern.is_null()
                        || holds(
                            pattern,
                            tool.default(read).map(|of| Node::of_json(of, value.place)).as_ref(),
                        )
                }
            })
    };
    let decided = tool.decisions.iter().filter_map(|cases| cases.iter().find(alone));
    let mut keys = IndexMap::new();
    for case in decided {
        if let Some(why) = case.lost.as_ref().or(case.refused.as_ref()) {
            return Some(Answer::Lost(why.clone()));
        }
        if let (Some(why), true) = (&case.idle, case.set.is_empty()) {
            return Some(Answer::Idle(why.clone()));
        }
        for (ours, of_case) in &case.set {
            let value = match reference(of_case) {
                Some(named) if named == key => json_of(value),
                // Another key's value is not known.
                Some(_) => continue,
                None => of_case.clone(),
            };
            keys.insert(ours.clone(), value);
        }
    }
    if !keys.is_empty() {
        return Some(Answer::Keys(keys));
    }
    if let Some(rule) = tool.keys.get(key)
        && let Some(ours) = &rule.to
    {
        let found = rule
            .values
            .iter()
            .find(|(word, _)| holds(&Json::String((*word).clone()), Some(value)));
        let value = found.map_or_else(|| json_of(value), |(_, ours)| ours.clone());
        return Some(Answer::Keys(IndexMap::from([(ours.clone(), value)])));
    }
    // Where other keys decide, this is what the key is for.
    let cases = tool.decisions.iter().flatten();
    let mut named = cases
        .flat_map(|case| &case.set)
        .filter(|(_, of_case)| reference(of_case) == Some(key));
    if let Some((ours, _)) = named.next() {
        return Some(Answer::Keys(IndexMap::from([(ours.clone(), json_of(value))])));
    }
    let (kind, group) = tool.group(key)?;
    Some(match kind {
        Kind::Idle => Answer::Idle(group.why.clone()),
        Kind::Lost | Kind::Refused => Answer::Lost(group.why.clone()),
    })
}
