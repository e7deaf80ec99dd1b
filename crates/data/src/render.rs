//! Samples as text, with the parts of it that are predicted.

use std::borrow::Cow;
use std::iter;
use std::ops::Range;

use super::chat_template::{ChatTemplate, Marked};
use super::formats::Place;
use super::sample::{Conversation, Sample};
use super::{ChatTemplateError, DataError};

/// A sample's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered<'a> {
    pub(super) text: Cow<'a, str>,
    /// True if the text has its special tokens, so that the tokenizer adds none.
    pub(super) has_special_tokens: bool,
    /// The prompt alone, if its tokens are not predicted: those with which the text's tokens begin, too.
    pub(super) prompt: Option<Cow<'a, str>>,
    /// The predicted parts, as ranges of bytes in their order; `None` if all of the text is.
    pub(super) targets: Option<Vec<Range<usize>>>,
}

/// Makes texts of samples.
pub(super) struct Renderer {
    pub(super) template: Result<ChatTemplate, ChatTemplateError>,
    /// The token that ends a completion.
    pub(super) eos: Option<String>,
    /// Predict completions alone.
    pub(super) completion_only: bool,
    /// Predict what the assistant says alone.
    pub(super) assistant_only: bool,
    /// The model, for messages.
    pub(super) model: String,
}

impl Renderer {
    /// The text of a sample.
    ///
    /// # Errors
    /// There is no template, or it fails; or what is predicted cannot be found in its text.
    pub(super) fn render<'a>(&self, sample: &'a Sample, place: &Place) -> Result<Rendered<'a>, DataError> {
        match sample {
            Sample::Text(text) => Ok(Rendered {
                text: text.into(),
                has_special_tokens: false,
                prompt: None,
                targets: None,
            }),
            Sample::PromptCompletion { prompt, completion } => {
                let eos = self.eos.as_deref().ok_or_else(|| DataError::NoEosToken {
                    model: self.model.clone(),
                })?;
                // As TRL, which adds no second one.
                let end = if completion.ends_with(eos) { "" } else { eos };
                Ok(Rendered {
                    text: [prompt, completion, end].concat().into(),
                    has_special_tokens: false,
                    prompt: self.completion_only.then(|| prompt.into()),
                    targets: None,
                })
            }
            Sample::Conversation(conversation) => self.conversation(conversation, place),
        }
    }

    /// True if the chat template reads this variable, as far as there is a template.
    pub(super) fn reads(&self, variable: &str) -> bool {
        self.template.as_ref().is_ok_and(|template| template.reads(variable))
    }

    /// True if this word stands in the chat template, or there is none.
    pub(super) fn names(&self, word: &str) -> bool {
        self.template.as_ref().map_or(true, |template| template.names(word))
    }

    fn conversation(&self, conversation: &Conversation, place: &Place) -> Result<Rendered<'static>, DataError> {
        let template = self.template.as_ref().map_err(|error| DataError::ChatTemplate {
            place: place.to_string(),
            error: error.clone(),
        })?;
        let whole = template.render(conversation, conversation.messages.len(), false, place)?;
        let mut targets = match (self.assistant_only, template.marks_generation()) {
            (false, _) => None,
            (true, true) => Some(whole.parts.clone()),
            (true, false) => {
                let of_assistant = |index: usize| conversation.messages[index]["role"] == "assistant";
                Some(turns(template, conversation, &of_assistant, &whole, place)?)
            }
        };
        if !conversation.untrained.is_empty() {
            let is_untrained = |index: usize| conversation.untrained.contains(&index);
            let untrained = turns(template, conversation, &is_untrained, &whole, place)?;
            let all = targets.unwrap_or_else(|| iter::once(0..whole.text.len()).collect());
            targets = Some(without(all, &untrained));
        }
        let prompt = match conversation.completion.filter(|_| self.completion_only) {
            Some(first) => Some(template.render(conversation, first, true, place)?.text.into()),
            None => None,
        };
        Ok(Rendered {
            text: whole.text.into(),
            has_special_tokens: true,
            prompt,
            targets,
        })
    }
}

