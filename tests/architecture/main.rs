//! The rules of ARCHITECTURE.md, held against the manifests and the imports of the source.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod graph;
mod recipes;
mod source;
mod workspace;

use std::fs;
use std::path::Path;

use graph::{Graph, Module, circles};
use workspace::Workspace;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Fails with one line per breach: the place, what stands there, and the rule.
fn hold(rule: &str, breaches: impl IntoIterator<Item = String>) {
    let breaches: Vec<String> = breaches.into_iter().collect();
    assert!(breaches.is_empty(), "{rule}:\n{}", breaches.join("\n"));
}

/// Holds that none of the crates `from` needs one of `what`, directly or through others.
fn not_needed(from: &[&str], what: &[&str]) {
    let workspace = Workspace::read();
    let unknown = from.iter().find(|name| !workspace.crates.contains_key(**name));
    assert_eq!(unknown, None, "there is no such crate");
    let ways = from.iter().flat_map(|from| what.iter().map(move |what| (from, what)));
    let breaches = ways.filter_map(|(from, what)| Some(workspace.way(from, what)?.join(" needs ")));
    hold(
        &format!("{} must not need {}", from.join(", "), what.join(", ")),
        breaches,
    );
}

/// Holds that none of the crates `from` names one of `what` in its manifest.
fn not_named(from: &str, what: &[&str]) {
    let workspace = Workspace::read();
    let named = &workspace.crates[from].dependencies;
    let breaches = what.iter().filter(|what| named.contains(**what));
    hold(
        &format!("{from} must not name {}", what.join(", ")),
        breaches.map(|what| (*what).to_owned()),
    );
}

/// Cargo knows no circles of crates; a file that its folder's `mod.rs` re-exports and that imports from that `mod.rs` makes
/// a circle of files.
#[test]
fn files_do_not_import_each_other_in_circles() {
    let breaches = Workspace::read().crates.into_values().flat_map(|member| {
        let src = member.folder.join("src");
        let graph = Graph::read(&src);
        let file = |module: &&Module| src.join(&graph.sources[*module].file).display().to_string();
        let describe = |circle: Vec<&Module>| circle.iter().map(file).collect::<Vec<_>>().join(" ");
        circles(&graph.files()).into_iter().map(describe).collect::<Vec<_>>()
    });
    hold(
        "no file may import one that imports it, directly or through others",
        breaches,
    );
}

#[test]
fn training_is_given_options_and_reads_no_spec() {
    not_needed(&["train", "model", "nn", "data", "peft"], &["spec"]);
}

#[test]
fn the_runner_starts_processes_and_neither_trains_nor_reports() {
    not_named("runner", &["train", "report"]);
}

#[test]
fn reports_read_frames_only() {
    not_needed(&["report"], &["train", "runner", "model", "plan"]);
}

#[test]
fn kernels_know_slices_and_neither_layers_nor_models() {
    not_needed(&["kernels"], &["nn", "arch", "model"]);
}

#[test]
fn specs_predictions_of_pytorch_and_reports_need_no_candle() {
    not_needed(
        &[
            "base", "options", "arch", "trace", "torch", "spec", "records", "results", "report",
        ],
        &["candle-core"],
    );
}

#[test]
fn unsafe_code_is_in_kernels_and_memory() {
    let workspace = Workspace::read();
    let outside = workspace
        .crates
        .iter()
        .filter(|(name, _)| !["kernels", "memory"].contains(&name.as_str()));
    let breaches = outside.flat_map(|(_, member)| {
        let src = member.folder.join("src");
        let sources = Graph::read(&src).sources.into_values();
        let lines = sources.flat_map(|source| {
            source
                .unsafe_lines
                .into_iter()
                .map(move |line| (source.file.clone(), line))
        });
        let places = lines.map(|(file, line)| format!("{}:{line}", src.join(file).display()));
        places.collect::<Vec<_>>()
    });
    hold("unsafe code stands in kernels and memory only", breaches);
}

/// Holds that no code names a variant of `name`, with the files that may.
fn no_variant_is_named(name: &str, variants: &[&str], files: &[&str], rule: &str) {
    let variant = |path: &Vec<String>| {
        let variant = path.iter().skip_while(|part| *part != name).nth(1)?;
        let is_variant = variant.starts_with(char::is_uppercase) && variant.contains(char::is_lowercase);
        (is_variant && !variants.contains(&variant.as_str())).then(|| path.join("::"))
    };
    let breaches = Workspace::read().crates.into_values().flat_map(|member| {
        let src = member.folder.join("src");
        let sources = Graph::read(&src).sources.into_values();
        let named = sources.flat_map(|source| {
            let file = src.join(&source.file).display().to_string();
            let is_held = !files.iter().any(|end| file.ends_with(end));
            let paths = source.paths.iter().filter(|_| is_held).filter_map(variant);
            paths.map(|path| format!("{file}: {path}")).collect::<Vec<_>>()
        });
        named.collect::<Vec<_>>()
    });
    hold(rule, breaches);
}

#[test]
fn no_code_names_a_family() {
    let rule = "what holds for one family stands in its description";
    no_variant_is_named("Family", &[], &[], rule);
}

/// LoRA is the default, and what others are compared with. A method's own options are `AdapterMethod`'s.
#[test]
fn no_code_names_a_method() {
    let files = ["cell/src/configuration.rs", "techniques/src/adapter.rs"];
    let rule = "what holds for one method stands in its facts";
    no_variant_is_named("Adapter", &["Lora"], &files, rule);
}

#[test]
fn the_template_of_a_spec_names_every_method() {
    let template = fs::read_to_string(root().join("src/cli/init.yaml")).unwrap();
    let line = template
        .lines()
        .find(|line| line.contains("# adapter: "))
        .expect("a line of `adapter`");
    let words: Vec<&str> = line
        .split(|char: char| !char.is_alphanumeric() && char != '_')
        .collect();
    let missing = expctl::cell::Adapter::ALL.map(expctl::cell::Adapter::name);
    let missing = missing.into_iter().filter(|name| !words.contains(name));
    hold("src/cli/init.yaml names every method", missing.map(str::to_owned));
}

#[test]
fn every_crate_is_on_the_map_above_those_that_it_needs() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, map) = text.split_once("\n## Map\n").expect("a section `Map`");
    let rows = map
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let first_cells = rows.filter_map(|row| row.split('|').nth(1));
    let mapped: Vec<&str> = first_cells
        .flat_map(|cell| cell.split('`'))
        .filter_map(|code| code.strip_prefix("crates/"))
        .map(|path| path.trim_end_matches('/'))
        .collect();
    let place = |name: &str| mapped.iter().position(|row| *row == name);
    let workspace = Workspace::read();
    let members = || workspace.crates.iter().filter(|(name, _)| *name != "expctl");
    let missing = members().filter(|(name, _)| place(name).is_none());
    let missing = missing.map(|(name, _)| format!("{name} is not on the map"));
    let gone = mapped.iter().filter(|row| !workspace.crates.contains_key(**row));
    let gone = gone.map(|row| format!("{row} is on the map and is no crate"));
    let upward = members().flat_map(|(name, member)| {
        let needed = member
            .dependencies
            .iter()
            .filter(|needed| workspace.crates.contains_key(*needed));
        let above = needed.filter(|needed| place(needed) < place(name));
        above
            .map(move |needed| format!("{needed} stands above {name}, which needs it"))
            .collect::<Vec<_>>()
    });
    hold(
        "the map of ARCHITECTURE.md has every crate, from high to low",
        missing.chain(gone).chain(upward),
    );
}
