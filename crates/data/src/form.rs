//! The form of a file's samples: texts, prompts with completions, or messages.

use options::DataFile;
use serde_json::{Map, Value};

use super::DataError;
use super::formats::{Place, Row, TEXT_COLUMN, kind, missing};

const PROMPT_COLUMN: &str = "prompt";
const COMPLETION_COLUMN: &str = "completion";
const MESSAGES_COLUMN: &str = "messages";

/// The columns that hold a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// A column of texts.
    Text(String),
    /// A column of prompts and one of completions.
    PromptCompletion { prompt: String, completion: String },
    /// A column of lists of messages.
    Messages(String),
}

/// A sample as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sample {
    Text(String),
    PromptCompletion {
        prompt: String,
        completion: String,
    },
    /// A conversation; the messages from `completion` on complete the prompt of those before.
    Messages {
        messages: Vec<Value>,
        completion: Option<usize>,
    },
}

impl Sample {
    /// The messages that a chat template makes a text of.
    pub(super) fn messages(&self) -> usize {
        match self {
            Self::Messages { messages, .. } => messages.len(),
            Self::Text(_) | Self::PromptCompletion { .. } => 0,
        }
    }

    /// Bytes of its text, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::PromptCompletion { prompt, completion } => prompt.len() + completion.len(),
            Self::Messages { messages, .. } => messages.iter().map(value_bytes).sum(),
        }
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(values) => values.values().map(value_bytes).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

impl Form {
    /// The form of samples with these columns: the one that the spec names, or else `messages`, `prompt` and
    /// `completion`, or `text`, whatever there is first. Samples with labels are texts.
    ///
    /// # Errors
    /// There are no such columns, or a key of the spec is for another form.
    pub(super) fn choose(
        file: &DataFile,
        columns: &[String],
        place: &str,
        has_labels: bool,
    ) -> Result<Self, DataError> {
        let form = Self::named(file, has_labels).or_else(|| Self::found(columns));
        let names = || columns.iter().map(String::as_str);
        let form = form.ok_or_else(|| DataError::NoForm {
            place: place.into(),
            columns: names().collect::<Vec<_>>().join(", "),
        })?;
        if let Some(column) = form
            .columns()
            .into_iter()
            .find(|column| names().all(|name| name != *column))
        {
            return Err(missing(place.into(), column, names()));
        }
        let given = [
            ("completion_only_loss", file.completion_only_loss.is_some()),
            ("assistant_only_loss", file.assistant_only_loss == Some(true)),
        ];
        let is_for = |key: &str| match &form {
            Self::Text(_) => false,
            Self::PromptCompletion { .. } => true,
            Self::Messages(_) => key == "assistant_only_loss",
        };
        match given.into_iter().find(|(key, is_given)| *is_given && !is_for(key)) {
            Some((key, _)) => Err(DataError::KeyOfForm {
                place: place.into(),
                key,
                form: form.noun(),
            }),
            None => Ok(form),
        }
    }

    fn named(file: &DataFile, has_labels: bool) -> Option<Self> {
        let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.into());
        if let Some(column) = &file.messages_column {
            return Some(Self::Messages(column.clone()));
        }
        if file.prompt_column.is_some() || file.completion_column.is_some() {
            return Some(Self::PromptCompletion {
                prompt: or(&file.prompt_column, PROMPT_COLUMN),
                completion: or(&file.completion_column, COMPLETION_COLUMN),
            });
        }
        (has_labels || file.column.is_some()).then(|| Self::Text(or(&file.column, TEXT_COLUMN)))
    }

    fn found(columns: &[String]) -> Option<Self> {
        let has = |column: &str| columns.iter().any(|name| name == column);
        if has(MESSAGES_COLUMN) {
            return Some(Self::Messages(MESSAGES_COLUMN.into()));
        }
        if has(PROMPT_COLUMN) && has(COMPLETION_COLUMN) {
            return Some(Self::PromptCompletion {
                prompt: PROMPT_COLUMN.into(),
                completion: COMPLETION_COLUMN.into(),
            });
        }
        has(TEXT_COLUMN).then(|| Self::Text(TEXT_COLUMN.into()))
    }

    /// The columns that hold a sample.
    pub(super) fn columns(&self) -> Vec<&str> {
        match self {
            Self::Text(column) | Self::Messages(column) => vec![column],
            Self::PromptCompletion { prompt, completion } => vec![prompt, completion],
        }
    }

    fn noun(&self) -> &'static str {
        match self {
            Self::Text(_) => "texts",
            Self::PromptCompletion { .. } => "prompts and completions",
            Self::Messages(_) => "messages",
        }
    }

    /// The sample in a row.
    ///
    /// # Errors
    /// A value is of another kind.
    pub(super) fn sample(&self, row: &mut Row) -> Result<Sample, DataError> {
        let Row { place, values } = row;
        match self {
            Self::Text(column) => Ok(Sample::Text(text(values, column, place)?)),
            Self::Messages(column) => Ok(Sample::Messages {
                messages: messages(values, column, place)?,
                completion: None,
            }),
            Self::PromptCompletion { prompt, completion } => {
                if !values[prompt].is_array() && !values[completion].is_array() {
                    return Ok(Sample::PromptCompletion {
                        prompt: text(values, prompt, place)?,
                        completion: text(values, completion, place)?,
                    });
                }
                let mut all = messages(values, prompt, place)?;
                let first = all.len();
                all.extend(messages(values, completion, place)?);
                Ok(Sample::Messages {
                    messages: all,
                    completion: Some(first),
                })
            }
        }
    }
}

