//! `study.yaml` and `cell.yaml`: a study and a cell on disk.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cell::Cell;
use records::store::{STUDY_FILE, check_yaml, seal_yaml};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use serde_saphyr::FlowMap;
use yaml::Budget;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Sources;
use yaml::tree::{Node, Value};

use super::axis_values::axis_values;
use super::entries;
use super::error::SpecError;
use super::invocation::Invocation;
use super::lineage::{Fallback, Lineage, Resolved, Trials};
use super::normal_path::normal_path;
use super::on_oom::Rung;
use super::origin::Origin;
use super::read::read_text;
use super::study::{Study, StudyCell};
use super::sweep;
use crate::typed;

/// Raised when the keys of the file or of its cells change.
const FORMAT: u32 = 2;

/// The way out with a file of another version.
pub(super) const WRITE_AGAIN: &str = "`expctl run` with the spec writes it again and keeps the records of its cells";

const LARGEST: u64 = 1 << 30;

/// All of the file but the cells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header<S> {
    format: u32,
    /// The sections of the spec.
    spec: S,
    /// The spec's folder, relative to the study's.
    directory: PathBuf,
    file: String,
    axes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(default)]
    invocation: Invocation,
}

/// The cells: the keys that all of them share, and for each those that it does not share.
#[derive(Serialize)]
struct Cells {
    common: Map<String, Json>,
    cells: Vec<FlowMap<CellKeys>>,
}

#[derive(Serialize)]
struct CellKeys {
    id: String,
    keys: FlowMap<Map<String, Json>>,
    #[serde(flatten)]
    lineage: LineageKeys,
}

/// How a cell came into the study; nothing for one that the spec has as it is.
#[derive(Default, Serialize)]
struct LineageKeys {
    /// The keys that were resolved, as the spec has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<FlowMap<Map<String, Json>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trial_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback_step: Option<Rung>,
}

impl LineageKeys {
    fn of(study_cell: &StudyCell) -> Self {
        match &study_cell.lineage {
            Lineage::Written => Self::default(),
            Lineage::Resolved(resolved) => {
                let (resolved_to, mut asked) = (study_cell.cell.to_map(), resolved.asked.to_map());
                asked.retain(|key, value| resolved_to.get(key) != Some(value));
                Self {
                    asked: Some(FlowMap(asked)),
                    trials: Some(resolved.trials.count),
                    trial_seconds: Some(resolved.trials.seconds),
                    ..Self::default()
                }
            }
            Lineage::Fallback(fallback) => Self {
                fallback_of: Some(fallback.of.clone()),
                fallback_step: Some(fallback.step),
                ..Self::default()
            },
        }
    }
}

impl Study {
    /// The text of `study.yaml` in `folder`; paths in it are relative to that folder, so that both can be moved
    /// together.
    ///
    /// # Errors
    /// The current directory cannot be found.
    pub fn to_yaml(&self, folder: &Path) -> io::Result<String> {
        let header = Header {
            format: FORMAT,
            spec: self,
            directory: relative(&std::path::absolute(folder)?, &self.directory),
            file: self.file.clone(),
            axes: self.axes.clone(),
            notes: self.notes.clone(),
            invocation: self.invocation.clone(),
        };
        let text = |error: serde_saphyr::ser::Error| io::Error::other(error.to_string());
        let header = serde_saphyr::to_string(&header).map_err(text)?;
        let cells = serde_saphyr::to_string(&share(&self.cells)).map_err(text)?;
        Ok(seal_yaml(&format!("{header}{cells}"), STUDY_FILE))
    }