/// What some messages add to the text of those before: of the assistant's, to the text that asks for them.
fn turns(
    template: &ChatTemplate,
    conversation: &Conversation,
    is_meant: &dyn Fn(usize) -> bool,
    whole: &Marked,
    place: &Place,
) -> Result<Vec<Range<usize>>, DataError> {
    let mut turns = Vec::new();
    for (index, message) in conversation
        .messages
        .iter()
        .enumerate()
        .filter(|(index, _)| is_meant(*index))
    {
        let is_assistant = message["role"] == "assistant";
        // No template is made for an empty list: many fail, and some write a system's message.
        if index == 0 && is_assistant {
            return Err(DataError::OpensWithAssistant {
                place: place.to_string(),
            });
        }
        let before = match index {
            0 => String::new(),
            index => template.render(conversation, index, is_assistant, place)?.text,
        };
        let with = template.render(conversation, index + 1, false, place)?.text;
        if !with.starts_with(&before) || !whole.text.starts_with(&with) {
            return Err(DataError::NotABeginning {
                place: place.to_string(),
                message: index + 1,
            });
        }
        turns.push(before.len()..with.len());
    }
    Ok(turns)
}

/// Ranges without what lies in `others`, which ascend.
fn without(ranges: Vec<Range<usize>>, others: &[Range<usize>]) -> Vec<Range<usize>> {
    let cut = |range: Range<usize>| {
        let mut start = range.start;
        let mut left = Vec::new();
        for other in others
            .iter()
            .filter(|other| other.start < range.end && other.end > range.start)
        {
            left.push(start..other.start.max(start));
            start = other.end;
        }
        left.push(start..range.end);
        left.into_iter().filter(|range| range.start < range.end)
    };
    ranges.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use arch::{Location, Preset};
    use serde_json::json;

    use super::*;
    use crate::chat_template::{Given, SpecialTokens};

    fn renderer(template: &str, completion_only: bool, assistant_only: bool) -> Renderer {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chat.jinja");
        std::fs::write(&path, template).unwrap();
        let location = Location::Preset(Preset::named("tiny").unwrap());
        Renderer {
            template: ChatTemplate::open(Some(Given::File(path)), &location, &SpecialTokens::default()),
            eos: Some("</s>".into()),
            completion_only,
            assistant_only,
            model: "tiny".into(),
        }
    }

    /// The text, the prompt, and the predicted parts.
    type Parts = (String, Option<String>, Option<Vec<String>>);

    fn rendered(renderer: &Renderer, sample: &Sample) -> Result<Parts, String> {
        let place = Place::line(&Path::new("x.jsonl").into(), 1);
        let rendered = renderer.render(sample, &place).map_err(|error| error.to_string())?;
        let part = |part: Range<usize>| rendered.text[part].to_owned();
        let parts = rendered
            .targets
            .clone()
            .map(|parts| parts.into_iter().map(part).collect());
        let prompt = rendered.prompt.as_deref().map(str::to_owned);
        Ok((rendered.text.into_owned(), prompt, parts))
    }

    #[test]
    fn a_completion_ends_in_one_end_of_text() {
        let pair = |completion: &str| Sample::PromptCompletion {
            prompt: "Q? ".into(),
            completion: completion.into(),
        };
        let parts = |completion_only, completion| rendered(&renderer("", completion_only, false), &pair(completion));
        let expected = ("Q? A.</s>".to_owned(), Some("Q? ".to_owned()), None);
        assert_eq!(parts(true, "A.").unwrap(), expected);
        assert_eq!(parts(true, "A.</s>").unwrap(), expected);
        assert_eq!(parts(false, "A.").unwrap(), ("Q? A.</s>".into(), None, None));
        let text = Sample::Text("A.".into());
        assert_eq!(
            rendered(&renderer("", true, false), &text).unwrap(),
            ("A.".into(), None, None)
        );
        let mut without = renderer("", true, false);
        without.eos = None;
        assert!(rendered(&without, &pair("A.")).unwrap_err().contains("names one"));
    }

    const PLAIN: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}\
                         {% if add_generation_prompt %}<assistant>{% endif %}";
    const MARKED: &str = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}\
                          {{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}\
                          {% if add_generation_prompt %}<assistant>{% endif %}";

    fn conversation(completion: Option<usize>) -> Sample {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let messages = ["user a", "assistant b", "user c", "assistant d"];
        let messages = messages.map(|message| message.split_once(' ').unwrap());
        Sample::Conversation(Box::new(Conversation {
            messages: messages.map(|(role, content)| message(role, content)).to_vec(),
            completion,
            ..Conversation::default()
        }))
    }

    #[test]
    fn an_assistants_turns_are_those_that_the_template_marks_or_that_its_messages_add() {
        let parts = |template: &str, completion: Option<usize>, completion_only, assistant_only| {
            let renderer = renderer(template, completion_only, assistant_only);
            let (text, prompt, parts) = rendered(&renderer, &conversation(completion)).unwrap();
            assert_eq!(text, "<user>a;<assistant>b;<user>c;<assistant>d;");
            (prompt.unwrap_or_default(), parts.map(|parts| parts.join("|")))
        };
        let none = String::new;
        assert_eq!(parts(PLAIN, None, true, false), (none(), None));
        assert_eq!(parts(PLAIN, None, true, true), (none(), Some("b;|d;".into())));
        assert_eq!(parts(MARKED, None, true, true), (none(), Some("b|d".into())));
        let prompt = "<user>a;<assistant>b;<user>c;<assistant>";
        assert_eq!(parts(PLAIN, Some(3), true, false), (prompt.into(), None));
        assert_eq!(parts(PLAIN, Some(3), false, false), (none(), None));
        assert_eq!(parts(MARKED, Some(3), true, true), (prompt.into(), Some("b|d".into())));
    }

    #[test]
    fn a_message_that_says_so_is_not_predicted() {
        let parts = |template: &str, untrained: &[usize], assistant_only| {
            let Sample::Conversation(mut conversation) = conversation(None) else {
                panic!()
            };
            conversation.untrained = untrained.to_vec();
            let renderer = renderer(template, true, assistant_only);
            rendered(&renderer, &Sample::Conversation(conversation))
                .unwrap()
                .2
                .unwrap()
                .join("|")
        };
        assert_eq!(parts(PLAIN, &[1], true), "d;");
        assert_eq!(parts(MARKED, &[3], true), "b");
        assert_eq!(parts(PLAIN, &[1], false), "<user>a;<assistant>|<user>c;<assistant>d;");
        assert_eq!(parts(PLAIN, &[0, 2, 3], false), "<assistant>b;|<assistant>");
    }

    /// Some templates leave out what the assistant thought in earlier turns.
    #[test]
    fn a_template_whose_earlier_messages_change_has_no_turns() {
        let changing = "{% for m in messages %}{{ loop.last }}{{ m.content }}{% endfor %}";
        let message = rendered(&renderer(changing, true, true), &conversation(None)).unwrap_err();
        assert!(message.starts_with("x.jsonl:1: the text of the messages up to message 2 is not the beginning"));
        assert!(rendered(&renderer(changing, true, false), &conversation(Some(3))).is_ok());
    }

    #[test]
    fn a_conversation_that_opens_with_the_assistant_needs_a_template_that_marks() {
        let messages = vec![
            json!({"role": "assistant", "content": "Hello."}),
            json!({"role": "user", "content": "a"}),
        ];
        let opens = Sample::Conversation(Box::new(Conversation {
            messages,
            ..Conversation::default()
        }));
        let message = rendered(&renderer(PLAIN, true, true), &opens).unwrap_err();
        assert!(
            message.starts_with("x.jsonl:1: the conversation opens with the assistant"),
            "{message}"
        );
        let (_, _, parts) = rendered(&renderer(MARKED, true, true), &opens).unwrap();
        assert_eq!(parts.unwrap(), ["Hello."]);
        assert!(rendered(&renderer(PLAIN, true, false), &opens).is_ok());
    }

    #[test]
    fn messages_need_a_template() {
        let without = Renderer {
            template: Err(ChatTemplateError::Missing { looked_at: "x".into() }),
            ..renderer("", true, false)
        };
        let message = rendered(&without, &conversation(None)).unwrap_err();
        assert!(message.starts_with("x.jsonl:1: x: no chat template"), "{message}");
    }
}
