//! Exit codes, errors, and text on stdout.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base::text::{Table, visible, visible_but_styles, with_causes};
use clap::ValueEnum;
use records::store::write_if_changed;
use spec::SpecError;

use super::screen::screen_width;

/// Exit code if a cell failed or a check did not hold.
pub const FAILED: u8 = 1;
/// Exit code of every error.
pub const INVALID_INPUT: u8 = 2;

/// Exit code if a planned cell does not fit.
const OVERSIZE: u8 = 3;

/// Success, or that a check did not hold.
pub(crate) fn exit_code(holds: bool) -> ExitCode {
    match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    }
}

/// The place of a page.
#[derive(Debug, clap::Args)]
pub(crate) struct PageFile {
    /// The file to write instead of the standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; exit code 1 if the file is stale
    #[arg(long, requires = "output")]
    check: bool,
}

impl PageFile {
    /// Writes the page, or says whether the file has it.
    pub(crate) fn write(&self, page: &str) -> anyhow::Result<ExitCode> {
        let Some(output) = self.output.as_deref().filter(|_| self.check) else {
            return write_page(page, self.output.as_deref());
        };
        let shown = output.display();
        let is_fresh = std::fs::read_to_string(output).unwrap_or_default() == page;
        match is_fresh {
            true => print(&format!("{shown} is up to date\n"))?,
            false => eprintln!("`{shown}` is stale"),
        }
        Ok(exit_code(is_fresh))
    }
}

/// Prints a page, or writes it to a file.
pub(crate) fn write_page(page: &str, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Some(output) = output else {
        print(page)?;
        return Ok(ExitCode::SUCCESS);
    };
    let shown = output.display();
    let word = if write_if_changed(output, page.as_bytes())? {
        "wrote"
    } else {
        "unchanged:"
    };
    print(&format!("{word} {shown}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// That a signal ended the command, as shells report it.
pub(crate) fn ended_by(signal: i32) -> ExitCode {
    ExitCode::from(128 + u8::try_from(signal).unwrap_or(0))
}

/// Success, or that a planned cell does not fit.
pub(crate) fn fits_or_not(all_fit: bool) -> ExitCode {
    match all_fit {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(OVERSIZE),
    }
}

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people
    Table,
    /// An array of objects
    Json,
    /// Comma-separated values with a header
    Csv,
}

impl Format {
    /// The whole table in this format, with a line end.
    pub(super) fn render(self, table: &Table) -> String {
        match self {
            Self::Table => table.within(screen_width()),
            Self::Json => table.json(),
            Self::Csv => table.csv(),
        }
    }
}

/// An error for stderr: with colours if stderr is a terminal and the error is a mistake in a spec.
pub fn describe(error: &anyhow::Error) -> String {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    match error.downcast_ref::<SpecError>() {
        Some(error) if colours => error.styled(),
        _ => with_causes(error.as_ref()),
    }
}

/// Warns on stderr. What steers a terminal is written out: warnings quote files.
pub(crate) fn warn(text: &str) {
    eprintln!("warning: {}", visible(text));
}

/// Says on stderr what a reader of the result should know.
pub(crate) fn note(text: &str) {
    eprintln!("note: {}", visible(text));
}

/// Prints to stdout. A reader that has gone, as with `| head`, is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    // Colours are for a terminal, unless NO_COLOR is set.
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    match out
        .write_all(visible_but_styles(text).as_bytes())
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(io::Error::new(
            error.kind(),
            format!("cannot write to the standard output: {error}"),
        )),
        _ => Ok(()),
    }
}
