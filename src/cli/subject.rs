//! What a command plans: a spec, or a model and a GPU by name.

use std::path::{Path, PathBuf};

use anyhow::bail;
use arch::Preset;
use cell::Stack;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::{Headroom, Options};
use records::store::StudyDir;
use runner::Purpose;
use spec::{Names, Overrides, Recipe, Study};
use torch::gpu::{Budget, Gpu};

use super::fetch::{fetch, fetch_description};
use super::requirements::check_requirements;
use super::resolved::resolved;
use super::unknown_flag;

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

/// A spec, or names in its place, and what they are to fit into.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Subject {
    /// The spec, a YAML file
    #[arg(value_name = "SPEC")]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    named: Named,
    /// The GPU to plan for: its name such as rtx-3090 or 4090, or its size such as 24GB. In place of a spec's own GPUs
    #[arg(long, value_name = "GPU|SIZE")]
    gpu: Option<Budget>,
    /// The memory to fit into, if it is not all of --gpu: a size such as 6GiB; or a GPU. In place of the cells' own
    /// device_memory and GPUs
    #[arg(long, value_name = "SIZE|GPU")]
    budget: Option<Budget>,
    /// The part of a GPU's memory that stays free for other programs and for what no plan sees: a size, or a share such
    /// as 5%. Default: the larger of 0.5 GiB and 3%
    #[arg(long, value_name = "SIZE|SHARE", default_value_t = Headroom::Usual, hide_default_value = true)]
    headroom: Headroom,
    /// What --model is trained with: a recipe by who does it so. `expctl list --recipes` prints them. Default: qlora,
    /// the frugal one
    #[arg(long, value_name = "RECIPE")]
    recipe: Option<&'static Recipe>,
    /// The stack of --model: torch, which is PyTorch with transformers, PEFT and bitsandbytes, or candle, our trainer
    /// on the CPU. Default: torch
    #[arg(long, value_name = "STACK", value_parser = stack_parser())]
    stack: Option<Stack>,
    /// Set a key for all cells, over the spec and the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Subject {
    /// The only study, with keys that may change and keys that stay.
    ///
    /// # Errors
    /// There is none, or something is wrong with it.
    pub(super) fn study_to_fit(&self, vary: &[String], keep: &[String]) -> anyhow::Result<Study> {
        let overrides = Overrides::from_environment(self.set.clone())?;
        let overrides = overrides.with_search(vary.to_vec(), keep.to_vec());
        Ok(self.read(&overrides)?.remove(0))
    }

    /// True without a spec and without a model.
    pub(super) fn is_nothing(&self) -> bool {
        self.specs.is_empty() && self.named.model.is_none()
    }

    /// What every cell is to fit into, if it is given.
    pub(super) fn budget(&self) -> Option<Budget> {
        self.budget.or(self.gpu)
    }

    /// The memory that stays free.
    pub(super) fn headroom(&self) -> Headroom {
        self.headroom
    }

    /// The GPU that is named, as such or as the budget.
    fn named_gpu(&self) -> Option<&'static Gpu> {
        [self.gpu, self.budget].into_iter().flatten().find_map(Budget::gpu)
    }

    /// The options that gave the budget, for a command that does the same.
    pub(super) fn budget_arguments(&self) -> Vec<String> {
        // A GPU of names is one of them.
        let is_named = |budget: &Budget| {
            let gpu = budget.gpu();
            self.named.model.is_some() && gpu.is_some() && gpu == self.named_gpu()
        };
        let given = [
            ("--gpu", self.gpu.filter(|gpu| !is_named(gpu))),
            ("--budget", self.budget),
        ];
        given
            .into_iter()
            .filter_map(|(option, budget)| Some(format!("{option}={}", budget?)))
            .collect()
    }

    /// The studies, at least one.
    ///
    /// # Errors
    /// There is none; or something is wrong with one.
    pub(super) fn studies(&self) -> anyhow::Result<Vec<Study>> {
        self.read(&Overrides::from_environment(self.set.clone())?)
    }

    fn read(&self, overrides: &Overrides) -> anyhow::Result<Vec<Study>> {
        let mut studies = self.named(overrides)?;
        for study in &mut studies {
            check_requirements(study)?;
            fetch(study, Purpose::Plan, |_| true)?;
        }
        Ok(studies)
    }

    /// The studies before anything is fetched for their cells.
    fn named(&self, overrides: &Overrides) -> anyhow::Result<Vec<Study>> {
        check_paths(&self.specs)?;
        match (self.named.in_place_of(!self.specs.is_empty())?, self.specs.as_slice()) {
            (Some(model), _) => {
                let stack = self.stack.unwrap_or(Stack::Torch);
                if stack == Stack::Candle
                    && let Some(gpu) = self.named_gpu()
                {
                    bail!(
                        "`{gpu}` is a GPU, and --stack candle is our trainer, which runs on the CPU: leave --stack out \
                         to plan PyTorch's stack, or give a size such as --budget 6GiB"
                    );
                }
                let names = Names {
                    model: model.into(),
                    data: self.named.data.clone(),
                    gpu: self.named_gpu(),
                    stack,
                    recipe: self.recipe.unwrap_or(Recipe::frugal()),
                    roots: fetch_description(model)?,
                };
                Ok(vec![names.study(overrides)?])
            }
            (None, []) => bail!("give a spec, or a model by name: --model qwen2.5-7b --gpu rtx-3090"),
            (None, _) if self.stack.is_some() => {
                bail!("--stack goes with --model; the stack of a spec is --set stack=STACK")
            }
            (None, _) if self.recipe.is_some() => bail!("--recipe goes with --model; a spec has keys of its own"),
            (None, specs) => {
                let studies = specs.iter().map(|spec| spec::load(spec, overrides));
                Ok(studies.collect::<Result<_, _>>()?)
            }
        }
    }
}

