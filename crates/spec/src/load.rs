//! From a spec's text and its overrides to a study, step by step.

use std::path::Path;
use std::sync::Arc;

use base::whole_file::folder_of;
use cell::{Cell, Engine, Measure, keys};
use options::Offload;
use yaml::Budget;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::{Place, SourceKind, Sources};
use yaml::tree::{Node, Scalar, Value};

use super::answer_check;
use super::cell_selector::CellSelector;
use super::config_files::ConfigFiles;
use super::entries;
use super::error::SpecError;
use super::examples::not_there;
use super::expand::{Expansion, expand};
use super::figures;
use super::fit;
use super::fit_options;
use super::invocation::Invocation;
use super::key_path::lies_in;
use super::layers::{self, Layer, highest};
use super::on_oom::{OnOom, Rung};
use super::origin::Origin;
use super::ours::in_spec;
use super::overrides::Overrides;
use super::pin_axes::{Pinned, pin_axes};
use super::read::{cannot_read, read_text};
use super::selection::Selection;
use super::study::{Study, StudyCell};
use super::sweep::{self, Sweep};
use super::type_values::{check_axes, check_defaults};
use super::whose::foreign_file;
use super::written::Written;
use crate::typed;

/// The largest file that is read as a spec, in bytes.
const LARGEST: u64 = 4 << 20;

/// Reads the spec at `path`.
///
/// # Errors
/// Everything that is wrong with the file or the overrides; the user's mistakes, so exit code 2.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Study, SpecError> {
    let text = read_text(path, LARGEST).map_err(|error| match path.exists() {
        true => error,
        false => not_there(path, error),
    })?;
    parse(path, &text, overrides)
}

/// Like [`load`], with the text of the file at hand.
///
/// # Errors
/// Those of [`load`].
pub fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<Study, SpecError> {
    parse_of(SourceKind::File, path, text, overrides)
}

/// Like [`parse`], for a text of some kind.
pub(crate) fn parse_of(kind: SourceKind, path: &Path, text: &str, overrides: &Overrides) -> Result<Study, SpecError> {
    let mut sources = Sources::default();
    let source = sources.add_of(kind, path.display().to_string(), text);
    let mut mistakes = Mistakes::default();
    let tree = yaml::parse(text, source, 0, Budget::SPEC).and_then(|tree| check_root(tree, path));
    let tree = tree.map_err(|mistake| SpecError::new(mistake, &Arc::new(sources.clone())))?;
    let mut layers = layers::read(overrides, &mut sources, &mut mistakes);
    layers.extend(fit_options::read(overrides, &mut sources, &mut mistakes));
    let recipe = (kind != SourceKind::File).then_some(source);
    let configs = ConfigFiles::read(&tree, recipe, &layers, folder_of(path), &mut sources);
    let sources = Arc::new(sources);
    let study = resolve(tree, &layers, &configs, folder_of(path), &sources, &mut mistakes);
    match (study, SpecError::all(mistakes, &sources)) {
        (Some(study), None) => finish(study, path, overrides),
        (_, Some(error)) => Err(error),
        (None, None) => Err(cannot_read(path, "it does not describe a study")),
    }
}

/// Adds where a study comes from.
fn finish(mut study: Study, path: &Path, overrides: &Overrides) -> Result<Study, SpecError> {
    study.directory = std::path::absolute(folder_of(path)).map_err(|error| cannot_read(path, &error.to_string()))?;
    study.invocation = Invocation::new(path.display().to_string(), overrides);
    study.file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(study)
}

fn check_root(tree: Node, path: &Path) -> Result<Node, Diagnostic> {
    if tree.as_map().is_some() {
        return foreign_file(&tree, path).map_or(Ok(tree), Err);
    }
    let message = if tree.is_null() {
        "the spec is empty".into()
    } else {
        format!("a spec is a map of keys, not {}", tree.kind())
    };
    Err(Diagnostic::new(message)
        .at(tree.place)
        .help("`expctl init` writes a commented one"))
}

