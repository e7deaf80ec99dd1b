//! Which file imports which: paths are followed through re-exports to the file that defines the name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// The names from a crate's root to a module. `lib.rs` and `main.rs` are `lib!` and `main!`.
pub type Module = Vec<String>;

/// One file's import of another.
struct Edge {
    from: Module,
    to: Module,
}

pub struct Graph {
    pub sources: BTreeMap<Module, Source>,
    /// Every module's path and those of the modules around it.
    modules: BTreeSet<Module>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Reads all files of a crate's `src` but tests.
    pub fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        list(src, &mut files);
        let sources: BTreeMap<Module, Source> = files
            .iter()
            .map(|file| file.strip_prefix(src).unwrap())
            .filter_map(|file| Some((module(file)?, Source::read(src, file))))
            .collect();
        let prefixes = |module: &Module| (1..=module.len()).map(|end| module[..end].to_vec()).collect::<Vec<_>>();
        let modules = sources.keys().flat_map(prefixes).collect();
        let mut graph = Self {
            sources,
            modules,
            edges: Vec::new(),
        };
        graph.edges = graph.sources.keys().flat_map(|module| graph.edges_of(module)).collect();
        graph
    }

    fn edges_of(&self, from: &Module) -> Vec<Edge> {
        let source = &self.sources[from];
        let is_known = |path: &&Vec<String>| {
            let first = &path[0];
            is_relative(first)
                || source.uses.iter().any(|used| used.name == *first)
                || self.sources.contains_key(&child(base(from), first))
        };
        let used = source.uses.iter().map(|used| &used.path);
        let qualified = source.paths.iter().filter(is_known);
        let edge = |path: &Vec<String>| {
            let to = self.resolve(from, path, &mut Vec::new())?;
            (to != *from).then(|| Edge { from: from.clone(), to })
        };
        used.chain(qualified).filter_map(edge).collect()
    }

    /// The file that a path within a file names; `None` outside the crate.
    fn resolve(&self, from: &Module, path: &[String], seen: &mut Vec<(Module, String)>) -> Option<Module> {
        let mut here = base(from).to_vec();
        let mut path = path;
        if path[0] == "crate" {
            here.clear();
            path = &path[1..];
        } else if is_relative(&path[0]) {
            while let [first, rest @ ..] = path
                && is_relative(first)
            {
                if first == "super" {
                    here.pop();
                }
                path = rest;
            }
        } else if !self.modules.contains(&child(&here, &path[0])) {
            let bound = self.sources[from]
                .uses
                .iter()
                .find(|used| used.name == path[0] && is_relative(&used.path[0]))?;
            let key = (from.clone(), path[0].clone());
            if seen.contains(&key) {
                return None;
            }
            seen.push(key);
            return self.resolve(from, &[&bound.path[..], &path[1..]].concat(), seen);
        }
        while let [first, rest @ ..] = path
            && self.modules.contains(&child(&here, first))
        {
            here.push(first.clone());
            path = rest;
        }
        let source = self.sources.get(&here)?;
        let Some(name) = path.first() else {
            return Some(here);
        };
        let key = (here.clone(), name.clone());
        if !seen.contains(&key) {
            seen.push(key);
            for used in source.uses.iter().filter(|used| used.is_public) {
                let is_glob = used.name == "*";
                if !is_glob && used.name != *name {
                    continue;
                }
                let rest = if is_glob { path } else { &[] };
                let target = [&used.path[..], rest].concat();
                if let Some(found) = self.resolve(&here, &target, seen)
                    && (!is_glob || self.sources[&found].items.contains(name))
                {
                    return Some(found);
                }
            }
        }
        Some(here)
    }

    /// The files that a file imports.
    pub fn files(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let mut files: BTreeMap<&Module, BTreeSet<&Module>> =
            self.sources.keys().map(|module| (module, BTreeSet::new())).collect();
        for edge in &self.edges {
            files.entry(&edge.from).or_default().insert(&edge.to);
        }
        files
    }
}

fn is_relative(name: &str) -> bool {
    ["crate", "super", "self"].contains(&name)
}

/// The module that a file's relative paths begin at.
fn base(module: &Module) -> &[String] {
    if module[0].ends_with('!') { &[] } else { module }
}

fn child(module: &[String], name: &str) -> Module {
    [module, &[name.to_owned()]].concat()
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The module of a file; `None` for tests and their helpers.
fn module(file: &Path) -> Option<Module> {
    let mut module: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_str().unwrap().to_owned())
        .collect();
    let last = module.last()?.clone();
    if module.iter().any(|part| part == "tests") || last == "testing" {
        return None;
    }
    match (module.len(), last.as_str()) {
        (1, "lib" | "main") => module = vec![format!("{last}!")],
        (2.., "mod") => drop(module.pop()),
        _ => {}
    }
    Some(module)
}

/// The circles of a graph, each with all of its nodes, the largest first (Tarjan's strongly connected components).
pub fn circles<T: Ord + Copy>(graph: &BTreeMap<T, BTreeSet<T>>) -> Vec<Vec<T>> {
    let mut search = Search {
        graph,
        index: BTreeMap::new(),
        low: BTreeMap::new(),
        stack: Vec::new(),
        circles: Vec::new(),
    };
    for node in graph.keys() {
        if !search.index.contains_key(node) {
            search.visit(*node);
        }
    }
    search.circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    search.circles
}

struct Search<'a, T> {
    graph: &'a BTreeMap<T, BTreeSet<T>>,
    index: BTreeMap<T, usize>,
    low: BTreeMap<T, usize>,
    stack: Vec<T>,
    circles: Vec<Vec<T>>,
}

impl<T: Ord + Copy> Search<'_, T> {
    fn visit(&mut self, node: T) {
        let index = self.index.len();
        self.index.insert(node, index);
        self.low.insert(node, index);
        self.stack.push(node);
        for next in &self.graph[&node] {
            if !self.index.contains_key(next) {
                self.visit(*next);
                self.low.insert(node, self.low[&node].min(self.low[next]));
            } else if self.stack.contains(next) {
                self.low.insert(node, self.low[&node].min(self.index[next]));
            }
        }
        if self.low[&node] == index {
            let start = self.stack.iter().rposition(|other| *other == node).unwrap();
            let circle = self.stack.split_off(start);
            if circle.len() > 1 {
                self.circles.push(circle);
            }
        }
    }
}
