//! The tables of tools: data, one file a tool.

use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

/// A tool, as its table describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name that people use.
    pub name: String,
    /// The name on our command line.
    pub id: String,
    /// The release that the table was read from.
    pub release: String,
    /// Where the facts stand.
    pub source: String,
    /// Sets of keys, each of which only this tool's files have.
    #[serde(default)]
    pub recognised_by: Vec<Vec<String>>,
    /// Commands that train with the tool.
    #[serde(default)]
    pub commands: Vec<String>,
    /// What the tool does whatever its file says.
    #[serde(default)]
    pub always: IndexMap<String, Json>,
    /// Keys whose rule is more than a reason.
    #[serde(default)]
    pub keys: IndexMap<String, Rule>,
    /// Keys whose values decide together. The first case that holds counts.
    #[serde(default)]
    pub decisions: Vec<Vec<Case>>,
    /// Keys that change no memory.
    #[serde(default)]
    pub idle: Vec<Group>,
    /// Keys that change memory, and are lost.
    #[serde(default)]
    pub lost: Vec<Group>,
    /// Keys that ask for another training than is planned.
    #[serde(default)]
    pub refused: Vec<Group>,
    /// What the tool does that no key of the file says and no plan has.
    #[serde(default)]
    pub unplanned: Vec<Case>,
    /// Another tool whose keys it has, too. Its decisions hold where none of the tool's own sets the same key.
    #[serde(default)]
    pub extends: Option<String>,
    /// Our key that takes the whole file, if there is one.
    #[serde(default)]
    pub whole: Option<String>,
    /// What several processes share, if the file says nothing of it.
    #[serde(default)]
    pub processes: IndexMap<String, Json>,
    /// What its launcher of several processes does whatever the file says.
    #[serde(default)]
    pub several: IndexMap<String, Json>,
}

/// What becomes of a key.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Our key, which gets the value.
    pub to: Option<String>,
    /// The value's words, and ours.
    pub values: IndexMap<String, Json>,
    /// The tool's value of a key that is left out.
    pub default: Option<Json>,
    /// True if the value is the path of a file that the spec names.
    pub file: bool,
    /// True if a text is a list, with commas between its items.
    pub list: bool,
    /// What becomes of a word that `values` does not have; without it, it stays as it is.
    pub otherwise: Option<Otherwise>,
}

/// What becomes of a word that we do not have.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otherwise {
    /// Our word in its place, if there is one.
    pub take: Option<Json>,
    /// The reason, if memory changes by it.
    pub lost: Option<String>,
    /// The reason, if none does.
    pub idle: Option<String>,
}

/// Keys with one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The reason.
    pub why: String,
    /// Values that ask for nothing, besides null and false.
    #[serde(default)]
    pub unless: Vec<Json>,
    /// The keys; `x.*` are those below `x`.
    pub keys: Vec<String>,
}

/// A case of a decision.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Case {
    /// Patterns of keys' values, all of which must hold.
    pub when: IndexMap<String, Json>,
    /// Our keys with their values; `$key` is the value of a key of the tool.
    pub set: IndexMap<String, Json>,
    /// The keys of `when` change no memory, for this reason.
    pub idle: Option<String>,
    /// They change memory and are lost, for this reason.
    pub lost: Option<String>,
    /// They ask for another training.
    pub refused: Option<String>,
}

/// The kind of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changes no memory.
    Idle,
    /// Changes memory, and is lost.
    Lost,
    /// Asks for another training.
    Refused,
}

const FILES: [&str; 7] = [
    include_str!("tools/axolotl.yaml"),
    include_str!("tools/llama_factory.yaml"),
    include_str!("tools/torchtune.yaml"),
    include_str!("tools/trl.yaml"),
    include_str!("tools/transformers.yaml"),
    include_str!("tools/accelerate.yaml"),
    include_str!("tools/deepspeed.yaml"),
];

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tables = FILES.iter().filter_map(|text| serde_saphyr::from_str(text).ok());
    let mut tools: Vec<Tool> = tables.collect();
    // A table that another extends has no keys of its tool that the other has.
    for index in 0..tools.len() {
        let base = tools[index].extends.clone();
        let Some(base) = base.and_then(|id| tools.iter().position(|tool| tool.id == id)) else {
            continue;
        };
        let [idle, lost, refused] = [Kind::Idle, Kind::Lost, Kind::Refused].map(|kind| {
            let groups = tools[base].groups(kind).iter();
            groups.map(Group::copy).collect::<Vec<_>>()
        });
        let (keys, decisions) = (tools[base].keys.clone(), tools[base].decisions.clone());
        let always = tools[base].always.clone();
        let own = &mut tools[index];
        let set: Vec<String> = own
            .decisions
            .iter()
            .flatten()
            .flat_map(|case| case.set.keys().cloned())
            .collect();
        let is_free = |cases: &Vec<Case>| {
            !cases
                .iter()
                .flat_map(|case| case.set.keys())
                .any(|key| set.contains(key))
        };
        own.decisions.splice(0..0, decisions.into_iter().filter(is_free));
        for (key, value) in always {
            own.always.entry(key).or_insert(value);
        }
        for (key, rule) in keys {
            if !own.keys.contains_key(&key) && own.group(&key).is_none() {
                own.keys.insert(key, rule);
            }
        }
        own.idle.extend(idle);
        own.lost.extend(lost);
        own.refused.extend(refused);
    }
    tools
});

