//! Cells that are planned and trained, each once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expctl::cell::Stack;
use expctl::cell::acts::Act;
use serde_json::{Map, Value, json};

use crate::common::project::Project;
use crate::files;
use crate::moved::{Figures, flatten};

/// The keys of a cell, as a spec has them.
pub type Keys = Map<String, Value>;

/// A folder in which cells of a stack are tried.
pub struct Tries {
    project: Project,
    stack: Stack,
    plans: BTreeMap<String, Figures>,
    runs: BTreeMap<String, Figures>,
}

impl Tries {
    pub fn new(stack: Stack) -> Self {
        let mut tries = Self {
            project: Project::empty(),
            stack,
            plans: BTreeMap::new(),
            runs: BTreeMap::new(),
        };
        files::write(&tries.project);
        tries.write_adapter();
        tries
    }

    /// The adapter that training goes on from: that of a run.
    fn write_adapter(&mut self) {
        if self.stack == Stack::Torch {
            return;
        }
        let start = format!("{{ {} }}", expctl::cell::acts::START);
        self.project
            .write("first.yaml", format!("name: first\ndefaults: {start}\n"));
        let output = self.project.expctl(&["run", "first.yaml", "--results", "first"]);
        assert_eq!(output.code, 0, "{output}");
        let adapter = only_cell(&self.project.path("first")).join("adapter");
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            let content = fs::read(adapter.join(file)).unwrap();
            self.project.write(format!("files/init/{file}"), content);
        }
    }

    pub fn stack(&self) -> Stack {
        self.stack
    }

    /// The cell and the changed one, with their stack.
    pub fn cells(&self, act: &Act, key: &str) -> [Keys; 2] {
        let cells = act.keys(key).unwrap_or_else(|error| panic!("{error}"));
        cells.map(|mut cell| {
            if self.stack == Stack::Torch {
                cell.entry("stack").or_insert("torch".into());
            }
            cell
        })
    }

    /// The figures of the cell's plan, or why there is none.
    pub fn plan(&mut self, cell: &Keys) -> Result<Figures, String> {
        let spec = text(cell);
        if let Some(figures) = self.plans.get(&spec) {
            return Ok(figures.clone());
        }
        self.project.write("plan.yaml", &spec);
        let output = self.project.expctl(&["plan", "plan.yaml", "--format", "json"]);
        // 3 says that a cell does not fit.
        if ![0, 3].contains(&output.code) {
            return Err(output.stderr);
        }
        let mut figures = Figures::new();
        flatten(&output.json()[0], "", &mut figures);
        self.plans.insert(spec, figures.clone());
        Ok(figures)
    }

    /// The figures of the cell's record, and its adapter, or why there are none.
    pub fn run(&mut self, cell: &Keys) -> Result<Figures, String> {
        let spec = text(cell);
        if let Some(figures) = self.runs.get(&spec) {
            return Ok(figures.clone());
        }
        let number = self.runs.len();
        let (file, results) = (format!("run_{number}.yaml"), format!("results_{number}"));
        self.project.write(&file, &spec);
        let output = self.project.expctl(&["run", &file, "--results", &results]);
        if output.code > 1 {
            return Err(output.stderr);
        }
        let folder = only_cell(&self.project.path(&results));
        let record = fs::read_to_string(folder.join("record.json")).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        if record["status"] == "failed" {
            return Err(record["reason"].to_string());
        }
        let mut figures = Figures::new();
        flatten(&record, "", &mut figures);
        if let Ok(adapter) = fs::read(folder.join("adapter/adapter_model.safetensors")) {
            figures.insert("adapter".into(), adapter.into());
        }
        self.runs.insert(spec, figures.clone());
        Ok(figures)
    }
}

/// The spec of one cell. JSON is YAML.
fn text(cell: &Keys) -> String {
    json!({ "name": "keys", "defaults": cell }).to_string()
}

/// The folder of the one cell of a study.
fn only_cell(results: &Path) -> PathBuf {
    let mut cells = fs::read_dir(results.join("cells")).unwrap();
    cells.next().unwrap().unwrap().path()
}
