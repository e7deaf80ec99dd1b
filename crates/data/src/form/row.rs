//! The sample in a row of a file, by its form.

use serde_json::{Map, Value};

use super::super::DataError;
use super::super::formats::{Place, Row, kind};
use super::super::prompt::{self, OUTPUT, Task};
use super::super::sample::{Conversation, Sample};
use super::{CHOSEN_COLUMN, Form, Kind, VARIABLES_COLUMN};

/// Variables of a template that a sample cannot set.
const RESERVED: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

impl Form {
    /// The sample in a row. What it does not need stays there.
    ///
    /// # Errors
    /// A value is of another kind.
    pub(crate) fn sample(&self, row: &mut Row) -> Result<Sample, DataError> {
        let Row { place, values } = row;
        match &self.kind {
            Kind::Text(column) => {
                self.check_is_text(place)?;
                Ok(Sample::Text(text(values, column, place)?))
            }
            Kind::Messages(column) => self.messages(column, values, place),
            Kind::Alpaca => {
                let task = Task::take(values, &self.system_column, place)?;
                let output = text(values, OUTPUT, place)?;
                match self.as_conversations {
                    true => self.finish(answered(prompt::messages(&task, &output)), values, place),
                    false => {
                        self.check_is_text(place)?;
                        Ok(Sample::PromptCompletion {
                            prompt: prompt::alpaca(&task),
                            completion: output,
                        })
                    }
                }
            }
            Kind::Template { template, completion } => {
                let completion = text(values, completion, place)?;
                self.pair(prompt::filled(template, values, place)?, completion, values, place)
            }
            Kind::PromptCompletion { prompt, completion } => self.prompted(prompt, completion, values, place),
            // The whole conversation, beside the text of its prompt.
            Kind::Chosen { prompt: Some(prompt) } if values[prompt].is_string() && values[CHOSEN_COLUMN].is_array() => {
                self.messages(CHOSEN_COLUMN, values, place)
            }
            Kind::Chosen { prompt: Some(prompt) } => self.prompted(prompt, CHOSEN_COLUMN, values, place),
            Kind::Chosen { prompt: None } if values.get(CHOSEN_COLUMN).is_some_and(Value::is_string) => {
                self.check_is_text(place)?;
                Ok(Sample::Text(text(values, CHOSEN_COLUMN, place)?))
            }
            Kind::Chosen { prompt: None } => self.messages(CHOSEN_COLUMN, values, place),
        }
    }

    /// The conversation in a column.
    fn messages(&self, column: &str, values: &mut Map<String, Value>, place: &Place) -> Result<Sample, DataError> {
        let conversation = self.fields.conversation(taken(values, column), column, place)?;
        self.finish(conversation, values, place)
    }

    /// Checks that no key of the spec is for conversations, where a sample is a text.
    fn check_is_text(&self, place: &Place) -> Result<(), DataError> {
        match self.conversation_key {
            None => Ok(()),
            Some(key) => Err(DataError::KeyOfForm {
                place: place.to_string(),
                key,
                form: "texts",
            }),
        }
    }

    /// A prompt and a completion, both texts or both lists of messages.
    fn prompted(
        &self,
        prompt: &str,
        completion: &str,
        values: &mut Map<String, Value>,
        place: &Place,
    ) -> Result<Sample, DataError> {
        if !values[prompt].is_array() && !values[completion].is_array() {
            self.check_is_text(place)?;
            return Ok(Sample::PromptCompletion {
                prompt: text(values, prompt, place)?,
                completion: text(values, completion, place)?,
            });
        }
        let mut all = self.fields.conversation(taken(values, prompt), prompt, place)?;
        let rest = self.fields.conversation(taken(values, completion), completion, place)?;
        let first = all.messages.len();
        all.completion = Some(first);
        all.untrained
            .extend(rest.untrained.into_iter().map(|index| first + index));
        all.messages.extend(rest.messages);
        self.finish(all, values, place)
    }

