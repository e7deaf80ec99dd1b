//! The check of a study before its first cell runs. A missing model, file or device is a mistake in the spec, not an
//! outcome of a cell.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use arch::ModelConfig;
use base::text::{Mistake, to_flow_yaml};
use cell::{Cell, Device, Engine, Stack};
use data::{DataError, KeyError};
use hub::{HubError, Roots};
use model::{ModelError, Source};
use options::{InstructionSet, NoCuda};
use peft::AdapterError;
use records::WorkerMachine;
use spec::{Study, StudyCell, key_in_front};

/// A value of a cell that cannot be used for training.
#[derive(Debug, thiserror::Error)]
#[error("{place}: `{key}: {value}`{cell}")]
pub struct PreflightError {
    /// File, line and column, or what stands in the place of a file.
    place: String,
    /// The cell in brackets, if it is one of several.
    cell: String,
    key: &'static str,
    value: String,
    #[source]
    reason: Box<Reason>,
}

/// What is wrong with the value.
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error("{error}{hint}")]
    Hub { error: HubError, hint: String },
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    #[error(transparent)]
    Device(#[from] NoCuda),
    #[error("the worker's build has no such allocator; it has {offered}")]
    Backend { offered: String },
    #[error("this CPU has no more than `{best}`")]
    InstructionSet { best: &'static str },
    #[error("{0}")]
    Names(Mistake),
    #[error("{0}")]
    Positions(String),
    #[error("{0}")]
    Python(String),
    #[error(
        "cells of this stack are planned and not run, and there are no others; `expctl plan {spec}` says what they take, and \
         `--engine python` runs them with a Python that has PyTorch"
    )]
    Stack { spec: String },
}

impl PreflightError {
    /// `value` of `key`, which `study_cell` has in this study. A reason that begins with another key is placed at that
    /// one.
    pub(super) fn new(
        study: &Study,
        study_cell: &StudyCell,
        key: &'static str,
        value: impl Into<String>,
        reason: Reason,
    ) -> Self {
        let message = reason.to_string();
        Self {
            place: study.place_of(study_cell, key_in_front(&message).unwrap_or(key)),
            cell: study.name_in_study(study_cell),
            key,
            value: value.into(),
            reason: Box::new(reason),
        }
    }

    /// `value` of `key`, which an option of its name gives.
    pub(super) fn of_option(key: &'static str, value: impl Into<String>, reason: Reason) -> Self {
        Self {
            place: format!("--{key}"),
            cell: String::new(),
            key,
            value: value.into(),
            reason: Box::new(reason),
        }
    }
}

