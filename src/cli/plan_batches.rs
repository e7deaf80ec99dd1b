//! The worst batch of uneven data in a plan, and the steps that were left out.

use base::text::format::number;
use indexmap::IndexMap;
use plan::advice::CellPlan;
use records::prediction::{Prediction, WorstBatch};
use spec::Study;

/// The most samples of a batch that are listed.
const MOST_SAMPLES: usize = 8;

/// A line for each cell with uneven data; one for all cells if they agree. Empty without uneven data.
pub(super) fn worst_batches(study: &Study, plans: &[CellPlan]) -> String {
    let mut cells: IndexMap<String, Vec<&str>> = IndexMap::new();
    for (study_cell, plan) in study.cells.iter().zip(plans) {
        if let Some(line) = line(&plan.prediction) {
            cells.entry(line).or_default().push(&study_cell.id);
        }
    }
    let lines = cells.iter().map(|(line, ids)| match ids.len() == plans.len() {
        true => format!("{line}\n"),
        false => format!("{}: {line}\n", ids.join(", ")),
    });
    match cells.is_empty() {
        true => String::new(),
        false => format!("\n{}", lines.collect::<String>()),
    }
}

fn line(prediction: &Prediction) -> Option<String> {
    let (batch, steps) = (prediction.worst_batch.as_ref()?, prediction.training_steps?);
    let left_out = match prediction.planned_steps {
        Some(study_cell) if study_cell < steps => format!("; {} of all steps are planned", count(study_cell)),
        _ => String::new(),
    };
    Some(format!(
        "the worst batch: step {} of {}, {} × {} tokens{}{left_out}",
        count(batch.step),
        count(steps),
        count(batch.batch_size),
        count(batch.tokens),
        samples(batch),
    ))
}

/// The batch's samples by their numbers, in parentheses.
fn samples(batch: &WorstBatch) -> String {
    let numbers = batch.samples.iter().take(MOST_SAMPLES).map(|&number| count(number));
    let numbers = numbers.collect::<Vec<_>>().join(", ");
    match batch.samples.len() {
        0 => String::new(),
        1 => format!(" (sample {numbers})"),
        all if all > MOST_SAMPLES => format!(" (samples {numbers} and {} more)", all - MOST_SAMPLES),
        _ => format!(" (samples {numbers})"),
    }
}

fn count(count: u64) -> String {
    number((count as f64).into(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_step_its_samples_and_what_is_left_out() {
        let batch = |samples: Vec<u64>| Prediction {
            worst_batch: Some(WorstBatch {
                step: 3512,
                batch_size: 4,
                tokens: 697,
                samples,
            }),
            training_steps: Some(9375),
            planned_steps: Some(61),
            ..Prediction::default()
        };
        assert_eq!(
            line(&batch(vec![12, 1907])).unwrap(),
            "the worst batch: step 3,512 of 9,375, 4 × 697 tokens (samples 12, 1,907); 61 of all steps are planned"
        );
        assert!(
            line(&batch((1..=10).collect()))
                .unwrap()
                .contains("(samples 1, 2, 3, 4, 5, 6, 7, 8 and 2 more)")
        );
        let all = Prediction {
            planned_steps: None,
            ..batch(Vec::new())
        };
        assert_eq!(
            line(&all).unwrap(),
            "the worst batch: step 3,512 of 9,375, 4 × 697 tokens"
        );
        assert_eq!(line(&Prediction::default()), None);
    }
}
