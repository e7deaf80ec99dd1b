//! `expctl init`.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::print;

/// Write a commented spec to start from
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to write; it must not exist
    #[arg(default_value = "experiment.yaml")]
    spec: PathBuf,
}

const SPEC: &str = include_str!("init.yaml");

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = &args.spec;
    let mut file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} already exists, and is not overwritten", path.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    };
    file.write_all(named(path).as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    print(&format!("wrote {0}; run it with `expctl run {0}`\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
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
    use super::*;
    use crate::spec::{self, Overrides};

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
        for key in spec::keys().iter().filter(|key| !key.path.contains('.')) {
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

    #[test]
    fn nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let spec = folder.path().join("a.yaml");
        run(Args { spec: spec.clone() }).unwrap();
        let error = run(Args { spec }).unwrap_err();
        assert!(error.to_string().contains("already exists"), "{error}");
    }
}
