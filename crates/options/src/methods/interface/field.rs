//! The fields of PEFT's `adapter_config.json`.

use serde_json::Value;

/// A field of `adapter_config.json`. Values are JSON.
#[derive(Debug, Clone, Copy)]
pub enum Field {
    /// Stands for a key of a cell.
    Key(KeyField),
    /// Has one value here.
    Fixed {
        /// Its name.
        name: &'static str,
        /// The value.
        value: &'static str,
        /// True if another one only has new adapters begin otherwise.
        is_of_start: bool,
    },
    /// Says nothing of what is trained, and is not written.
    Remark {
        /// Its name.
        name: &'static str,
        /// The values that are known; any without.
        values: &'static [&'static str],
    },
    /// The model whose tokenizer reads a text; written if there is one.
    Tokenizer(&'static str),
}

/// A field that stands for a key of a cell.
#[derive(Debug, Clone, Copy)]
pub struct KeyField {
    /// Its name.
    pub name: &'static str,
    /// The key, such as `rank` or `lora.use_rslora`.
    pub key: &'static str,
    /// PEFT's default, where it is not the key's.
    pub default: Option<&'static str>,
    /// PEFT's values that the key calls differently.
    pub words: &'static [Word],
    /// The key's values that are alike in an adapter that was trained.
    pub alike: &'static [&'static str],
    /// True if it decides what an adapter's tensors are and compute, and they do not show it.
    pub decides: bool,
    /// True if it is not written where it has its default.
    pub is_optional: bool,
}

/// A value of PEFT and the key's.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    pub(crate) peft: &'static str,
    pub(crate) ours: &'static str,
    /// True if new adapters begin otherwise with it.
    pub(crate) is_other_start: bool,
}

/// A value of PEFT that the key calls differently.
pub(crate) const fn word(peft: &'static str, ours: &'static str) -> Word {
    Word {
        peft,
        ours,
        is_other_start: false,
    }
}

/// A value of PEFT with which new adapters would begin otherwise.
pub(crate) const fn other_start(peft: &'static str, ours: &'static str) -> Word {
    Word {
        peft,
        ours,
        is_other_start: true,
    }
}

/// A field that stands for a key.
pub(crate) const fn key(name: &'static str, key: &'static str) -> KeyField {
    KeyField {
        name,
        key,
        default: None,
        words: &[],
        alike: &[],
        decides: false,
        is_optional: false,
    }
}

/// A field with one value.
pub(crate) const fn fixed(name: &'static str, value: &'static str) -> Field {
    Field::Fixed {
        name,
        value,
        is_of_start: false,
    }
}

/// A field with one value for new adapters.
pub(crate) const fn start(name: &'static str, value: &'static str) -> Field {
    Field::Fixed {
        name,
        value,
        is_of_start: true,
    }
}

/// A field that says nothing of what is trained.
pub(crate) const fn remark(name: &'static str) -> Field {
    Field::Remark { name, values: &[] }
}

impl KeyField {
    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    pub(crate) const fn words(self, words: &'static [Word]) -> Self {
        Self { words, ..self }
    }

    pub(crate) const fn alike(self, alike: &'static [&'static str]) -> Self {
        Self { alike, ..self }
    }

    pub(crate) const fn decides(self) -> Self {
        Self { decides: true, ..self }
    }

    pub(crate) const fn optional(self) -> Field {
        Field::Key(Self {
            is_optional: true,
            ..self
        })
    }

    pub(crate) const fn field(self) -> Field {
        Field::Key(self)
    }

    /// The key's value for PEFT's.
    pub fn read(&self, value: &Value) -> Value {
        match self.word(value) {
            Some(word) => json(word.ours),
            None => value.clone(),
        }
    }

    /// PEFT's value for the key's.
    pub fn write(&self, value: &Value) -> Value {
        let words = self.words.iter().filter(|word| !word.is_other_start);
        let mut words = words.filter(|word| json(word.ours) == *value);
        words.next().map_or_else(|| value.clone(), |word| json(word.peft))
    }

    /// True if an adapter that was trained is the same with both of the key's values.
    pub fn is_alike(&self, a: &Value, b: &Value) -> bool {
        let is_one = |value: &Value| self.alike.iter().any(|alike| json(alike) == *value);
        a == b || is_one(a) && is_one(b)
    }

    /// PEFT's default, if it is not the key's.
    pub fn default_value(&self) -> Option<Value> {
        self.default.map(json)
    }

    /// A message about the key's values in PEFT's words.
    pub fn in_peft_words(&self, message: &str) -> String {
        self.words.iter().fold(message.to_owned(), |message, word| {
            let [ours, peft] = [word.ours, word.peft].map(|text| text.trim_matches('"'));
            message.replace(&format!("`{ours}`"), &format!("`{peft}`"))
        })
    }

    /// True if new adapters begin otherwise with PEFT's value.
    pub fn is_other_start(&self, value: &Value) -> bool {
        self.word(value).is_some_and(|word| word.is_other_start)
    }

    fn word(&self, value: &Value) -> Option<&Word> {
        self.words.iter().find(|word| json(word.peft) == *value)
    }
}

impl Field {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Key(field) => field.name,
            Self::Fixed { name, .. } | Self::Remark { name, .. } | Self::Tokenizer(name) => name,
        }
    }

    /// True if a value says nothing that is not done here.
    pub fn permits(&self, value: &Value) -> bool {
        match self {
            Self::Fixed { value: known, .. } => {
                let known = json(known);
                known == *value || known.is_number() && known.as_f64() == value.as_f64()
            }
            Self::Remark { values, .. } => values.is_empty() || values.iter().any(|known| json(known) == *value),
            Self::Key(_) | Self::Tokenizer(_) => true,
        }
    }

    /// The value if there is one alone.
    pub fn fixed(&self) -> Option<Value> {
        match self {
            Self::Fixed { value, .. } => Some(json(value)),
            Self::Key(_) | Self::Remark { .. } | Self::Tokenizer(_) => None,
        }
    }

    /// The field if it stands for a key.
    pub fn key(&self) -> Option<&KeyField> {
        match self {
            Self::Key(field) => Some(field),
            Self::Fixed { .. } | Self::Remark { .. } | Self::Tokenizer(_) => None,
        }
    }
}

/// The value that a table of fields has as text.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
