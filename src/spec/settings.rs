//! From a spec's tree and its overrides to a study.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::Diagnostic;
use super::expand;
use super::invocation::Invocation;
use super::keys;
use super::layers::{self, Layer};
use super::pin_axes::pin_axes;
use super::published;
use super::selection::{CellSelector, Selection};
use super::source::{Place, Sources};
use super::study::{Limits, RecordSpec, ReportSpec, Study, TEMPLATES};
use super::sweep::{self, Sweep};
use super::tree::{Entry, Map, Node, Value};
use super::{claim, de};
use crate::text::{nearest, quoted};

const SECTIONS: [&str; 10] = [
    "name",
    "description",
    "defaults",
    "sweep",
    "repeats",
    "limits",
    "record",
    "report",
    "published",
    "claims",
];

/// All of a spec but `defaults` and `sweep`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    repeats: Option<usize>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    record: RecordSpec,
    #[serde(default)]
    report: ReportSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReportSection {
    template: Option<String>,
    output: Option<PathBuf>,
    /// Typed later, by the cells' keys.
    baseline: BTreeMap<String, IgnoredAny>,
}

/// Makes the study; its `directory`, `file` and `invocation` are the caller's to fill in.
pub(crate) fn resolve(file: Node, layers: &[Layer], sources: &Arc<Sources>) -> Result<Study, Diagnostic> {
    check_sections(&file)?;
    // These are not layered.
    let (sweep, file) = take(file, "sweep");
    let (published, file) = take(file, "published");
    let (claims, file) = take(file, "claims");
    let mut sweep = Sweep::read(sweep.as_ref())?;
    if let Some(defaults) = file.get(&["defaults"]) {
        // Before an override can hide what is wrong in the file.
        expand::check_defaults(defaults, sweep.paths().chain(layers.iter().filter_map(Layer::cell_key)))?;
    }
    let merged = layers::merge(&file, layers)?;
    let (defaults, merged) = take(merged, "defaults");
    let settings: Settings = de::read(&merged).map_err(|error| error.diagnostic(""))?;
    check_name(&settings.name, &merged)?;
    let template = check_template(settings.report.template, &merged)?;
    if settings
        .report
        .output
        .as_ref()
        .is_some_and(|output| output.as_os_str().is_empty())
    {
        return Err(at_key(&merged, "report.output", "report.output: the path is empty"));
    }
    let repeats = settings.repeats.unwrap_or(1);
    if repeats == 0 {
        return Err(at_key(&merged, "repeats", "repeats: must be at least 1, got 0"));
    }
    if settings.record.timeline_steps == 0 {
        let message = "record.timeline_steps: must be at least 1, got 0";
        return Err(at_key(&merged, "record.timeline_steps", message));
    }
    let mut notes = pin_axes(&mut sweep, layers)?;
    let fixed = !notes.is_empty();
    let defaults = defaults.unwrap_or_else(|| Node::empty_map(merged.place));
    let expansion = expand::expand(&defaults, &sweep, repeats, fixed)?;
    notes.extend_from_slice(&expansion.notes);
    if settings.record.timeline && expansion.cells.iter().any(|planned| planned.cell.device != "cpu") {
        let message = "record.timeline: a timeline is recorded on the cpu only so far";
        return Err(at_key(&merged, "record.timeline", message));
    }
    let selector = CellSelector {
        defaults: &defaults,
        layers,
        expansion: &expansion,
    };
    let baseline = match merged.get(&["report", "baseline"]) {
        Some(node) if !settings.report.baseline.is_empty() => read_baseline(node, &selector)?,
        _ => Selection::new(),
    };
    let published = published.map_or(Ok(Vec::new()), |node| {
        published::read(&node, &selector, sources, &mut notes)
    })?;
    let claims = claims.map_or(Ok(Vec::new()), |node| {
        claim::read(&node, &selector, sources, &mut notes)
    })?;
    Ok(Study {
        name: settings.name,
        description: settings.description.unwrap_or_default(),
        directory: PathBuf::new(),
        file: String::new(),
        cells: expansion.cells,
        repeats,
        limits: settings.limits,
        record: settings.record,
        report: ReportSpec {
            template,
            output: settings.report.output,
            baseline,
        },
        published,
        claims,
        axes: expansion.axes,
        notes,
        invocation: Invocation::default(),
    })
}

