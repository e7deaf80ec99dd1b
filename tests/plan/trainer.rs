//! The prediction of our trainer against its ledger, cell by cell.

use std::collections::BTreeMap;

use expctl::memory::Category;
use expctl::results::prediction::Prediction;
use expctl::results::record::{Measured, Status};
use expctl::results::store::{read_prediction, read_record};
use expctl::spec::{self, Overrides};

use crate::common::project::Project;
use crate::sample::Sample;

/// The largest error of a peak, as a share of it.
const SHARE: f64 = 0.005;
/// The largest error of a peak below [`SMALL`], in bytes: small allocations that the ledger counts.
const FEW: u64 = 8 << 10;
const SMALL: u64 = 1 << 20;
/// The largest error of a category at the peak, as a share of the peak.
const CATEGORY: f64 = 0.01;

/// Categories that stay for the whole training.
const LASTING: [Category; 4] = [
    Category::Parameter,
    Category::Adapter,
    Category::OptimizerState,
    Category::Input,
];
/// Categories that come and go in a step.
const PASSING: [Category; 3] = [Category::Gradient, Category::Activation, Category::Temporary];
/// The share of cells whose peak may be predicted at another instant or in another module. The highest points of two blocks can be equal but for
/// small allocations, and then one is measured and the other predicted.
const ANOTHER_INSTANT: f64 = 0.05;

/// The error of a prediction; `None` if it is at most `most`.
fn off(what: &str, predicted: u64, measured: u64, most: u64) -> Option<String> {
    let by = predicted.abs_diff(measured);
    (by > most).then(|| format!("{what}: {predicted} predicted, {measured} measured, {by} apart, {most} allowed"))
}

/// The errors of a prediction, and whether it is of another instant: the passing categories sum up, but are divided
/// otherwise, or another module is at work.
fn differences(measured: &Measured, prediction: &Prediction) -> (Vec<String>, bool) {
    let peak = measured.allocated_peak_bytes.unwrap();
    let few = if peak < SMALL { FEW } else { 0 };
    let within = |share: f64| ((peak as f64 * share) as u64).max(few);
    let mut differences: Vec<String> = off("peak", prediction.allocated_peak_bytes, peak, within(SHARE))
        .into_iter()
        .collect();
    let mut is_another_instant = false;
    if measured.allocated_peak_phase.as_ref() == Some(&prediction.binding_phase) {
        let compared = |categories: &[Category]| {
            let sum = |of: &BTreeMap<String, u64>| -> u64 {
                let bytes = categories.iter().map(|category| of.get(category.name()).copied());
                bytes.flatten().sum()
            };
            let predicted = sum(&prediction.allocated_peak_by_category);
            let measured = sum(&measured.allocated_peak_by_category);
            off(&format!("{categories:?}"), predicted, measured, within(CATEGORY))
        };
        differences.extend(LASTING.iter().filter_map(|category| compared(&[*category])));
        differences.extend(compared(&PASSING));
        is_another_instant = PASSING.iter().any(|category| compared(&[*category]).is_some())
            || measured.allocated_peak_module != prediction.binding_module;
    }
    if measured.trainable_count != prediction.trainable_count {
        differences.push("trainable_count".into());
    }
    if measured.parameter_count != prediction.parameter_count {
        differences.push("parameter_count".into());
    }
    if measured.adapter_file_bytes != prediction.adapter_file_bytes {
        differences.push(format!(
            "adapter_file_bytes: {:?} predicted, {:?} measured",
            prediction.adapter_file_bytes, measured.adapter_file_bytes
        ));
    }
    (differences, is_another_instant)
}

/// Trains the sample and compares each cell with its prediction.
fn check(sample: &Sample) {
    let project = Project::new(&sample.spec());
    let output = project.run(&["--progress", "none"]);
    assert_eq!(output.code, 0, "{output}");
    let study = spec::load(&project.path("spec.yaml"), &Overrides::default()).unwrap();
    let results = project.results();
    let (mut shares, mut wrong, mut elsewhere) = (Vec::new(), Vec::new(), 0);
    for planned in &study.cells {
        let dir = results.cell(&planned.id);
        let record = read_record(&dir).unwrap().unwrap();
        assert_eq!(
            record.status,
            Status::Ok,
            "{:?}: {}",
            record.reason,
            planned.cell.to_yaml()
        );
        let measured = record.measured.unwrap();
        let prediction = read_prediction(&dir).unwrap().unwrap();
        let peak = measured.allocated_peak_bytes.unwrap();
        shares.push(prediction.allocated_peak_bytes.abs_diff(peak) as f64 / peak as f64);
        let (differences, is_another_instant) = differences(&measured, &prediction);
        elsewhere += usize::from(is_another_instant);
        if !differences.is_empty() {
            wrong.push(format!("{}\n{}", differences.join("\n"), planned.cell.to_yaml()));
        }
    }
    shares.sort_by(f64::total_cmp);
    println!(
        "{} cells: predicted peaks are {:.4} % off (median), {:.3} % at most; {elsewhere} at another instant",
        shares.len(),
        100.0 * shares[shares.len() / 2],
        100.0 * shares.last().unwrap()
    );
    assert!(wrong.is_empty(), "{} cells are off:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        elsewhere as f64 <= ANOTHER_INSTANT * shares.len() as f64,
        "{elsewhere} at another instant"
    );
}

const DISTILBERT: [&str; 6] = ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"];
const BERT: [&str; 4] = ["query", "key", "value", "dense"];

#[test]
fn the_ledger_counts_what_was_predicted() {
    let mut sample = Sample::new(1);
    sample.decoders(38);
    sample.encoders("distilbert-base", &DISTILBERT, 2);
    sample.encoders("bert-base", &BERT, 1);
    check(&sample);
}

/// `cargo test --release --test plan -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes; the test above is a part of it"]
fn the_ledger_counts_what_was_predicted_of_many_cells() {
    let mut sample = Sample::new(2);
    sample.decoders(200);
    sample.encoders("distilbert-base", &DISTILBERT, 12);
    sample.encoders("bert-base", &BERT, 8);
    check(&sample);
}
