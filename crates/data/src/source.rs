//! Finds the data, and reads and checks its samples.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use arch::{Location, ModelConfig, locate};
use hub::{Roots, Snapshot};
use options::{Data, DataFile, DataFormat, DataOptions, DataPart as Part};

use super::chat_template::{ChatTemplate, SpecialTokens};
use super::files::{self, Source, Stamp};
use super::form::{Form, Sample};
use super::formats::{self, Place};
use super::labels::{Label, LabelValue};
use super::tokenizer;
use super::{ChatTemplateError, DataError};

/// The text of `data: sample`.
const SAMPLE: &str = include_str!("../embedded/sample.txt");

/// The callback of a reader of samples: takes each, with its label if labels are read.
type EachRaw<'a> = dyn FnMut(Sample, Place, Option<Label>) -> Result<(), DataError> + 'a;

/// The chat template that a spec names, or that of the model.
pub(super) fn template(
    file: Option<&DataFile>,
    location: &Location,
    tokens: &SpecialTokens,
    roots: &Roots,
) -> Result<ChatTemplate, ChatTemplateError> {
    let given = file.and_then(|file| file.chat_template.as_deref());
    ChatTemplate::open(given.map(|path| roots.path(path)).as_deref(), location, tokens)
}

/// Reads the samples of some files or of the sample text, with labels if they are asked for; synthetic data has none to
/// read.
pub(super) fn read(data: &Data, has_labels: bool, roots: &Roots, each: &mut EachRaw) -> Result<(), DataError> {
    match data {
        Data::Synthetic(_) => Ok(()),
        Data::Sample if has_labels => Err(DataError::Unlabelled {
            origin: origin(data, roots),
        }),
        Data::Sample => {
            let mut paragraphs = SAMPLE.split("\n\n").map(str::trim_end);
            let place = Place::line(&Path::new("sample text").into(), 1);
            paragraphs.try_for_each(|text| each(Sample::Text(text.into()), place.clone(), None))
        }
        Data::File(file) => {
            let sources = files::sources(file, roots)?;
            sources
                .iter()
                .try_for_each(|source| read_file(file, source, has_labels, each))
        }
    }
}

