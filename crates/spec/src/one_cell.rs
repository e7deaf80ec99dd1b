//! A spec of a single cell, written for a user to keep.

use std::path::Path;

use cell::Cell;
use serde_json::{Value, json};

use super::study::Study;

impl Study {
    /// The text of a spec in `folder` with this cell alone. Relative paths in it lead where they led from this study's
    /// spec.
    pub fn spec_of(&self, cell: &Cell, description: &str, folder: &Path) -> String {
        let cell = match folder == self.directory {
            true => cell.clone(),
            false => cell.anchored(&self.directory),
        };
        let spec = json!({
            "name": format!("{}_fit", self.name),
            "description": description,
            "defaults": Value::Object(cell.to_defaults()),
        });
        // Maps with text keys, numbers and texts can always be written.
        serde_saphyr::to_string(&spec).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use cell::Data;

    use super::*;
    use crate::{Overrides, parse};

    #[test]
    fn a_cell_is_read_from_the_spec_that_it_is_written_to() {
        let text = "name: x\ndefaults: {model: ./m, weights: random, rank: 4, batch_size: 3, \
                    data: {path: a.jsonl, column: 'no'}, allocator: {backend: system, env: {MALLOC_ARENA_MAX: '1'}}}\n";
        let study = parse(Path::new("/somewhere/x.yaml"), text, &Overrides::default()).unwrap();
        let cell = &study.cells[0].cell;
        let spec = study.spec_of(cell, "Why: it fits.", Path::new("/somewhere"));
        let read = parse(Path::new("/somewhere/y.yaml"), &spec, &Overrides::default()).unwrap();
        assert_eq!((&read.name[..], &read.description[..]), ("x_fit", "Why: it fits."));
        assert_eq!(&read.cells[0].cell, cell);
        let elsewhere = study.spec_of(cell, "", Path::new("/elsewhere"));
        let read = parse(Path::new("/elsewhere/y.yaml"), &elsewhere, &Overrides::default()).unwrap();
        assert_eq!(read.cells[0].cell.model, "/somewhere/./m");
        let Data::File(file) = &read.cells[0].cell.data else {
            panic!("{elsewhere}")
        };
        assert_eq!(file.path.to_string(), "/somewhere/a.jsonl");
    }
}
