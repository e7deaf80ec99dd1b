//! expctl: declarative fine-tuning experiments, measured to the byte.

use std::io::{Write, stderr};
use std::process::ExitCode;

use expctl::cli::{Cli, INVALID_INPUT, describe};
use include_dir::{Dir, include_dir};
use memory::ProcessAllocator;
use spec::ShippedFile;

static EXPERIMENTS: Dir = include_dir!("$CARGO_MANIFEST_DIR/experiments");

#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

fn main() -> ExitCode {
    memory::bound_foreign_work();
    spec::ship(files(&EXPERIMENTS));
    if let Some(ids) = option_env!("BUILT_FROM_SOURCES") {
        runner::built_from(ids);
    }
    match Cli::read().run() {
        Ok(code) => code,
        Err(error) => {
            // If stderr is closed, the exit code still reports the failure.
            let _ = writeln!(stderr(), "error: {}", describe(&error));
            ExitCode::from(INVALID_INPUT)
        }
    }
}

/// The files of a folder and of those below it.
fn files(dir: &'static Dir) -> Vec<ShippedFile> {
    let own = dir
        .files()
        .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)));
    own.chain(dir.dirs().flat_map(files)).collect()
}
