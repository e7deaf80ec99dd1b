//! `expctl init`.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use base::text::Table;
use serde_json::json;
use spec::Example;

use super::print;
use super::screen::screen_width;

const EXAMPLES: &str = "Examples:
  expctl init
  expctl init --list";

/// Write a commented spec to start from, or a study that comes with expctl
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The file to write; it must not exist [default: experiment.yaml, or NAME.yaml of an example]
    spec: Option<PathBuf>,
    /// Write this example, with the files that it needs
    #[arg(long, value_name = "NAME")]
    example: Option<String>,
    /// List the examples
    #[arg(long, conflicts_with_all = ["spec", "example"])]
    list: bool,
}

const SPEC: &str = include_str!("init.yaml");

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list {
        print(&examples().within(screen_width()))?;
    } else if let Some(name) = args.example {
        let example = Example::named(&name)?;
        write_example(&example, &args.spec.unwrap_or_else(|| format!("{name}.yaml").into()))?;
    } else {
        let path = args.spec.unwrap_or_else(|| "experiment.yaml".into());
        write_new(&path, &named(&path))?;
        print(&format!("wrote {0}; run it with `expctl run {0}`\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The examples and the first sentence of each description.
fn examples() -> Table {
    let mut table = Table::new(["example", "description"]);
    let row = |example: Example| vec![json!(example.name), json!(example.summary())];
    table.rows.extend(Example::all().map(row));
    table
}

/// Writes an example as `path`, and what it needs beside it. A file that is there already with the same text is kept.
fn write_example(example: &Example, path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().context("an example is written to a file")?;
    let files = example.files(&name.to_string_lossy());
    let there = |text: &str, path: &Path| fs::read(path).is_ok_and(|there| there == text.as_bytes());
    let files = files.into_iter().map(|file| (folder.join(file.path), file.text));
    let (kept, due): (Vec<_>, Vec<_>) = files.partition(|(file, text)| file != path && there(text, file));
    if let Some((taken, _)) = due.iter().find(|(file, _)| file.exists()) {
        bail!("{} already exists, and is not overwritten", taken.display());
    }
    for (file, text) in &due {
        if let Some(folder) = file.parent().filter(|_| file != path) {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        write_new(file, text)?;
    }
    let beside = due.iter().map(|(file, _)| file).filter(|file| *file != path);
    let beside: Vec<String> = beside.map(|file| file.display().to_string()).collect();
    let also = if beside.is_empty() {
        String::new()
    } else {
        format!(" and {}", beside.join(", "))
    };
    let verb = if example.is_planned() { "plan" } else { "run" };
    print(&format!(
        "wrote {0}{also}; {verb} it with `expctl {verb} {0}`\n",
        path.display()
    ))?;
    for (file, _) in kept {
        print(&format!("kept {}, which is the same\n", file.display()))?;
    }
    if example.needs_texts() {
        print("its texts are made in a clone of expctl, as its first lines say; or name your own under `data`\n")?;
    }
    Ok(())
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} already exists, and is not overwritten", path.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    };
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The spec, with the study named after the file.
fn named(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let safe: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let name = if safe.is_empty() { "experiment" } else { safe.as_str() };
    SPEC.replacen("name: experiment", &format!("name: {name}"), 1).replacen(
        "results/experiment.md",
        &format!("results/{name}.md"),
        1,
    )
}

#[cfg(test)]
mod tests {
    use spec::Overrides;

    use super::*;

    #[test]
    fn the_spec_is_valid_and_named_after_its_file() {
        let study = spec::parse(
            Path::new("x.yaml"),
            &named(Path::new("my study.yaml")),
            &Overrides::default(),
        )
        .unwrap();
        assert_eq!(study.name, "my_study");
        assert_eq!(study.cells.len(), 4);
    }

    /// The comments show every key as `# key: default  # explanation`, so without the `#` there must be a valid spec.
    #[test]
    fn every_key_is_there_with_its_default() {
        let (head, rest) = SPEC.split_once("\n  # All other keys").unwrap();
        let (comments, _) = rest.split_once("\nsweep:").unwrap();
        let shown = comments
            .lines()
            .filter_map(|line| line.strip_prefix("  # "))
            .filter(|line| line.contains(": "));
        let keys: Vec<String> = shown.map(|line| format!("  {line}")).collect();
        let text = format!("{head}\n{}\n", keys.join("\n"));
        let parse = |text: &str| spec::parse(Path::new("x.yaml"), text, &Overrides::default());
        let all = parse(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            all.cells[0].id,
            parse(head).unwrap().cells[0].id,
            "a comment shows what is not the default"
        );
        for key in cell::keys::keys().iter().filter(|key| !key.path.contains('.')) {
            assert!(
                text.contains(&format!("\n  {}:", key.path)),
                "{} is not shown",
                key.path
            );
        }
    }

    #[test]
    fn uncommented_whole_it_is_valid() {
        let uncommented = |line: &str| {
            let key = |text: &str| {
                let name = text.split_once(':').map_or("", |(name, _)| name);
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            match line.trim_start().strip_prefix("# ") {
                Some(text) if key(text) => line.replacen("# ", "", 1),
                _ => line.to_owned(),
            }
        };
        let text: Vec<String> = SPEC.lines().map(uncommented).collect();
        let study = spec::parse(Path::new("x.yaml"), &text.join("\n"), &Overrides::default());
        let study = study.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(study.cells.len(), 2 + 4 + 1);
    }
}
