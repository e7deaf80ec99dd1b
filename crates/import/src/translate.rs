//! A tool's table, applied to a document.

mod check;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use arch::Preset;
use base::text::either;
use indexmap::IndexMap;
use serde_json::Value as Json;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Place;
use yaml::tree::{Node, Value};

use crate::files;
use crate::pattern::holds;
use crate::recognise::{self, Recognised};
use crate::source::{Document, launched_processes};
use crate::table::{Case, Kind, Rule, Tool, items, reference, tools};
use crate::translation::{Left, Setting, Translation, short, shown};
use crate::values::{in_our_words, is_nothing, json_of, scalar};

/// What the caller knows besides the document.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The tool, if it need not be recognised.
    pub tool: Option<&'static Tool>,
    /// The model of a file that names none.
    pub model: Option<String>,
    /// Processes that train together.
    pub processes: Option<usize>,
    /// The folder of the spec.
    pub output: PathBuf,
}

/// Keys that one process alone has no use for.
const SHARED: &str = "distributed";

/// Translates a document.
///
/// # Errors
/// No tool is recognised, a key asks for a training that is not planned, or a value is one that its key cannot have.
pub fn translate(document: &Document, options: &Options) -> Result<Translation, Mistakes> {
    let recognised = options.tool.map_or_else(
        || named_or_recognised(document),
        |tool| {
            Ok(Recognised {
                tool,
                keys: Vec::new(),
                is_command: false,
            })
        },
    );
    let recognised = recognised.map_err(one)?;
    let mut run = Run {
        tool: recognised.tool,
        document,
        output: &options.output,
        settings: IndexMap::new(),
        touched: HashSet::new(),
        lost: Vec::new(),
        idle: Vec::new(),
        remarks: Vec::new(),
        mistakes: Mistakes::default(),
    };
    run.always();
    run.whole();
    run.defaults();
    run.decide();
    let mut empty = Vec::new();
    run.walk(&document.tree, "", &mut empty);
    run.own(options);
    run.check();
    run.finish(recognised, empty)
}

fn one(mistake: Diagnostic) -> Mistakes {
    let mut mistakes = Mistakes::default();
    mistakes.add(mistake);
    mistakes
}

fn named_or_recognised(document: &Document) -> Result<Recognised, Diagnostic> {
    let by_command = document.command.as_ref().and_then(|command| {
        let is_its = |tool: &&Tool| tool.commands.iter().any(|known| command.starts_with(known));
        let tool = tools().iter().find(is_its)?;
        Some(Recognised {
            tool,
            keys: vec![command.clone()],
            is_command: true,
        })
    });
    by_command.or_else(|| recognise::recognise(document)).ok_or_else(|| {
        let names: Vec<&str> = tools().iter().map(|tool| tool.name.as_str()).collect();
        let ids: Vec<&str> = tools().iter().map(|tool| tool.id.as_str()).collect();
        let first = document.tree.as_map().and_then(|map| map.first());
        Diagnostic::new("no tool has these keys")
            .at(first.map_or(document.tree.place, |(_, entry)| entry.key))
            .help(format!(
                "known are files of {}; `--tool` says which it is: {}",
                either(&names),
                either(&ids)
            ))
    })
}

struct Run<'a> {
    tool: &'static Tool,
    document: &'a Document,
    output: &'a Path,
    settings: IndexMap<String, (Node, Setting)>,
    /// Keys of the file that a decision took.
    touched: HashSet<String>,
    lost: Vec<Left>,
    idle: Vec<Left>,
    remarks: Vec<String>,
    mistakes: Mistakes,
}

