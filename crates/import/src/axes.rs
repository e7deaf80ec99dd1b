//! Sweeps of other programs as axes: axolotl's `--sweep`, the `parameters` of Weights & Biases, Hydra's `a=1,2`.

use std::collections::BTreeMap;
use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value as Json;
use yaml::Budget;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Sources;
use yaml::tree::{Node, Value};

use crate::source::Document;
use crate::translate::{Options, translate};
use crate::translation::Translation;

/// More combinations than this are not translated one by one.
const MOST: usize = 1000;

/// Keys of the tool that vary. The values of one axis are alternatives, each a set of keys.
#[derive(Debug, Clone, Default)]
pub struct Axes(Vec<Vec<Vec<(String, Node)>>>);

/// The axes as a spec's `sweep` has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Swept {
    /// Axes of which every combination is a cell.
    pub grid: IndexMap<String, Vec<Json>>,
    /// Axes that step together.
    pub zip: IndexMap<String, Vec<Json>>,
    /// Cells one by one, where neither says it.
    pub include: Vec<IndexMap<String, Json>>,
}

impl Swept {
    /// The keys that vary.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let axes = self.grid.keys().chain(self.zip.keys());
        axes.chain(self.include.iter().flat_map(IndexMap::keys))
            .map(String::as_str)
    }
}

impl Axes {
    /// Reads the file of a sweep.
    ///
    /// # Errors
    /// It cannot be read, and those of [`Axes::read`].
    pub fn open(path: &Path, sources: &mut Sources) -> Result<Self, Diagnostic> {
        let text = crate::source::read(path)
            .map_err(|error| Diagnostic::new(format!("cannot read {}: {error}", path.display())))?;
        let source = sources.add(path.display().to_string(), text.clone());
        Self::read(&yaml::parse(&text, source, 0, Budget::SPEC)?)
    }

    /// Reads a sweep: of Weights & Biases if it has `parameters`, else axolotl's, a map of lists, in which `_` is a list of
    /// maps whose keys step together.
    ///
    /// # Errors
    /// It is neither, or draws values from a distribution.
    pub fn read(tree: &Node) -> Result<Self, Diagnostic> {
        let map = tree
            .as_map()
            .ok_or_else(|| Diagnostic::new(format!("a sweep is a map of keys, not {}", tree.kind())).at(tree.place))?;
        if let Some(parameters) = map.get("parameters") {
            return Self::of_parameters(&parameters.value);
        }
        let axes = map.iter().map(|(key, entry)| {
            let values = values(key, &entry.value)?;
            let alternative = |value: &Node| match (&**key, value.as_map()) {
                ("_", Some(keys)) => Ok(keys
                    .iter()
                    .map(|(key, entry)| (key.to_string(), entry.value.clone()))
                    .collect()),
                ("_", None) => Err(Diagnostic::new("`_` is a list of maps").at(value.place)),
                _ => Ok(vec![(key.to_string(), value.clone())]),
            };
            values.iter().map(alternative).collect::<Result<Vec<_>, _>>()
        });
        Ok(Self(axes.collect::<Result<_, _>>()?))
    }

    fn of_parameters(parameters: &Node) -> Result<Self, Diagnostic> {
        let map = parameters
            .as_map()
            .ok_or_else(|| Diagnostic::new("`parameters` is a map of keys").at(parameters.place))?;
        let mut axes = Vec::new();
        for (key, entry) in map.iter() {
            let of = |name: &str| entry.value.get(&[name]);
            let own = match (of("values"), of("value"), of("parameters")) {
                (Some(list), _, _) => values(key, list)?.to_vec(),
                (None, Some(value), _) => vec![value.clone()],
                (None, None, Some(below)) => {
                    let below = Self::of_parameters(below)?;
                    let named = |(name, value)| (format!("{key}.{name}"), value);
                    let of_axis = |axis: Vec<Vec<(String, Node)>>| {
                        let alternatives = axis.into_iter();
                        alternatives.map(|keys| keys.into_iter().map(named).collect()).collect()
                    };
                    axes.extend(below.0.into_iter().map(of_axis).collect::<Vec<_>>());
                    continue;
                }
                _ => {
                    let message = format!("{key}: values that are drawn from a distribution are not planned");
                    return Err(Diagnostic::new(message)
                        .at(entry.place())
                        .help("list them: `values: [...]`"));
                }
            };
            axes.push(own.into_iter().map(|value| vec![(key.to_string(), value)]).collect());
        }
        Ok(Self(axes))
    }

    /// Parts settings whose value is several, as Hydra's overrides `a=1,2` are, from the others.
    pub fn of_overrides(overrides: &[(String, Node)]) -> (Vec<(String, Node)>, Self) {
        let (mut single, mut axes) = (Vec::new(), Vec::new());
        for (key, value) in overrides {
            let Value::Scalar(scalar) = &value.value else {
                single.push((key.clone(), value.clone()));
                continue;
            };
            let parts: Vec<&str> = scalar.text.split(',').map(str::trim).collect();
            match parts.as_slice() {
                [_] => single.push((key.clone(), value.clone())),
                parts => {
                    let alternatives = parts
                        .iter()
                        .map(|part| vec![(key.clone(), crate::values::scalar(part, value.place))]);
                    axes.push(alternatives.collect());
                }
            }
        }
        (single, Self(axes))
    }

