//! Templates: the built-in ones, and a user's own, which can read its own folder alone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use base::bounds::{Bounds, bounded};
use base::foreign;
use base::guarded::on_deep_stack;
use base::whole_file;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, syntax::SyntaxConfig};
use spec::TEMPLATES;

use super::error::ReportError;

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../templates/", $name)))),*]
    };
}

/// The templates in the binary. A user's own template can include the parts by their names here.
const BUILT_IN: &[(&str, &str)] = &built_in![
    "claims.md.j2",
    "comparison.md.j2",
    "method_comparison.md.j2",
    "profiler_vs_epoch.md.j2",
    "plan.md.j2",
    "accuracy.md.j2",
    "verdicts.md.j2",
    "parts/answer.md.j2",
    "parts/assumptions.md.j2",
    "parts/cells.md.j2",
    "parts/ladder.md.j2",
    "parts/charts.md.j2",
    "parts/claims.md.j2",
    "parts/offload.md.j2",
    "parts/paste.md.j2",
    "parts/predicted.md.j2",
    "parts/published.md.j2",
    "parts/reserved_growth.md.j2",
    "parts/setup.md.j2",
    "parts/unfinished.md.j2",
    "parts/provenance.md.j2",
    "parts/resolved.md.j2",
    "parts/timeline.md.j2",
    "parts/tensors.md.j2",
];

/// The source of a report's template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// One of the templates in the binary.
    BuiltIn(&'static str),
    /// A user's own template.
    File(PathBuf),
}

/// Instructions of one's own template: a second's work, and ten times that of the largest report that ships.
const FUEL: u64 = 4_000_000;

/// As many more for each cell: ten times those of a report that ships.
const FUEL_OF_CELL: u64 = 20_000;

/// What one's own template may take for a report of some cells: the largest one that ships takes a tenth of a second.
fn bounds(cells: usize) -> Bounds {
    Bounds {
        bytes: 640 << 20,
        time: Duration::from_millis(2000 + 5 * cells as u64),
    }
}

impl Template {
    /// The built-in template of this name, or else a file.
    pub fn named(name: &str) -> Self {
        match TEMPLATES.into_iter().find(|built_in| *built_in == name) {
            Some(name) => Self::BuiltIn(name),
            None => Self::File(PathBuf::from(name)),
        }
    }

    /// Does the template's work for so many cells. That of somebody's own template is bounded: it may nest deep, and grow a text for ever.
    pub(super) fn work<T: Send>(
        &self,
        cells: usize,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, ReportError> {
        // An error may hold what nests deep, and is freed on the same stack.
        let explained = || work().map_err(|error| self.explain(&error));
        let done = match self {
            Self::BuiltIn(_) => Ok(explained()),
            Self::File(path) => on_deep_stack(|| {
                bounded(
                    format_args!("the template {}", path.display()),
                    bounds(cells),
                    explained,
                )
            }),
        };
        let done = done.unwrap_or_else(|error| Err(format!("no thread can be started for the template: {error}")));
        done.map_err(ReportError::Template)
    }

    /// An environment that can load the template of a report of so many cells, and the template's name in it.
    pub(super) fn environment(&self, cells: usize) -> Result<(Environment<'static>, String), ReportError> {
        let mut env = Environment::new();
        env.set_fuel(matches!(self, Self::File(_)).then_some(FUEL + FUEL_OF_CELL * cells as u64));
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        // Errors then carry the place in the source.
        env.set_debug(true);
        if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
            env.set_syntax(syntax);
        }
        match self {
            Self::BuiltIn(name) => {
                env.set_loader(|name| Ok(built_in(name)));
                Ok((env, format!("{name}.md.j2")))
            }
            Self::File(path) => {
                let folder = folder_of(path).map_err(|source| ReportError::TemplateFile {
                    path: path.clone(),
                    source,
                })?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                env.set_loader(move |name| load(&folder, name));
                Ok((env, name))
            }
        }
    }

    /// Makes sure that the template can be read and parsed, before hours of training.
    ///
    /// # Errors
    /// The file cannot be read, or has wrong syntax.
    pub fn verify(&self) -> Result<(), ReportError> {
        let (env, name) = self.environment(0)?;
        self.work(0, || env.get_template(&name).map(drop))
    }

    /// The message of an error, with its file, line and source.
    pub(super) fn explain(&self, error: &Error) -> String {
        let error = innermost(error);
        let title = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        let (Some(name), Some(source), Some(line)) = (error.name(), error.template_source(), error.line()) else {
            return title;
        };
        let path = match self {
            Self::File(path) if built_in(name).is_none() => path.with_file_name(name).display().to_string(),
            _ => format!("templates/{name}"),
        };
        let range = error
            .range()
            .filter(|range| range.end <= source.len() && !range.is_empty());
        let range = range.unwrap_or_else(|| line_range(source, line));
        let snippet = Snippet::source(source)
            .path(path)
            .annotation(AnnotationKind::Primary.span(range));
        let shown = Renderer::plain().render(&[Level::ERROR.primary_title(title).element(snippet)]);
        // The caller adds the word `error`.
        shown.strip_prefix("error: ").unwrap_or(&shown).to_string()
    }
}

/// The folder of a file, which must exist.
fn folder_of(file: &Path) -> io::Result<PathBuf> {
    foreign::open(file)?;
    whole_file::folder_of(file).canonicalize()
}

fn built_in(wanted: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find(|(name, _)| *name == wanted)
        .map(|(_, source)| *source)
}

/// A file in the template's folder or below it, or else a built-in template. Neither `..` nor a link leads out.
fn load(folder: &Path, name: &str) -> Result<Option<String>, Error> {
    let stays = name
        .split('/')
        .all(|part| !part.is_empty() && !part.starts_with('.') && !part.contains('\\'));
    if !stays {
        return Ok(None);
    }
    let path = folder.join(name);
    match path.canonicalize() {
        Ok(real) if !real.starts_with(folder) => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("`{name}` leads out of the template's folder"),
        )),
        Ok(real) => foreign::read_template(&real).map(Some).map_err(|error| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("cannot read `{}`: {error}", path.display()),
            )
        }),
        Err(_) => Ok(built_in(name).map(str::to_string)),
    }
}

/// The innermost error: one in an included template is the source of the including template's.
fn innermost(error: &Error) -> &Error {
    let mut found = error;
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        if let Some(inner) = source.downcast_ref::<Error>()
            && inner.line().is_some()
        {
            found = inner;
        }
        next = source.source();
    }
    found
}

fn line_range(source: &str, line: usize) -> std::ops::Range<usize> {
    let start: usize = source
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let length = source[start..].lines().next().map_or(0, str::len);
    start..start + length
}
