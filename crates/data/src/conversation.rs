//! Messages of a file in one form: `{role, content}`, in the roles that chat templates know.

use std::collections::BTreeMap;

use options::DataFile;
use serde_json::{Map, Value, json};

use super::DataError;
use super::formats::{Place, kind};
use super::sample::Conversation;

/// Names of roles in ShareGPT's files and those like them, with those that templates know.
const ROLES: [(&str, &str); 10] = [
    ("human", USER),
    ("gpt", ASSISTANT),
    ("chatgpt", ASSISTANT),
    ("bing", ASSISTANT),
    ("bard", ASSISTANT),
    ("model", ASSISTANT),
    (FUNCTION_CALL, ASSISTANT),
    ("observation", "tool"),
    ("function_response", "tool"),
    ("ipython", "tool"),
];

/// Roles that templates know.
const KNOWN: [&str; 5] = ["system", "developer", USER, ASSISTANT, "tool"];

const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// A message whose text is the JSON of a call.
const FUNCTION_CALL: &str = "function_call";

/// Fields of a message that say whether it is predicted, in files for OpenAI's service and for axolotl.
const TRAINED: [&str; 3] = ["weight", "train", "training"];

/// Fields of a message that are read whatever its template does.
pub(super) const READ_FIELDS: [&str; 5] = ["role", "content", TRAINED[0], TRAINED[1], TRAINED[2]];

/// How messages are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fields {
    role: Option<String>,
    content: Option<String>,
    roles: BTreeMap<String, String>,
}

impl Fields {
    pub(super) fn of(file: &DataFile) -> Self {
        Self {
            role: file.role_field.clone(),
            content: file.content_field.clone(),
            roles: file.roles.clone().unwrap_or_default(),
        }
    }

    /// The conversation in a list of messages.
    ///
    /// # Errors
    /// The value is no list of messages, with one at least; or a message has no role, or something that no text is made of.
    pub(super) fn conversation(&self, value: Value, column: &str, place: &Place) -> Result<Conversation, DataError> {
        let fail = |reason: String| DataError::Messages {
            place: place.to_string(),
            column: column.into(),
            reason,
        };
        let values = match value {
            Value::Array(values) => values,
            other => return Err(fail(format!("is {}, not a list of messages", kind(&other)))),
        };
        if values.is_empty() {
            return Err(fail("is an empty list; a conversation has one message at least".into()));
        }
        let mut conversation = Conversation::default();
        for (index, value) in values.into_iter().enumerate() {
            let number = index + 1;
            let Value::Object(message) = value else {
                let what = kind(&value);
                return Err(fail(format!("has {what} as message {number}, not `{{role, content}}`")));
            };
            let message = self.message(message).map_err(|reason| fail(reason.of(number)))?;
            if !is_trained(&message).map_err(|reason| fail(reason.of(number)))? {
                conversation.untrained.push(index);
            }
            conversation.messages.push(message.into());
        }
        Ok(conversation)
    }

