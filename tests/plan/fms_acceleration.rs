//! Studies of published figures whose configurations are fully known.

use std::path::Path;

use serde_json::Value;

use crate::common::project::Project;

/// The errors of all figures of a shipped study, without outcomes.
fn errors(study: &str) -> Vec<f64> {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("experiments/published/{study}.yaml"));
    let output = Project::empty().expctl(&["accuracy", &spec.display().to_string(), "--format", "json"]);
    let rows: Vec<Value> = serde_json::from_str(&output.stdout).expect("rows");
    rows.iter()
        .filter(|row| row["column"] != "outcome")
        .map(|row| row["error"].as_f64().expect("a prediction"))
        .collect()
}

#[test]
fn runs_on_an_a100_are_predicted_to_a_few_thousandths() {
    for (study, figures) in [("fms_acceleration", 54), ("fms_acceleration_orca", 8)] {
        let errors = errors(study);
        assert_eq!(errors.len(), figures, "{study}");
        let worst = errors.iter().fold(0.0_f64, |worst, error| worst.max(error.abs()));
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        assert!(worst <= 3e-3 && mean <= 5e-4, "{study}: worst {worst}, mean {mean}");
    }
}
