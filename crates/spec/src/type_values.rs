//! Types the values of the defaults and of the axes, each by its key.

use cell::Cell;
use cell::keys;
use yaml::de;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::tree::Node;

use super::aliases;
use super::schema::is_section;
use super::sweep::{Axis, Sweep};
use crate::typed;

/// The mistakes of the defaults alone, whose values are taken out. A value that one of the `later` keys completes
/// (a path for a column, say) may lack something yet.
pub(crate) fn check_defaults<'p>(
    defaults: &mut Node,
    later: impl Iterator<Item = &'p [String]>,
    mistakes: &mut Mistakes,
) {
    let later: Vec<&[String]> = later.collect();
    let (_, errors) = typed::read_all::<Cell>(&mut defaults.clone());
    for error in errors {
        let completes = |path: &&&[String]| path.len() > error.path.len() && path.starts_with(&error.path);
        if !error.path.is_empty() && later.iter().any(|path| completes(&path)) {
            continue;
        }
        defaults.take_out(&error.path);
        leave_open(&error, mistakes);
        let section = error
            .path
            .first()
            .filter(|key| error.is_unknown_key() && error.path.len() == 1 && is_section(key))
            .map(|key| format!("`{key}` is a section of the spec: write it beside `defaults`"));
        let mut diagnostic = error.diagnostic("defaults");
        if let Some(help) = section {
            diagnostic.help = vec![help];
        }
        mistakes.add(diagnostic);
    }
}

/// Types the values of the axes, each by its key. Steps with mistakes are left out.
pub(crate) fn check_axes(defaults: &Node, sweep: &mut Sweep, mistakes: &mut Mistakes) {
    for dimension in &mut sweep.dimensions {
        let mut sound = vec![true; dimension.len()];
        for axis in &dimension.axes {
            for (index, sound) in sound.iter_mut().enumerate() {
                let found = check_value(defaults, axis, index);
                *sound &= found.is_empty();
                found.into_iter().for_each(|found| mistakes.add(found));
            }
        }
        for axis in &mut dimension.axes {
            let mut sound = sound.iter();
            if !sound.clone().any(|sound| *sound) {
                mistakes.leave_open(Some(axis.name()));
            }
            axis.values.retain(|_| sound.next().is_some_and(|sound| *sound));
        }
    }
    sweep.dimensions.retain(|dimension| dimension.len() > 0);
}

fn check_value(defaults: &Node, axis: &Axis, index: usize) -> Vec<Diagnostic> {
    let assignment = &axis.values[index];
    let mut tree = defaults.clone();
    assignment.apply(&mut tree);
    if typed::read::<Cell>(&tree).is_ok() {
        return Vec::new();
    }
    let (_, errors) = typed::read_all::<Cell>(&mut tree);
    let within = errors
        .into_iter()
        .filter(|error| error.path.starts_with(&assignment.path));
    within
        .map(|mut error| {
            error.path.drain(..assignment.path.len());
            error.diagnostic(&format!("{}.{}[{index}]", axis.section, axis.name()))
        })
        .collect()
}

/// Notes which key's value an error leaves open.
pub(super) fn leave_open(error: &de::Error, mistakes: &mut Mistakes) {
    let first = error.path.first().map(String::as_str);
    mistakes.leave_open(match first {
        Some(word) if error.is_unknown_key() && error.path.len() == 1 => {
            aliases::near(word, &keys::named().collect::<Vec<_>>())
        }
        first => first,
    });
}