fn text(values: &mut Map<String, Value>, column: &str, place: &Place) -> Result<String, DataError> {
    match values[column].take() {
        Value::String(text) => Ok(text),
        other => Err(DataError::NotText {
            place: place.to_string(),
            column: column.into(),
            got: kind(&other).into(),
        }),
    }
}

/// A list of messages, each an object with a `role`.
fn messages(values: &mut Map<String, Value>, column: &str, place: &Place) -> Result<Vec<Value>, DataError> {
    let fail = |reason: String| DataError::Messages {
        place: place.to_string(),
        column: column.into(),
        reason,
    };
    let messages = match values[column].take() {
        Value::Array(messages) => messages,
        other => return Err(fail(format!("is {}, not a list of messages", kind(&other)))),
    };
    if messages.is_empty() {
        return Err(fail("is an empty list; a conversation has one message at least".into()));
    }
    for (index, message) in messages.iter().enumerate() {
        let number = index + 1;
        let Value::Object(keys) = message else {
            return Err(fail(format!(
                "has {} as message {number}, not `{{role, content}}`",
                kind(message)
            )));
        };
        if !keys.get("role").is_some_and(Value::is_string) {
            let names = keys.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(fail(format!(
                "has no text `role` in message {number}; there are: {names}"
            )));
        }
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn chosen(file: &DataFile, columns: &[&str]) -> Result<Form, String> {
        let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        Form::choose(file, &columns, "x.jsonl", false).map_err(|error| error.to_string())
    }

    #[test]
    fn the_form_follows_from_the_columns_or_the_keys() {
        let plain = DataFile::new("x.jsonl");
        let pair = |prompt: &str, completion: &str| Form::PromptCompletion {
            prompt: prompt.into(),
            completion: completion.into(),
        };
        let all = ["id", "text", "prompt", "completion", "messages"];
        assert_eq!(chosen(&plain, &all).unwrap(), Form::Messages("messages".into()));
        assert_eq!(chosen(&plain, &all[..4]).unwrap(), pair("prompt", "completion"));
        assert_eq!(chosen(&plain, &all[..3]).unwrap(), Form::Text("text".into()));
        let named = DataFile {
            prompt_column: Some("id".into()),
            ..plain.clone()
        };
        assert_eq!(chosen(&named, &all).unwrap(), pair("id", "completion"));
        let column = DataFile {
            column: Some("quote".into()),
            ..plain.clone()
        };
        assert_eq!(
            chosen(&column, &["quotes", "author"]).unwrap_err(),
            "x.jsonl: no column `quote`; there are: quotes, author; did you mean `quotes`?"
        );
        assert_eq!(
            chosen(&plain, &["quote", "author"]).unwrap_err(),
            "x.jsonl: no column `messages`, no `prompt` and `completion`, and no `text`; there are: quote, author; name \
             yours: `column`, `prompt_column` and `completion_column`, or `messages_column`"
        );
    }

    #[test]
    fn a_loss_of_parts_needs_parts() {
        let completion = DataFile {
            completion_only_loss: Some(true),
            ..DataFile::new("x.jsonl")
        };
        assert!(chosen(&completion, &["prompt", "completion"]).is_ok());
        assert_eq!(
            chosen(&completion, &["text"]).unwrap_err(),
            "x.jsonl: `completion_only_loss` is not for texts; leave it out, or name the columns of another form"
        );
        assert!(chosen(&completion, &["messages"]).is_err());
        let assistant = DataFile {
            assistant_only_loss: Some(true),
            ..DataFile::new("x.jsonl")
        };
        assert!(chosen(&assistant, &["messages"]).is_ok());
        assert!(chosen(&assistant, &["text"]).is_err());
    }

    fn sample(form: &Form, values: Value) -> Result<Sample, String> {
        let Value::Object(values) = values else { panic!() };
        let place = Place::line(&Path::new("x.jsonl").into(), 7);
        form.sample(&mut Row { place, values })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_texts_or_messages() {
        let user = json!({"role": "user", "content": "a"});
        let form = Form::found(&["messages".into()]).unwrap();
        let read = sample(&form, json!({"messages": [user]})).unwrap();
        let conversation = |messages: &[&Value], completion| Sample::Messages {
            messages: messages.iter().map(|message| (*message).clone()).collect(),
            completion,
        };
        assert_eq!(read, conversation(&[&user], None));
        for (messages, reason) in [
            (json!("a"), "is a string, not a list of messages"),
            (json!([]), "is an empty list; a conversation has one message at least"),
            (json!([user, 1]), "has a number as message 2, not `{role, content}`"),
            (
                json!([{"from": "human", "value": "a"}]),
                "has no text `role` in message 1; there are: from, value",
            ),
        ] {
            let message = sample(&form, json!({ "messages": messages })).unwrap_err();
            assert_eq!(message, format!("x.jsonl:7: column `messages` {reason}"));
        }
        let pair = Form::found(&["prompt".into(), "completion".into()]).unwrap();
        let read = sample(&pair, json!({"prompt": [user], "completion": [user, user]})).unwrap();
        assert_eq!(read, conversation(&[&user, &user, &user], Some(1)));
        let texts = sample(&pair, json!({"prompt": "p", "completion": "c"})).unwrap();
        assert!(matches!(texts, Sample::PromptCompletion { .. }));
        for (values, message) in [
            (
                json!({"prompt": "p", "completion": 1}),
                "x.jsonl:7: column `completion` is a number, not text",
            ),
            (
                json!({"prompt": "p", "completion": [user]}),
                "x.jsonl:7: column `prompt` is a string, not a list of messages",
            ),
        ] {
            assert_eq!(sample(&pair, values).unwrap_err(), message);
        }
    }
}
