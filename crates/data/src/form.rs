//! The form of a file's samples: texts, prompts with completions, or conversations.

mod row;

use options::{ALPACA, DataFile, PromptTemplate};

use super::DataError;
use super::conversation::Fields;
use super::formats::{TEXT_COLUMN, missing};
use super::prompt::{HISTORY, INPUT, INSTRUCTION, OUTPUT, SYSTEM};

const PROMPT_COLUMN: &str = "prompt";
const COMPLETION_COLUMN: &str = "completion";
const MESSAGES_COLUMNS: [&str; 3] = ["messages", "conversations", "conversation"];
const CHOSEN_COLUMN: &str = "chosen";
const REJECTED_COLUMN: &str = "rejected";
const TOOLS_COLUMN: &str = "tools";
/// TRL's column of a template's variables.
const VARIABLES_COLUMN: &str = "chat_template_kwargs";
/// Columns that mean something which is not done, with the reason. They are an error where no key says what is read.
const REFUSED: [(&str, &str); 7] = [
    ("images", "models are trained on text alone"),
    ("image", "models are trained on text alone"),
    ("videos", "models are trained on text alone"),
    ("video", "models are trained on text alone"),
    ("audios", "models are trained on text alone"),
    ("audio", "models are trained on text alone"),
    ("input_ids", "these samples are tokenised already, and texts are read"),
];

/// Pairs of columns that some data sets have, for the help of an error.
const PAIRS: [[&str; 2]; 6] = [
    ["question", "answer"],
    ["query", "response"],
    ["instruction", "response"],
    ["prompt", "response"],
    ["input", "output"],
    ["article", "summary"],
];

/// The columns that hold a sample, and what is made of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    kind: Kind,
    /// True if instructions, and prompts that are made of columns, become conversations.
    as_conversations: bool,
    fields: Fields,
    /// A key of the spec that is for conversations alone.
    conversation_key: Option<&'static str>,
    system_column: String,
    tools_column: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A column of texts.
    Text(String),
    /// A column of prompts and one of completions, both texts or both lists of messages.
    PromptCompletion { prompt: String, completion: String },
    /// A prompt made of columns, and a column of completions.
    Template {
        template: PromptTemplate,
        completion: String,
    },
    /// Alpaca's columns.
    Alpaca,
    /// A column of lists of messages.
    Messages(String),
    /// The chosen one of two answers, with the column of the prompt if there is one.
    Chosen { prompt: Option<String> },
}

