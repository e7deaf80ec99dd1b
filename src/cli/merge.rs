//! `expctl merge ADAPTER`.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use model::MergeError;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::{ended_by, print, warn};

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
    let signal = stopping_signal().context("cannot catch signals")?;
    let is_stopped = || signal.load(Ordering::Relaxed) > 0;
    match model::merge(&args.adapter, &base, &args.output, &is_stopped) {
        Err(MergeError::Stopped) => {
            warn("interrupted; nothing is left behind");
            return Ok(ended_by(signal.load(Ordering::Relaxed) as i32));
        }
        merged => merged.context("cannot merge the adapter")?,
    }
    print(&format!("wrote {}\n", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Where the first SIGINT or SIGTERM is noted; 0 until then. The second ends the process.
fn stopping_signal() -> io::Result<Arc<AtomicUsize>> {
    let (first, was_asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&was_asked))?;
        flag::register(signal, Arc::clone(&was_asked))?;
        flag::register_usize(signal, Arc::clone(&first), signal as usize)?;
    }
    Ok(first)
}