/// Checks the sections' names, and that the defaults are keys.
fn check_sections(file: &Node) -> Result<(), Diagnostic> {
    let Some(map) = file.as_map() else {
        let message = if file.is_null() {
            "the spec is empty".into()
        } else {
            format!("a spec is a map of keys, not {}", file.kind())
        };
        return Err(Diagnostic::new(message)
            .at(file.place)
            .help("`expctl init` writes a commented one"));
    };
    if let Some((key, entry)) = map.iter().find(|(key, _)| !SECTIONS.contains(&&***key)) {
        return Err(unknown_section(key, entry));
    }
    if let Some(defaults) = map.get("defaults").filter(|entry| !entry.value.is_null()) {
        sweep::expect_map(&defaults.value, "defaults")?;
    }
    Ok(())
}

fn unknown_section(key: &str, entry: &Entry) -> Diagnostic {
    let help = if keys::is_known(&[key.to_owned()]) {
        format!("`{key}` is a key of a cell and belongs under `defaults`")
    } else if ["grid", "zip", "exclude", "include"].contains(&key) {
        format!("`{key}` belongs under `sweep`")
    } else {
        let known: Vec<&str> = SECTIONS.into_iter().chain(keys::top_level()).collect();
        keys::suggestion(key, &known).unwrap_or_else(|| format!("a spec has {}", SECTIONS.join(", ")))
    };
    Diagnostic::new(format!("{}: unknown key", quoted(key).trim_matches('`')))
        .at(entry.key)
        .help(help)
}

fn take(mut node: Node, key: &str) -> (Option<Node>, Node) {
    let taken = match &mut node.value {
        Value::Map(map) => Rc::make_mut(map).shift_remove(key),
        _ => None,
    };
    (taken.map(|entry| entry.value), node)
}

fn at_key(node: &Node, key: &str, message: &str) -> Diagnostic {
    let path: Vec<&str> = key.split('.').collect();
    Diagnostic::new(message).at(node.get(&path).map_or(node.place, |node| node.place))
}

/// The name becomes a folder, on any system.
fn check_name(name: &str, merged: &Node) -> Result<(), Diagnostic> {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && name.len() <= 100 && name.chars().all(safe) && !name.ends_with('.') {
        return Ok(());
    }
    let slug: String = name.chars().take(100).map(|c| if safe(c) { c } else { '_' }).collect();
    let slug = slug.trim_matches(['.', '-', '_']).to_owned();
    let message = format!("name: {} is not safe as the name of a folder", quoted(name));
    Err(at_key(merged, "name", &message).help(match slug.as_str() {
        "" => "use letters, digits, `_`, `-` and `.`".to_owned(),
        slug => format!("write {}, for example", quoted(slug)),
    }))
}

/// A name must be one that we have; anything with a slash or a dot is a path, which the report reads.
fn check_template(template: Option<String>, merged: &Node) -> Result<String, Diagnostic> {
    let Some(template) = template else {
        return Ok(TEMPLATES[0].to_owned());
    };
    if TEMPLATES.contains(&template.as_str()) || template.contains(['/', '\\', '.']) {
        return Ok(template);
    }
    let message = format!("report.template: there is no template {}", quoted(&template));
    let help = nearest(&template, TEMPLATES).map_or_else(
        || {
            format!(
                "the templates are {}; a path has a slash or a dot",
                TEMPLATES.join(", ")
            )
        },
        crate::text::did_you_mean,
    );
    Err(at_key(merged, "report.template", &message).help(help))
}

/// Types the baseline's values by their keys and makes sure that they name one cell, repeats aside.
fn read_baseline(node: &Node, selector: &CellSelector<'_>) -> Result<Selection, Diagnostic> {
    let baseline = selector.read_what_is_open(node, "report.baseline")?;
    if !baseline.is_empty() {
        let place = node.as_map().map_or(node.place, |map| key_place(map, node.place));
        selector.one(&baseline, "report.baseline", place)?;
    }
    Ok(baseline)
}

fn key_place(map: &Map, otherwise: Place) -> Place {
    map.get_index(0).map_or(otherwise, |(_, entry)| entry.key)
}
