//! The report of the mistakes in a spec.

use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use yaml::diagnostic::{Diagnostic, Label, Mistakes};
use yaml::place::{Source, SourceKind, Sources, floor_boundary};

use super::as_setting::as_settings;

/// More reports than this tell the user no more.
const MOST_SHOWN: usize = 20;

/// The mistakes in the user's input, ordered by place. `Display` is a full report: each mistake with file, line,
/// column, text and help; and their number, if there are several.
#[derive(Debug)]
pub struct SpecError {
    /// At least one.
    mistakes: Vec<Diagnostic>,
    sources: Arc<Sources>,
}

impl SpecError {
    /// One mistake in these texts.
    pub fn new(mistake: Diagnostic, sources: &Arc<Sources>) -> Self {
        Self {
            mistakes: vec![for_its_source(mistake, sources)],
            sources: Arc::clone(sources),
        }
    }

    /// All `mistakes` together; `None` if there are none.
    pub fn all(mistakes: Mistakes, sources: &Arc<Sources>) -> Option<Self> {
        (!mistakes.is_empty()).then(|| Self {
            mistakes: mistakes
                .in_order()
                .into_iter()
                .map(|mistake| for_its_source(mistake, sources))
                .collect(),
            sources: Arc::clone(sources),
        })
    }

    /// An error that has no place in a text, such as a file that cannot be read.
    pub fn without_place(message: impl Into<String>) -> Self {
        Self::new(Diagnostic::new(message), &Arc::default())
    }

    /// The message of the first mistake, without place and snippet.
    pub fn message(&self) -> &str {
        &self.mistakes[0].message
    }

    /// How many mistakes there are.
    pub fn count(&self) -> usize {
        self.mistakes.len()
    }

    /// The report with colours, for a terminal.
    pub fn styled(&self) -> String {
        self.render(&Renderer::styled())
    }

    /// The first report is without the word `error`: the caller prints it, as for any other error.
    fn render(&self, renderer: &Renderer) -> String {
        let mut reports: Vec<String> = Vec::new();
        for mistake in self.mistakes.iter().take(MOST_SHOWN) {
            let level = if reports.is_empty() {
                Level::ERROR.no_name()
            } else {
                Level::ERROR
            };
            let mut group = Group::with_title(level.primary_title(&mistake.message));
            for labels in by_snippet(&mistake.labels, &self.sources) {
                group = self.shown(group, &labels, mistake.labels.first());
            }
            group = group.elements(mistake.help.iter().map(|text| Level::HELP.message(text)));
            reports.push(renderer.render(&[group]));
        }
        if self.count() > 1 {
            reports.push(renderer.render(&[Group::with_title(Level::ERROR.primary_title(self.summary()))]));
        }
        reports.join("\n\n")
    }

    /// The labels of one source: its lines if it has some, else what was given.
    fn shown<'a>(&'a self, group: Group<'a>, labels: &[&'a Label], primary: Option<&Label>) -> Group<'a> {
        let source = self.sources.get(labels[0].place.source);
        match source.kind {
            SourceKind::Argument if labels.iter().all(|label| is_part(label, source)) => {
                group.element(Origin::path(given(source)))
            }
            SourceKind::Generated => {
                let mut shown: Vec<String> = labels.iter().map(|label| generated(label, source)).collect();
                shown.dedup();
                group.elements(shown.into_iter().map(Origin::path))
            }
            SourceKind::File | SourceKind::Argument => group.element(snippet(labels, primary, source)),
        }
    }

    /// How many mistakes there are, and in which text.
    fn summary(&self) -> String {
        let source = |mistake: &Diagnostic| mistake.place().map_or(0, |place| place.source);
        let more = match self.count().saturating_sub(MOST_SHOWN) {
            0 => String::new(),
            more => format!("; {more} more are not shown"),
        };
        if self.sources.get(0).kind == SourceKind::Generated {
            return format!("{} mistakes in the command line{more}", self.count());
        }
        let overrides = if self.mistakes.iter().any(|mistake| source(mistake) > 0) {
            " and its overrides"
        } else {
            ""
        };
        format!(
            "{} mistakes in {}{overrides}{more}",
            self.count(),
            self.sources.get(0).name
        )
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(&Renderer::plain()))
    }
}

