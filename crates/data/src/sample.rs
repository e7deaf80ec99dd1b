//! A sample as its file has it.

use serde_json::{Map, Value};

/// A sample as the file has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sample {
    Text(String),
    PromptCompletion { prompt: String, completion: String },
    Conversation(Box<Conversation>),
}

/// Messages, which a chat template makes a text of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Value>,
    /// The messages from here on complete the prompt of those before.
    pub(super) completion: Option<usize>,
    /// The tools that the model may call.
    pub(super) tools: Option<Value>,
    /// Further variables of the template, as TRL's `chat_template_kwargs`.
    pub(super) variables: Map<String, Value>,
    /// Indices of messages that say of themselves that they are not predicted.
    pub(super) untrained: Vec<usize>,
}

impl Sample {
    /// The messages that a chat template makes a text of.
    pub(super) fn messages(&self) -> usize {
        match self {
            Self::Conversation(conversation) => conversation.messages.len(),
            Self::Text(_) | Self::PromptCompletion { .. } => 0,
        }
    }

    /// Bytes of its text, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::PromptCompletion { prompt, completion } => prompt.len() + completion.len(),
            Self::Conversation(conversation) => {
                let Conversation {
                    messages,
                    tools,
                    variables,
                    ..
                } = &**conversation;
                let values = messages.iter().chain(tools).chain(variables.values());
                values.map(value_bytes).sum()
            }
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
