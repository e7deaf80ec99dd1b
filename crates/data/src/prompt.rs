//! Prompts that are made of several columns.

use options::{PromptPart, PromptTemplate};
use serde_json::{Map, Value, json};

use super::DataError;
use super::formats::{Place, kind};

/// Alpaca's columns.
pub(super) const INSTRUCTION: &str = "instruction";
pub(super) const INPUT: &str = "input";
pub(super) const OUTPUT: &str = "output";
pub(super) const SYSTEM: &str = "system";
pub(super) const HISTORY: &str = "history";

/// What stands before an instruction, alone or with an input, unless a sample has a `system` text.
const ABOUT: &str =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
const ABOUT_WITH_INPUT: &str = "Below is an instruction that describes a task, paired with an input that provides further \
                                context. Write a response that appropriately completes the request.";

/// Alpaca's prompt, as axolotl writes it. Turns of `history` stand before it, as LLaMA-Factory writes them.
pub(super) fn alpaca(task: &Task) -> String {
    let input = task
        .input
        .as_ref()
        .map_or_else(String::new, |input| format!("### Input:\n{input}\n\n"));
    let about = task.system.as_deref().unwrap_or(match task.input {
        Some(_) => ABOUT_WITH_INPUT,
        None => ABOUT,
    });
    let turn = |instruction: &str, input: &str| format!("### Instruction:\n{instruction}\n\n{input}### Response:\n");
    let before: String = task
        .history
        .iter()
        .map(|[said, answer]| format!("{}{answer}\n\n", turn(said, "")))
        .collect();
    format!("{about}\n\n{before}{}", turn(&task.instruction, &input))
}

/// The messages that come to the same: what the user says is the instruction, and the input on lines of its own.
pub(super) fn messages(task: &Task, output: &str) -> Vec<Value> {
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    let mut messages: Vec<Value> = task.system.iter().map(|text| message("system", text)).collect();
    for [said, answer] in &task.history {
        messages.extend([message("user", said), message("assistant", answer)]);
    }
    let said = match &task.input {
        Some(input) => format!("{}\n{input}", task.instruction),
        None => task.instruction.clone(),
    };
    messages.extend([message("user", &said), message("assistant", output)]);
    messages
}

/// A sample of Alpaca's columns.
pub(super) struct Task {
    instruction: String,
    input: Option<String>,
    system: Option<String>,
    /// What was said and answered before.
    history: Vec<[String; 2]>,
}

impl Task {
    /// Takes the columns out of a row.
    ///
    /// # Errors
    /// A value is of another kind.
    pub(super) fn take(values: &mut Map<String, Value>, system: &str, place: &Place) -> Result<Self, DataError> {
        let mut optional = |column: &str| match values.remove(column) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(not_text(place, column, &other)),
        };
        let (instruction, input, system) = (optional(INSTRUCTION)?, optional(INPUT)?, optional(system)?);
        let history = match values.remove(HISTORY) {
            None | Some(Value::Null) => Vec::new(),
            Some(history) => turns(&history).ok_or_else(|| DataError::Messages {
                place: place.to_string(),
                column: HISTORY.into(),
                reason: "is no list of turns, each `[question, answer]`".into(),
            })?,
        };
        Ok(Self {
            instruction: instruction.unwrap_or_default(),
            input,
            system,
            history,
        })
    }
}

fn turns(history: &Value) -> Option<Vec<[String; 2]>> {
    let turn = |turn: &Value| match turn.as_array()?.as_slice() {
        [said, answer] => Some([said.as_str()?.to_owned(), answer.as_str()?.to_owned()]),
        _ => None,
    };
    history.as_array()?.iter().map(turn).collect()
}

/// A prompt with a row's values in place of its columns. A number is written as JSON has it, and null as nothing.
///
/// # Errors
/// A value is a list or a map.
pub(super) fn filled(
    template: &PromptTemplate,
    values: &mut Map<String, Value>,
    place: &Place,
) -> Result<String, DataError> {
    let mut text = String::new();
    for part in &template.0 {
        match part {
            PromptPart::Text(part) => text.push_str(part),
            PromptPart::Column(column) => match values.get(column) {
                None | Some(Value::Null) => {}
                Some(Value::String(value)) => text.push_str(value),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => text.push_str(&value.to_string()),
                Some(other) => return Err(not_text(place, column, other)),
            },
        }
    }
    for column in template.columns() {
        values.remove(column);
    }
    Ok(text)
}

fn not_text(place: &Place, column: &str, value: &Value) -> DataError {
    DataError::NotText {
        place: place.to_string(),
        column: column.into(),
        got: kind(value).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn task(values: Value) -> Result<Task, String> {
        let Value::Object(mut values) = values else { panic!() };
        let place = Place::line(&Path::new("x.jsonl").into(), 7);
        Task::take(&mut values, SYSTEM, &place).map_err(|error| error.to_string())
    }

    #[test]
    fn an_input_and_a_system_change_alpacas_prompt() {
        let plain = task(json!({"instruction": "Add.", "input": ""})).unwrap();
        assert_eq!(
            alpaca(&plain),
            format!("{ABOUT}\n\n### Instruction:\nAdd.\n\n### Response:\n")
        );
        let with_input = task(json!({"instruction": "Add.", "input": "1 2"})).unwrap();
        let expected = "### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n";
        assert_eq!(alpaca(&with_input), format!("{ABOUT_WITH_INPUT}\n\n{expected}"));
        let all = json!({"instruction": "Add.", "input": null, "system": "Be short.", "history": [["a", "b"]]});
        let expected =
            "Be short.\n\n### Instruction:\na\n\n### Response:\nb\n\n### Instruction:\nAdd.\n\n### Response:\n";
        assert_eq!(alpaca(&task(all.clone()).unwrap()), expected);
        let said: Vec<String> = messages(&task(all).unwrap(), "3")
            .iter()
            .map(|message| {
                format!(
                    "{} {}",
                    message["role"].as_str().unwrap(),
                    message["content"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            said,
            ["system Be short.", "user a", "assistant b", "user Add.", "assistant 3"]
        );
        assert_eq!(messages(&with_input, "3")[0]["content"], "Add.\n1 2");
        let wrong = task(json!({"instruction": "Add.", "history": ["a"]})).err().unwrap();
        assert_eq!(
            wrong,
            "x.jsonl:7: column `history` is no list of turns, each `[question, answer]`"
        );
        assert!(
            task(json!({"instruction": ["Add."]}))
                .err()
                .unwrap()
                .contains("is an array, not text")
        );
    }

    #[test]
    fn columns_are_put_into_a_template() {
        let place = Place::line(&Path::new("x.jsonl").into(), 7);
        let fill = |values: Value| {
            let Value::Object(mut values) = values else { panic!() };
            let template = PromptTemplate::parse("{q} ({n}): ").unwrap();
            let text = filled(&template, &mut values, &place).map_err(|error| error.to_string());
            text.map(|text| (text, values.len()))
        };
        assert_eq!(
            fill(json!({"q": "a", "n": 1.5, "id": 7})).unwrap(),
            ("a (1.5): ".into(), 1)
        );
        assert_eq!(fill(json!({"q": "a", "n": null})).unwrap().0, "a (): ");
        assert!(
            fill(json!({"q": [1]}))
                .unwrap_err()
                .contains("column `q` is an array, not text")
        );
    }
}