impl std::error::Error for SpecError {}

/// The labels by snippet: those of one source together, in the order in which the sources first appear. Labels far
/// apart in one long line have snippets of their own, as a snippet shows only a part of such a line.
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

/// The argument as it was given.
fn given(source: &Source) -> String {
    format!("{} {}", source.name, source.text)
}

/// The argument that stands for keys, with the key that is meant.
fn generated(label: &Label, source: &Source) -> String {
    let text = source.text.as_str();
    let at = floor_boundary(text, label.place.start as usize);
    let from = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = text[from..].lines().next().unwrap_or_default();
    match line.trim() {
        "" => source.name.clone(),
        line => format!("{} ({})", source.name, line.replace('"', "")),
    }
}

/// True if a label is on the key or the value of a short argument, or on all of it: no place in it needs to be shown.
fn is_part(label: &Label, source: &Source) -> bool {
    let (start, end, text) = (
        label.place.start as usize,
        label.place.end as usize,
        source.text.as_str(),
    );
    let key_end = text.find('=').unwrap_or(text.len());
    let is_key_or_value = start == 0 || start == key_end + 1 && end >= text.trim_end().len();
    is_key_or_value && !text.contains('\n')
}

/// The lines of one source that its labels are in, annotated.
fn snippet<'a>(
    labels: &[&'a Label],
    primary: Option<&Label>,
    source: &'a Source,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let text = source.text.as_str();
    let first = labels.iter().map(|label| label.place.start as usize).min().unwrap_or(0);
    let last = labels.iter().map(|label| label.place.end as usize).max().unwrap_or(0);
    let from = text[..floor_boundary(text, first)].rfind('\n').map_or(0, |at| at + 1);
    let until = floor_boundary(text, last.max(first));
    let until = text[until..].find('\n').map_or(text.len(), |at| until + at);
    // An argument stands behind its name.
    let name = match source.kind {
        SourceKind::File => String::new(),
        _ => format!("{} ", source.name),
    };
    let annotations = labels.iter().map(|label| {
        let start = floor_boundary(text, label.place.start as usize);
        let end = floor_boundary(text, label.place.end as usize).max(start);
        let kind = match primary {
            Some(primary) if std::ptr::eq(primary, *label) => AnnotationKind::Primary,
            _ => AnnotationKind::Context,
        };
        let annotation = kind.span(start - from + name.len()..end - from + name.len());
        if label.text.is_empty() {
            annotation
        } else {
            annotation.label(label.text.as_str())
        }
    });
    let snippet = Snippet::source(name.clone() + &text[from..until]).annotations(annotations);
    match source.kind {
        SourceKind::File => {
            let line = text[..from].bytes().filter(|&byte| byte == b'\n').count() + 1;
            snippet.path(&source.name).line_start(line)
        }
        _ => snippet,
    }
}

/// The mistake in the words of where it was made: a key of the command line is below no section, and is mended there.
fn for_its_source(mut mistake: Diagnostic, sources: &Sources) -> Diagnostic {
    let Some(place) = mistake.place() else { return mistake };
    let source = sources.get(place.source);
    if source.kind == SourceKind::File {
        return mistake;
    }
    if let Some(key) = mistake.message.strip_prefix("defaults.") {
        mistake.message = key.to_owned();
    }
    if source.name.starts_with('-') {
        let is_named = sources.get(0).kind == SourceKind::Generated;
        mistake
            .help
            .iter_mut()
            .for_each(|help| *help = as_settings(help, is_named));
    }
    mistake
}