    /// True if nothing varies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Both.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Translates each combination. Returns the first, without what varies, and the axes.
    ///
    /// # Errors
    /// Those of [`translate`], and too many combinations.
    pub fn translate(&self, document: &Document, options: &Options) -> Result<(Translation, Swept), Mistakes> {
        let count = self
            .0
            .iter()
            .try_fold(1usize, |product, axis| product.checked_mul(axis.len()));
        if count.is_none_or(|count| count > MOST) {
            let mut mistakes = Mistakes::default();
            mistakes
                .add(Diagnostic::new(format!("the sweep has more than {MOST} combinations")).at(document.tree.place));
            return Err(mistakes);
        }
        let mut combinations: Vec<Vec<usize>> = vec![Vec::new()];
        for axis in &self.0 {
            let longer = |chosen: Vec<usize>| (0..axis.len()).map(move |index| [chosen.clone(), vec![index]].concat());
            combinations = combinations.into_iter().flat_map(longer).collect();
        }
        let mut translated = Vec::new();
        for chosen in &combinations {
            let mut document = document.clone();
            for (axis, index) in self.0.iter().zip(chosen) {
                for (key, value) in &axis[*index] {
                    document.set(key, value.clone());
                }
            }
            translated.push(translate(&document, options)?);
        }
        let cells: Vec<Keys> = translated.iter().map(keys_of).collect();
        let swept = self.swept(&combinations, &cells);
        let mut first = translated.swap_remove(0);
        for other in translated {
            // A loss of any cell is a loss of the study.
            let new = other
                .lost
                .into_iter()
                .filter(|left| !first.lost.contains(left))
                .collect::<Vec<_>>();
            first.lost.extend(new);
        }
        Ok((first, swept))
    }

    /// The cells as axes: a grid if each of the tool's axes moves one key of ours by itself, with what moves together as
    /// a zip if one of them moves several. Else one by one.
    fn swept(&self, combinations: &[Vec<usize>], cells: &[Keys]) -> Swept {
        let first = &cells[0];
        let varying: Vec<&String> = {
            let mut all: Vec<&String> = cells.iter().flat_map(BTreeMap::keys).collect();
            all.sort();
            all.dedup();
            all.retain(|key| cells.iter().any(|cell| cell.get(*key) != first.get(*key)));
            all
        };
        let value = |cell: &Keys, key: &str| cell.get(key).cloned().unwrap_or(Json::Null);
        let one_by_one = || {
            let mut include: Vec<IndexMap<String, Json>> = Vec::new();
            for cell in cells {
                let row: IndexMap<_, _> = varying.iter().map(|key| ((*key).clone(), value(cell, key))).collect();
                // A key without effect makes no new cell.
                if !include.contains(&row) {
                    include.push(row);
                }
            }
            Swept {
                include,
                ..Swept::default()
            }
        };
        let mut swept = Swept::default();
        let mut placed = 0;
        for (axis, alternatives) in self.0.iter().enumerate() {
            // The cells in which the other axes have their first value.
            let alone = |index: usize| {
                let is_it = |chosen: &Vec<usize>| {
                    chosen
                        .iter()
                        .enumerate()
                        .all(|(other, at)| *at == if other == axis { index } else { 0 })
                };
                combinations.iter().position(is_it).map_or(first, |at| &cells[at])
            };
            let own: Vec<&Keys> = (0..alternatives.len()).map(alone).collect();
            let moved: Vec<&&String> = varying
                .iter()
                .filter(|key| own.iter().any(|cell| value(cell, key) != value(first, key)))
                .collect();
            placed += moved.len();
            let columns = moved.iter().map(|key| {
                (
                    (**key).clone(),
                    own.iter().map(|cell| value(cell, key)).collect::<Vec<_>>(),
                )
            });
            match moved.len() {
                0 => {}
                1 => swept.grid.extend(columns),
                _ if swept.zip.is_empty() => swept.zip.extend(columns),
                _ => return one_by_one(),
            }
        }
        let has_null = swept
            .grid
            .values()
            .chain(swept.zip.values())
            .flatten()
            .any(Json::is_null);
        let is_product = placed == varying.len() && !has_null && self.is_product(combinations, cells, &swept);
        if is_product { swept } else { one_by_one() }
    }

    /// True if each cell has the values that the axes have for it.
    fn is_product(&self, combinations: &[Vec<usize>], cells: &[Keys], swept: &Swept) -> bool {
        let mut known: IndexMap<&str, usize> = IndexMap::new();
        for (key, column) in swept.grid.iter().chain(&swept.zip) {
            let of_axis = (0..self.0.len()).find(|axis| {
                combinations
                    .iter()
                    .zip(cells)
                    .all(|(chosen, cell)| cell.get(key) == column.get(chosen[*axis]))
            });
            let Some(axis) = of_axis else { return false };
            known.insert(key, axis);
        }
        true
    }
}

type Keys = BTreeMap<String, Json>;

fn keys_of(translation: &Translation) -> Keys {
    let settings = translation.settings.iter();
    settings
        .map(|setting| (setting.key.clone(), setting.value.clone()))
        .collect()
}

fn values<'n>(key: &str, node: &'n Node) -> Result<&'n [Node], Diagnostic> {
    match &node.value {
        Value::List(items) if !items.is_empty() => Ok(items),
        _ => {
            let message = format!("{key}: an axis is a list of values, not {}", node.kind());
            Err(Diagnostic::new(message).at(node.place))
        }
    }
}