    /// A prompt that is made of columns, with its completion.
    fn pair(
        &self,
        prompt: String,
        completion: String,
        values: &mut Map<String, Value>,
        place: &Place,
    ) -> Result<Sample, DataError> {
        if !self.as_conversations {
            self.check_is_text(place)?;
            return Ok(Sample::PromptCompletion { prompt, completion });
        }
        let message = |role: &str, content: String| serde_json::json!({"role": role, "content": content});
        let messages = vec![message("user", prompt), message("assistant", completion)];
        self.finish(answered(messages), values, place)
    }

    /// The conversation with the system's text, the tools and the variables that stand beside it.
    fn finish(
        &self,
        mut conversation: Conversation,
        values: &mut Map<String, Value>,
        place: &Place,
    ) -> Result<Sample, DataError> {
        let has_system = conversation.messages[0]["role"] == "system";
        if let Some(Value::String(text)) = values.get(&self.system_column).filter(|_| !has_system) {
            if !text.is_empty() {
                let message = serde_json::json!({"role": "system", "content": text});
                conversation.messages.insert(0, message);
                conversation.completion = conversation.completion.map(|first| first + 1);
                conversation.untrained.iter_mut().for_each(|index| *index += 1);
            }
            values.remove(&self.system_column);
        }
        let wrong = |column: &str, reason: &str| DataError::Messages {
            place: place.to_string(),
            column: column.into(),
            reason: reason.into(),
        };
        conversation.tools = match values.remove(&self.tools_column) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.trim().is_empty() => None,
            Some(Value::String(text)) => {
                let tools = serde_json::from_str(&text).ok().filter(Value::is_array);
                Some(tools.ok_or_else(|| wrong(&self.tools_column, "is no list of tools in JSON"))?)
            }
            Some(tools @ Value::Array(_)) => Some(tools),
            Some(_) => return Err(wrong(&self.tools_column, "is no list of tools")),
        };
        conversation.variables = match values.remove(VARIABLES_COLUMN) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(variables)) => match RESERVED.iter().find(|name| variables.contains_key(**name)) {
                None => variables,
                Some(name) => {
                    return Err(wrong(
                        VARIABLES_COLUMN,
                        &format!("has `{name}`, which is given already"),
                    ));
                }
            },
            Some(_) => return Err(wrong(VARIABLES_COLUMN, "is no map of a template's variables")),
        };
        Ok(Sample::Conversation(Box::new(conversation)))
    }
}

/// A conversation whose last message is what is predicted.
fn answered(messages: Vec<Value>) -> Conversation {
    Conversation {
        completion: Some(messages.len() - 1),
        messages,
        ..Conversation::default()
    }
}

fn taken(values: &mut Map<String, Value>, column: &str) -> Value {
    values.remove(column).unwrap_or_default()
}