    /// Writes `study.yaml` into `folder`, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        io::Write::write_all(&mut file, self.to_yaml(folder)?.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(folder.join(STUDY_FILE))?;
        Ok(())
    }

    /// Reads the `study.yaml` in `folder`.
    ///
    /// # Errors
    /// It is missing, damaged, or was written by a version whose cells have other ids.
    pub fn read(folder: &Path) -> Result<Self, SpecError> {
        let path = folder.join(STUDY_FILE);
        let text = read_text(&path, LARGEST)?;
        check_yaml(&text, STUDY_FILE, &path).map_err(|error| SpecError::without_place(error.to_string()))?;
        Self::from_yaml(&path.display().to_string(), &text, folder)
    }

    /// The name of the study in `folder`, read from a `study.yaml` of any version. `None` if there is no such file, or
    /// it has no name that can be read.
    pub fn name_in(folder: &Path) -> Option<String> {
        let text = read_text(&folder.join(STUDY_FILE), LARGEST).ok()?;
        let source = Sources::default().add(STUDY_FILE, &text);
        let node = yaml::parse(&text, source, 0, Budget::STUDY).ok()?;
        // Format 1 had the sections of the spec at the top.
        typed::read(node.get(&["spec", "name"]).or_else(|| node.get(&["name"]))?).ok()
    }

    /// True if the `study.yaml` in `folder` was changed after it was written.
    pub fn is_changed_in(folder: &Path) -> bool {
        let path = folder.join(STUDY_FILE);
        read_text(&path, LARGEST).is_ok_and(|text| check_yaml(&text, STUDY_FILE, &path).is_err())
    }

    fn from_yaml(name: &str, text: &str, folder: &Path) -> Result<Self, SpecError> {
        let mut sources = Sources::default();
        let source = sources.add(name, text);
        let node = yaml::parse(text, source, 0, Budget::STUDY);
        let sources = Arc::new(sources);
        node.and_then(|node| from_node(node, folder, &sources))
            .map_err(|error| SpecError::new(error, &sources))
    }
}

fn share(cells: &[StudyCell]) -> Cells {
    let mut maps: Vec<Map<String, Json>> = cells.iter().map(|study_cell| study_cell.cell.to_map()).collect();
    let mut common = maps.first().cloned().unwrap_or_default();
    for map in &maps {
        common.retain(|key, value| map.get(key) == Some(value));
    }
    for map in &mut maps {
        map.retain(|key, _| !common.contains_key(key));
    }
    let cell = |(study_cell, keys): (&StudyCell, _)| {
        FlowMap(CellKeys {
            id: study_cell.id.clone(),
            keys: FlowMap(keys),
            lineage: LineageKeys::of(study_cell),
        })
    };
    Cells {
        common,
        cells: cells.iter().zip(maps).map(cell).collect(),
    }
}

fn from_node(mut node: Node, folder: &Path, sources: &Arc<Sources>) -> Result<Study, Diagnostic> {
    check_format(&node)?;
    let place = node.place;
    let missing = |key: &str| Diagnostic::new(format!("the key `{key}` is missing")).at(place);
    let Value::Map(map) = &mut node.value else {
        return Err(Diagnostic::new(format!("expected a map, got {}", node.kind())).at(place));
    };
    let map = std::rc::Rc::make_mut(map);
    let common = map.shift_remove("common").ok_or_else(|| missing("common"))?.value;
    let cells = map.shift_remove("cells").ok_or_else(|| missing("cells"))?.value;
    for key in ["defaults", "sweep"] {
        if let Some(section) = node.get(&["spec", key]) {
            let message = format!("spec.{key}: the study's cells stand under `cells`");
            return Err(Diagnostic::new(message).at(section.place));
        }
    }
    let header: Header<Study> = typed::read(&node).map_err(|error| error.diagnostic(""))?;
    let Value::List(cells) = &cells.value else {
        return Err(Diagnostic::new(format!("cells: expected a list, got {}", cells.kind())).at(cells.place));
    };
    let cells = cells
        .iter()
        .map(|cell| read_cell(cell, &common, &header.axes))
        .collect::<Result<_, _>>()?;
    let mut study = header.spec;
    if let Some(node) = node.get(&["spec", "description"]) {
        study.description.origin = Origin::of("description", node, sources);
    }
    let mut mistakes = Mistakes::default();
    entries::check(
        &mut study.published,
        node.get(&["spec", "published"]),
        sources,
        &mut mistakes,
    );
    entries::check(&mut study.claims, node.get(&["spec", "claims"]), sources, &mut mistakes);
    if let Some(mistake) = mistakes.in_order().into_iter().next() {
        return Err(mistake);
    }
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    Ok(Study {
        directory: normal_path(&folder.join(header.directory)),
        file: header.file,
        cells,
        axes: header.axes,
        notes: header.notes,
        invocation: header.invocation,
        ..study
    })
}