/// Takes a spec's tree through all steps. `None` if too little of it can be read.
fn resolve(
    mut tree: Node,
    layers: &[Layer],
    configs: &ConfigFiles,
    folder: &Path,
    sources: &Arc<Sources>,
    mistakes: &mut Mistakes,
) -> Option<Study> {
    // The sweep is not layered.
    let mut sweep = Sweep::read(tree.remove("sweep"), mistakes);
    check_defaults_in_file(&tree, &sweep, layers, mistakes);
    layers::lay_over(&mut tree, layers);
    let mut defaults = take_defaults(&mut tree, mistakes);
    let (study, in_sections) = read_sections(&mut tree);
    let repeats = study.as_ref().map_or(1, |study| study.repeats);

    let Pinned { names, mut notes } = pin_axes(&mut sweep, layers, mistakes);
    check_defaults(&mut defaults, sweep.paths(), mistakes);
    check_axes(&defaults, &mut sweep, mistakes);
    let expansion = expand(&defaults, &sweep, configs, repeats, &names, mistakes);
    let is_sound = mistakes.is_empty();
    if let Some(expansion) = expansion.as_ref().filter(|_| is_sound) {
        mistakes.take(check_padding(&defaults, layers, expansion));
    }
    mistakes.append(in_sections);
    notes.extend(expansion.iter().flat_map(|expansion| expansion.notes.clone()));

    let mut study = study?;
    if let Some(node) = tree.get(&["description"]) {
        study.description.origin = Origin::of("description", node, sources);
    }
    answer_check::check(
        &mut study.report.answer,
        tree.get(&["report", "answer"]),
        sources,
        mistakes,
    );
    let columns = entries::nodes(tree.get(&["report", "columns"]));
    for (column, (index, node)) in study.report.columns.iter_mut().zip(columns) {
        column.origin = Origin::of(&format!("report.columns[{index}]"), node, sources);
    }
    let selector = CellSelector {
        defaults: &defaults,
        layers,
        expansion: expansion.as_ref().filter(|_| is_sound),
    };
    study.report.baseline = read_baseline(&tree, &selector, mistakes).unwrap_or_default();
    let expanded = selector.expansion.iter().flat_map(|expansion| &expansion.cells);
    let cells: Vec<_> = expanded.map(|study_cell| &study_cell.cell).collect();
    study.fit.vary = fit::read_vary(tree.get(&["fit", "vary"]), &defaults, &cells, mistakes);
    let (published, claims) = (tree.get(&["published"]), tree.get(&["claims"]));
    entries::check(&mut study.published, published, sources, mistakes);
    entries::check(&mut study.claims, claims, sources, mistakes);
    study.published = entries::pick(study.published, published, &selector, mistakes, &mut notes);
    study.published = figures::read_values(study.published, folder, &selector, mistakes, &mut notes);
    study.claims = entries::pick(study.claims, claims, &selector, mistakes, &mut notes);
    let Expansion { cells, axes, .. } = expansion?;
    let has_timeline =
        |cell: &StudyCell| cell.cell.engine() != Some(Engine::Python) && cell.cell.device_name() == "cpu";
    if study.record.timeline && !cells.iter().all(has_timeline) {
        let place = tree.get(&["record", "timeline"]).map_or(tree.place, |node| node.place);
        let message = "record.timeline: a timeline is recorded by our trainer on the cpu only so far";
        mistakes.add(Diagnostic::new(message).at(place));
    }
    if study.record.save_steps.is_some()
        && let Some(wrong) = without_checkpoints(&cells)
    {
        let place = tree
            .get(&["record", "save_steps"])
            .map_or(tree.place, |node| node.place);
        mistakes.add(Diagnostic::new(format!("record.save_steps: {wrong}")).at(place));
    }
    if study.record.model.is_some()
        && let Some(wrong) = not_one_model(&cells)
    {
        let place = tree.get(&["record", "model"]).map_or(tree.place, |node| node.place);
        mistakes.add(Diagnostic::new(format!("record.model: {wrong}")).at(place));
    }
    notes.extend(idle_host_memory(&cells, &study));
    Some(Study {
        cells,
        axes,
        notes,
        adapter_configs: configs.digests_of_adapters(),
        written: Written::new(&defaults, &sweep, sources),
        ..study
    })
}

