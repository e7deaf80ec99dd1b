//! What a study requires and what is missing of it.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cell::Data;
use spec::{Overrides, Requirement, Study, normal_path};

/// Makes sure that everything is there that a study requires and its cells name: an override may have replaced it.
///
/// # Errors
/// Something is missing; the message names the command that makes each thing, in the order in which they run. Or no
/// cell names a requirement, or a spec requires itself.
pub(super) fn check_requirements(study: &Study) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    find_missing(study, &mut Vec::new(), &mut missing)?;
    let [first, ..] = missing.as_slice() else {
        return Ok(());
    };
    let commands: Vec<String> = missing
        .iter()
        .map(|missing| format!("\n    {}", missing.command))
        .collect();
    bail!(
        "`{}` requires `{}`, which is not there; run first:{}",
        study.invocation.source(),
        shown(&first.path).display(),
        commands.concat()
    );
}

#[derive(PartialEq)]
struct Missing {
    path: PathBuf,
    command: String,
}

/// Adds what is missing, after what that requires in turn. `on_the_way` has the specs that require this one.
fn find_missing(study: &Study, on_the_way: &mut Vec<PathBuf>, missing: &mut Vec<Missing>) -> anyhow::Result<()> {
    let source = study.invocation.source();
    on_the_way.push(study.directory.join(&study.file));
    for requirement in &study.requires {
        let (path, command, required) = match requirement {
            Requirement::Made(made) => (study.directory.join(&made.path), made.command.clone(), None),
            Requirement::Spec(spec) => {
                let spec = normal_path(&study.directory.join(spec));
                ensure!(
                    !on_the_way.contains(&spec),
                    "`{source}` requires itself, by way of `{}`",
                    shown(&spec).display()
                );
                let spec = shown(&spec);
                let required = spec::load(&spec, &Overrides::default())
                    .with_context(|| format!("`{source}` requires `{}`", spec.display()))?;
                (
                    product(&required),
                    format!("expctl run {}", spec.display()),
                    Some(required),
                )
            }
        };
        let found = Missing {
            path: normal_path(&path),
            command,
        };
        if !names(study, &found.path) {
            ensure!(
                !study.invocation.laid_over().is_empty(),
                "`{source}` requires `{}`, which none of its cells reads",
                shown(&found.path).display()
            );
            continue;
        }
        if found.path.exists() || missing.contains(&found) {
            continue;
        }
        if let Some(required) = required {
            find_missing(&required, on_the_way, missing)?;
        }
        missing.push(found);
    }
    on_the_way.pop();
    Ok(())
}

/// True if a cell reads the file or folder, or a part of it.
fn names(study: &Study, path: &Path) -> bool {
    let is_in = |input: &str| normal_path(&study.directory.join(input)).starts_with(path);
    study.cells.iter().any(|study_cell| {
        let cell = &study_cell.cell;
        let of_data = match &cell.data {
            Data::File(file) => file.parts().into_iter().flat_map(|part| part.file.path.0).collect(),
            _ => Vec::new(),
        };
        let others = [
            Some(&cell.model),
            cell.init_adapter.as_ref(),
            cell.adapter_config.as_ref(),
            cell.accelerate_config.as_ref(),
            cell.deepspeed_config.as_ref(),
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