/// Checked before all else: other formats have other keys.
fn check_format(node: &Node) -> Result<(), Diagnostic> {
    let Some(node) = node.get(&["format"]) else {
        return Ok(());
    };
    let format: u32 = typed::read(node).map_err(|error| error.diagnostic("format"))?;
    if format == FORMAT {
        return Ok(());
    }
    let message = format!("format {format} was written by another version; this one reads {FORMAT}");
    Err(Diagnostic::new(message).at(node.place).help(WRITE_AGAIN))
}

fn read_cell(node: &Node, common: &Node, axes: &[String]) -> Result<StudyCell, Diagnostic> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        id: String,
        #[serde(rename = "keys")]
        _keys: Map<String, Json>,
        #[serde(rename = "asked")]
        _asked: Option<Map<String, Json>>,
        trials: Option<u32>,
        trial_seconds: Option<f64>,
        fallback_of: Option<String>,
        fallback_step: Option<Rung>,
    }

    let named: Named = typed::read(node).map_err(|error| error.diagnostic("cells"))?;
    let mut tree = common.clone();
    let mut lay_over = |key: &str| -> Result<Option<Cell>, Diagnostic> {
        let Some(keys) = node.get(&[key]) else {
            return Ok(None);
        };
        for (key, entry) in sweep::expect_map(keys, "cells")?.iter() {
            tree.set(&[key.to_string()], entry.key, entry.value.clone());
        }
        typed::read(&tree).map(Some).map_err(|error| error.diagnostic(""))
    };
    let missing = || Diagnostic::new("cells: the key `keys` is missing").at(node.place);
    let cell = lay_over("keys")?.ok_or_else(missing)?;
    let asked = lay_over("asked")?;
    let map = cell.to_map();
    let id = cell.id_of(&map);
    if id != named.id {
        let message = format!(
            "the cell {} is {id} by its keys: the file was edited, or another version wrote it",
            named.id
        );
        return Err(Diagnostic::new(message).at(node.place));
    }
    let lineage = match (asked, named.fallback_of.zip(named.fallback_step)) {
        (Some(asked), _) => Lineage::Resolved(Box::new(Resolved {
            asked,
            trials: Trials {
                count: named.trials.unwrap_or_default(),
                seconds: named.trial_seconds.unwrap_or_default(),
            },
        })),
        (None, Some((of, step))) => Lineage::Fallback(Fallback { of, step }),
        (None, None) => Lineage::Written,
    };
    let mut study_cell = StudyCell {
        id,
        axes: axis_values(axes, &cell, &map),
        cell,
        lineage,
    };
    let asked = study_cell.asked();
    study_cell.axes = axis_values(axes, asked, &asked.to_map());
    Ok(study_cell)
}

/// The way from one absolute path to another.
pub(super) fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to) = (normal_path(from), normal_path(to));
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(shared)).collect();
    if path.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::parse;
    use crate::overrides::Overrides;

    const SPEC: &str = "
name: round_trip
description: |
  Two lines,
  and a 'quote'.