impl Run<'_> {
    fn beginning(&self) -> Place {
        let map = self.document.tree.as_map();
        map.and_then(|map| map.first())
            .map_or(self.document.tree.place, |(_, entry)| entry.key)
    }

    /// The value of a key of the file, if it has one.
    fn own_value(&self, key: &str) -> Option<&Node> {
        let path: Vec<&str> = key.split('.').collect();
        let found = self.document.tree.get(&path);
        found.filter(|value| !value.is_null())
    }

    /// The value of a key, or the tool's.
    fn value(&self, key: &str) -> Option<Node> {
        let default = || {
            self.tool
                .default(key)
                .map(|value| Node::of_json(value, self.beginning()))
        };
        self.own_value(key).cloned().or_else(default)
    }

    fn set(&mut self, key: &str, value: Node, from: Vec<String>, place: Option<Place>) {
        let setting = Setting {
            key: key.to_owned(),
            value: json_of(&value),
            from,
            place,
        };
        self.settings.insert(key.to_owned(), (value, setting));
    }

    fn always(&mut self) {
        for (key, value) in &self.tool.always {
            let value = Node::of_json(value, self.beginning());
            self.set(key, value, vec![format!("{} trains so", self.tool.name)], None);
        }
    }

    /// The key that takes the whole file.
    fn whole(&mut self) {
        let Some(ours) = &self.tool.whole else { return };
        let place = self.beginning();
        match &self.document.file {
            Some(file) => {
                let text = files::seen_from(self.output, file);
                self.set(ours, scalar(&text, place), vec!["the file itself".into()], None);
            }
            None => {
                let message = format!("a configuration of {} is a file", self.tool.name);
                self.mistakes.add(Diagnostic::new(message).at(place));
            }
        }
    }

    /// The defaults of keys that are ours by another name.
    fn defaults(&mut self) {
        for (key, rule) in &self.tool.keys {
            if let (Some(ours), Some(default)) = (&rule.to, &rule.default)
                && self.own_value(key).is_none()
            {
                let value = in_our_words(rule, Node::of_json(default, self.beginning()));
                let from = vec![format!("{}'s default of {key}", self.tool.name)];
                self.set(ours, value, from, None);
            }
        }
    }

    fn decide(&mut self) {
        let tool = self.tool;
        for cases in &tool.decisions {
            let found = cases.iter().find(|case| self.is_case(case));
            if let Some(case) = found {
                self.apply(case);
            }
            if let Some(why) = found.and_then(|case| case.refused.as_ref())
                && self.mistakes.is_empty()
            {
                self.mistakes.add(Diagnostic::new(why.clone()).at(self.beginning()));
            }
        }
        for case in &tool.unplanned {
            if self.is_case(case) {
                self.remarks.extend(case.lost.clone());
            }
        }
    }

    fn is_case(&self, case: &Case) -> bool {
        case.when
            .iter()
            .all(|(key, pattern)| holds(pattern, self.value(key).as_ref()))
    }

    fn apply(&mut self, case: &Case) {
        let mut read: Vec<&str> = case.reads().filter(|key| self.own_value(key).is_some()).collect();
        read.dedup();
        let place = read
            .first()
            .and_then(|key| self.own_value(key))
            .map(|value| value.place);
        let why = case.idle.as_ref().or(case.lost.as_ref()).or(case.refused.as_ref());
        // A reason is of the key that the case asks last.
        let asked = case.when.keys().next_back();
        if let (Some(why), Some(key)) = (why, asked)
            && let Some(value) = self.own_value(key).cloned()
        {
            if case.refused.is_some() {
                self.mistakes
                    .add(Diagnostic::new(format!("{key}: {why}")).at(value.place));
            } else {
                let left = left(key, &value, why);
                let list = if case.lost.is_some() {
                    &mut self.lost
                } else {
                    &mut self.idle
                };
                list.push(left);
            }
        }
        for (key, value) in &case.set {
            let from = self.origin(case, value);
            let value = self.resolved(value, place.unwrap_or(self.beginning()));
            if let Some(value) = value {
                self.set(key, value, from, place);
            }
        }
        self.touched.extend(read.into_iter().map(str::to_owned));
    }

    /// The keys that a value of a case comes from: those that it refers to, else those that the case was chosen by.
    fn origin(&self, case: &Case, value: &Json) -> Vec<String> {
        let referred: Vec<&str> = items(value).iter().filter_map(reference).collect();
        let keys = match referred.is_empty() {
            true => case.when.keys().map(String::as_str).collect(),
            false => referred,
        };
        let given = keys.iter().filter_map(|key| Some(shown(key, self.own_value(key)?)));
        let given: Vec<String> = given.collect();
        match (given.is_empty(), keys.as_slice()) {
            (false, _) => given,
            (true, [key]) if case.when.is_empty() || !items(value).iter().all(|item| reference(item).is_none()) => {
                vec![format!("{}'s default of {key}", self.tool.name)]
            }
            _ => vec![format!("{}'s default", self.tool.name)],
        }
    }

    /// A value of a table: the references in it have the values of their keys.
    fn resolved(&self, value: &Json, place: Place) -> Option<Node> {
        if let Some(named) = reference(value) {
            let found = self.value(named)?;
            return Some(match self.tool.keys.get(named) {
                Some(rule) => in_our_words(rule, found),
                None => found,
            });
        }
        let Json::Array(items) = value else {
            return Some(Node::of_json(value, place));
        };
        let mut all = Vec::new();
        for item in items {
            match self.resolved(item, place).map(|node| (node.value.clone(), node)) {
                Some((Value::List(own), _)) => all.extend(own.iter().cloned()),
                Some((_, node)) => all.push(node),
                None => {}
            }
        }
        Some(Node {
            value: Value::List(all.into()),
            place,
        })
    }

    /// Goes through the keys of the file: what a decision did not take, its own rule does.
    fn walk(&mut self, node: &Node, above: &str, empty: &mut Vec<String>) {
        let Some(map) = node.as_map() else { return };
        for (name, entry) in map.iter() {
            let key = match above {
                "" => name.to_string(),
                above => format!("{above}.{name}"),
            };
            let is_inner = entry.value.as_map().is_some_and(|map| !map.is_empty());
            if entry.value.is_null() {
                empty.push(key);
            } else if is_inner && self.tool.names_below(&key) {
                self.walk(&entry.value, &key, empty);
            } else if !self.touched.contains(&key) || self.tool.keys.get(&key).is_some_and(|rule| rule.to.is_some()) {
                self.one(&key, &entry.value, entry.key);
            }
        }
    }

    fn one(&mut self, key: &str, value: &Node, place: Place) {
        let tool = self.tool;
        if let Some(rule) = tool.keys.get(key).filter(|rule| rule.to.is_some()) {
            return self.take(key, rule, value);
        }
        if let Some((kind, group)) = tool.group(key) {
            let asks = !is_nothing(value) && !group.unless.iter().any(|nothing| holds(nothing, Some(value)));
            match kind {
                Kind::Refused if asks => {
                    let message = format!("{key}: {}", group.why);
                    self.mistakes.add(Diagnostic::new(message).at(value.place));
                }
                Kind::Lost if asks => self.lost.push(left(key, value, &group.why)),
                Kind::Idle => self.idle.push(left(key, value, &group.why)),
                _ => self.idle.push(left(key, value, "asks for nothing")),
            }
            return;
        }
        if tool.names(key) {
            // A key of a decision that no case of it read.
            return self
                .idle
                .push(left(key, value, "asks for nothing beside the other keys"));
        }
        let known: Vec<&str> = tool.top_level().collect();
        let near = base::text::nearest(key, known).map_or_else(String::new, |near| format!("; {near} is one"));
        let why = format!("not a key of {} {}{near}", tool.name, tool.release);
        let _ = place;
        self.lost.push(left(key, value, &why));
    }

    fn take(&mut self, key: &str, rule: &Rule, value: &Node) {
        let Some(ours) = &rule.to else { return };
        let from = vec![shown(key, value)];
        if rule.file {
            let Some(path) = value.text() else {
                self.lost
                    .push(left(key, value, "only the path of a file is taken over"));
                return;
            };
            return match files::find(path, &self.document.folder) {
                Some(found) => {
                    let text = files::seen_from(self.output, &found);
                    let value = scalar(&text, value.place);
                    self.set(ours, value.clone(), from, Some(value.place));
                }
                None => {
                    let why = format!("the file is not there; with it, `{ours}` takes it over");
                    self.lost.push(left(key, value, &why));
                }
            };
        }
        let is_ours = rule
            .values
            .keys()
            .any(|word| holds(&Json::String(word.clone()), Some(value)));
        if let Some(otherwise) = rule.otherwise.as_ref().filter(|_| !is_ours) {
            self.lost.extend(otherwise.lost.iter().map(|why| left(key, value, why)));
            self.idle.extend(otherwise.idle.iter().map(|why| left(key, value, why)));
            if let Some(instead) = &otherwise.take {
                self.set(ours, Node::of_json(instead, value.place), from, Some(value.place));
            }
            return;
        }
        let value = in_our_words(rule, value.clone());
        let place = value.place;
        self.set(ours, value, from, Some(place));
    }

    /// What the command line says: the model of a file without one, and how many processes share the work.
    fn own(&mut self, options: &Options) {
        let beginning = self.beginning();
        let given = |option: &str| vec![option.to_owned()];
        if let Some(model) = &options.model {
            self.set("model", scalar(model, beginning), given("--model"), None);
        } else if !self.settings.contains_key("model") {
            let message = format!("the file of {} names no model", self.tool.name);
            let mistake = Diagnostic::new(message).at(beginning);
            self.mistakes.add(mistake.help("name it: `--model llama-3.1-8b`"));
        }
        let named = self
            .settings
            .get("model")
            .and_then(|(value, _)| Some((value.text()?.to_owned(), value.place)));
        if let Some((model, place)) = named
            && let Some(family) = Preset::other_family(&model)
        {
            let message = format!("{model} is {family}, which is not planned");
            self.mistakes.add(Diagnostic::new(message).at(place));
        }
        let of_comment = || launched_processes(&self.document.text);
        if let Some(processes) = options.processes {
            let value = scalar(&processes.to_string(), beginning);
            self.set("world_size", value, given("--processes"), None);
        } else if !self.settings.contains_key("world_size") {
            let shares = self
                .settings
                .get(SHARED)
                .and_then(|(value, _)| value.text().map(str::to_owned));
            if let Some((line, processes)) = of_comment().filter(|(_, processes)| *processes > 1) {
                let value = scalar(&processes.to_string(), beginning);
                self.set("world_size", value, vec![format!("the command in line {line}")], None);
            } else if shares.is_some_and(|shares| shares != "ddp") {
                let value = scalar("2", beginning);
                let from = "not in the file: the fewest that share; --processes says how many".to_owned();
                self.remarks
                    .push("the file does not say how many processes share the model; 2 are planned".into());
                self.set("world_size", value, vec![from], None);
            }
        }
        let is_several = |(value, _): &(Node, Setting)| value.text() != Some("1");
        if !self.settings.get("world_size").is_some_and(is_several) {
            return;
        }
        let unsaid = Some(&self.tool.processes).filter(|_| !self.settings.contains_key(SHARED));
        for (key, value) in unsaid.into_iter().chain([&self.tool.several]).flatten() {
            let value = Node::of_json(value, beginning);
            let from = format!("{}'s way of several processes", self.tool.name);
            self.set(key, value, vec![from], None);
        }
    }

    fn finish(self, recognised: Recognised, empty: Vec<String>) -> Result<Translation, Mistakes> {
        if !self.mistakes.is_empty() {
            return Err(self.mistakes);
        }
        let order: Vec<&str> = cell::keys::top_level().collect();
        let rank = |setting: &Setting| {
            let top = setting.key.split('.').next().unwrap_or_default();
            order.iter().position(|key| *key == top)
        };
        let mut settings: Vec<Setting> = self.settings.into_values().map(|(_, setting)| setting).collect();
        settings.sort_by_key(|setting| rank(setting));
        Ok(Translation {
            recognised,
            settings,
            lost: self.lost,
            idle: self.idle,
            empty,
            remarks: self.remarks,
        })
    }
}

fn left(key: &str, value: &Node, why: &str) -> Left {
    Left {
        key: key.to_owned(),
        value: short(value),
        why: why.to_owned(),
    }
}
