//! Finds the data, and reads and checks its samples.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use arch::{Location, ModelConfig, locate};
use hub::{Roots, Snapshot};
use options::{Data, DataFile, DataFormat, DataOptions, DataPart as Part};

use serde_json::{Map, Value};

use super::chat_template::{ChatTemplate, Given, SpecialTokens};
use super::files::{self, Source, Stamp};
use super::form::Form;
use super::formats::{File, Place};
use super::labels::{Label, LabelValue};
use super::reading::Reading;
use super::sample::Sample;
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
    let given = file.and_then(|file| Some((file, file.chat_template.as_deref()?)));
    let given = given.map(|(file, path)| match file.named_template() {
        Some(name) if !roots.path(path).is_file() => Given::Named(name),
        _ => Given::File(roots.path(path)),
    });
    ChatTemplate::open(given, location, tokens)
}

/// Reads the samples of some files or of the sample text, with labels if they are asked for; synthetic data has none to
/// read.
pub(super) fn read(
    data: &Data,
    has_labels: bool,
    roots: &Roots,
    reading: &mut Reading,
    each: &mut EachRaw,
) -> Result<(), DataError> {
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
            let mut left = file.max_samples.unwrap_or(usize::MAX);
            for source in &sources {
                if left == 0 {
                    break;
                }
                left -= read_file(file, source, has_labels, left, reading, each)?;
            }
            Ok(())
        }
    }
}

/// Files of samples, as far as their first rows say what they are.
pub(super) struct Described {
    /// The files, with their formats.
    pub(super) files: Vec<String>,
    /// The columns of the first one.
    pub(super) columns: Vec<String>,
    pub(super) form: Option<Form>,
    pub(super) rows: usize,
}

