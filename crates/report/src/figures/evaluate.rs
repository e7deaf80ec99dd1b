//! Texts with their figures.

use std::collections::BTreeMap;

use base::text::{Mistake, quoted, suggestion};
use expression::Language;
use minijinja::Value;
use polars_core::prelude::DataFrame;
use spec::{Origin, SpecError};

use super::errors;
use super::pieces::{Piece, pieces};
use super::units::{self, UNITS, Written};
use crate::about::About;
use crate::axes::axes;
use crate::claims::{MISSING, NAMES, Purpose, ROWS, Scope, add_functions};
use crate::entry::{Entry, entries};
use crate::error::ReportError;
use crate::group::{Group, groups};
use crate::published::{self, ComparedFigure};

/// The text of a figure that cannot be computed yet.
pub const NOT_MEASURED: &str = "not measured";

/// A text with its figures, from the cells of a study: `{{ … }}` is evaluated, `[published: …]` stays.
///
/// # Errors
/// A wrong expression.
pub fn evaluate(text: &str, about: &About, cells: &DataFrame) -> Result<String, ReportError> {
    let cells = entries(cells)?;
    let figures = Figures::new(about, &groups(&cells, &axes(&cells, &about.axes)), Purpose::DryRun);
    Ok(figures.written(text, &Origin::default(), "")?)
}

/// The study's words with their figures.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(crate) fn write_all(about: &About, cells: &[Entry]) -> Result<About, SpecError> {
    let purpose = if about.is_plan { Purpose::Plan } else { Purpose::Report };
    let figures = Figures::new(about, &groups(cells, &axes(cells, &about.axes)), purpose);
    let mut about = about.clone();
    figures.write_in(&mut about)?;
    Ok(about)
}

/// The language of figures over a study's groups.
pub(super) struct Figures {
    language: Language,
    scope: Scope,
    /// False if overrides may have taken away the cells that a text is about.
    has_all_cells: bool,
}

impl Figures {
    pub(super) fn new(about: &About, groups: &[Group], purpose: Purpose) -> Self {
        let compared = published::compare(&about.published, groups);
        Self::over(about, Scope::of_study(groups, purpose), &compared)
    }

    /// The language over the groups of `scope`; `compared` has the study's published figures.
    pub(super) fn over(about: &About, scope: Scope, compared: &[ComparedFigure]) -> Self {
        let mut language = Language::new(check_name);
        let environment = language.environment();
        add_functions(environment, &scope);
        errors::add(environment, compared);
        units::add(environment);
        Self {
            language,
            scope,
            has_all_cells: about.overrides.is_empty(),
        }
    }

    /// Writes the figures of all texts.
    ///
    /// # Errors
    /// A wrong expression, with its place in the spec.
    pub(super) fn write_in(&self, about: &mut About) -> Result<(), SpecError> {
        let written = self.written(&about.description, &about.description.origin, "")?;
        about.description.set(written);
        for published in about.published.iter_mut().map(|figure| &mut figure.published) {
            self.write_optional(&mut published.note, &published.origin, "note")?;
        }
        for claim in about.claims.iter_mut().map(|bound| &mut bound.claim) {
            self.write_optional(&mut claim.note, &claim.origin, "note")?;
            self.write_optional(&mut claim.untested, &claim.origin, "untested")?;
        }
        Ok(())
    }

    fn write_optional(&self, text: &mut Option<String>, origin: &Origin, key: &str) -> Result<(), SpecError> {
        if let Some(text) = text {
            *text = self.written(text, origin, key)?;
        }
        Ok(())
    }

    /// A text with its figures. It stands at `key` of what `origin` is of.
    fn written(&self, text: &str, origin: &Origin, key: &str) -> Result<String, SpecError> {
        written_by(text, origin, key, |expression| {
            let figure = self.figure(expression)?;
            Ok(figure.map_or_else(|| NOT_MEASURED.to_owned(), |figure| figure.text(None)))
        })
    }

    /// The figure of an expression; `None` if a measurement that it needs is missing.
    pub(super) fn figure(&self, text: &str) -> Result<Option<Written>, Mistake> {
        let expression = self.language.compile(text)?;
        let mut values = BTreeMap::new();
        for name in expression.names().iter().filter(|name| ROWS.contains(&name.as_str())) {
            let Some(rows) = self.scope.rows(name) else {
                return Ok(None);
            };
            values.insert(name.as_str(), rows);
        }
        match expression.value(&Value::from(values)) {
            Ok(value) => with_unit(&value).map(Some),
            Err(mistake) if mistake.message == MISSING => Ok(None),
            Err(mistake) if self.scope.is_strict() && self.has_all_cells => Err(explained(mistake)),
            Err(_) => Ok(None),
        }
    }
}

fn check_name(name: &str) -> Result<(), Mistake> {
    let known = || NAMES.into_iter().chain(ROWS).chain([errors::NAME]);
    if known().any(|known| known == name) {
        return Ok(());
    }
    let help = suggestion(name, known()).unwrap_or_else(|| {
        let names: Vec<&str> = known().collect();
        format!("the names here are {}; a text has quotes", names.join(", "))
    });
    Err(Mistake::new(format!("{} is not a name that figures have", quoted(name))).help(help))
}

/// A text whose figures `write` writes, each from its expression. It stands at `key` of what `origin` is of.
///
/// # Errors
/// A wrong expression, with its place in the spec.
pub(super) fn written_by(
    text: &str,
    origin: &Origin,
    key: &str,
    mut write: impl FnMut(&str) -> Result<String, Mistake>,
) -> Result<String, SpecError> {
    let wrong = |mistake: Mistake| origin.mistake_in(key, text, mistake);
    let mut written = String::new();
    for piece in pieces(text).map_err(wrong)? {
        match piece {
            Piece::Words(words) | Piece::Published(words) => written.push_str(words),
            Piece::Expression(expression, bytes) => {
                let figure = write(expression).map_err(|mistake| {
                    let range = mistake.range.clone().unwrap_or(0..expression.len());
                    let range = bytes.start + range.start..bytes.start + range.end.min(expression.len());
                    wrong(mistake.at(Some(range)))
                })?;
                written.push_str(&figure);
            }
        }
    }
    Ok(written)
}

/// The figure of a value that went through a filter for its unit.
fn with_unit(value: &Value) -> Result<Written, Mistake> {
    if let Some(written) = value.downcast_object_ref::<Written>() {
        return Ok(*written);
    }
    let filters = UNITS.map(|(name, _)| name).join(", ");
    let message = format!("{} is not a figure with a unit", quoted(&value.to_string()));
    Err(Mistake::new(message).help(format!("a filter for the unit comes last, such as `| GiB`: {filters}")))
}

/// A mistake with help for the likely cause of a wrong operand.
fn explained(mistake: Mistake) -> Mistake {
    if mistake.message.contains("operator on unsupported types") {
        return mistake.help("a filter is applied before an operator: `(a - b) | GiB` has parentheses");
    }
    mistake
}
