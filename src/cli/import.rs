//! `expctl import FILE`.

use std::fs::{self, File};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use base::text::visible;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use import::{Axes, Document, Options, Swept, Tool, Translation, Written};
use spec::{Overrides, SpecError};
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Sources;

use super::print;

const EXAMPLES: &str = "Examples:
  expctl import axolotl.yml --output mine.yaml
  expctl import -- trl sft --model_name_or_path Qwen/Qwen3-0.6B --use_peft";

/// Write a spec from another program's configuration: axolotl's, LLaMA-Factory's, torchtune's, TRL's, transformers',
/// accelerate's or DeepSpeed's
///
/// Each key of the file is taken over, replaced, or left out, and a remark beside it says which. What changes memory and
/// is lost stands at the top. The file is YAML, JSON, or a script with the command that trains.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The configuration, or a script with the command
    #[arg(required_unless_present = "words")]
    file: Option<PathBuf>,
    #[command(flatten)]
    known: Known,
    /// axolotl's file of a sweep, or that of Weights & Biases, for the spec's `sweep`
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    /// The spec's place. Default: the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long, requires = "output")]
    force: bool,
    /// Without FILE, the command that trains. With it, settings over the file's, such as `key=value` and `--key value`;
    /// `key=1,2` is an axis, as Hydra's `--multirun` has them
    #[arg(last = true)]
    words: Vec<String>,
}

/// What a configuration may leave open.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Known {
    /// The tool, if its keys do not tell
    #[arg(long, value_name = "TOOL", value_parser = tool_parser())]
    tool: Option<&'static Tool>,
    /// The model, of a file that names none
    #[arg(long)]
    model: Option<String>,
    /// Processes that train together, which a launcher's option says
    #[arg(long, value_name = "COUNT")]
    processes: Option<usize>,
}

fn tool_parser() -> impl TypedValueParser<Value = &'static Tool> {
    let names = PossibleValuesParser::new(import::tools().iter().map(|tool| tool.id.as_str()));
    names.try_map(|name| Tool::named(&name).ok_or("no such tool"))
}

/// A spec that was written from a configuration.
pub(super) struct Imported {
    translation: Translation,
    /// Where the spec would lie.
    pub(super) path: PathBuf,
    /// The spec.
    pub(super) text: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let imported = imported(args)?;
    match &args.output {
        None => print(&imported.text)?,
        Some(output) => {
            write(output, &imported.text, args.force)?;
            let _ = writeln!(stderr(), "{}: {}", output.display(), imported.summary());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(output: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    if force {
        return fs::write(output, text).with_context(|| format!("cannot write {}", output.display()));
    }
    match File::create_new(output) {
        Ok(mut file) => file
            .write_all(text.as_bytes())
            .with_context(|| format!("cannot write {}", output.display())),
        Err(_) if output.exists() => bail!("{} is there already; --force writes over it", output.display()),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", output.display())),
    }
}

fn imported(args: &Args) -> anyhow::Result<Imported> {
    let mut sources = Sources::default();
    let failed = |mistake: Diagnostic, sources: &Sources| SpecError::new(mistake, &Arc::new(sources.clone()));
    let document = match &args.file {
        Some(file) => Document::open(file, &mut sources),
        None => Document::of_words(&args.words, Path::new(""), &mut sources),
    };
    let mut document = document.map_err(|mistake| failed(mistake, &sources))?;
    let mut axes = Axes::default();
    if args.file.is_some() && !args.words.is_empty() {
        let settings = Document::settings(&args.words, &mut sources);
        let (single, several) = Axes::of_overrides(&settings.map_err(|mistake| failed(mistake, &sources))?);
        for (key, value) in single {
            document.set(&key, value);
        }
        axes = axes.and(several);
    }
    if let Some(file) = &args.sweep {
        let sweep = Axes::open(file, &mut sources);
        axes = axes.and(sweep.map_err(|mistake| failed(mistake, &sources))?);
    }
    let name = match &args.file {
        Some(file) => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        None => "imported".to_owned(),
    };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| format!("{}.yaml", safe(&name)).into());
    of_document(&document, &axes, &args.known, &name, &output, &sources)
}

/// The spec of a configuration's file, for a command that plans it at once.
pub(super) fn of_file(file: &Path, known: &Known) -> anyhow::Result<Imported> {
    let mut sources = Sources::default();
    let document = Document::open(file, &mut sources);
    let document = document.map_err(|mistake| SpecError::new(mistake, &Arc::new(sources.clone())))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let output = file.with_file_name(format!("{}.yaml", safe(&name)));
    of_document(&document, &Axes::default(), known, &name, &output, &sources)
}

fn of_document(
    document: &Document,
    axes: &Axes,
    known: &Known,
    name: &str,
    output: &Path,
    sources: &Sources,
) -> anyhow::Result<Imported> {
    let options = Options {
        tool: known.tool,
        model: known.model.clone(),
        processes: known.processes,
        output: output.parent().unwrap_or(Path::new("")).to_path_buf(),
    };
    let sources = Arc::new(sources.clone());
    let refused = |mistakes: Mistakes| match SpecError::all(mistakes, &sources) {
        Some(error) => anyhow::Error::from(error),
        None => anyhow::anyhow!("the configuration does not come to a spec"),
    };
    let (translation, swept) = match axes.is_empty() {
        true => (import::translate(document, &options).map_err(refused)?, None),
        false => {
            let (translation, swept) = axes.translate(document, &options).map_err(refused)?;
            (translation, Some(swept))
        }
    };
    let text = text_of(&translation, swept.as_ref(), name);
    // The tables say what a spec is to have, and the spec's own checks have the last word.
    spec::parse(output, &text, &Overrides::default())
        .with_context(|| format!("{} cannot be planned as it stands", translation.recognised.tool.name))?;
    Ok(Imported {
        translation,
        path: output.to_path_buf(),
        text,
    })
}

fn text_of(translation: &Translation, swept: Option<&Swept>, name: &str) -> String {
    let name = safe(name);
    let written = Written {
        name: &name,
        command: "expctl import",
    };
    visible(&import::write(translation, swept, &written)).into_owned()
}

/// A name that a study may have.
fn safe(name: &str) -> String {
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_-.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    match safe.trim_start_matches(['.', '-']) {
        "" => "imported".to_owned(),
        safe => safe.to_owned(),
    }
}

impl Imported {
    /// What became of the keys, in one line.
    pub(super) fn summary(&self) -> String {
        let lost: Vec<&str> = self.translation.lost.iter().map(|left| left.key.as_str()).collect();
        let lost = match lost.as_slice() {
            [] => "no key that changes memory is lost".to_owned(),
            keys => format!("lost, though they change memory: {}", keys.join(", ")),
        };
        format!("{}; {lost}", self.translation.recognised.sentence())
    }
}