/// Makes sure that some rows have the padding that the defaults ask for. An override may pack all of them.
fn check_padding(defaults: &Node, layers: &[Layer], expansion: &Expansion) -> Result<(), Diagnostic> {
    let padding = defaults.as_map().and_then(|defaults| defaults.get("padding"));
    let is_overridden = highest(layers, &["packing".to_owned()]).is_some();
    match padding {
        Some(padding) if !is_overridden && expansion.cells.iter().all(|cell| cell.cell.packing) => Err(
            Diagnostic::new("padding: packed rows have no padding, and all cells are packed")
                .at(padding.key)
                .help("leave the key out"),
        ),
        _ => Ok(()),
    }
}

/// A note on a budget that no run keeps: nothing is offloaded, except by a search for what fits.
fn idle_host_memory(cells: &[StudyCell], study: &Study) -> Option<String> {
    let has_budget = cells.iter().any(|study_cell| study_cell.cell.host_memory.is_some());
    let offloads = cells.iter().any(|study_cell| study_cell.cell.offload != Offload::NONE);
    let may_offload = matches!(&study.on_oom, OnOom::Ladder(rungs) if rungs.contains(&Rung::Offload));
    let is_idle = has_budget && !offloads && !may_offload;
    is_idle.then(|| "host_memory: no cell has `offload`, so the budget is for `expctl fit` alone".to_owned())
}

/// The reason why some cells, or all, cannot have checkpoints.
fn without_checkpoints(cells: &[StudyCell]) -> Option<String> {
    let trained = cells.iter().map(|study_cell| &study_cell.cell);
    let mut trained = trained.filter(|cell| cell.engine().is_some()).peekable();
    let takes_steps = |cell: &Cell| cell.engine().is_some() && cell.measure == Measure::Epoch;
    if !cells.is_empty() && !cells.iter().any(|study_cell| takes_steps(&study_cell.cell)) {
        return Some("no cell has a checkpoint: all are planned, or profiled in two steps".into());
    }
    let other = trained.find(|cell| cell.engine() == Some(Engine::Python) || cell.device_name() != "cpu")?;
    let on = match other.engine() {
        Some(Engine::Python) => "cells of `engine: python`".to_owned(),
        _ => format!("cells on `{}`", other.device_name()),
    };
    Some(format!(
        "checkpoints are written by our trainer on the cpu only so far, and not for {on}"
    ))
}

/// The reason why cells do not write one model.
fn not_one_model(cells: &[StudyCell]) -> Option<String> {
    match cells {
        // What is wrong with the cells is said already.
        [] => None,
        [one] if one.cell.method().is_some() => {
            Some("an adapter is trained, which is written anyway; a model needs `rank: 0`".into())
        }
        [one] if one.cell.engine().is_none() => Some("a cell of `stack: torch` is planned and trains nothing".into()),
        [_] => None,
        _ => Some(format!("{} cells would write the same folder", cells.len())),
    }
}

/// Checks the file's own defaults, before an override can hide the mistakes in them.
fn check_defaults_in_file(tree: &Node, sweep: &Sweep, layers: &[Layer], mistakes: &mut Mistakes) {
    if let Some(defaults) = tree.get(&["defaults"]).filter(|node| node.as_map().is_some()) {
        let later = sweep.paths().chain(layers.iter().filter_map(Layer::cell_key));
        check_defaults(&mut defaults.clone(), later, mistakes);
    }
}

