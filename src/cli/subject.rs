//! What a command plans: a spec, or a model and a GPU by name.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use arch::Preset;
use base::text::format;
use cell::Stack;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plan::{Headroom, Options, Planner};
use records::store::StudyDir;
use runner::Purpose;
use spec::{Names, Overrides, Recipe, Study};
use torch::gpu::{Budget, Gpu};

use super::devices::Devices;
use super::fetch::{fetch, fetch_description};
use super::import;
use super::output::note;
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
    /// The file is another program's configuration, which is imported first, as `expctl import` does
    #[arg(long)]
    import: bool,
    #[command(flatten)]
    named: Named,
    /// The GPU to plan for: its name such as rtx-3090 or 4090, or its size such as 24GB; several as 2xa100-80gb, which
    /// sets `world_size`. In place of a spec's own GPUs
    #[arg(long, value_name = "GPU|SIZE")]
    gpu: Option<Devices>,
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
        let overrides = self.overrides()?.with_search(vary.to_vec(), keep.to_vec());
        Ok(self.read(&overrides)?.remove(0))
    }

    /// True without a spec and without a model.
    pub(super) fn is_nothing(&self) -> bool {
        self.specs.is_empty() && self.named.model.is_none()
    }

    /// Finds options that say something of cells where there are none.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn check_alone(&self) -> anyhow::Result<()> {
        let given = [
            ("--data", self.named.data.is_some()),
            ("--gpu", self.gpu.is_some()),
            ("--budget", self.budget.is_some()),
            ("--headroom", self.headroom != Headroom::Usual),
            ("--recipe", self.recipe.is_some()),
            ("--stack", self.stack.is_some()),
            ("--set", !self.set.is_empty()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => bail!("{option} goes with a spec or --model, and neither is given"),
            None => Ok(()),
        }
    }

    /// What every cell is to fit into, if it is given, and what stays free of it.
    pub(super) fn options(&self) -> Options {
        Options {
            budget: self.budget.or(self.each_gpu()),
            headroom: self.headroom,
            ..Options::default()
        }
    }

    /// The GPU that is named, as such or as the budget.
    fn named_gpu(&self) -> Option<&'static Gpu> {
        [self.each_gpu(), self.budget]
            .into_iter()
            .flatten()
            .find_map(Budget::gpu)
    }

    /// Each of the GPUs of `--gpu`.
    fn each_gpu(&self) -> Option<Budget> {
        self.gpu.map(|gpu| gpu.each)
    }

    /// The environment's settings and those of the command line. A count of GPUs comes first: `--set` is exact.
    fn overrides(&self) -> anyhow::Result<Overrides> {
        let count = self.gpu.and_then(|gpu| gpu.count);
        let world_size = count.map(|count| format!("world_size={count}"));
        Ok(Overrides::from_environment(
            world_size.into_iter().chain(self.set.clone()).collect(),
        )?)
    }

    /// The options that gave the budget and the headroom, for a command that does the same.
    pub(super) fn device_arguments(&self) -> Vec<String> {
        // A GPU of names is one of them.
        let is_named = |budget: &Budget| self.named.model.is_some() && budget.gpu().is_some();
        let given = [
            (
                "--gpu",
                self.each_gpu().filter(|gpu| !is_named(gpu)).map(|gpu| gpu.to_string()),
            ),
            ("--budget", self.budget.map(|budget| budget.to_string())),
            (
                "--headroom",
                (self.headroom != Headroom::Usual).then(|| self.headroom.to_string()),
            ),
        ];
        given
            .into_iter()
            .filter_map(|(option, value)| Some(format!("{option}={}", value?)))
            .collect()
    }

    /// Checks that --gpu and --budget go together: a GPU and a size of its memory.
    ///
    /// # Errors
    /// Both name a GPU, or a size; they are the wrong way round; or the size is more than the GPU has.
    fn check_device(&self) -> anyhow::Result<()> {
        let Some((gpu, budget)) = self.each_gpu().zip(self.budget) else {
            return Ok(());
        };
        let what = match (gpu.gpu(), budget.gpu()) {
            _ if gpu == budget => return Ok(()),
            (Some(gpu), None) => {
                ensure!(
                    budget.bytes() <= gpu.total_bytes,
                    "--budget is more than `{gpu}` has, which is {}",
                    format::bytes(gpu.total_bytes.into())
                );
                return Ok(());
            }
            (Some(_), Some(_)) => "name two devices",
            (None, None) => "name two sizes",
            (None, Some(_)) => "are the wrong way round",
        };
        bail!("--gpu and --budget {what}: give one of them, or a GPU as --gpu and a size as --budget")
    }

    /// The study for --gpu and the budget of `options`: PyTorch's cells are for a GPU that one of them names. Values that
    /// the study leaves open are found.
    ///
    /// # Errors
    /// A cell of our trainer gets a GPU, the headroom leaves nothing of a budget, or a cell with an open value cannot be
    /// planned.
    pub(super) fn on_device(&self, study: Study, options: Options) -> anyhow::Result<Study> {
        let gpu = [self.each_gpu(), options.budget]
            .into_iter()
            .flatten()
            .find_map(Budget::gpu);
        let study = for_gpu(study, gpu)?;
        let planner = Planner::new(study.roots(), options);
        for study_cell in &study.cells {
            let (budget, headroom) = (planner.budget(&study_cell.cell), planner.headroom(&study_cell.cell));
            // The usual one of a small budget is for the verdict.
            if let Some(budget) = budget.filter(|budget| self.headroom != Headroom::Usual && *budget <= headroom) {
                bail!(
                    "a headroom of {} leaves nothing of {}; --headroom 0 keeps none free",
                    format::bytes(headroom.into()),
                    format::bytes(budget.into())
                );
            }
        }
        let dir = StudyDir::new(Path::new("results").join(&study.name));
        Ok(resolved(study, options, &dir)?)
    }

    /// The studies, at least one.
    ///
    /// # Errors
    /// There is none; or something is wrong with one.
    pub(super) fn studies(&self) -> anyhow::Result<Vec<Study>> {
        self.read(&self.overrides()?)
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
        self.check_device()?;
        match (self.named.in_place_of(!self.specs.is_empty())?, self.specs.as_slice()) {
            (Some(model), _) => {
                let stack = self.stack.unwrap_or(Stack::Torch);
                if stack == Stack::Candle && self.gpu.is_some_and(|gpu| gpu.count.is_some()) {
                    bail!("--gpu names several devices, and --stack candle is our trainer, which is one process");
                }
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
            (None, specs) if self.import && !specs.is_empty() => {
                specs.iter().map(|file| imported(file, overrides)).collect()
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

/// The study of another program's configuration. What became of its keys is said on stderr.
fn imported(file: &Path, overrides: &Overrides) -> anyhow::Result<Study> {
    let imported = import::of_file(file, &import::Known::default())?;
    note(&format!("{}: {}", file.display(), imported.summary()));
    Ok(spec::parse(&imported.path, &imported.text, overrides)?)
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

/// The study for a GPU, if there is one: PyTorch's cells are for this GPU.
///
/// # Errors
/// A cell is of our trainer.
fn for_gpu(mut study: Study, gpu: Option<&'static Gpu>) -> anyhow::Result<Study> {
    if let Some(gpu) = gpu {
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
    Ok(study)
}

fn stack_parser() -> impl TypedValueParser<Value = Stack> {
    let stacks = [Stack::Candle, Stack::Torch];
    PossibleValuesParser::new(stacks.map(Stack::name)).map(move |name| match name.as_str() {
        "torch" => Stack::Torch,
        _ => Stack::Candle,
    })
}
