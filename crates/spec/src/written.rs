//! Where the values of cells were written, for mistakes that show after the spec is read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cell::Cell;
use cell::keys;
use serde_json::Value as Json;
use yaml::place::{Place, SourceKind, Sources};
use yaml::tree::Node;

use super::key_path::lies_in;
use super::origin::collect;
use super::sweep::{Assignment, Sweep};
use crate::typed;

/// The places of the defaults and of the swept values. They say nothing of what a study means: any two are equal.
#[derive(Clone, Default)]
pub(crate) struct Written {
    sources: Arc<Sources>,
    /// By dotted key.
    defaults: BTreeMap<String, Place>,
    swept: Vec<Swept>,
}

/// A value of an axis or of an included cell.
#[derive(Clone)]
struct Swept {
    name: String,
    value: Json,
    place: Place,
}

impl Written {
    pub(super) fn new(defaults: &Node, sweep: &Sweep, sources: &Arc<Sources>) -> Self {
        let mut places = BTreeMap::new();
        collect(defaults, String::new(), &mut places);
        // The section itself is no key.
        places.remove("");
        let swept = sweep.axes().flat_map(|axis| &axis.values);
        let swept = swept.chain(sweep.include.iter().flatten());
        Self {
            sources: Arc::clone(sources),
            defaults: places,
            swept: swept.filter_map(|assignment| Swept::of(assignment, defaults)).collect(),
        }
    }

    /// Where the value that `cell` has for `key` was written: `line:column` behind the name of the spec's file, or an
    /// override. The file alone if the key was left out, and the command line if there is no file.
    pub(super) fn place(&self, cell: &Cell, key: &str, file: Option<&str>) -> String {
        let is_part = |name: &str| lies_in(key, name) || lies_in(name, key);
        let is_its = |swept: &&Swept| is_part(&swept.name) && cell.value(&swept.name) == swept.value;
        let swept = self.swept.iter().find(is_its).map(|swept| swept.place);
        let around = self.defaults.iter().filter(|(name, _)| lies_in(key, name));
        let default = around.max_by_key(|(name, _)| name.len()).map(|(_, place)| *place);
        match (swept.or(default), file) {
            (Some(place), _) if !place.is_in_file() => {
                let source = self.sources.get(place.source);
                format!("{} {}", source.name, source.text)
            }
            (Some(place), Some(file)) => {
                let (_, line, column) = self.sources.locate(place);
                format!("{file}:{line}:{column}")
            }
            (Some(place), None) if self.sources.get(place.source).kind == SourceKind::Generated => {
                self.sources.get(place.source).name.clone()
            }
            (_, file) => file.unwrap_or("command line").to_owned(),
        }
    }
}

/// The key of a cell that a message begins with, in backquotes: `` `rank: 4`: … ``.
pub fn key_in_front(message: &str) -> Option<&str> {
    let (quoted, _) = message.strip_prefix('`')?.split_once('`')?;
    let key = quoted.split_once(": ").map_or(quoted, |(key, _)| key);
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    keys::is_known(&path).then_some(key)
}

impl Swept {
    fn of(assignment: &Assignment, defaults: &Node) -> Option<Self> {
        let mut tree = defaults.clone();
        assignment.apply(&mut tree);
        let cell: Cell = typed::read(&tree).ok()?;
        let place = assignment.value.place;
        Some(Self {
            name: assignment.name.clone(),
            value: cell.value(&assignment.name),
            place: if place.is_empty() { assignment.key } else { place },
        })
    }
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Overrides, parse};

    #[test]
    fn values_know_where_they_were_written() {
        let text = "name: x\ndefaults: {model: tiny, data: {path: a.txt}}\nsweep:\n  grid:\n    rank: [4, 8]\n";
        let overrides = Overrides::new([], vec!["seed=3".into()]);
        let study = parse(Path::new("/nowhere/x.yaml"), text, &overrides).unwrap();
        let places = |key: &str| {
            study
                .cells
                .iter()
                .map(|cell| study.place_of(cell, key))
                .collect::<Vec<_>>()
        };
        assert_eq!(places("rank"), ["/nowhere/x.yaml:5:12", "/nowhere/x.yaml:5:15"]);
        assert_eq!(places("data.path")[0], "/nowhere/x.yaml:2:38");
        assert_eq!(places("data.format")[0], "/nowhere/x.yaml:2:31");
        assert_eq!(places("seed")[1], "--set seed=3");
        assert_eq!(places("max_seq_length")[0], "/nowhere/x.yaml");
        assert_eq!(
            study.name_in_study(&study.cells[0]),
            format!(" (cell {})", study.cells[0].id)
        );
    }

    #[test]
    fn a_message_may_begin_with_its_key() {
        assert_eq!(key_in_front("`lora.bias`: the model has no bias"), Some("lora.bias"));
        assert_eq!(key_in_front("`rank: 4`: too long"), Some("rank"));
        for message in ["`hidden_size`: expected a number", "the `rank` is 4", "`rank", ""] {
            assert_eq!(key_in_front(message), None, "{message}");
        }
    }
}