/// The defaults with the overrides; empty if there are none, or if they are not a map.
fn take_defaults(tree: &mut Node, mistakes: &mut Mistakes) -> Node {
    let defaults = tree.remove("defaults").filter(|node| !node.is_null());
    let is_map = |node: &Node| mistakes.take(sweep::expect_map(node, "defaults").map(drop)).is_some();
    defaults.filter(is_map).unwrap_or_else(|| Node::empty_map(tree.place))
}

/// Reads all sections but the defaults and the sweep, and the mistakes in them.
fn read_sections(tree: &mut Node) -> (Option<Study>, Mistakes) {
    let mut mistakes = Mistakes::default();
    let (mut study, errors) = typed::read_all::<Study>(tree);
    if study.is_none() && tree.get(&["name"]).is_none_or(Node::is_hole) {
        // The name is missing. A placeholder lets the other sections be checked.
        let name = Node {
            value: Value::Scalar(Scalar {
                text: "unnamed".into(),
                plain: true,
            }),
            place: tree.place,
        };
        tree.set(&["name".to_owned()], tree.place, name);
        study = typed::read(tree).ok();
    }
    // A list whose only entry is a mistake is not an empty one.
    let in_error: Vec<String> = errors.iter().map(|error| error.dotted("")).collect();
    for error in errors {
        let key = error
            .path
            .first()
            .filter(|_| error.is_unknown_key() && error.path.len() == 1);
        let value = error.unknown.as_ref().and_then(|unknown| unknown.value.as_deref());
        let help = key.and_then(|key| place_of_key(key, value));
        // What has keys of its own is a section that is misspelt, and not the key of another tool.
        let has_keys = value.is_none_or(|value| value.starts_with('{'));
        let mut diagnostic = error.diagnostic("");
        let is_misspelt = has_keys && diagnostic.help.iter().any(|help| help.starts_with("did you mean"));
        if let Some(help) = help.filter(|_| !is_misspelt) {
            diagnostic.help = vec![help];
        }
        mistakes.add(diagnostic);
    }
    let sound = |key: &str| !in_error.iter().any(|wrong| lies_in(wrong, key));
    for (key, mistake) in study.iter().flat_map(Study::check).filter(|(key, _)| sound(key)) {
        mistakes.add(Diagnostic::in_section("", &key, &mistake, tree));
    }
    (study, mistakes)
}

/// The section that a key at the root belongs to, by our name of it.
fn place_of_key(key: &str, value: Option<&str>) -> Option<String> {
    if keys::is_known(&[key.to_owned()]) {
        Some(format!("`{key}` is a key of a cell and belongs under `defaults`"))
    } else if ["grid", "zip", "exclude", "include", "sample"].contains(&key) {
        Some(format!("`{key}` belongs under `sweep`"))
    } else {
        let help = in_spec(key, value)?;
        let is_key = help.starts_with("write `") && !help.contains(" next to `defaults`");
        Some(if is_key {
            format!("{help} under `defaults`")
        } else {
            help
        })
    }
}

/// Types the baseline's values by their keys, and makes sure that they name one cell, repeats aside.
fn read_baseline(tree: &Node, selector: &CellSelector<'_>, mistakes: &mut Mistakes) -> Option<Selection> {
    const SECTION: &str = "report.baseline";
    let node = tree.get(&["report", "baseline"]).filter(|node| !node.is_hole());
    let baseline = selector.read_without_overridden(node, SECTION, mistakes)?;
    if !baseline.is_empty() {
        let place = node.map_or(tree.place, first_key);
        mistakes.take(selector.picks_one(&baseline, SECTION, place))?;
    }
    Some(baseline)
}

fn first_key(node: &Node) -> Place {
    let first = node.as_map().and_then(|map| map.get_index(0));
    first.map_or(node.place, |(_, entry)| entry.key)
}
