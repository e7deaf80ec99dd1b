//! Every pair of techniques that combines: it trains, and its memory is the predicted one.

use std::collections::BTreeMap;

use expctl::cell::Cell;
use expctl::records::Status;
use expctl::records::store::read_prediction;
use expctl::techniques::pairs;
use serde_json::Value;

use crate::common::project::Project;

#[test]
fn techniques_that_combine_train_as_predicted() {
    let mut cells: BTreeMap<String, (Cell, Vec<String>)> = BTreeMap::new();
    for pair in pairs() {
        if let Ok(cell) = pair.together {
            let names = pair.techniques.map(|technique| technique.key).join(" and ");
            cells
                .entry(cell.id())
                .or_insert_with(|| (cell, Vec::new()))
                .1
                .push(names);
        }
    }
    let includes: String = cells
        .values()
        .map(|(cell, _)| format!("    - {}\n", Value::Object(cell.to_defaults())))
        .collect();
    let project = Project::new(&format!("name: pairs\nsweep:\n  include:\n{includes}"));
    project.run(&["--progress", "none"]).exits(0);
    let records = project.records();
    assert_eq!(records.len(), cells.len());
    for record in records {
        let record = record.unwrap();
        let names = &cells[&record.cell_id].1;
        assert_eq!(record.status, Status::Ok, "{names:?}: {:?}", record.reason);
        let measured = record.measured.unwrap();
        assert!(measured.loss_last.is_finite(), "{names:?}");
        let prediction = read_prediction(&project.results().cell(&record.cell_id))
            .unwrap()
            .unwrap();
        assert_eq!(
            Some(prediction.allocated_peak_bytes),
            measured.allocated_peak_bytes,
            "{names:?}"
        );
    }
}