    /// A message with a `role` and a `content`; its other fields stay as they are.
    fn message(&self, message: Map<String, Value>) -> Result<Map<String, Value>, Wrong> {
        let field = |given: &Option<String>, names: [&'static str; 2]| {
            let found = names.into_iter().find(|name| message.contains_key(*name));
            given.clone().unwrap_or_else(|| found.unwrap_or(names[0]).to_owned())
        };
        let (of_role, of_content) = (
            field(&self.role, ["role", "from"]),
            field(&self.content, ["content", "value"]),
        );
        let Some(name) = message.get(&of_role).and_then(Value::as_str) else {
            let names = message.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Wrong(
                format!("has no text `{of_role}` in message"),
                format!("; there are: {names}"),
            ));
        };
        let has_content = ["tool_calls", "function_call", &of_content]
            .iter()
            .any(|key| message.contains_key(*key));
        if !has_content || self.content.is_some() && !message.contains_key(&of_content) {
            let names = message.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Wrong(
                format!("has no `{of_content}` in message"),
                format!("; there are: {names}"),
            ));
        }
        let name = name.to_owned();
        let role = self.role(&name, of_role == "from")?;
        let mut plain = Map::new();
        for (key, value) in message {
            match key {
                key if key == of_role => plain.insert("role".into(), role.as_str().into()),
                key if key == of_content => plain.insert("content".into(), value),
                // A message's own, where the spec names other fields.
                key if key == "role" || key == "content" => None,
                key => plain.insert(key, value),
            };
        }
        if let Some(what) = plain.get("content").and_then(not_text) {
            let wrong = format!("has a part of type `{what}` in message");
            return Err(Wrong(wrong, "; models are trained on text alone".into()));
        }
        if name == FUNCTION_CALL && !self.roles.contains_key(&name) {
            call(&mut plain)?;
        }
        Ok(plain)
    }

    /// A role in the words of templates. One beside `from` must be known, others are the template's matter.
    fn role(&self, name: &str, is_foreign: bool) -> Result<String, Wrong> {
        if let Some(role) = self.roles.get(name) {
            return Ok(role.clone());
        }
        let known = ROLES.iter().find(|(other, _)| *other == name).map(|(_, role)| *role);
        match known.or(KNOWN.into_iter().find(|role| *role == name)) {
            Some("assistant") if name == "model" && !is_foreign => Ok(name.to_owned()),
            Some("tool") if name == "ipython" && !is_foreign => Ok(name.to_owned()),
            Some(role) => Ok(role.to_owned()),
            None if is_foreign => {
                let help = format!("; write which role that is: `data: {{roles: {{{name}: user}}}}`");
                Err(Wrong(format!("has the role `{name}` in message"), help))
            }
            None => Ok(name.to_owned()),
        }
    }
}

/// What is wrong with a message: the text before its number and behind it.
struct Wrong(String, String);

impl Wrong {
    fn of(self, number: usize) -> String {
        format!("{} {number}{}", self.0, self.1)
    }
}

/// The type of a part of a content that is no text.
fn not_text(content: &Value) -> Option<String> {
    let parts = content.as_array()?;
    let type_of = |part: &Value| {
        let named = part
            .get("type")
            .and_then(Value::as_str)
            .filter(|named| *named != "text");
        named.map(str::to_owned)
    };
    parts.iter().find_map(type_of)
}