/// Finds what is no path of a spec: a setting, or the name of a model.
///
/// # Errors
/// There is one.
fn check_paths(specs: &[PathBuf]) -> anyhow::Result<()> {
    for path in specs.iter().filter(|path| !path.exists()) {
        let text = path.to_string_lossy();
        if let Some((key, value)) = text.split_once('=') {
            let key = unknown_flag::key(key).unwrap_or_else(|| key.to_owned());
            bail!("`{text}` is a setting: write `--set {key}={value}`");
        }
        if Preset::named(&text).or(Preset::of_hub_name(&text)).is_some() {
            bail!("`{text}` is a model: write `--model {text}`");
        }
    }
    Ok(())
}

/// The study for a budget: if that is a GPU, PyTorch's cells are for this GPU. Values that it leaves open are found.
///
/// # Errors
/// A GPU is the budget of a cell of our trainer, or a cell with an open value cannot be planned.
pub(super) fn for_budget(mut study: Study, budget: Option<Budget>) -> anyhow::Result<Study> {
    if let Some(gpu) = budget.and_then(Budget::gpu) {
        if study
            .cells
            .iter()
            .any(|study_cell| study_cell.cell.stack == Stack::Candle)
        {
            bail!(
                "`{gpu}` is a GPU, and the cells of `{}` are of our trainer, which runs on the CPU: give a size such as \
                 --budget 6GiB, or plan PyTorch's stack with --set stack=torch",
                study.invocation.source()
            );
        }
        // The plan is for this GPU, and the rows name it.
        for study_cell in &mut study.cells {
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
    Ok(resolved(study, options, &dir)?)
}

fn stack_parser() -> impl TypedValueParser<Value = Stack> {
    let stacks = [Stack::Candle, Stack::Torch];
    PossibleValuesParser::new(stacks.map(Stack::name)).map(move |name| match name.as_str() {
        "torch" => Stack::Torch,
        _ => Stack::Candle,
    })
}