/// The name of the data, for messages.
pub(super) fn origin(data: &Data, roots: &Roots) -> String {
    match data {
        Data::Synthetic(_) => "synthetic data".into(),
        Data::Sample => "sample text".into(),
        Data::File(file) => {
            let name = |path: &str| match roots.data_set(path) {
                Some(_) => path.to_owned(),
                None => roots.path(path).display().to_string(),
            };
            file.path.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A mistake in the data, and the key that names it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct KeyError {
    /// The key, such as `data.eval_path`.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The mistake.
    #[source]
    pub error: Box<DataError>,
}

impl KeyError {
    /// A mistake in the data as a whole.
    fn of_data(data: &Data, error: impl Into<DataError>) -> Self {
        let (key, value) = match data {
            Data::Synthetic(_) => ("data", "synthetic".into()),
            Data::Sample => ("data", "sample".into()),
            Data::File(file) => ("data.path", file.path.to_string()),
        };
        let error = Box::new(error.into());
        Self { key, value, error }
    }

    /// A mistake in a part of the data.
    fn of_part(part: &Part, error: DataError) -> Self {
        let (key, value) = match (&error, &part.split) {
            (DataError::Split { .. } | DataError::SplitOfFile { .. }, Some((key, split))) => (*key, split.clone()),
            _ => (part.key, part.file.path.to_string()),
        };
        let error = Box::new(error);
        Self { key, value, error }
    }
}

/// Checks the data without reading all of it: the files, the columns, the model's tokenizer and its chat template
/// exist. What is to be fetched later is left out.
///
/// # Errors
/// Those of [`load`] that show without reading all.
pub fn check(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<(), KeyError> {
    let of_data = |error: DataError| KeyError::of_data(&options.data, error);
    let conversation = match &options.data {
        Data::File(file) => check_files(file, config.labels().is_some(), roots)?,
        Data::Synthetic(_) | Data::Sample => None,
    };
    if !is_complete(roots.model(&options.model)) || matches!(options.data, Data::Synthetic(_)) {
        return Ok(());
    }
    let location = locate(&options.model, roots).map_err(|error| of_data(error.into()))?;
    if let Location::Directory(dir) = &location {
        let path = tokenizer::path(dir);
        if !path.is_file() {
            return Err(of_data(DataError::NoTokenizer { path }));
        }
    }
    if let (Data::File(file), Some(place)) = (&options.data, conversation) {
        let found = SpecialTokens::of(&location).and_then(|tokens| template(Some(file), &location, &tokens, roots));
        found.map_err(|error| {
            let (key, value) = match &file.chat_template {
                Some(given) => ("data.chat_template", given.clone()),
                None => ("data.path", file.path.to_string()),
            };
            let error = Box::new(DataError::ChatTemplate { place, error });
            KeyError { key, value, error }
        })?;
    }
    Ok(())
}

/// True unless the files are to be fetched later.
fn is_complete(snapshot: Option<&Snapshot>) -> bool {
    snapshot.is_none_or(|snapshot| snapshot.is_complete)
}

/// Checks the files and their columns. Returns the first file that has conversations.
fn check_files(file: &DataFile, has_labels: bool, roots: &Roots) -> Result<Option<String>, KeyError> {
    let (mut seen, mut conversation, mut is_fetched) = (HashSet::new(), None, true);
    for part in file.parts() {
        if !part.file.path.iter().all(|path| is_complete(roots.data_set(path))) {
            is_fetched = false;
            continue;
        }
        let fail = |error| KeyError::of_part(&part, error);
        for source in files::sources(&part.file, roots).map_err(fail)? {
            if !seen.insert(identity(&source.path, &part.file, roots)) {
                return Err(fail(DataError::Twice { path: source.path }));
            }
            let form = form_of(&part.file, &source, has_labels).map_err(fail)?;
            if conversation.is_none() && has_conversations(form.as_ref(), &source).map_err(fail)? {
                conversation = Some(source.path.display().to_string());
            }
        }
    }
    match &file.chat_template {
        Some(given) if is_fetched && conversation.is_none() => Err(KeyError {
            key: "data.chat_template",
            value: given.clone(),
            error: Box::new(DataError::KeyOfForm {
                place: file.path.iter().collect::<Vec<_>>().join(", "),
                key: "chat_template",
                form: "texts",
            }),
        }),
        _ => Ok(conversation),
    }
}

/// The path that tells a file from others, whatever links lead to it. The hub's cache has a link for each name of a data
/// set, and one file for names of equal content.
fn identity(path: &Path, file: &DataFile, roots: &Roots) -> PathBuf {
    let mut sets = file.path.iter().filter_map(|path| roots.data_set(path));
    let is_of_hub = sets.any(|set| path.starts_with(&set.dir));
    let found = match (is_of_hub, path.parent(), path.file_name()) {
        (true, Some(folder), Some(name)) => folder.canonicalize().map(|folder| folder.join(name)),
        _ => path.canonicalize(),
    };
    found.unwrap_or_else(|_| path.to_owned())
}

/// True if the samples of a file are lists of messages, as far as its first row says.
fn has_conversations(form: Option<&Form>, source: &Source) -> Result<bool, DataError> {
    match form {
        Some(Form::Messages(_)) => Ok(true),
        Some(Form::PromptCompletion { prompt, completion }) => {
            let lists = formats::lists(&source.path, source.format)?;
            Ok(lists.iter().any(|column| column == prompt || column == completion))
        }
        Some(Form::Text(_)) | None => Ok(false),
    }
}

/// The form of a file's samples; `None` if it has none.
fn form_of(file: &DataFile, source: &Source, has_labels: bool) -> Result<Option<Form>, DataError> {
    let Source { path, format } = source;
    files::check(path)?;
    if *format == DataFormat::Text {
        if has_labels {
            return Err(DataError::Unlabelled {
                origin: path.display().to_string(),
            });
        }
        if let Some((key, column)) = file.columns().next() {
            return Err(DataError::ColumnOfText {
                path: path.clone(),
                key,
                column: column.into(),
            });
        }
    }
    let Some(columns) = formats::columns(path, *format)? else {
        return Ok(None);
    };
    Form::choose(file, &columns, &path.display().to_string(), has_labels).map(Some)
}

fn read_file(file: &DataFile, source: &Source, has_labels: bool, each: &mut EachRaw) -> Result<(), DataError> {
    let Some(form) = form_of(file, source, has_labels)? else {
        return Ok(());
    };
    let Source { path, format } = source;
    let stamp = Stamp::of(path)?;
    let labels = has_labels.then(|| file.label_column());
    let columns: Vec<&str> = form.columns().into_iter().chain(labels).collect();
    let read = formats::read(path, *format, &columns, &mut |mut row| {
        let sample = form.sample(&mut row)?;
        if file.assistant_only_loss() && matches!(sample, Sample::PromptCompletion { .. }) {
            return Err(DataError::KeyOfForm {
                place: row.place.to_string(),
                key: "assistant_only_loss",
                form: "prompts and completions that are texts",
            });
        }
        let label = match labels {
            None => None,
            Some(column) => {
                let value = LabelValue::of(&row.values[column], &row.place, column)?;
                let value = match format {
                    DataFormat::Csv => value.or_integer(),
                    _ => value,
                };
                Some(Label { value, column })
            }
        };
        each(sample, row.place.clone(), label)
    });
    // A file that changes meanwhile may look damaged.
    stamp.check(path)?;
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_while_it_is_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let line = "{\"text\": \"a\"}\n";
        std::fs::write(&path, line.repeat(3)).unwrap();
        let data = Data::from(DataFile::new("a.jsonl"));
        let read_with = |change: &dyn Fn()| {
            let mut count = 0;
            let read = read(&data, false, &dir.path().into(), &mut |_, _, _| {
                change();
                count += 1;
                Ok(())
            });
            read.map(|()| count).map_err(|error| error.to_string())
        };
        assert_eq!(read_with(&|| {}), Ok(3));
        // What is read of a file that is being written may look damaged; that is not what is wrong with it.
        let message = read_with(&|| std::fs::write(&path, "{").unwrap()).unwrap_err();
        assert!(
            message.ends_with("a.jsonl: the file changed while it was read; wait until it is complete, and run again")
        );
    }
}
