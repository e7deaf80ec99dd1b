//! The errors of a study's predictions, for texts.

use base::text::{quoted, suggestion};
use expression::mistake;
use minijinja::{Environment, Error, ErrorKind};

use crate::claims::MISSING;
use crate::published::ComparedFigure;

/// The function's name.
pub(super) const NAME: &str = "errors";

/// Adds `errors('COLUMN')`: of each published figure of a column how far its prediction is above it, as a part of it.
pub(super) fn add(environment: &mut Environment<'_>, figures: &[ComparedFigure]) {
    let errors: Vec<(String, Option<f64>)> = figures
        .iter()
        .filter(|figure| figure.of.is_none() && figure.published != 0.0)
        .map(|figure| {
            let predicted = figure.predicted.map(|stat| stat.mean / figure.published - 1.0);
            (figure.column.clone(), predicted)
        })
        .collect();
    environment.add_function(NAME, move |column: &str| {
        let of_column: Vec<f64> = errors
            .iter()
            .filter(|(name, _)| name == column)
            .filter_map(|(_, error)| *error)
            .collect();
        if errors.iter().all(|(name, _)| name != column) {
            let help = suggestion(column, errors.iter().map(|(name, _)| name.as_str()));
            return Err(mistake(format!("no published figure is of {}", quoted(column)), help));
        }
        match of_column.is_empty() {
            true => Err(Error::new(ErrorKind::InvalidOperation, MISSING)),
            false => Ok(of_column),
        }
    });
    // The mean of a list.
    environment.add_filter("average", |numbers: Vec<f64>| {
        numbers.iter().sum::<f64>() / numbers.len() as f64
    });
}
