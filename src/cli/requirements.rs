//! What a study requires and what is missing of it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::spec::cell::Data;
use crate::spec::{self, Overrides, Requirement, Study, normal_path};

/// Makes sure that everything is there that a study requires and its cells name: an override may have replaced it.
///
/// # Errors
/// Something is missing; the message names the command that makes each thing, in the order in which they run.
pub(super) fn check_requirements(study: &Study) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    find_missing(study, &mut missing)?;
    let [first, ..] = missing.as_slice() else {
        return Ok(());
    };
    let commands: Vec<String> = missing
        .iter()
        .map(|missing| format!("\n    {}", missing.command))
        .collect();
    ensure!(
        missing.is_empty(),
        "`{}` requires `{}`, which is not there; run first:{}",
        study.invocation.source(),
        shown(&first.path).display(),
        commands.concat()
    );
    Ok(())
}

#[derive(PartialEq)]
struct Missing {
    path: PathBuf,
    command: String,
}

/// Adds what is missing, after what that requires in turn.
fn find_missing(study: &Study, missing: &mut Vec<Missing>) -> anyhow::Result<()> {
    for requirement in &study.requires {
        let found = match requirement {
            Requirement::Made(made) => Missing {
                path: normal_path(&study.directory.join(&made.path)),
                command: made.command.clone(),
            },
            Requirement::Spec(spec) => {
                let spec = shown(&study.directory.join(spec));
                let required = spec::load(&spec, &Overrides::default())
                    .with_context(|| format!("`{}` requires `{}`", study.invocation.source(), spec.display()))?;
                let path = product(&required);
                if !path.exists() && names(study, &path) {
                    find_missing(&required, missing)?;
                }
                Missing {
                    path,
                    command: format!("expctl run {}", spec.display()),
                }
            }
        };
        if !found.path.exists() && names(study, &found.path) && !missing.contains(&found) {
            missing.push(found);
        }
    }
    Ok(())
}

/// True if a cell reads the file or folder, or a part of it.
fn names(study: &Study, path: &Path) -> bool {
    let is_in = |input: &str| normal_path(&study.directory.join(input)).starts_with(path);
    study.cells.iter().any(|planned| {
        let cell = &planned.cell;
        let of_data = match &cell.data {
            Data::File(file) => file.parts().into_iter().flat_map(|part| part.file.path.0).collect(),
            _ => Vec::new(),
        };
        let others = [
            Some(&cell.model),
            cell.init_adapter.as_ref(),
            cell.adapter_config.as_ref(),
        ];
        others.into_iter().flatten().chain(&of_data).any(|input| is_in(input))
    })
}

/// What other studies use of a study: the model that it keeps, or its folder with the adapters.
fn product(study: &Study) -> PathBuf {
    match &study.record.model {
        Some(model) => normal_path(&study.directory.join(model)),
        None => {
            let folder = Path::new("results").join(&study.name);
            std::path::absolute(&folder).unwrap_or(folder)
        }
    }
}

/// A path as a user would type it: relative to the current directory, if it lies below.
fn shown(path: &Path) -> PathBuf {
    let path = normal_path(path);
    let below = env::current_dir()
        .ok()
        .and_then(|folder| path.strip_prefix(folder).ok().map(Path::to_path_buf));
    below.unwrap_or(path)
}
