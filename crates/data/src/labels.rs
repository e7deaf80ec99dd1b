//! The labels of a file's samples, as numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::DataError;
use super::formats::{Place, kind};

/// A sample's label, and its column.
pub(super) struct Label<'a> {
    pub(super) value: LabelValue<'a>,
    pub(super) column: &'a str,
}

impl Label<'_> {
    /// The label's number among `labels`.
    pub(super) fn number(self, labels: &mut Labels, place: &Place) -> Result<u32, DataError> {
        labels.number(self.value, place, self.column)
    }
}

/// An integer, which is the label's number, or its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelValue<'a> {
    Number(i64),
    Name(&'a str),
}

impl<'a> LabelValue<'a> {
    /// The label in a column of a row.
    pub(super) fn of(value: &'a Value, place: &Place, column: &str) -> Result<Self, DataError> {
        match value {
            Value::String(name) => Ok(Self::Name(name)),
            Value::Number(number) if number.is_i64() => Ok(Self::Number(number.as_i64().unwrap_or(i64::MAX))),
            other => Err(DataError::Label {
                place: place.to_string(),
                column: column.into(),
                reason: format!("is {}, not an integer or a text", kind(other)),
            }),
        }
    }

    /// The label of a format whose values are all texts: an integer that is written as one.
    pub(super) fn or_integer(self) -> Self {
        match self {
            Self::Name(name) => name.trim().parse().map_or(self, Self::Number),
            Self::Number(_) => self,
        }
    }
}

/// Numbers the labels: a number stays, a name gets its position in alphabetical order, which is known at the end.
pub(super) struct Labels {
    count: usize,
    /// Each name's provisional number, in order of appearance.
    names: BTreeMap<String, u32>,
    numbered: bool,
}

impl Labels {
    pub(super) fn new(count: usize) -> Self {
        Self {
            count,
            names: BTreeMap::new(),
            numbered: false,
        }
    }

    /// The number of labels that there may be; 0 if samples have none.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The label's number; for a name it is provisional until [`Labels::in_order`].
    pub(super) fn number(&mut self, label: LabelValue, place: &Place, column: &str) -> Result<u32, DataError> {
        let fail = |reason: String| DataError::Label {
            place: place.to_string(),
            column: column.into(),
            reason,
        };
        match label {
            LabelValue::Number(_) if !self.names.is_empty() => {
                Err(fail("is a number, and those before it are names".into()))
            }
            LabelValue::Name(_) if self.numbered => Err(fail("is a name, and those before it are numbers".into())),
            LabelValue::Number(number) => {
                self.numbered = true;
                match u32::try_from(number) {
                    Ok(known) if (known as usize) < self.count => Ok(known),
                    _ => {
                        let (count, last) = (self.count, self.count - 1);
                        Err(fail(format!(
                            "is {number}; with `num_labels: {count}` it is from 0 to {last}"
                        )))
                    }
                }
            }
            LabelValue::Name(name) => {
                if let Some(number) = self.names.get(name) {
                    return Ok(*number);
                }
                if self.names.len() == self.count {
                    let known = self
                        .names
                        .keys()
                        .map(|name| format!("`{name}`"))
                        .collect::<Vec<_>>()
                        .join(", ");
                    let count = self.count;
                    return Err(fail(format!(
                        "is `{name}`; with `num_labels: {count}` there is no other label than {known}"
                    )));
                }
                let number = self.names.len() as u32;
                self.names.insert(name.into(), number);
                Ok(number)
            }
        }
    }

    /// The final number of each provisional one, if labels are names.
    pub(super) fn in_order(&self, origin: &str) -> Result<Option<Vec<u32>>, DataError> {
        if self.names.is_empty() {
            return Ok(None);
        }
        if self.names.len() < self.count {
            return Err(DataError::FewLabels {
                origin: origin.into(),
                asked: self.count,
                names: self.names.keys().cloned().collect::<Vec<_>>().join(", "),
            });
        }
        let mut numbers = vec![0; self.names.len()];
        for (place, number) in self.names.values().enumerate() {
            numbers[*number as usize] = place as u32;
        }
        Ok(Some(numbers))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn numbers(count: usize, values: &[LabelValue]) -> Result<Vec<u32>, String> {
        let mut labels = Labels::new(count);
        let mut numbers = Vec::new();
        for (line, value) in values.iter().enumerate() {
            let place = Place::line(&Path::new("x").into(), line as u64 + 1);
            let number = labels.number(*value, &place, "label");
            numbers.push(number.map_err(|error| error.to_string())?);
        }
        let order = labels.in_order("x").map_err(|error| error.to_string())?;
        Ok(match order {
            None => numbers,
            Some(order) => numbers.into_iter().map(|number| order[number as usize]).collect(),
        })
    }

    #[test]
    fn numbers_are_kept_and_names_are_in_alphabetical_order() {
        use LabelValue::{Name, Number};
        assert_eq!(numbers(3, &[Number(2), Number(0), Number(2)]).unwrap(), [2, 0, 2]);
        let names = [Name("pos"), Name("neg"), Name("pos"), Name("neutral")];
        assert_eq!(numbers(3, &names).unwrap(), [2, 0, 2, 1]);
    }

    #[test]
    fn labels_are_integers_or_texts() {
        let place = Place::line(&Path::new("x").into(), 1);
        let of = |value: &Value| {
            let label = LabelValue::of(value, &place, "label");
            label
                .map(|label| format!("{label:?}"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&1.into()).unwrap(), "Number(1)");
        assert_eq!(of(&"pos".into()).unwrap(), "Name(\"pos\")");
        assert_eq!(LabelValue::Name("10").or_integer(), LabelValue::Number(10));
        assert_eq!(LabelValue::Name("ten").or_integer(), LabelValue::Name("ten"));
        for (value, kind) in [(Value::from(0.5), "a number"), (Value::Null, "null")] {
            let expected = format!("x:1: column `label` is {kind}, not an integer or a text");
            assert_eq!(of(&value).unwrap_err(), expected);
        }
    }

    #[test]
    fn labels_that_do_not_fit_are_errors_with_their_place() {
        use LabelValue::{Name, Number};
        for (count, values, message) in [
            (
                2,
                &[Number(1), Number(2)][..],
                "x:2: column `label` is 2; with `num_labels: 2` it is from 0 to 1",
            ),
            (
                2,
                &[Number(-1)],
                "x:1: column `label` is -1; with `num_labels: 2` it is from 0 to 1",
            ),
            (
                2,
                &[Name("a"), Name("b"), Name("c")],
                "x:3: column `label` is `c`; with `num_labels: 2` there is no other label than `a`, `b`",
            ),
            (
                2,
                &[Name("a"), Number(1)],
                "x:2: column `label` is a number, and those before it are names",
            ),
            (
                2,
                &[Number(1), Name("a")],
                "x:2: column `label` is a name, and those before it are numbers",
            ),
            (
                3,
                &[Name("b"), Name("a")],
                "x: there are 2 labels (a, b), and `num_labels` is 3; write `num_labels: 2`",
            ),
        ] {
            assert_eq!(numbers(count, values).unwrap_err(), message);
        }
    }
}
