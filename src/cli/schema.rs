//! `expctl schema`.

use std::process::ExitCode;

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use records::schema::Subject;

use super::print;

const EXAMPLES: &str = "Examples:
  expctl schema
  expctl schema --format markdown";

/// Print the JSON Schema of specs, with which editors complete and check them, or that of a file or stream of a cell
///
/// For example: `expctl schema > expctl.schema.json`, and as a spec's first line
/// `# yaml-language-server: $schema=expctl.schema.json`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// `markdown` is the reference page docs/spec.md
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What a run and its worker write, instead of specs (docs/worker.md)
    #[arg(long, value_name = "SUBJECT", value_parser = subject())]
    of: Option<Subject>,
}

/// Reads the subjects of `--of`.
fn subject() -> impl TypedValueParser<Value = Subject> {
    let names = PossibleValuesParser::new(Subject::ALL.map(Subject::name));
    names.try_map(|name| Subject::named(&name).ok_or("no such subject"))
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Format {
    #[default]
    Json,
    Markdown,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match (args.format, args.of) {
        (Format::Json, None) => format!("{:#}\n", spec::schema()),
        (Format::Json, Some(subject)) => format!("{:#}\n", subject.schema()),
        (Format::Markdown, None) => spec::reference(),
        (Format::Markdown, Some(_)) => bail!("--format markdown is for specs; without it, --of prints JSON"),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