impl Form {
    /// The form of samples with these columns: the one that the spec names, or else what they are called. Samples with
    /// labels are texts.
    ///
    /// # Errors
    /// There are no such columns, or a key of the spec is for another form.
    pub(super) fn choose(
        file: &DataFile,
        columns: &[String],
        place: &str,
        has_labels: bool,
    ) -> Result<Self, DataError> {
        let names = || columns.iter().map(String::as_str);
        let has = |column: &str| names().any(|name| name == column);
        let named = Kind::named(file, has_labels);
        if named.is_none()
            && let Some((column, reason)) = REFUSED.into_iter().find(|(column, _)| has(column))
        {
            return Err(DataError::Refused {
                place: place.into(),
                column: column.into(),
                reason: reason.into(),
            });
        }
        let kind = named.or_else(|| Kind::found(&has)).ok_or_else(|| {
            let pair = PAIRS.into_iter().find(|pair| pair.iter().all(|column| has(column)));
            let help = pair.map(|[prompt, completion]| {
                format!(", such as `data: {{prompt_column: {prompt}, completion_column: {completion}}}`")
            });
            DataError::NoForm {
                place: place.into(),
                columns: names().collect::<Vec<_>>().join(", "),
                help: help.unwrap_or_default(),
            }
        })?;
        let given = [&file.system_column, &file.tools_column].into_iter().flatten();
        let needed = kind.columns().into_iter().chain(given.map(String::as_str));
        if let Some(column) = needed.into_iter().find(|column| !has(column)) {
            return Err(missing(place.into(), column, names()));
        }
        let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.into());
        let form = Self {
            as_conversations: file.chat_template.is_some(),
            fields: Fields::of(file),
            conversation_key: conversation_key(file, &kind),
            system_column: or(&file.system_column, SYSTEM),
            tools_column: or(&file.tools_column, TOOLS_COLUMN),
            kind,
        };
        form.check_keys(file, place).map(|()| form)
    }

    /// Keys of the spec that say what is predicted are for some forms.
    fn check_keys(&self, file: &DataFile, place: &str) -> Result<(), DataError> {
        let given = [
            ("completion_only_loss", file.completion_only_loss.is_some()),
            ("assistant_only_loss", file.assistant_only_loss == Some(true)),
        ];
        let is_for = |key: &str| match &self.kind {
            Kind::Text(_) => false,
            Kind::Messages(_) | Kind::Chosen { prompt: None } => key == "assistant_only_loss",
            _ => true,
        };
        match given.into_iter().find(|(key, is_given)| *is_given && !is_for(key)) {
            Some((key, _)) => Err(DataError::KeyOfForm {
                place: place.into(),
                key,
                form: self.noun(),
            }),
            None => Ok(()),
        }
    }

    /// The columns that each sample has.
    pub(super) fn columns(&self) -> Vec<&str> {
        self.kind.columns()
    }

    /// The columns that a sample may have.
    pub(super) fn optional(&self) -> Vec<&str> {
        let of_conversations = [&*self.system_column, &self.tools_column, VARIABLES_COLUMN];
        match &self.kind {
            Kind::Text(_) => Vec::new(),
            Kind::Alpaca => [INPUT, HISTORY].into_iter().chain(of_conversations).collect(),
            _ => of_conversations.to_vec(),
        }
    }

    /// True for a column that a remark names already.
    pub(super) fn leaves_out(&self, column: &str) -> bool {
        matches!(self.kind, Kind::Chosen { .. }) && column == REJECTED_COLUMN
    }

    /// True if samples are texts.
    pub(super) fn is_of_texts(&self) -> bool {
        matches!(self.kind, Kind::Text(_))
    }

    /// True if samples are conversations, whatever their values are.
    pub(super) fn is_of_conversations(&self) -> bool {
        match &self.kind {
            Kind::Messages(_) => true,
            Kind::Alpaca | Kind::Template { .. } => self.as_conversations,
            Kind::Text(_) | Kind::PromptCompletion { .. } | Kind::Chosen { .. } => false,
        }
    }

    /// What the data are taken for, where a key could say something else.
    pub(super) fn remark(&self) -> Option<String> {
        match &self.kind {
            Kind::Alpaca if !self.as_conversations => Some(
                "prompts are written in Alpaca's words; `data: {chat_template: ...}` makes conversations of them"
                    .into(),
            ),
            Kind::Chosen { .. } => Some(format!(
                "of each pair of answers `{CHOSEN_COLUMN}` is trained on, and `{REJECTED_COLUMN}` is not read"
            )),
            _ => None,
        }
    }

    /// What samples are, for people.
    pub(super) fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::Text(_) => "texts",
            Kind::PromptCompletion { .. } | Kind::Template { .. } => "prompts and completions",
            Kind::Alpaca => "instructions and outputs",
            Kind::Messages(_) => "messages",
            Kind::Chosen { .. } => "chosen answers",
        }
    }
}

impl Kind {
    fn named(file: &DataFile, has_labels: bool) -> Option<Self> {
        let or = |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.into());
        if let Some(column) = &file.messages_column {
            return Some(Self::Messages(column.clone()));
        }
        match file.prompt_template.as_deref() {
            None => {}
            Some(ALPACA) => return Some(Self::Alpaca),
            // A template that cannot be read is an error of the spec.
            Some(template) => {
                let template = PromptTemplate::parse(template).ok()?;
                let completion = or(&file.completion_column, COMPLETION_COLUMN);
                return Some(Self::Template { template, completion });
            }
        }
        if file.prompt_column.is_some() || file.completion_column.is_some() {
            return Some(Self::PromptCompletion {
                prompt: or(&file.prompt_column, PROMPT_COLUMN),
                completion: or(&file.completion_column, COMPLETION_COLUMN),
            });
        }
        (has_labels || file.column.is_some()).then(|| Self::Text(or(&file.column, TEXT_COLUMN)))
    }

    fn found(has: &dyn Fn(&str) -> bool) -> Option<Self> {
        if let Some(column) = MESSAGES_COLUMNS.into_iter().find(|column| has(column)) {
            return Some(Self::Messages(column.into()));
        }
        let prompt = has(PROMPT_COLUMN).then(|| PROMPT_COLUMN.to_owned());
        if has(CHOSEN_COLUMN) && has(REJECTED_COLUMN) {
            return Some(Self::Chosen { prompt });
        }
        if let Some(prompt) = prompt.filter(|_| has(COMPLETION_COLUMN)) {
            return Some(Self::PromptCompletion {
                prompt,
                completion: COMPLETION_COLUMN.into(),
            });
        }
        if has(INSTRUCTION) && has(OUTPUT) {
            return Some(Self::Alpaca);
        }
        has(TEXT_COLUMN).then(|| Self::Text(TEXT_COLUMN.into()))
    }

    fn columns(&self) -> Vec<&str> {
        match self {
            Self::Text(column) | Self::Messages(column) => vec![column],
            Self::PromptCompletion { prompt, completion } => vec![prompt, completion],
            Self::Template { template, completion } => {
                let mut columns: Vec<&str> = template.columns().collect();
                columns.push(completion);
                columns.sort_unstable();
                columns.dedup();
                columns
            }
            Self::Alpaca => vec![INSTRUCTION, OUTPUT],
            Self::Chosen { prompt: None } => vec![CHOSEN_COLUMN],
            Self::Chosen { prompt: Some(prompt) } => vec![prompt, CHOSEN_COLUMN],
        }
    }
}

