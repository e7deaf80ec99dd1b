//! What a command plans: a spec, or a model and a GPU by name.

use std::path::{Path, PathBuf};

use anyhow::bail;
use cell::Stack;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::{Options, PlanError};
use records::store::StudyDir;
use runner::Purpose;
use spec::{Names, Overrides, Start, Study};
use torch::gpu::Budget;

use super::fetch::{fetch, fetch_description};
use super::requirements::check_requirements;
use super::resolved::resolved;

/// A model and data in place of a spec.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Named {
    /// A model instead of a spec: a preset such as qwen2.5-7b, a directory, or a name on the Hugging Face Hub. It
    /// stands for one cell; --set changes it
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// The data of --model: sample, synthetic, a path, a pattern such as 'texts/*.jsonl', or a name on the Hugging Face
    /// Hub
    #[arg(long, value_name = "DATA")]
    pub(super) data: Option<String>,
}

impl Named {
    /// The model, if it stands in place of a spec.
    ///
    /// # Errors
    /// There are both, or data without a model.
    pub(super) fn in_place_of(&self, has_spec: bool) -> anyhow::Result<Option<&str>> {
        match (&self.model, has_spec) {
            (Some(_), true) => bail!("a spec and --model exclude each other"),
            (None, _) if self.data.is_some() => {
                bail!("--data goes with --model; the data of a spec is --set data=DATA")
            }
            (model, _) => Ok(model.as_deref()),
        }
    }
}

/// A spec, or names in its place.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Subject {
    /// The spec, a YAML file
    #[arg(value_name = "SPEC")]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    named: Named,
    /// The GPU that --model is planned for, such as rtx-3090, with PyTorch's stack
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// The stack that --model is planned for. Default: torch with --gpu, else candle, our trainer
    #[arg(long, value_name = "STACK", value_parser = stack_parser())]
    stack: Option<Stack>,
    /// Set a key for all cells, over the spec and the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Subject {
    /// The only study.
    ///
    /// # Errors
    /// There is none or several; or something is wrong with it.
    pub(super) fn study(&self) -> anyhow::Result<Study> {
        Ok(self.studies()?.remove(0))
    }

    /// The only study, with keys that may change and keys that stay. Names stand for a cell in which nothing is saved
    /// yet.
    ///
    /// # Errors
    /// There is none, or something is wrong with it.
    pub(super) fn study_to_fit(&self, vary: &[String], keep: &[String]) -> anyhow::Result<Study> {
        let overrides = Overrides::from_environment(self.set.clone())?;
        let overrides = overrides.with_search(vary.to_vec(), keep.to_vec());
        Ok(self.read(&overrides, Start::Roomy)?.remove(0))
    }

    /// True for several specs.
    pub(super) fn is_several(&self) -> bool {
        self.specs.len() > 1
    }

    /// The studies, at least one.
    ///
    /// # Errors
    /// There is none; or something is wrong with one.
    pub(super) fn studies(&self) -> anyhow::Result<Vec<Study>> {
        self.read(&Overrides::from_environment(self.set.clone())?, Start::Frugal)
    }

    fn read(&self, overrides: &Overrides, start: Start) -> anyhow::Result<Vec<Study>> {
        let mut studies = self.named(overrides, start)?;
        for study in &mut studies {
            check_requirements(study)?;
            fetch(study, Purpose::Plan, |_| true)?;
        }
        Ok(studies)
    }

    /// The studies before anything is fetched for their cells.
    fn named(&self, overrides: &Overrides, start: Start) -> anyhow::Result<Vec<Study>> {
        match (self.named.in_place_of(!self.specs.is_empty())?, self.specs.as_slice()) {
            (Some(model), _) => {
                let names = Names {
                    model: model.into(),
                    data: self.named.data.clone(),
                    gpu: self.gpu.clone(),
                    stack: self.stack,
                    start,
                    roots: fetch_description(model)?,
                };
                Ok(vec![names.study(overrides)?])
            }
            (None, []) => bail!("give a spec, or a model by name: --model qwen2.5-7b --gpu rtx-3090"),
            (None, _) if self.gpu.is_some() => bail!("--gpu goes with --model; the GPU of a spec is --budget GPU"),
            (None, _) if self.stack.is_some() => {
                bail!("--stack goes with --model; the stack of a spec is --set stack=STACK")
            }
            (None, specs) => {
                let studies = specs.iter().map(|spec| spec::load(spec, overrides));
                Ok(studies.collect::<Result<_, _>>()?)
            }
        }
    }
}

/// The study for a budget: if that is a GPU, PyTorch's cells are for this GPU. Values that it leaves open are found.
///
/// # Errors
/// A cell with an open value cannot be planned.
pub(super) fn for_budget(mut study: Study, budget: Option<Budget>) -> Result<Study, PlanError> {
    if let Some(Budget::Gpu(gpu)) = budget {
        // The plan is for this GPU, and the rows name it.
        let torch = study
            .cells
            .iter_mut()
            .filter(|study_cell| study_cell.cell.stack == Stack::Torch);
        for study_cell in torch {
            study_cell.cell.gpu = Some(gpu.name.into());
            if let Some(value) = study_cell.axes.get_mut("gpu") {
                *value = gpu.name.into();
            }
        }
    }
    let dir = StudyDir::new(Path::new("results").join(&study.name));
    let options = Options {
        budget,
        ..Options::default()
    };
    resolved(study, options, &dir)
}

fn stack_parser() -> impl TypedValueParser<Value = Stack> {
    let stacks = [Stack::Candle, Stack::Torch];
    PossibleValuesParser::new(stacks.map(Stack::name)).map(move |name| match name.as_str() {
        "torch" => Stack::Torch,
        _ => Stack::Candle,
    })
}
