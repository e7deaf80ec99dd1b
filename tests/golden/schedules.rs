//! Learning rates of every schedule, as transformers has them.

use expctl::cell::Cell;
use expctl::nn::optim::learning_rate;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::fixtures;

/// What `python/golden/schedules.py` wrote.
#[derive(Deserialize)]
struct Golden {
    learning_rate: f64,
    steps: usize,
    refused: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    rates: Vec<f64>,
    #[serde(flatten)]
    keys: Map<String, Value>,
}

fn cell(learning_rate: f64, keys: Map<String, Value>) -> Cell {
    let mut map = json!({"model": "tiny", "learning_rate": learning_rate});
    map.as_object_mut().expect("a map").extend(keys);
    serde_json::from_value(map).expect("a cell")
}

#[test]
fn rates_are_those_of_transformers() {
    let golden: Golden = serde_json::from_value(fixtures::json("schedules.json")).expect("cases");
    assert!(golden.cases.len() > 70);
    for Case { rates, keys } in golden.cases {
        let cell = cell(golden.learning_rate, keys.clone());
        let mut found = Vec::new();
        cell.schedule_options().check_values(&mut found);
        assert!(found.is_empty(), "{keys:?}: {found:?}");
        for (step, expected) in rates.into_iter().enumerate() {
            let rate = learning_rate(&cell.schedule_options(), step, golden.steps);
            assert!(
                (rate - expected).abs() <= 1e-12 * golden.learning_rate,
                "{keys:?}: step {step}: {rate}, not {expected}"
            );
        }
    }
}

#[test]
fn a_schedule_that_follows_an_evaluation_is_refused_by_name() {
    let golden: Golden = serde_json::from_value(fixtures::json("schedules.json")).expect("cases");
    assert_eq!(golden.refused.len(), 2);
    for name in golden.refused {
        let cell = cell(1e-4, Map::from_iter([("lr_scheduler_type".to_owned(), name.into())]));
        let message = cell.validate().expect_err("an error").to_string();
        assert!(
            message.contains("lr_scheduler_type: it follows the loss on held-out data"),
            "{message}"
        );
    }
}