fn text(values: &mut Map<String, Value>, column: &str, place: &Place) -> Result<String, DataError> {
    match taken(values, column) {
        Value::String(text) => Ok(text),
        other => Err(DataError::NotText {
            place: place.to_string(),
            column: column.into(),
            got: kind(&other).into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use options::DataFile;
    use serde_json::json;

    use super::*;

    fn with(change: impl FnOnce(&mut DataFile)) -> DataFile {
        let mut file = DataFile::new("x.jsonl");
        change(&mut file);
        file
    }

    /// The sample in a row, and the columns that it leaves there.
    fn sample(file: &DataFile, values: Value) -> Result<(Sample, Vec<String>), String> {
        let Value::Object(values) = values else { panic!() };
        let columns: Vec<String> = values.keys().cloned().collect();
        let form = Form::choose(file, &columns, "x.jsonl", false).map_err(|error| error.to_string())?;
        let place = Place::line(&Path::new("x.jsonl").into(), 7);
        let mut row = Row { place, values };
        let sample = form.sample(&mut row).map_err(|error| error.to_string())?;
        Ok((sample, row.values.keys().cloned().collect()))
    }

    fn conversation(file: &DataFile, values: Value) -> (Conversation, Vec<String>) {
        match sample(file, values).unwrap() {
            (Sample::Conversation(conversation), rest) => (*conversation, rest),
            (other, _) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_stands_beside_messages_is_a_part_of_them() {
        let plain = DataFile::new("x.jsonl");
        let user = json!({"role": "user", "content": "a"});
        let tool = json!([{"type": "function", "function": {"name": "f"}}]);
        let row = json!({
            "id": 7, "messages": [user], "tools": tool, "system": "Be short.",
            "chat_template_kwargs": {"enable_thinking": false},
        });
        let (read, rest) = conversation(&plain, row);
        assert_eq!(
            read.messages,
            [json!({"role": "system", "content": "Be short."}), user.clone()]
        );
        assert_eq!((read.tools, rest), (Some(tool.clone()), vec!["id".to_owned()]));
        assert_eq!(read.variables["enable_thinking"], false);
        let as_text = json!({"messages": [user], "tools": tool.to_string()});
        assert_eq!(conversation(&plain, as_text).0.tools, Some(tool));
        let none = json!({"messages": [user], "tools": null, "system": ""});
        assert_eq!(
            conversation(&plain, none).0,
            Conversation {
                messages: vec![user.clone()],
                ..Conversation::default()
            }
        );
        for (tools, reason) in [(json!("f"), "in JSON"), (json!({"f": 1}), "list of tools")] {
            let message = sample(&plain, json!({"messages": [user], "tools": tools})).unwrap_err();
            assert!(
                message.starts_with("x.jsonl:7: column `tools` is no list") && message.ends_with(reason),
                "{message}"
            );
        }
    }

    #[test]
    fn prompts_and_completions_are_texts_or_messages() {
        let plain = DataFile::new("x.jsonl");
        let user = json!({"role": "user", "content": "a"});
        let quiet = json!({"role": "assistant", "content": "b", "weight": 0});
        let (read, _) = conversation(
            &plain,
            json!({"prompt": [user], "completion": [quiet, quiet], "system": "s"}),
        );
        assert_eq!(
            (read.messages.len(), read.completion, read.untrained),
            (4, Some(2), vec![2, 3])
        );
        let texts = json!({"prompt": "p", "completion": "c", "tools": []});
        let (read, rest) = sample(&plain, texts.clone()).unwrap();
        assert!(matches!(read, Sample::PromptCompletion { .. }));
        assert_eq!(rest, ["tools"], "texts have none");
        let made = with(|file| {
            (file.prompt_template, file.chat_template) = (Some("Q: {prompt}".into()), Some("chatml".into()));
        });
        let (read, _) = conversation(&made, texts);
        assert_eq!(
            (read.messages[0]["content"].as_str(), read.completion),
            (Some("Q: p"), Some(1))
        );
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
            assert_eq!(sample(&plain, values).unwrap_err(), message);
        }
    }

    #[test]
    fn of_pairs_of_answers_the_chosen_one_is_read() {
        let plain = DataFile::new("x.jsonl");
        let user = json!({"role": "user", "content": "a"});
        let whole = json!({"chosen": [user], "rejected": [user]});
        assert_eq!(conversation(&plain, whole).0.messages, [user]);
        let texts = json!({"prompt": "p", "chosen": "c", "rejected": "r"});
        let expected = Sample::PromptCompletion {
            prompt: "p".into(),
            completion: "c".into(),
        };
        assert_eq!(sample(&plain, texts).unwrap().0, expected);
    }

    #[test]
    fn instructions_are_texts_or_conversations() {
        let row = json!({"instruction": "Add.", "input": "1 2", "output": "3", "id": 7});
        let (read, rest) = sample(&DataFile::new("x.jsonl"), row.clone()).unwrap();
        let Sample::PromptCompletion { prompt, completion } = read else {
            panic!()
        };
        assert!(prompt.ends_with("### Input:\n1 2\n\n### Response:\n") && completion == "3");
        assert_eq!(rest, ["id"]);
        let as_chat = with(|file| file.chat_template = Some("chatml".into()));
        let (read, rest) = conversation(&as_chat, row);
        assert_eq!((read.messages.len(), read.completion), (2, Some(1)));
        assert_eq!(
            (read.messages[0]["content"].as_str(), rest),
            (Some("Add.\n1 2"), vec!["id".to_owned()])
        );
    }
}
