//! The keys without an effect, as their facts say.

use std::sync::LazyLock;

use options::Invalid;
use serde_json::{Map, Value};

use super::super::{Cell, Facts, Idle, stacks};
use super::found::Found;

/// The keys whose facts say why.
static IDLE: LazyLock<Vec<(String, &Facts, Idle)>> = LazyLock::new(|| {
    let keys = Facts::all().into_iter();
    keys.filter_map(|(key, facts)| Some((key, facts, facts.idle?)))
        .collect()
});

impl Cell {
    /// A key of its stack that a cell does not heed must have its default. Some say more than their facts: they have
    /// checks of their own.
    pub(super) fn check_idle(&self, keys: &Map<String, Value>, found: &mut Found) {
        let (deciding, defaults) = (self.deciding(), Self::default_map());
        for (key, _, idle) in IDLE.iter().filter(|(_, facts, _)| !(facts.heeded)(&deciding)) {
            if value(keys, key) != value(defaults, key) && stacks(key).contains(&self.stack) {
                let or = idle.or.map_or_else(String::new, |or| format!(", or {or}"));
                let invalid = Invalid::idle(key, idle.reason).with(idle.by);
                found.add(invalid.help(format!("leave the key out{or}")));
            }
        }
    }
}

/// The value of a dotted key; null if there is none.
pub(super) fn value<'m>(keys: &'m Map<String, Value>, path: &str) -> &'m Value {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = keys.get(first).unwrap_or(&Value::Null);
    match rest {
        "" => value,
        _ => rest.split('.').fold(value, |value, name| &value[name]),
    }
}
