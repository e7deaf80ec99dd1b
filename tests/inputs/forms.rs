//! Prompts with completions, conversations, and data of its own for evaluation.

use std::fs;
use std::path::Path;

use expctl::arch::Preset;
use expctl::cell::{Cell, DataFile, Padding};
use expctl::data::{DataError, Dataset, load};
use expctl::options::Paths;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

/// ChatML without a system message.
const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
                      {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// A folder with these files of JSON lines.
fn folder(files: &[(&str, &[Value])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows) in files {
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(dir.path().join(name), lines).unwrap();
    }
    fs::write(dir.path().join("chat.jinja"), CHATML).unwrap();
    dir
}

fn file(path: &str) -> DataFile {
    DataFile {
        chat_template: Some("chat.jinja".into()),
        ..DataFile::new(path)
    }
}

fn cell(file: DataFile) -> Cell {
    Cell {
        model: "tiny".into(),
        data: file.into(),
        padding: Padding::Longest,
        ..Cell::default()
    }
}

fn load_in(dir: &Path, cell: &Cell) -> Result<Dataset, DataError> {
    cell.validate().unwrap();
    let config = Preset::named("tiny").unwrap().config();
    load(&cell.data_options(), &config, &dir.into(), dir)
}

/// The predicted text of each sample in the order of the files, and whether it is trained on.
fn predicted(dir: &Path, file: DataFile) -> Result<Vec<(String, bool)>, String> {
    let cell = cell(file);
    let (options, config) = (cell.data_options(), Preset::named("tiny").unwrap().config());
    let data = load_in(dir, &cell).map_err(|error| error.to_string().replace(&format!("{}/", dir.display()), ""))?;
    let tokenizer = Tokenizer::from_bytes(expctl::data::EMBEDDED_TOKENIZER).unwrap();
    let layout = expctl::data::Layout::new(&options);
    let sampler = data.sampler();
    let text = |sample: u32| {
        let micro = sampler.lay_out(&layout, &[sample]).remove(0).micro;
        let mut ids = vec![0; sampler.lengths().tokens(sample)];
        data.read(sample, &mut ids).unwrap();
        let next: Vec<u32> = micro.predicting().map(|token| ids[token + 1]).collect();
        assert_eq!(micro.counted(), next.len());
        let is_held_out = sampler.held_out().contains(&sample);
        (tokenizer.decode(&next, false).unwrap(), !is_held_out)
    };
    assert!(data.batches(&options, &config).all(|batch| batch.unwrap().counted > 0));
    Ok((0..sampler.lengths().len() as u32).map(text).collect())
}

fn texts(dir: &Path, file: DataFile) -> Vec<String> {
    predicted(dir, file)
        .unwrap()
        .into_iter()
        .map(|(text, _)| text)
        .collect()
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

#[test]
fn completions_are_predicted_and_prompts_are_not() {
    let pair = json!({"prompt": "What floats?", "completion": " A cork."});
    let dir = folder(&[("pairs.jsonl", &[pair])]);
    assert_eq!(texts(dir.path(), file("pairs.jsonl")), [" A cork.<|endoftext|>"]);
    let all = DataFile {
        completion_only_loss: Some(false),
        ..file("pairs.jsonl")
    };
    let whole = &texts(dir.path(), all)[0];
    assert!(
        "What floats? A cork.<|endoftext|>".ends_with(whole.as_str()) && whole.len() > 25,
        "{whole}"
    );
}

#[test]
fn what_the_assistant_says_is_predicted_or_all_is() {
    let messages = [
        message("user", "What floats?"),
        message("assistant", "A cork."),
        message("user", "And sinks?"),
        message("assistant", "Lead."),
    ];
    let pair = json!({"prompt": messages[..3], "completion": messages[3..]});
    let dir = folder(&[
        ("chats.jsonl", &[json!({"messages": messages})]),
        ("pairs.jsonl", &[pair]),
    ]);
    let whole = &texts(dir.path(), file("chats.jsonl"))[0];
    assert!(
        whole.contains("user\nWhat floats?") && whole.ends_with("Lead.<|im_end|>\n"),
        "{whole}"
    );
    let assistant = |path: &str| DataFile {
        assistant_only_loss: Some(true),
        ..file(path)
    };
    let said = "A cork.<|im_end|>\nLead.<|im_end|>\n";
    assert_eq!(texts(dir.path(), assistant("chats.jsonl")), [said]);
    assert_eq!(texts(dir.path(), file("pairs.jsonl")), ["Lead.<|im_end|>\n"]);
    // The same tokens with other targets are other data.
    let hash = |file| load_in(dir.path(), &cell(file)).unwrap().sha256().to_owned();
    assert_ne!(hash(file("chats.jsonl")), hash(assistant("chats.jsonl")));
}

#[test]
fn forms_go_together_and_columns_have_any_name() {
    let chat = json!({"messages": [message("user", "a"), message("assistant", "b")]});
    let dir = folder(&[
        ("a.jsonl", &[json!({"text": "The river keeps it."})]),
        ("b.jsonl", &[json!({"prompt": "One, ", "completion": "two."})]),
        ("c.jsonl", &[chat]),
        (
            "quotes.jsonl",
            &[json!({"quote": "Measure once.", "author": "x", "tags": ["y"]})],
        ),
    ]);
    let found = texts(dir.path(), file("[abc].jsonl"));
    assert_eq!(found.len(), 3);
    assert_eq!(found[1], " two.<|endoftext|>", "a token of both counts as completion");
    let quotes = DataFile {
        column: Some("quote".into()),
        ..file("quotes.jsonl")
    };
    assert!("Measure once.".ends_with(texts(dir.path(), quotes)[0].as_str()));
    let message = predicted(dir.path(), file("quotes.jsonl")).unwrap_err();
    assert!(
        message.contains("there are: quote, author, tags; name yours: `column`"),
        "{message}"
    );
}

#[test]
fn samples_without_a_predicted_token_are_left_out() {
    let long = json!({"prompt": "so many words before ".repeat(60), "completion": "end"});
    let short = json!({"prompt": "a", "completion": " b"});
    let dir = folder(&[
        ("pairs.jsonl", &[long.clone(), short.clone()]),
        ("long.jsonl", &[long]),
        ("short.jsonl", &[short]),
    ]);
    let data = load_in(dir.path(), &cell(file("pairs.jsonl"))).unwrap();
    assert_eq!(data.sampler().lengths().len(), 1);
    let remark = "samples: 1 were left out because `max_seq_length` cuts off all that is predicted";
    assert_eq!(data.remarks().collect::<Vec<_>>(), [remark]);
    assert_eq!(data.left_out().unwrap().cut, 1);
    // The record counts those of the data to train on.
    let evaluated = DataFile {
        eval_path: Some(Paths(vec!["pairs.jsonl".into()])),
        ..file("short.jsonl")
    };
    let data = load_in(dir.path(), &cell(evaluated)).unwrap();
    assert_eq!(
        data.remarks().collect::<Vec<_>>(),
        [remark.replace("samples", "samples for evaluation")]
    );
    assert!(data.left_out().is_none());
    let message = predicted(dir.path(), file("long.jsonl")).unwrap_err();
    assert!(message.ends_with("(1 were left out because `max_seq_length` cuts off all that is predicted)"));
}

#[test]
fn evaluation_has_samples_of_its_own() {
    let row = |text: &str| json!({ "text": text });
    let dir = folder(&[
        ("quotes_train.jsonl", &[row("The first."), row("The second.")]),
        ("quotes_test.jsonl", &[row("The third."), row("q")]),
    ]);
    let of = |file| -> Vec<bool> {
        let predicted = predicted(dir.path(), file).unwrap();
        predicted.into_iter().map(|(_, is_trained)| is_trained).collect()
    };
    let split = DataFile {
        eval_split: Some("test".into()),
        ..file("./")
    };
    assert_eq!(of(split), [true, true, false]);
    let forgetting = DataFile {
        forgetting_split: Some("test".into()),
        ..file("./")
    };
    let data = load_in(dir.path(), &cell(forgetting)).unwrap();
    assert_eq!((data.sampler().trained(), data.sampler().forgetting()), (2, vec![2]));
    let path = DataFile {
        eval_path: Some(Paths(vec!["quotes_test.jsonl".into()])),
        ..file("quotes_train.jsonl")
    };
    assert_eq!(of(path), [true, true, false]);
    fs::write(dir.path().join("empty.jsonl"), "{\"text\": \"q\"}\n").unwrap();
    let empty = DataFile {
        eval_path: Some(Paths(vec!["empty.jsonl".into()])),
        ..file("quotes_train.jsonl")
    };
    assert_eq!(
        predicted(dir.path(), empty).unwrap_err(),
        "empty.jsonl: nothing to evaluate with: no sample has a token that is predicted (1 shorter ones were left out)"
    );
}

#[test]
fn a_completion_needs_an_end_of_text_that_the_tokenizer_has() {
    let dir = folder(&[("pairs.jsonl", &[json!({"prompt": "One, ", "completion": "two."})])]);
    let model = dir.path().join("model");
    fs::create_dir(&model).unwrap();
    fs::write(model.join("tokenizer.json"), expctl::data::EMBEDDED_TOKENIZER).unwrap();
    let cell = Cell {
        model: "./model".into(),
        ..cell(DataFile::new("pairs.jsonl"))
    };
    let with_eos = |eos: &str| {
        let config = json!({ "eos_token": eos }).to_string();
        fs::write(model.join("tokenizer_config.json"), config).unwrap();
        load_in(dir.path(), &cell).map_err(|error| error.to_string())
    };
    assert!(with_eos("<|endoftext|>").is_ok());
    let message = with_eos("<|im_end|>").unwrap_err();
    assert!(
        message.contains("token `<|im_end|>` has id 512, and the model has 512 embeddings"),
        "{message}"
    );
}

#[test]
fn a_template_that_raises_names_the_sample() {
    let dir = folder(&[("chats.jsonl", &[json!({"messages": [message("user", "a")]})])]);
    fs::write(dir.path().join("chat.jinja"), "\n{{ raise_exception('no users') }}").unwrap();
    assert_eq!(
        predicted(dir.path(), file("chats.jsonl")).unwrap_err(),
        "chats.jsonl:1: the chat template fails at chat.jinja:2: no users"
    );
    let without = DataFile::new("chats.jsonl");
    assert!(
        predicted(dir.path(), without)
            .unwrap_err()
            .contains("the preset `tiny`: no chat template")
    );
}