/// The first key of a spec that says something of conversations alone.
fn conversation_key(file: &DataFile, kind: &Kind) -> Option<&'static str> {
    let is_alpaca = *kind == Kind::Alpaca;
    let keys = [
        ("system_column", file.system_column.is_some() && !is_alpaca),
        ("tools_column", file.tools_column.is_some()),
        ("role_field", file.role_field.is_some()),
        ("content_field", file.content_field.is_some()),
        ("roles", file.roles.is_some()),
    ];
    keys.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(file: &DataFile, columns: &[&str]) -> Result<Kind, String> {
        let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        let form = Form::choose(file, &columns, "x.jsonl", false);
        form.map(|form| form.kind).map_err(|error| error.to_string())
    }

    fn with(change: impl FnOnce(&mut DataFile)) -> DataFile {
        let mut file = DataFile::new("x.jsonl");
        change(&mut file);
        file
    }

    #[test]
    fn the_form_follows_from_the_columns_or_the_keys() {
        let plain = DataFile::new("x.jsonl");
        let pair = |prompt: &str, completion: &str| Kind::PromptCompletion {
            prompt: prompt.into(),
            completion: completion.into(),
        };
        let all = [
            "id",
            "text",
            "instruction",
            "output",
            "prompt",
            "completion",
            "messages",
        ];
        assert_eq!(chosen(&plain, &all).unwrap(), Kind::Messages("messages".into()));
        assert_eq!(chosen(&plain, &all[..6]).unwrap(), pair("prompt", "completion"));
        assert_eq!(chosen(&plain, &all[..4]).unwrap(), Kind::Alpaca);
        assert_eq!(chosen(&plain, &all[..3]).unwrap(), Kind::Text("text".into()));
        let shared = chosen(&plain, &["id", "conversations"]).unwrap();
        assert_eq!(shared, Kind::Messages("conversations".into()));
        let preference = chosen(&plain, &["prompt", "chosen", "rejected"]).unwrap();
        assert_eq!(
            preference,
            Kind::Chosen {
                prompt: Some("prompt".into())
            }
        );
        let named = with(|file| file.prompt_column = Some("id".into()));
        assert_eq!(chosen(&named, &all).unwrap(), pair("id", "completion"));
        let made = with(|file| {
            (file.prompt_template, file.completion_column) = (Some("{text}: {id}".into()), Some("output".into()));
        });
        assert!(matches!(chosen(&made, &all).unwrap(), Kind::Template { completion, .. } if completion == "output"));
        assert!(chosen(&made, &all[1..]).unwrap_err().contains("no column `id`"));
        let column = with(|file| file.column = Some("quote".into()));
        assert_eq!(
            chosen(&column, &["quotes", "author"]).unwrap_err(),
            "x.jsonl: no column `quote`; there are: quotes, author; did you mean `quotes`?"
        );
        let tools = with(|file| file.tools_column = Some("functions".into()));
        assert!(chosen(&tools, &all).unwrap_err().contains("no column `functions`"));
        let message = chosen(&plain, &["question", "answer"]).unwrap_err();
        assert_eq!(
            message,
            "x.jsonl: no column `messages`, no `prompt` and `completion`, no `instruction` and `output`, and no `text`; there \
             are: question, answer; name yours: `column`, `prompt_column` and `completion_column`, or `messages_column`, such as \
             `data: {prompt_column: question, completion_column: answer}`"
        );
    }

    #[test]
    fn what_is_not_done_is_an_error_unless_a_key_says_what_is_read() {
        let plain = DataFile::new("x.jsonl");
        let message = chosen(&plain, &["messages", "images"]).unwrap_err();
        assert!(
            message.starts_with("x.jsonl: column `images`: models are trained on text alone"),
            "{message}"
        );
        assert!(chosen(&plain, &["text", "input_ids"]).is_err());
        let named = with(|file| file.column = Some("text".into()));
        assert!(chosen(&named, &["text", "input_ids"]).is_ok());
    }

    #[test]
    fn a_loss_of_parts_needs_parts() {
        let completion = with(|file| file.completion_only_loss = Some(true));
        assert!(chosen(&completion, &["prompt", "completion"]).is_ok());
        assert!(chosen(&completion, &["instruction", "output"]).is_ok());
        assert_eq!(
            chosen(&completion, &["text"]).unwrap_err(),
            "x.jsonl: `completion_only_loss` is not for texts; leave it out, or name the columns of another form"
        );
        assert!(chosen(&completion, &["messages"]).is_err());
        let assistant = with(|file| file.assistant_only_loss = Some(true));
        assert!(chosen(&assistant, &["messages"]).is_ok());
        assert!(chosen(&assistant, &["text"]).is_err());
    }
}
