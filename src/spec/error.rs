//! What is wrong with a spec, and where.

use std::fmt;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::source::{Place, Sources, floor_boundary};

/// A mistake in the user's input. Its `Display` is a full report: what is wrong, file, line and column with the text, and
/// what would be right.
#[derive(Debug)]
pub struct SpecError(Box<Report>);

#[derive(Debug)]
struct Report {
    diagnostic: Diagnostic,
    sources: Sources,
}

/// An error before the texts that it points into are attached.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic {
    pub message: String,
    /// The first label is the place of the error, the others explain it.
    pub labels: Vec<Label>,
    pub help: Vec<String>,
}

/// A place and what is to be said about it.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub place: Place,
    pub text: String,
}

impl Diagnostic {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            labels: Vec::new(),
            help: Vec::new(),
        }
    }

    /// Points at `place`; the first call names the place of the error.
    pub fn at(self, place: Place) -> Self {
        self.label(place, "")
    }

    pub fn label(mut self, place: Place, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            place,
            text: text.into(),
        });
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    pub fn help_if(self, text: Option<impl Into<String>>) -> Self {
        match text {
            Some(text) => self.help(text),
            None => self,
        }
    }
}

impl SpecError {
    pub(crate) fn new(diagnostic: Diagnostic, sources: &Sources) -> Self {
        Self(Box::new(Report {
            diagnostic,
            sources: sources.clone(),
        }))
    }

    /// An error that has no place in a text, such as a file that cannot be read.
    pub(crate) fn without_place(message: impl Into<String>) -> Self {
        Self::new(Diagnostic::new(message), &Sources::default())
    }

    /// The first line of the report, without place and snippet.
    pub fn message(&self) -> &str {
        &self.0.diagnostic.message
    }

    /// File (or `--set`, or `environment`), line and column of the error, both from 1; none where a text has no part in it.
    pub fn location(&self) -> Option<(&str, usize, usize)> {
        let label = self.0.diagnostic.labels.first()?;
        Some(self.0.sources.locate(label.place))
    }

    /// The report with colours, for a terminal.
    pub fn styled(&self) -> String {
        self.render(&Renderer::styled())
    }

    /// Without the word `error`, which whoever prints it puts in front, as for any other error.
    fn render(&self, renderer: &Renderer) -> String {
        let Report { diagnostic, sources } = &*self.0;
        let mut group = Group::with_title(Level::ERROR.no_name().primary_title(&diagnostic.message));
        for labels in by_snippet(&diagnostic.labels, sources) {
            group = group.element(snippet(&labels, diagnostic.labels.first(), sources));
        }
        group = group.elements(diagnostic.help.iter().map(|text| Level::HELP.message(text)));
        renderer.render(&[group])
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for SpecError {}

/// The labels by snippet: those of one source together, in the order in which the sources first appear. Labels far apart
/// in one long line have snippets of their own, as a snippet shows only a part of such a line.
fn by_snippet<'l>(labels: &'l [Label], sources: &Sources) -> Vec<Vec<&'l Label>> {
    const FAR: u32 = 100;
    let apart = |a: &Label, b: &Label| {
        let far = a.place.start.abs_diff(b.place.start) > FAR;
        far && sources.locate(a.place).1 == sources.locate(b.place).1
    };
    let mut groups: Vec<Vec<&Label>> = Vec::new();
    for label in labels {
        let near = |group: &&mut Vec<&Label>| {
            group[0].place.source == label.place.source && !group.iter().any(|other| apart(other, label))
        };
        match groups.iter_mut().find(near) {
            Some(group) => group.push(label),
            None => groups.push(vec![label]),
        }
    }
    groups
}

/// The lines of one source that its labels are in, annotated.
fn snippet<'a>(
    labels: &[&'a Label],
    primary: Option<&Label>,
    sources: &'a Sources,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let source = sources.get(labels[0].place.source);
    let text = source.text.as_str();
    let first = labels.iter().map(|label| label.place.start as usize).min().unwrap_or(0);
    let last = labels.iter().map(|label| label.place.end as usize).max().unwrap_or(0);
    let from = text[..floor_boundary(text, first)].rfind('\n').map_or(0, |at| at + 1);
    let until = floor_boundary(text, last.max(first));
    let until = text[until..].find('\n').map_or(text.len(), |at| until + at);
    let line = text[..from].bytes().filter(|&byte| byte == b'\n').count() + 1;
    let annotations = labels.iter().map(|label| {
        let start = floor_boundary(text, label.place.start as usize);
        let end = floor_boundary(text, label.place.end as usize).max(start);
        let kind = match primary {
            Some(primary) if std::ptr::eq(primary, *label) => AnnotationKind::Primary,
            _ => AnnotationKind::Context,
        };
        let annotation = kind.span(start - from..end - from);
        if label.text.is_empty() {
            annotation
        } else {
            annotation.label(label.text.as_str())
        }
    });
    Snippet::source(&text[from..until])
        .path(&source.name)
        .line_start(line)
        .annotations(annotations)
}
