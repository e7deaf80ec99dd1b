//! The rules of ARCHITECTURE.md, held against the imports of the source.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod graph;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use graph::{Edge, Graph, Module, circles, room};
use source::{Import, Source};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn graph() -> &'static Graph {
    static GRAPH: LazyLock<Graph> = LazyLock::new(|| Graph::read(&root().join("src")));
    &GRAPH
}

/// Fails with one line per breach: the place, what stands there, and the rule.
fn hold(rule: &str, breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<String> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "{rule}:\n{}", breaches.join("\n"));
}

fn line(source: &Source, import: &Import) -> String {
    format!(
        "src/{}:{}: {}",
        source.file.display(),
        import.line,
        import.path.join("::")
    )
}

fn place(graph: &Graph, edge: &Edge) -> String {
    line(&graph.sources[&edge.from], &edge.import)
}

/// Holds that none of the rooms `from` imports one of the rooms `to`.
fn not_imported(from: &[&str], to: &[&str]) {
    let graph = graph();
    let is_breach = |edge: &&Edge| from.contains(&room(&edge.from)) && to.contains(&room(&edge.to));
    let breaches = graph.edges.iter().filter(is_breach).map(|edge| place(graph, edge));
    hold(
        &format!("{} must not import {}", from.join(", "), to.join(", ")),
        breaches,
    );
}

/// The rooms from low to high, as the documentation of the crate lists them.
fn order() -> Vec<String> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let (_, list) = text.split_once("from low to high:").expect("a list of rooms");
    let lines = list
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("//!"));
    let rooms = graph().rooms();
    lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| rooms.contains_key(name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn rooms_import_lower_rooms_only() {
    let graph = graph();
    let order = order();
    let height = |name: &str| order.iter().position(|room| room == name);
    let is_program = |name: &str| name.ends_with('!');
    let listed = graph.rooms().into_keys().filter(|name| !is_program(name));
    let unlisted = listed.filter(|name| height(name).is_none());
    let unlisted = unlisted.map(|name| format!("src/lib.rs: `{name}` is not in the list"));
    let is_breach = |edge: &&Edge| {
        let (from, to) = (room(&edge.from), room(&edge.to));
        from != to && !is_program(from) && height(from) <= height(to)
    };
    let breaches = graph.edges.iter().filter(is_breach);
    let breaches = breaches.map(|edge| format!("{}, in {}", place(graph, edge), room(&edge.from)));
    hold(
        "a room must import lower rooms only, in the order that src/lib.rs lists",
        unlisted.chain(breaches),
    );
}

/// A file that its folder's `mod.rs` re-exports and that imports from that `mod.rs` makes a circle.
#[test]
fn files_do_not_import_each_other_in_circles() {
    let graph = graph();
    let file = |module: &&Module| graph.sources[*module].file.display().to_string();
    let describe = |circle: Vec<&Module>| circle.iter().map(file).collect::<Vec<_>>().join(" ");
    hold(
        "no file may import one that imports it, directly or through others",
        circles(&graph.files()).into_iter().map(describe),
    );
}

#[test]
fn training_is_given_options_and_reads_no_spec() {
    not_imported(&["train", "model", "optim", "data", "peft"], &["spec"]);
}

#[test]
fn the_runner_starts_processes_and_neither_trains_nor_reports() {
    not_imported(&["runner"], &["train", "report"]);
}

#[test]
fn reports_read_frames_only() {
    not_imported(&["report"], &["train", "runner", "model"]);
}

#[test]
fn kernels_know_slices_and_neither_layers_nor_models() {
    not_imported(&["kernels"], &["nn", "model"]);
}

/// The first import of candle in a file.
fn candle(source: &Source) -> Option<&Import> {
    let mut imports = source.uses.iter().map(|used| &used.import).chain(&source.paths);
    imports.find(|import| import.path[0].starts_with("candle"))
}

#[test]
fn descriptions_use_no_candle() {
    let rooms = ["text", "options", "arch", "trace", "torch", "spec"];
    let sources = graph()
        .sources
        .iter()
        .filter(|(module, _)| rooms.contains(&room(module)));
    let breaches = sources.filter_map(|(_, source)| Some(line(source, candle(source)?)));
    hold(&format!("{} must not use candle", rooms.join(", ")), breaches);
}

#[test]
fn a_spec_is_read_without_candle() {
    let graph = graph();
    // Each file that `spec` reaches, with the import that leads there.
    let is_spec = |module: &&Module| room(module) == "spec";
    let mut reached: BTreeMap<&Module, Option<&Edge>> = graph
        .sources
        .keys()
        .filter(is_spec)
        .map(|module| (module, None))
        .collect();
    let mut next: Vec<&Module> = reached.keys().copied().collect();
    while let Some(from) = next.pop() {
        for edge in graph.edges.iter().filter(|edge| edge.from == *from) {
            if !reached.contains_key(&edge.to) {
                reached.insert(&edge.to, Some(edge));
                next.push(&edge.to);
            }
        }
    }
    let breach = |(module, _): (&&Module, _)| {
        let source = &graph.sources[*module];
        let mut lines = line(source, candle(source)?);
        let mut at = *module;
        while let Some(edge) = reached[at] {
            lines += &format!("\n    reached by {}", place(graph, edge));
            at = &edge.from;
        }
        Some(lines)
    };
    hold(
        "spec must not reach a file that uses candle",
        reached.iter().filter_map(breach),
    );
}

#[test]
fn unsafe_code_is_in_kernels_and_memory() {
    let graph = graph();
    let outside = graph
        .sources
        .iter()
        .filter(|(module, _)| !["kernels", "memory"].contains(&room(module)));
    let breaches = outside.flat_map(|(_, source)| {
        let place = |line: &usize| format!("src/{}:{line}", source.file.display());
        source.unsafe_lines.iter().map(place).collect::<Vec<_>>()
    });
    hold("unsafe code stands in kernels and memory only", breaches);
}

#[test]
fn every_room_is_on_the_map_in_its_place() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, map) = text.split_once("\n## Map\n").expect("a section `Map`");
    let rows = map
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let first_cells = rows.filter_map(|row| row.split('|').nth(1));
    let mapped: Vec<String> = first_cells
        .flat_map(|cell| cell.split('`'))
        .filter_map(|code| code.strip_prefix("src/"))
        .map(|path| path.trim_end_matches('/').trim_end_matches(".rs").to_owned())
        .filter(|path| !path.is_empty() && path != "main")
        .collect();
    let order: Vec<String> = order().into_iter().rev().collect();
    assert_eq!(
        mapped, order,
        "the map of ARCHITECTURE.md has the rooms of src/lib.rs, from high to low"
    );
}
