//! `expctl merge ADAPTER`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use super::print;

const EXAMPLES: &str = "Examples:
  expctl merge results/STUDY/cells/ID/adapter --model models/base --output models/merged
  expctl merge ADAPTER --output DIR";

/// Write a model's checkpoint with an adapter merged into it
///
/// The adapter is a folder in PEFT's format, such as results/STUDY/cells/ID/adapter. Weights keep the base's formats.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The adapter's folder
    adapter: PathBuf,
    /// The folder of the base model [default: the one that the adapter names]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The folder to write, which must not be there yet
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let base = match &args.model {
        Some(model) => model.clone(),
        None => {
            let path = args.adapter.join(peft::CONFIG_FILE);
            let config = peft::read_config(&path).context("cannot read the adapter")?;
            let base = config.base_model().map(PathBuf::from);
            let base = base.context("the adapter names no base model; name its folder with --model")?;
            ensure!(
                base.is_dir(),
                "the adapter's base model `{}` is not a folder here; name its folder with --model",
                base.display()
            );
            base
        }
    };
    model::merge(&args.adapter, &base, &args.output).context("cannot merge the adapter")?;
    print(&format!("wrote {}\n", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}
