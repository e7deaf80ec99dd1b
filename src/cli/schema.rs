//! `expctl schema`.

use std::process::ExitCode;

use super::print;

/// Print the JSON Schema of specs, with which editors complete and check them
///
/// For example: `expctl schema > expctl.schema.json`, and as a spec's first line
/// `# yaml-language-server: $schema=expctl.schema.json`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// `markdown` is the reference page docs/spec.md
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Format {
    #[default]
    Json,
    Markdown,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = match args.format {
        Format::Json => format!("{:#}\n", spec::schema()),
        Format::Markdown => spec::reference(),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
