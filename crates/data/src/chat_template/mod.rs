//! A checkpoint's chat template: Jinja that makes one text of a list of messages, as transformers'
//! `apply_chat_template`.

mod files;
mod filters;
mod functions;
mod generation;
mod literals;
mod named;
mod python;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use arch::Location;
use base::bounds::{Bounds, bounded};
use base::foreign::LARGEST_TEMPLATE;
use base::guarded::{guarded, on_deep_stack};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use options::OWN_TEMPLATE;
use serde_json::{Map, Value as Json};

use crate::formats::{LONGEST_SAMPLE, LONGEST_SAMPLE_MIB, Place};
use crate::sample::Conversation;
use crate::{ChatTemplateError, DataError};
pub(super) use files::SpecialTokens;
pub(super) use generation::Marked;

/// The template's name in its environment.
const NAME: &str = "chat_template";

/// Instructions of a template for one conversation: some tenths of a second's work, and a hundred times that of a long
/// conversation. As many values can be nested, which takes the stack when they are freed.
const FUEL: u64 = 4_000_000;

/// What reading a template may take.
const BOUNDS: Bounds = Bounds {
    bytes: 512 << 20,
    time: Duration::from_secs(2),
};

/// The keys of a message that may hold its reasoning; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// A template that a spec names.
pub(super) enum Given {
    File(PathBuf),
    /// One of [`options::CHAT_TEMPLATES`].
    Named(&'static str),
}

/// A template that can be rendered.
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: Map<String, Json>,
    /// The file, for messages.
    place: String,
    /// True if `{% generation %}` marks what the assistant says.
    marks_generation: bool,
}

impl ChatTemplate {
    /// The template that is `given`, or else that of the model.
    pub(super) fn open(
        given: Option<Given>,
        location: &Location,
        special_tokens: &SpecialTokens,
    ) -> Result<Self, ChatTemplateError> {
        let (place, source) = match given {
            Some(Given::Named(name)) if name != OWN_TEMPLATE => named::find(name),
            Some(Given::File(path)) => files::find(Some(&path), location)?,
            _ => files::find(None, location)?,
        };
        Self::new(place, &source, special_tokens)
    }

    fn new(place: String, source: &str, special_tokens: &SpecialTokens) -> Result<Self, ChatTemplateError> {
        let invalid = |error: &Error| ChatTemplateError::Invalid {
            place: at(&place, error),
            reason: reason(error),
        };
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL));
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| invalid(&error))?);
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(python::print);
        filters::add(&mut environment);
        functions::add(&mut environment);
        generation::add(&mut environment);
        // Jinja2 reads every end of a line as `\n`.
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let (source, marks_generation) = generation::as_filter(&literals::plain(&source));
        if source.len() as u64 > LARGEST_TEMPLATE {
            let reason = format!("the template has {} bytes, more than {LARGEST_TEMPLATE}", source.len());
            return Err(ChatTemplateError::Invalid { place, reason });
        }
        let add = || environment.add_template_owned(NAME, source);
        on_deep_stack(|| bounded(format_args!("{place}: reading the template"), BOUNDS, add))
            .map_err(|error| ChatTemplateError::Read {
                path: place.clone(),
                reason: error.to_string(),
            })?
            .map_err(|error| invalid(&error))?;
        Ok(Self {
            environment,
            special_tokens: special_tokens.by_name.clone(),
            place,
            marks_generation,
        })
    }

    /// The text of the first messages of a conversation, with the place of what the assistant says if the template marks it.
    ///
    /// # Errors
    /// The template fails or raises an exception; with its line, and the place of the conversation.
    pub(super) fn render(
        &self,
        conversation: &Conversation,
        messages: usize,
        add_generation_prompt: bool,
        place: &Place,
    ) -> Result<Marked, DataError> {
        let messages: Vec<Json> = conversation.messages[..messages].iter().map(with_plain_keys).collect();
        let values = context! {
            ..Value::from(Serde(&conversation.variables)),
            ..context! {
                messages => Value::from(Serde(messages)),
                tools => Value::from(Serde(&conversation.tools)),
                documents => (),
                add_generation_prompt,
            },
            ..Value::from(Serde(&self.special_tokens))
        };
        let template = self.environment.get_template(NAME);
        let mut out = Limited::default();
        // The library panics on some templates.
        let rendered =
            guarded(|| template.and_then(|template| template.render_captured_to(values, &mut out).map(drop)));
        let rendered = rendered.unwrap_or_else(|panic| Err(Error::new(ErrorKind::InvalidOperation, panic)));
        let failed = |template, reason| DataError::ChatTemplateFails {
            place: place.to_string(),
            template,
            reason,
        };
        if out.is_full {
            let reason = format!("the text is longer than {LONGEST_SAMPLE_MIB} MiB");
            return Err(failed(self.place.clone(), reason));
        }
        rendered.map_err(|error| failed(at(&self.place, &error), reason(&error)))?;
        let text = String::from_utf8(out.bytes).map_err(|error| failed(self.place.clone(), error.to_string()))?;
        Ok(match self.marks_generation {
            true => Marked::read(&text),
            false => Marked {
                text,
                parts: Vec::new(),
            },
        })
    }

    /// True if the template reads this variable.
    pub(super) fn reads(&self, variable: &str) -> bool {
        let template = self.environment.get_template(NAME);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(variable))
    }

    /// True if this word stands in the template. What it does with all keys of a message is not known.
    pub(super) fn names(&self, word: &str) -> bool {
        let template = self.environment.get_template(NAME);
        template.is_ok_and(|template| template.source().contains(word) || template.source().contains("items"))
    }

    /// True if the template marks what the assistant says.
    pub(super) fn marks_generation(&self) -> bool {
        self.marks_generation
    }
}

/// The text of a conversation on the way, as long as a sample may be.
#[derive(Default)]
struct Limited {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full = self.bytes.len() + bytes.len() > LONGEST_SAMPLE;
        if self.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A message as transformers hands it to a template: without nulls, and with its reasoning under every name.
fn with_plain_keys(message: &Json) -> Json {
    let Json::Object(message) = message else {
        return message.clone();
    };
    let mut message = message.clone();
    message.retain(|_, value| !value.is_null());
    if let Some(reasoning) = REASONING.iter().find_map(|key| message.get(*key)).cloned() {
        // The order matters to templates that go through the keys.
        let mut named = Map::from_iter([("thinking".to_owned(), reasoning.clone())]);
        named.extend(message);
        named.insert("reasoning_content".into(), reasoning);
        return named.into();
    }
    message.into()
}

/// The template's file, with the line of an error.
fn at(place: &str, error: &Error) -> String {
    match error.line() {
        Some(line) => format!("{place}:{line}"),
        None => place.into(),
    }
}

/// An error without its place.
fn reason(error: &Error) -> String {
    match error.detail() {
        _ if error.kind() == ErrorKind::OutOfFuel => {
            format!("it takes more than {FUEL} instructions for one conversation: does a loop of it end?")
        }
        // Also the kind of what a template raises itself.
        Some(detail) if error.kind() == ErrorKind::InvalidOperation => detail.into(),
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests;