/// All tools.
pub fn tools() -> &'static [Tool] {
    &TOOLS
}

impl Tool {
    /// The tool with this name on our command line.
    pub fn named(id: &str) -> Option<&'static Self> {
        tools().iter().find(|tool| tool.id == id)
    }

    pub(crate) fn groups(&self, kind: Kind) -> &[Group] {
        match kind {
            Kind::Idle => &self.idle,
            Kind::Lost => &self.lost,
            Kind::Refused => &self.refused,
        }
    }

    /// The group of a key, and its kind.
    pub(crate) fn group(&self, key: &str) -> Option<(Kind, &Group)> {
        let kinds = [Kind::Idle, Kind::Lost, Kind::Refused].into_iter();
        let mut found = kinds.flat_map(|kind| self.groups(kind).iter().map(move |group| (kind, group)));
        found.find(|(_, group)| group.keys.iter().any(|known| covers(known, key)))
    }

    /// True if a decision reads the key, or one below it.
    pub(crate) fn decides(&self, key: &str) -> bool {
        let mut cases = self.decisions.iter().flatten();
        cases.any(|case| case.reads().any(|read| read == key))
    }

    /// True if the table has a rule for the key itself.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.keys.contains_key(key) || self.group(key).is_some() || self.decides(key)
    }

    /// True if the table has a rule for a key below this one.
    pub(crate) fn names_below(&self, key: &str) -> bool {
        let prefix = format!("{key}.");
        let groups = [Kind::Idle, Kind::Lost, Kind::Refused].map(|kind| self.groups(kind));
        let of_groups = groups.into_iter().flatten().flat_map(|group| &group.keys);
        let of_decisions = self.decisions.iter().flatten().flat_map(Case::reads);
        let mut known = self
            .keys
            .keys()
            .chain(of_groups)
            .map(String::as_str)
            .chain(of_decisions);
        known.any(|known| known.starts_with(&prefix))
    }

    /// The names of its keys: those without a dot.
    pub fn top_level(&self) -> impl Iterator<Item = &str> {
        let groups = [Kind::Idle, Kind::Lost, Kind::Refused].map(|kind| self.groups(kind));
        let of_groups = groups.into_iter().flatten().flat_map(|group| &group.keys);
        let of_decisions = self.decisions.iter().flatten().flat_map(Case::reads);
        let known = self
            .keys
            .keys()
            .chain(of_groups)
            .map(String::as_str)
            .chain(of_decisions);
        known.filter(|key| !key.contains('.'))
    }

    /// The tool's value of a key that is left out.
    pub(crate) fn default(&self, key: &str) -> Option<&Json> {
        self.keys.get(key)?.default.as_ref()
    }
}

impl Group {
    fn copy(&self) -> Self {
        Self {
            why: self.why.clone(),
            unless: self.unless.clone(),
            keys: self.keys.clone(),
        }
    }
}

impl Case {
    /// The keys that it reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &str> {
        let of_values = self.set.values().flat_map(items).filter_map(reference);
        self.when.keys().map(String::as_str).chain(of_values)
    }
}

/// The items of a list; of another value, itself.
pub(crate) fn items(value: &Json) -> &[Json] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

/// The key that a value such as `$lora_r` stands for.
pub(crate) fn reference(value: &Json) -> Option<&str> {
    value.as_str()?.strip_prefix('$')
}

/// True if `known`, a key or `x.*`, is `key`.
fn covers(known: &str, key: &str) -> bool {
    match known.strip_suffix(".*") {
        Some(above) => key.strip_prefix(above).is_some_and(|rest| rest.starts_with('.')),
        None => known == key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_table() {
        for text in FILES {
            let tool = serde_saphyr::from_str::<Tool>(text);
            assert!(tool.is_ok(), "{}\n{:?}", &text[..60], tool.err());
        }
        assert_eq!(tools().len(), FILES.len());
    }

    #[test]
    fn every_key_that_a_table_sets_is_ours() {
        for tool in tools() {
            let direct = tool.keys.values().filter_map(|rule| rule.to.as_ref());
            let decided = tool.decisions.iter().flatten().flat_map(|case| case.set.keys());
            for key in direct
                .chain(decided)
                .chain(tool.always.keys())
                .chain(tool.several.keys())
            {
                let path: Vec<String> = key.split('.').map(str::to_owned).collect();
                assert!(cell::keys::is_known(&path), "{}: {key}", tool.name);
            }
        }
    }

    #[test]
    fn a_key_stands_in_one_place_of_a_table() {
        for tool in tools() {
            let groups = [Kind::Idle, Kind::Lost, Kind::Refused].map(|kind| tool.groups(kind));
            let keys = || groups.into_iter().flatten().flat_map(|group| &group.keys);
            for key in keys() {
                if tool.extends.is_none() {
                    assert_eq!(keys().filter(|other| *other == key).count(), 1, "{}: {key}", tool.name);
                }
                let is_elsewhere = tool.keys.contains_key(key) || tool.decides(key);
                assert!(!is_elsewhere || tool.extends.is_some(), "{}: {key}", tool.name);
            }
        }
    }
}
