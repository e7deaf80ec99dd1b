//! Reports over hand-made records: what the Markdown, the frame and the charts say, and that they always say the same.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

mod answer;
mod claims;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod documents;
mod figures;
mod files;
mod html;
mod one_method;
mod pages;
mod paste;
mod publish;
mod published;
mod records;
mod screen;
mod templates;
mod verdicts;

use std::fs;
use std::path::{Path, PathBuf};

use expctl::records::store::{StepLog, StudyDir, write_cell_yaml, write_record};
use expctl::report::{self, About, Rendered, ReportError, Template};
use expctl::results::collect::collect;
use expctl::spec::{self, Overrides, Study};

use common::project::{Output, Project};
use records::{outcome, step};

/// Two dtypes by four ranks, two seeds each; one configuration fails in every way that there is.
const SPEC: &str = "\
name: rank_sweep
description: What does the LoRA rank cost in memory and time?
defaults: { batch_size: 4, max_steps: 3, device_memory: 1GiB, data: sample, eval_fraction: 0.1 }
sweep:
  grid: { dtype: [bfloat16, int4], rank: [4, 16, 64, 256] }
repeats: 2
report: { output: results/rank_sweep.md }
";

/// A project with `experiments/NAME.yaml` and `results/NAME/`, as a run leaves them.
struct Recorded {
    project: Project,
    dir: StudyDir,
    study: Study,
}

impl Recorded {
    fn new(text: &str) -> Self {
        let project = Project::empty();
        let name = text.lines().next().unwrap().strip_prefix("name: ").unwrap();
        let spec = format!("experiments/{name}.yaml");
        project.write(&spec, text);
        let mut study = spec::load(&project.path(&spec), &Overrides::default()).unwrap();
        study.invocation.spec = spec;
        let dir = StudyDir::new(project.path("results").join(name));
        for planned in &study.cells {
            let cell = dir.cell(&planned.id);
            fs::create_dir_all(cell.path()).unwrap();
            write_cell_yaml(&cell, &planned.cell.to_yaml()).unwrap();
            if let Some(record) = outcome(&planned.cell) {
                let mut log = StepLog::create(&cell.steps()).unwrap();
                for n in 1..=3 {
                    log.append(&step(n)).unwrap();
                }
                write_record(&cell, &record).unwrap();
            }
        }
        study.write(dir.path()).unwrap();
        Self { project, dir, study }
    }

    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.project.path(path)
    }

    fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        self.project.write(path, text);
    }

    fn read(&self, path: impl AsRef<Path>) -> String {
        self.project.read(path)
    }

    fn render(&self, template: &Template) -> Result<Rendered, ReportError> {
        let frame = collect(&self.dir, &self.study, false).unwrap().frame().unwrap();
        report::render(&About::new(&self.study), &frame, template, "rank_sweep")
    }

    /// The Markdown of a built-in template.
    fn markdown(&self, template: &str) -> String {
        self.render(&Template::named(template)).unwrap().markdown
    }

    fn expctl(&self, arguments: &[&str]) -> Output {
        self.project.expctl(arguments)
    }
}
