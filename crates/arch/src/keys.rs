//! The keys of a `config.json`, read by type, with errors that name the key as the file does.

use serde_json::{Map, Value};

use super::description::{Description, Fixed};
use super::error::ConfigError;

/// The largest width of hidden states, of the feed-forward layer, and of all heads together.
pub(super) const WIDEST: usize = 1 << 20;

/// The largest value of a size: far above any model's, and low enough that no product of sizes overflows.
fn most(key: &str) -> usize {
    match key {
        "num_hidden_layers" => 1 << 12,
        "hidden_size" | "intermediate_size" | "num_attention_heads" | "num_key_value_heads" | "head_dim" => WIDEST,
        _ => 1 << 24,
    }
}

/// The keys of one file, and its family's names for them.
pub(super) struct Keys<'a> {
    pub(super) values: &'a Map<String, Value>,
    pub(super) family: &'static Description,
}

impl Keys<'_> {
    /// The family's name for one of the common keys.
    pub(super) fn name(&self, key: &'static str) -> &'static str {
        let names = self.family.key_names.iter();
        names
            .copied()
            .find(|(known, _)| *known == key)
            .map_or(key, |(_, name)| name)
    }

    /// The value of `key`; `None` if it is missing, null, or not read by the family.
    pub(super) fn get(&self, key: &'static str) -> Option<&Value> {
        self.entry(key).filter(|value| !value.is_null())
    }

    /// The value of `key`, which may be null; `None` if it is missing or not read by the family.
    pub(super) fn entry(&self, key: &'static str) -> Option<&Value> {
        self.values.get(self.name(key)).filter(|_| self.family.reads(key))
    }

    /// The error of a value that is not what it should be.
    pub(super) fn wrong(&self, key: &'static str, expected: impl Into<String>, found: &Value) -> ConfigError {
        ConfigError::Value {
            key: self.name(key).into(),
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    /// A size, which has no null.
    pub(super) fn size(&self, key: &'static str, default: usize) -> Result<usize, ConfigError> {
        match self.entry(key) {
            Some(null @ Value::Null) => Err(self.wrong(key, "a number", null)),
            _ => Ok(self.optional_size(key)?.unwrap_or(default)),
        }
    }

    /// A size, or `None`.
    pub(super) fn optional_size(&self, key: &'static str) -> Result<Option<usize>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        let most = most(key);
        match size.filter(|size| (1..=most).contains(size)) {
            Some(size) => Ok(Some(size)),
            None => Err(self.wrong(key, format!("a number from 1 to {most}"), value)),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.wrong(key, "true or false", value)),
        }
    }

    /// A text.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.wrong(key, "a text", value)),
        }
    }

    /// A number above 0.
    pub(super) fn positive(&self, key: &'static str, default: f64) -> Result<f64, ConfigError> {
        self.number(
            key,
            default,
            |number| number > 0.0 && number.is_finite(),
            "a number above 0",
        )
    }

    /// A number above 0, or none if the file has null; `default` if the file leaves it out.
    pub(super) fn optional_positive(
        &self,
        key: &'static str,
        default: Option<f64>,
    ) -> Result<Option<f64>, ConfigError> {
        match self.entry(key) {
            None => Ok(default),
            Some(Value::Null) => Ok(None),
            Some(_) => self.positive(key, 1.0).map(Some),
        }
    }

    /// A list of `count` numbers above 0, or `None`.
    pub(super) fn factors(&self, key: &'static str, count: usize) -> Result<Option<Vec<f64>>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let is_right = |number: &f64| *number > 0.0 && number.is_finite();
        let factor = |value: &Value| value.as_f64().filter(is_right);
        let Some(values) = value.as_array() else {
            return Err(self.wrong(key, format!("a list of {count} numbers above 0"), value));
        };
        if let Some(wrong) = values.iter().find(|value| factor(value).is_none()) {
            return Err(self.wrong(key, "numbers above 0", wrong));
        }
        if values.len() != count {
            return Err(ConfigError::Value {
                key: self.name(key).into(),
                expected: format!("{count} numbers, one for each pair of rotated dimensions"),
                found: values.len().to_string(),
            });
        }
        Ok(Some(values.iter().filter_map(factor).collect()))
    }

    /// The probability of dropout.
    pub(super) fn probability(&self, key: &'static str) -> Result<Option<f64>, ConfigError> {
        let Some(_) = self.get(key) else { return Ok(None) };
        let expected = "a number of at least 0 and less than 1";
        self.number(key, 0.0, |number| (0.0..1.0).contains(&number), expected)
            .map(Some)
    }

    /// The standard deviation of random weights.
    pub(super) fn deviation(&self, key: &'static str, default: f64) -> Result<f64, ConfigError> {
        self.number(
            key,
            default,
            |number| (0.0..=1e3).contains(&number),
            "a number between 0 and 1000",
        )
    }

    pub(super) fn number(
        &self,
        key: &'static str,
        default: f64,
        is_right: impl Fn(f64) -> bool,
        expected: &str,
    ) -> Result<f64, ConfigError> {
        let Some(value) = self.get(key) else {
            return Ok(default);
        };
        match value.as_f64().filter(|number| is_right(*number)) {
            Some(number) => Ok(number),
            None => Err(self.wrong(key, expected, value)),
        }
    }

    /// Checks the keys whose other values are not known here.
    pub(super) fn check_fixed(&self) -> Result<(), ConfigError> {
        for &(key, fixed) in self.family.fixed {
            let Some(value) = self.get(key) else { continue };
            let (is_known, known) = match fixed {
                Fixed::False => (value == &Value::Bool(false), "false"),
                Fixed::Zero => (value.as_f64() == Some(0.0), "0"),
                Fixed::Word(word) => (value.as_str() == Some(word), word),
            };
            if !is_known {
                let found = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                return Err(ConfigError::Fixed { key, found, known });
            }
        }
        Ok(())
    }
}