/// Checks the models and data of all cells, each once, without reading weights or texts, and that the worker's machine
/// has their devices, allocators and instruction sets. Skips cells that are not due, or planned and not run. Gives
/// remarks on the models.
///
/// # Errors
/// The first value that is missing, damaged, or not for the worker's build or machine.
pub fn preflight(
    study: &Study,
    machine: Option<&WorkerMachine>,
    is_due: impl Fn(&StudyCell) -> bool,
) -> Result<Vec<String>, PreflightError> {
    let roots = study.roots();
    let (mut configs, mut remarks) = (HashMap::new(), BTreeSet::new());
    let (mut seen, mut seen_adapters, mut seen_texts) = (HashSet::new(), HashSet::new(), HashSet::new());
    for study_cell in &study.cells {
        let cell = &study_cell.cell;
        let fail =
            |key, value: &dyn ToString, reason| PreflightError::new(study, study_cell, key, value.to_string(), reason);
        if study_cell.cell.engine().is_none() || !is_due(study_cell) {
            continue;
        }
        let config = match configs.entry(opened(cell)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let config = open_model(cell, &roots).map_err(|error| fail("model", &cell.model, error.into()))?;
                remarks.extend(config.remark().map(|remark| format!("{}: {remark}", cell.model)));
                new.insert(config)
            }
        };
        if let (Some(path), Some(adapter)) = (&cell.init_adapter, &cell.model_options().adapter)
            && seen_adapters.insert((path, format!("{adapter:?}")))
        {
            peft::check_options(&roots.path(path), adapter)
                .map_err(|error| fail("init_adapter", path, error.into()))?;
        }
        let named = cell.adapter_config.as_deref().unwrap_or_default();
        plan::check_norms(cell, config, &roots).map_err(|error| fail("adapter_config", &named, error.into()))?;
        let most = config.max_position_embeddings;
        let own = cell.model_options().virtual_tokens();
        if own + cell.data_options().longest_sequence() > most {
            let reason = Reason::Positions(arch::check::positions(&cell.model, most, own));
            return Err(fail("max_seq_length", &cell.max_seq_length, reason));
        }
        if let Some(text) = &cell.prompt_tuning.init_text
            && seen_texts.insert((cell.model.as_str(), text))
        {
            let location = arch::locate(&cell.model, &roots).map_err(ModelError::from);
            let location = location.map_err(|error| fail("model", &cell.model, error.into()))?;
            data::tokens_of_text(text, &location, config)
                .map_err(|error| fail("prompt_tuning.init_text", text, error.into()))?;
        }
        if let Err((key, mistake)) = cell.check_names_in(config) {
            return Err(fail(key, &to_flow_yaml(&cell.value(key)), Reason::Names(mistake)));
        }
        // Python says for itself what its machine has.
        let ours = machine.filter(|_| cell.engine() == Some(Engine::Candle));
        let allocator = cell.backend().name();
        if let Some(machine) = ours.filter(|machine| !machine.allocators.iter().any(|name| name == allocator)) {
            let offered = machine.allocators.join(", ");
            return Err(fail("allocator.backend", &allocator, Reason::Backend { offered }));
        }
        if let Some(reason) = ours.and_then(|machine| lacks(cell, machine)) {
            return Err(fail("instruction_set", &cell.instruction_set.name(), reason));
        }
        let data = cell.value("data").to_string();
        if seen.insert((cell.model.as_str(), data, config.labels(), cell.device_name())) {
            let checked = data::check(&cell.data_options(), config, &roots);
            let remark = checked.map_err(|KeyError { key, value, error }| fail(key, &value, (*error).into()))?;
            remarks.extend(remark.map(|remark| format!("data: {remark}")));
            let device = cell.device().unwrap_or(Device::Cpu);
            device
                .check(ours.is_none_or(|machine| machine.cuda))
                .map_err(|error| fail("device", &cell.device_name(), error.into()))?;
        }
    }
    Ok(remarks.into_iter().collect())
}

/// Checks that some cells have an engine; the others are planned.
///
/// # Errors
/// If none has.
pub fn trainable(study: &Study) -> Result<(), PreflightError> {
    let Some(first) = study
        .cells
        .first()
        .filter(|_| study.cells.iter().all(|study_cell| study_cell.cell.engine().is_none()))
    else {
        return Ok(());
    };
    let spec = study.directory.join(&study.file).display().to_string();
    Err(PreflightError {
        // It is true of all cells.
        cell: String::new(),
        ..PreflightError::new(study, first, "stack", "torch", Reason::Stack { spec })
    })
}

/// The shape of a cell's model. Its files are looked at, unless only its description was fetched.
fn open_model(cell: &Cell, roots: &Roots) -> Result<ModelConfig, ModelError> {
    let options = cell.model_options();
    if cell.engine() == Some(Engine::Python) {
        return Ok(arch::open(&options, Stack::Torch, roots)?);
    }
    match roots.model(&cell.model) {
        Some(snapshot) if !snapshot.is_complete => Ok(arch::open(&options, Stack::Candle, roots)?),
        _ => Ok(Source::open(&options, roots)?.config().clone()),
    }
}