/// Makes tool calls of the JSON in a message's text.
fn call(message: &mut Map<String, Value>) -> Result<(), Wrong> {
    let parsed = message
        .get("content")
        .and_then(Value::as_str)
        .map(serde_json::from_str::<Value>);
    let Some(Ok(parsed)) = parsed else {
        return Err(Wrong(
            "has no JSON of a call in message".into(),
            format!(", whose role is `{FUNCTION_CALL}`"),
        ));
    };
    let calls = match parsed {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    if !calls.iter().all(Value::is_object) {
        return Err(Wrong("has a call that is no object in message".into(), String::new()));
    }
    let calls: Vec<Value> = calls
        .into_iter()
        .map(|call| json!({"type": "function", "function": call}))
        .collect();
    message.insert("content".into(), "".into());
    message.insert("tool_calls".into(), calls.into());
    Ok(())
}

/// False if a message says that it is not predicted.
fn is_trained(message: &Map<String, Value>) -> Result<bool, Wrong> {
    for key in TRAINED {
        match message.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::Bool(is_trained)) => return Ok(*is_trained),
            Some(value) if value.as_f64() == Some(0.0) => return Ok(false),
            Some(value) if value.as_f64() == Some(1.0) => return Ok(true),
            Some(value) => {
                let wrong = format!("has `{key}: {value}` in message");
                return Err(Wrong(wrong, "; it is 0 or 1: a message is predicted or not".into()));
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(file: &DataFile, value: Value) -> Result<Conversation, String> {
        let place = Place::line(&Path::new("x.jsonl").into(), 7);
        let read = Fields::of(file).conversation(value, "messages", &place);
        read.map_err(|error| error.to_string().replace("x.jsonl:7: column `messages` ", ""))
    }

    fn roles(file: &DataFile, value: Value) -> Vec<String> {
        let read = read(file, value).unwrap();
        let text = |message: &Value| {
            format!(
                "{}: {}",
                message["role"].as_str().unwrap(),
                message["content"].as_str().unwrap()
            )
        };
        read.messages.iter().map(text).collect()
    }

    #[test]
    fn roles_have_the_names_that_templates_know() {
        let plain = DataFile::new("x.jsonl");
        let shared = json!([
            {"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"},
            {"from": "observation", "value": "c"}
        ]);
        assert_eq!(
            roles(&plain, shared),
            ["system: s", "user: a", "assistant: b", "tool: c"]
        );
        let own = json!([{"role": "model", "content": "a"}, {"role": "narrator", "content": "b"}]);
        assert_eq!(roles(&plain, own), ["model: a", "narrator: b"], "a template's own");
        let file = DataFile {
            role_field: Some("speaker".into()),
            content_field: Some("said".into()),
            roles: Some(BTreeMap::from([("pupil".into(), "user".into())])),
            ..plain.clone()
        };
        assert_eq!(roles(&file, json!([{"speaker": "pupil", "said": "a"}])), ["user: a"]);
        let both = json!([{"role": "a", "content": "b", "said": "c", "speaker": "pupil"}]);
        assert_eq!(roles(&file, both), ["user: c"], "the fields that are named");
        let without = read(&file, json!([{"speaker": "pupil", "content": "a"}])).unwrap_err();
        assert_eq!(without, "has no `said` in message 1; there are: speaker, content");
        let unknown = read(&plain, json!([{"from": "pupil", "value": "a"}])).unwrap_err();
        assert_eq!(
            unknown,
            "has the role `pupil` in message 1; write which role that is: `data: {roles: {pupil: user}}`"
        );
    }

    #[test]
    fn a_call_becomes_one_of_a_tool() {
        let plain = DataFile::new("x.jsonl");
        let call = |text: &str| read(&plain, json!([{"from": "function_call", "value": text}]));
        let made = call(r#"{"name": "f", "arguments": {"a": 1}}"#).unwrap();
        let function = json!({"name": "f", "arguments": {"a": 1}});
        assert_eq!(
            made.messages[0],
            json!({"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]})
        );
        assert!(
            call("f(1)")
                .unwrap_err()
                .starts_with("has no JSON of a call in message 1")
        );
    }

    #[test]
    fn a_message_may_say_that_it_is_not_predicted() {
        let plain = DataFile::new("x.jsonl");
        let with = |more: Value| {
            let mut message = json!({"role": "assistant", "content": "a"});
            message
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            read(&plain, json!([{"role": "user", "content": "b"}, message])).map(|read| read.untrained)
        };
        assert_eq!(with(json!({})).unwrap(), [0usize; 0]);
        for (field, untrained) in [
            (json!({"weight": 0}), vec![1]),
            (json!({"weight": 1.0}), vec![]),
            (json!({"train": false}), vec![1]),
            (json!({"training": null}), vec![]),
        ] {
            assert_eq!(with(field.clone()).unwrap(), untrained, "{field}");
        }
        let message = with(json!({"weight": 0.5})).unwrap_err();
        assert_eq!(
            message,
            "has `weight: 0.5` in message 2; it is 0 or 1: a message is predicted or not"
        );
    }

    #[test]
    fn other_values_are_no_messages() {
        let plain = DataFile::new("x.jsonl");
        let user = json!({"role": "user", "content": "a"});
        let picture = json!([{"type": "text", "text": "a"}, {"type": "image"}]);
        for (messages, reason) in [
            (json!("a"), "is a string, not a list of messages"),
            (json!([]), "is an empty list; a conversation has one message at least"),
            (json!([user, 1]), "has a number as message 2, not `{role, content}`"),
            (
                json!([{"text": "a"}]),
                "has no text `role` in message 1; there are: text",
            ),
            (
                json!([{"role": "user", "text": "a"}]),
                "has no `content` in message 1; there are: role, text",
            ),
            (
                json!([user, {"role": "user", "content": picture}]),
                "has a part of type `image` in message 2; models are trained on text alone",
            ),
        ] {
            assert_eq!(read(&plain, messages).unwrap_err(), reason);
        }
    }
}