/// Describes the data to train on, and hands on each row with all its columns.
pub(super) fn describe(
    data: &Data,
    roots: &Roots,
    each: &mut dyn FnMut(Map<String, Value>),
) -> Result<Described, DataError> {
    let mut found = Described {
        files: Vec::new(),
        columns: Vec::new(),
        form: None,
        rows: 0,
    };
    let Data::File(file) = data else {
        read(data, false, roots, &mut Reading::default(), &mut |sample, _, _| {
            found.rows += 1;
            if let Sample::Text(text) = sample {
                each(Map::from_iter([("text".to_owned(), text.into())]));
            }
            Ok(())
        })?;
        return Ok(found);
    };
    let most = file.max_samples.unwrap_or(usize::MAX);
    for source in files::sources(file, roots)? {
        let form = form_of(file, &source, false)?;
        let opened = opened(file, &source);
        let columns = opened.columns()?.unwrap_or_default();
        let readable = opened.readable_columns()?;
        found
            .files
            .push(format!("{} ({})", source.path.display(), source.format.name()));
        let all: Vec<&str> = readable.iter().map(String::as_str).collect();
        if found.rows < most && form.is_some() {
            opened.read(&[], &all, &mut |row| {
                found.rows += 1;
                each(row.values);
                Ok(found.rows < most)
            })?;
        }
        if found.form.is_none() {
            (found.form, found.columns) = (form, columns);
        }
    }
    Ok(found)
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
/// exist. What is to be fetched later is left out. Returns a sentence on what the data are taken for.
///
/// # Errors
/// Those of [`load`] that show without reading all.
pub fn check(options: &DataOptions, config: &ModelConfig, roots: &Roots) -> Result<Option<String>, KeyError> {
    let of_data = |error: DataError| KeyError::of_data(&options.data, error);
    let Checked { conversation, remark } = match &options.data {
        Data::File(file) => check_files(file, config.labels().is_some(), roots)?,
        Data::Synthetic(_) | Data::Sample => Checked::default(),
    };
    if !is_complete(roots.model(&options.model)) || matches!(options.data, Data::Synthetic(_)) {
        return Ok(remark);
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
    Ok(remark)
}

/// What the first rows of files say.
#[derive(Default)]
struct Checked {
    /// The first file that has conversations.
    conversation: Option<String>,
    /// What the data to train on are taken for.
    remark: Option<String>,
}

/// True unless the files are to be fetched later.
fn is_complete(snapshot: Option<&Snapshot>) -> bool {
    snapshot.is_none_or(|snapshot| snapshot.is_complete)
}

/// Checks the files and their columns.
fn check_files(file: &DataFile, has_labels: bool, roots: &Roots) -> Result<Checked, KeyError> {
    let (mut seen, mut conversation, mut is_fetched) = (HashSet::new(), None, true);
    let mut remark = None;
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
            if let Some(form) = form.as_ref().filter(|form| remark.is_none() && !form.is_of_texts()) {
                let columns = form.columns().into_iter().map(|column| format!("`{column}`"));
                let columns = columns.collect::<Vec<_>>().join(" and ");
                remark = Some(format!("{}: {} in {columns}", source.path.display(), form.noun()));
            }
            if conversation.is_none() && has_conversations(form.as_ref(), opened(&part.file, &source)).map_err(fail)? {
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
        _ => Ok(Checked { conversation, remark }),
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

/// True if the samples of a file are conversations, as far as its first row says.
fn has_conversations(form: Option<&Form>, file: File<'_>) -> Result<bool, DataError> {
    match form {
        Some(form) if form.is_of_conversations() => Ok(true),
        Some(form) => Ok(file
            .lists()?
            .iter()
            .any(|column| form.columns().contains(&column.as_str()))),
        None => Ok(false),
    }
}

/// A file of samples for its reader.
fn opened<'a>(file: &DataFile, source: &'a Source) -> File<'a> {
    File {
        path: &source.path,
        format: source.format,
        sample_by: file.sample_by.unwrap_or_default(),
        sep: file.sep.as_deref().and_then(|sep| sep.bytes().next()),
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
    let Some(columns) = opened(file, source).columns()? else {
        return Ok(None);
    };
    Form::choose(file, &columns, &path.display().to_string(), has_labels).map(Some)
}

/// Reads the samples of a file, `most` at most, and returns how many there were.
fn read_file(
    file: &DataFile,
    source: &Source,
    has_labels: bool,
    most: usize,
    reading: &mut Reading,
    each: &mut EachRaw,
) -> Result<usize, DataError> {
    let Some(form) = form_of(file, source, has_labels)? else {
        return Ok(0);
    };
    form.remark().into_iter().for_each(|remark| reading.take_for(remark));
    let Source { path, format } = source;
    let stamp = Stamp::of(path)?;
    let label = has_labels.then(|| file.label_column());
    let columns: Vec<&str> = form.columns().into_iter().chain(label).collect();
    let (opened, optional) = (opened(file, source), form.optional());
    let mut count = 0;
    let read = opened.read(&columns, &optional, &mut |mut row| {
        let label_value = label.and_then(|column| row.values.remove(column)).unwrap_or_default();
        let sample = form.sample(&mut row)?;
        if file.assistant_only_loss() && matches!(sample, Sample::PromptCompletion { .. }) {
            return Err(DataError::KeyOfForm {
                place: row.place.to_string(),
                key: "assistant_only_loss",
                form: "prompts and completions that are texts",
            });
        }
        let rest = row
            .values
            .iter()
            .filter(|(column, value)| !value.is_null() && !form.leaves_out(column));
        rest.for_each(|(column, _)| reading.unread(column, 1));
        let label = match label {
            None => None,
            Some(column) => {
                let value = LabelValue::of(&label_value, &row.place, column)?;
                let value = match format {
                    DataFormat::Csv | DataFormat::Tsv => value.or_integer(),
                    _ => value,
                };
                Some(Label { value, column })
            }
        };
        each(sample, row.place, label)?;
        count += 1;
        Ok(count < most)
    });
    // A file that changes meanwhile may look damaged.
    stamp.check(path)?;
    read?;
    if !opened.is_of_objects() {
        let known: Vec<&str> = columns.into_iter().chain(optional).collect();
        let others = opened.columns()?.into_iter().flatten();
        let others = others.filter(|column| !known.contains(&column.as_str()) && !form.leaves_out(column));
        others.for_each(|column| reading.unread(&column, count as u64));
    }
    Ok(count)
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
            let read = read(
                &data,
                false,
                &dir.path().into(),
                &mut Reading::default(),
                &mut |_, _, _| {
                    change();
                    count += 1;
                    Ok(())
                },
            );
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
