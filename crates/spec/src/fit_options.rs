//! The options `--vary` and `--keep` of a search, laid over the `fit` section.

use std::rc::Rc;

use base::text::quoted;
use yaml::Budget;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::{Place, Sources};
use yaml::tree::{Entry, Map, Node, Scalar, Value};

use super::layers::Layer;
use super::overrides::Overrides;

/// Reads the options. Each replaces the spec's own key.
pub(crate) fn read(overrides: &Overrides, sources: &mut Sources, mistakes: &mut Mistakes) -> Vec<Layer> {
    let vary = vary(overrides.vary(), sources, mistakes).map(|value| ("vary", value));
    let keep = keep(overrides.keep(), sources, mistakes).map(|value| ("keep", value));
    let layer = |(key, value): (&str, Node)| Layer {
        origin: format!("--{key}"),
        path: vec!["fit".into(), key.into()],
        key: value.place,
        value,
    };
    [vary, keep].into_iter().flatten().map(layer).collect()
}

/// The map of keys that may change; `None` if there are none.
fn vary(texts: &[String], sources: &mut Sources, mistakes: &mut Mistakes) -> Option<Node> {
    let mut map = Map::new();
    for text in texts {
        let source = sources.add_argument("--vary", text.as_str());
        let Some((name, entry)) = mistakes.take(key_to_vary(text, source)) else {
            continue;
        };
        match map.get(name) {
            Some(Entry { key, .. }) => mistakes.add(
                Diagnostic::new(format!("--vary: {} is given twice", quoted(name)))
                    .at(entry.key)
                    .label(*key, "the first time"),
            ),
            None => drop(map.insert(name.into(), entry)),
        }
    }
    let place = map.first()?.1.key;
    Some(Node {
        value: Value::Map(Rc::new(map)),
        place,
    })
}

/// A key with its values, or with null if the search chooses them.
fn key_to_vary(text: &str, source: u32) -> Result<(&str, Entry), Diagnostic> {
    let place = |start: usize, end: usize| Place {
        source,
        start: start as u32,
        end: end as u32,
    };
    let (name, values) = match text.split_once('=') {
        Some((name, values)) => (name, Some(values)),
        None => (text, None),
    };
    let key = place(0, name.len());
    let name = name.trim();
    if name.is_empty() {
        return Err(Diagnostic::new("--vary: there is no key")
            .at(place(0, text.len()))
            .help("write `--vary rank`, or `--vary rank=8,4` with the values to try"));
    }
    if name.contains(',') {
        let names = name.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut each = names.map(|name| format!("--vary {name}")).collect::<Vec<_>>().join(" ");
        if let Some(values) = values {
            each += &format!("={values}");
        }
        return Err(Diagnostic::new("--vary: each option has one key")
            .at(key)
            .help(format!("write `{each}`")));
    }
    let value = match values {
        None => Node {
            value: Value::Scalar(Scalar {
                text: "".into(),
                plain: true,
            }),
            place: key,
        },
        Some(values) if values.trim().is_empty() => {
            return Err(Diagnostic::new(format!("--vary: {} has no values", quoted(name)))
                .at(place(0, text.len()))
                .help(format!("write `--vary {name}` to try those that save memory")));
        }
        Some(values) => {
            // The bracket stands where the equals sign is.
            let start = text.len() - values.len();
            let list = yaml::parse(&format!("[{values}]"), source, start as u32 - 1, Budget::SPEC)?;
            Node {
                place: place(start, text.len()),
                ..list
            }
        }
    };
    Ok((name, Entry { key, value }))
}

/// The list of keys that stay; `None` if there are none.
fn keep(texts: &[String], sources: &mut Sources, mistakes: &mut Mistakes) -> Option<Node> {
    let mut keys = Vec::new();
    for text in texts {
        let source = sources.add_argument("--keep", text.as_str());
        let mut start = 0;
        for name in text.split(',') {
            let place = Place {
                source,
                start: start as u32,
                end: (start + name.len()) as u32,
            };
            start += name.len() + 1;
            if name.trim().is_empty() {
                let missing = Diagnostic::new("--keep: there is no key").at(place);
                mistakes.add(missing.help("write `--keep dtype,rank`"));
                continue;
            }
            let value = Value::Scalar(Scalar {
                text: name.trim().into(),
                plain: true,
            });
            keys.push(Node { value, place });
        }
    }
    let place = keys.first()?.place;
    Some(Node {
        value: Value::List(Rc::new(keys)),
        place,
    })
}
