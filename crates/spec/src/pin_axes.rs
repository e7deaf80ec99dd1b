//! Overrides of swept keys: an override is above the file, and the sweep is in the file, so it fixes the axis.

use base::text::quoted;
use yaml::diagnostic::{Diagnostic, Mistakes};
use yaml::place::Place;

use super::layers::{Layer, highest};
use super::sweep::Sweep;

/// The keys of a sweep that overrides fix.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    pub names: Vec<String>,
    /// What overrides fix, one note a key and place.
    pub notes: Vec<String>,
}

/// Takes the keys that `layers` set out of the sweep, and notes which.
pub(crate) fn pin_axes(sweep: &mut Sweep, layers: &[Layer], mistakes: &mut Mistakes) -> Pinned {
    let mut pinned = Pinned::default();
    let origin = |key: &[String]| highest(layers, key).map_or("", |layer| layer.origin.as_str());
    for layer in layers {
        let Some(path) = layer.cell_key() else { continue };
        mistakes.take(check_inside(sweep, layer, path));
        for dimension in &mut sweep.dimensions {
            for axis in dimension.axes.extract_if(.., |axis| axis.path().starts_with(path)) {
                let note = format!("{} fixes the axis {}", origin(axis.path()), axis.name());
                pinned.add(axis.name(), note);
            }
        }
        sweep.dimensions.retain(|dimension| !dimension.axes.is_empty());
        for (index, entry) in sweep.include.iter_mut().enumerate() {
            for assignment in entry.extract_if(.., |assignment| assignment.path.starts_with(path)) {
                let origin = origin(&assignment.path);
                let note = format!("{origin} fixes {} in include[{index}]", assignment.name);
                pinned.add(&assignment.name, note);
            }
        }
    }
    pinned
}

impl Pinned {
    fn add(&mut self, name: &str, note: String) {
        self.names.push(name.to_owned());
        self.notes.push(note);
    }
}

/// A part of a value that is swept as a whole has no meaning of its own.
fn check_inside(sweep: &Sweep, layer: &Layer, path: &[String]) -> Result<(), Diagnostic> {
    let axes = sweep.axes().map(|axis| (axis.name(), axis.path(), axis.key));
    let included = sweep.include.iter().flatten();
    let included = included.map(|assignment| (assignment.name.as_str(), assignment.path.as_slice(), assignment.key));
    let around = |whole: &(&str, &[String], Place)| whole.1.len() < path.len() && path.starts_with(whole.1);
    match axes.chain(included).find(around) {
        None => Ok(()),
        Some((name, _, key)) => {
            let message = format!("{} is inside {}, which is swept", quoted(&path.join(".")), quoted(name));
            Err(Diagnostic::new(message)
                .label(layer.key, "set here")
                .label(key, "swept here")
                .help(format!("set `{name}` as a whole to fix its axis")))
        }
    }
}