defaults:
  model: ./models/a b
  weights: random
  device_memory: 1.5GB
  instruction_set: avx512_bf16
  learning_rate: 1e-5
  seed: 18446744073709551000
  data: {path: texts/a.jsonl, column: 'no'}
  env: {A: 'no', B: '08', C: null, D: ' x: y #', E: '', F: 1e3, G: \"tab\\tand\\nline\"}
  allocator: {backend: system}
sweep:
  grid:
    gradient_checkpointing: [none, full, {every: 2}]
    target_modules: [all-linear, [q_proj, v_proj]]
    allocator.env.MALLOC_ARENA_MAX: ['1', null]
repeats: 2
limits: {timeout: 1h 30m}
record: {timeline: true, timeline_steps: 2}
report:
  output: out/report.md
  baseline: {gradient_checkpointing: none, target_modules: all-linear, allocator.env.MALLOC_ARENA_MAX: null}
published:
- {column: allocated_peak_bytes, value: '1,916.70', unit: MB, metric: unstated, source: 'a: b', name: \"no\",
   cell: {gradient_checkpointing: {every: 2}, target_modules: [q_proj, v_proj], allocator.env.MALLOC_ARENA_MAX: '1', learning_rate: 1e-5}}
- {column: trainable_count, of: parameter_count, value: 0.560, unit: '%', source: x, note: y,
   cell: {gradient_checkpointing: none, target_modules: all-linear, allocator.env.MALLOC_ARENA_MAX: null}}
claims:
- claim: |
    Two lines:
    it's 50 % \"less\".
  source: https://example.org/#a
  cells: {target_modules: all-linear, allocator.env.MALLOC_ARENA_MAX: '1'}
  measured:
    saved: {value: \"1 - mean('allocated_peak_bytes') / 2\", unit: '%', decimals: 2}
    other: {value: 1}
  holds: saved > 0.5 and other
  expect: refuted
  note: 'no'
";

    #[test]
    fn a_study_reads_as_it_was_written() {
        let overrides = Overrides::new([("EXPCTL_RANK".into(), "8".into())], vec!["max_steps=3".into()]);
        let study = parse(Path::new("/somewhere/specs/x.yaml"), SPEC, &overrides).unwrap();
        assert_eq!(study.cells.len(), 24);
        let folder = tempfile::tempdir().unwrap();
        study.write(folder.path()).unwrap();
        let read = Study::read(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read, study);
    }

    #[test]
    fn a_cell_reads_as_it_was_written() {
        let study = parse(Path::new("x.yaml"), SPEC, &Overrides::default()).unwrap();
        for study_cell in &study.cells {
            let text = study_cell.cell.to_yaml();
            let read = crate::read_cell("cell.yaml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(read, study_cell.cell);
        }
    }

    #[test]
    fn an_edited_study_is_refused() {
        let study = parse(
            Path::new("/a/x.yaml"),
            "name: x\ndefaults: {rank: 4}\n",
            &Overrides::default(),
        )
        .unwrap();
        let text = study.to_yaml(Path::new("/a/results")).unwrap();
        assert!(text.contains("directory: \"..\""), "{text}");
        for (old, new, message) in [
            ("rank: 4", "rank: 5", "by its keys"),
            ("  name: x", "  name: x\n  defaults: {rank: 8}", "spec.defaults: "),
            ("  name: x", "  name: x\n  sweep:", "spec.sweep: "),
        ] {
            let edited = text.replace(old, new);
            let error = Study::from_yaml("study.yaml", &edited, Path::new("/a/results")).unwrap_err();
            assert!(error.message().contains(message), "{error}");
        }
    }

    #[test]
    fn the_name_is_read_from_every_format() {
        let name_of = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(STUDY_FILE), text).unwrap();
            Study::name_in(folder.path())
        };
        let study = parse(Path::new("x.yaml"), SPEC, &Overrides::default()).unwrap();
        let ours = study.to_yaml(Path::new("/a")).unwrap();
        assert_eq!(name_of(&ours).as_deref(), Some("round_trip"));
        let newer = ours.replace("format: 2", "format: 3\nother: [1]");
        assert_eq!(name_of(&newer).as_deref(), Some("round_trip"));
        assert_eq!(name_of("format: 1\nname: old\nlimits: {}\n").as_deref(), Some("old"));
        assert_eq!(name_of("name: [a\n"), None);
        assert_eq!(Study::name_in(Path::new("/nowhere")), None);
    }

    #[test]
    fn the_way_between_folders_needs_no_files() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).display().to_string();
        assert_eq!(way("/a/results/x", "/a/experiments"), "../../experiments");
        assert_eq!(way("/a", "/a/b/c"), "b/c");
        assert_eq!(way("/a/b", "/a/./b/../b"), ".");
    }
}