/// The options that decide if a cell's model can be opened, as text.
fn opened(cell: &Cell) -> String {
    format!("{:?}", cell.model_options().of_any_length())
}

/// The reason why the kernels that the cell asks for cannot run on the worker's CPU.
fn lacks(cell: &Cell, machine: &WorkerMachine) -> Option<Reason> {
    let best = InstructionSet::named(&machine.instruction_set)?;
    let asked = cell.instruction_set.level()?;
    (asked > best).then(|| Reason::InstructionSet { best: best.name() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::error::Error as _;
    use std::fs;
    use std::path::Path;

    use records::{Machine, schema};
    use spec::Overrides;

    use super::*;

    /// A machine without tiles; the worker's build has no CUDA.
    fn machine() -> WorkerMachine {
        WorkerMachine {
            protocol: schema::VERSION,
            machine: Machine {
                cpu: "An Example CPU".into(),
                cores: 2,
                memory_bytes: Some(8 << 30),
                os: "Linux 6.1".into(),
            },
            engine: "expctl".into(),
            instruction_set: "avx512".into(),
            auto_instruction_set: "avx512".into(),
            allocators: vec!["system".into(), "retain".into(), "mimalloc".into()],
            cuda: false,
            releases: BTreeMap::new(),
            gpus: Vec::new(),
            available_bytes: None,
            import_error: None,
        }
    }

    /// The error of a spec with these defaults and this sweep in `folder`, without the folder and the cell's id; empty
    /// if there is none.
    fn checked(folder: &Path, defaults: &str, sweep: &str) -> String {
        let text = format!("name: x\ndefaults: {{{defaults}}}\n{sweep}\n");
        let study = spec::parse(&folder.join("x.yaml"), &text, &Overrides::default()).unwrap();
        let describe = |error: PreflightError| format!("{error}: {}", error.source().unwrap());
        let checked = trainable(&study).and_then(|()| preflight(&study, Some(&machine()), |_| true));
        let message = checked.map_or_else(describe, |_| String::new());
        let message = message.replace(&format!("{}/", folder.display()), "");
        match message.split_once(" (cell ") {
            Some((before, after)) => format!("{before}{}", &after[after.find(')').unwrap() + 1..]),
            None => message,
        }
    }

    #[test]
    fn what_is_not_there_is_named_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let checked = |defaults: &str| checked(folder.path(), defaults, "");
        fs::write(folder.path().join("empty.txt"), "").unwrap();
        fs::write(folder.path().join("good.txt"), "text").unwrap();
        fs::create_dir(folder.path().join("folder.txt")).unwrap();
        assert_eq!(checked("model: tiny, data: {path: good.txt}, max_seq_length: 512"), "");
        for (defaults, expected) in [
            ("model: ./nowhere", ": `model: ./nowhere`: unknown model"),
            (
                "model: ./folder.txt",
                ": `model: ./folder.txt`: cannot read ./folder.txt/config.json",
            ),
            (
                "data: {path: no.txt}",
                ": `data.path: no.txt`: cannot read no.txt: No such file",
            ),
            (
                "data: {path: empty.txt}",
                ": `data.path: empty.txt`: empty.txt: the file is empty",
            ),
            (
                "data: {path: folder.txt}",
                ": `data.path: folder.txt`: folder.txt: it has no files that can be read",
            ),
            (
                "model: llama-2-7b, stack: torch",
                ": `stack: torch`: cells of this stack are planned and not run, and there are no others; `expctl plan x.yaml` says",
            ),
            (
                "model: tiny, max_seq_length: 513",
                ": `max_seq_length: 513`: the model `tiny` has 512 positions",
            ),
        ] {
            let found = checked(defaults);
            assert!(found.starts_with("x.yaml:2:") && found.contains(expected), "{found}");
        }
        assert_eq!(
            checked("model: tiny, instruction_set: portable, allocator: {backend: mimalloc}"),
            ""
        );
        for (keys, expected) in [
            ("instruction_set: amx", "this CPU has no more than `avx512`"),
            ("device: cuda:0", "this build has no CUDA"),
        ] {
            let found = checked(&format!("model: tiny, {keys}"));
            assert!(found.contains(expected), "{found}");
        }
        assert_eq!(checked("model: tiny, instruction_set: avx512"), "");
    }

    #[test]
    fn an_allocator_that_the_workers_build_has_not_is_named() {
        let text = "name: x\ndefaults: {model: tiny, allocator: {backend: retain}}\n";
        let study = spec::parse(Path::new("x.yaml"), text, &Overrides::default()).unwrap();
        let machine = WorkerMachine {
            allocators: vec!["mimalloc".into()],
            ..machine()
        };
        let error = preflight(&study, Some(&machine), |_| true).unwrap_err();
        assert!(
            error
                .source()
                .unwrap()
                .to_string()
                .contains("no such allocator; it has mimalloc")
        );
    }

    #[test]
    fn each_cells_data_is_checked_as_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.jsonl"), "{\"text\": \"a\", \"words\": \"b\"}\n").unwrap();
        fs::write(folder.path().join("b.jsonl"), "{\"text\": \"a\"}\n").unwrap();
        fs::create_dir(folder.path().join("texts")).unwrap();
        fs::write(folder.path().join("texts/x.txt"), "a").unwrap();
        fs::write(
            folder.path().join("chats.jsonl"),
            "{\"prompt\": [{\"role\": \"user\"}], \"completion\": [{\"role\": \"assistant\"}]}\n",
        )
        .unwrap();
        let axis = |data: &str| format!("sweep: {{grid: {{data: [{{path: a.jsonl}}, {{{data}}}]}}}}");
        for (data, expected) in [
            (
                "path: a.jsonl, column: word",
                "`data.path: a.jsonl`: a.jsonl: no column `word`; there are: text, words; did you mean `words`?",
            ),
            (
                "path: a.jsonl, eval_path: b.jsonl, column: words",
                "`data.eval_path: b.jsonl`: b.jsonl: no column `words`",
            ),
            (
                "path: a.jsonl, eval_path: ./a.jsonl",
                "`data.eval_path: ./a.jsonl`: ./a.jsonl: the file is named twice",
            ),
            (
                "path: a.jsonl, eval_split: test",
                "`data.eval_split: test`: a.jsonl: neither a folder nor a data set",
            ),
            (
                "path: texts, prompt_column: p",
                ": `data.path: texts`: texts/x.txt: a text file has no columns; remove `prompt_column: p`",
            ),
            (
                "path: chats.jsonl",
                "`data.path: chats.jsonl`: chats.jsonl: the preset `tiny`: no chat template",
            ),
            (
                "path: chats.jsonl, chat_template: no.jinja",
                "`data.chat_template: no.jinja`: chats.jsonl: cannot read no.jinja",
            ),
            (
                "path: a.jsonl, chat_template: no.jinja",
                "`data.chat_template: no.jinja`: a.jsonl: `chat_template` is not for texts",
            ),
        ] {
            let found = checked(folder.path(), "model: tiny", &axis(data));
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn text_needs_the_tokenizer_of_a_model_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/tiny_llama");
        fs::create_dir(folder.path().join("model")).unwrap();
        fs::copy(fixture.join("config.json"), folder.path().join("model/config.json")).unwrap();
        let model = "model: ./model, weights: random, max_seq_length: 8";
        assert_eq!(checked(folder.path(), model, ""), "");
        let text = checked(folder.path(), &format!("{model}, data: sample"), "");
        assert!(
            text.contains(": `data: sample`: ./model/tokenizer.json: no tokenizer"),
            "{text}"
        );
        let pretrained = checked(folder.path(), "model: ./model, max_seq_length: 8", "");
        assert!(pretrained.contains("no weights"), "{pretrained}");
    }
}
