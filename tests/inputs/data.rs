//! Loading what a cell trains on, from the sources that a spec can name.

use std::fs;
use std::path::Path;

use expctl::arch::Preset;
use expctl::cell::{Cell, Data, DataFile, DataFormat, Padding, Synthetic};
use expctl::data::{DataError, Dataset, load};
use expctl::options::Paths;
use polars_core::prelude::{Column, DataFrame};
use polars_io::parquet::write::ParquetWriter;

const TEXTS: [&str; 3] = ["A stick on a nail.", "The river\nremembers.", "Begin with an onion."];

fn cell(data: Data) -> Cell {
    Cell {
        model: "tiny".into(),
        data,
        ..Cell::default()
    }
}

fn file(path: &str) -> DataFile {
    DataFile::new(path)
}

fn load_in(dir: &Path, cell: &Cell) -> Result<Dataset, DataError> {
    load(
        &cell.data_options(),
        &Preset::named("tiny").unwrap().config(),
        &dir.into(),
        dir,
    )
}

/// The message of an error, without the directory.
fn message(dir: &Path, cell: &Cell) -> String {
    let message = load_in(dir, cell).unwrap_err().to_string();
    message.replace(&format!("{}/", dir.display()), "")
}

fn write_texts(dir: &Path) {
    fs::write(dir.join("texts.txt"), TEXTS.join("\n\n")).unwrap();
    let lines = TEXTS.map(|text| serde_json::json!({ "id": 1, "text": text, "body": text }).to_string());
    fs::write(dir.join("texts.jsonl"), lines.join("\n")).unwrap();
    let objects = serde_json::json!({ "version": 1, "data": lines.clone().map(|line| {
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    })});
    fs::write(dir.join("texts.json"), objects.to_string()).unwrap();
    let rows = TEXTS.map(|text| format!("1,\"{text}\",\"{text}\"\n"));
    fs::write(dir.join("texts.csv"), format!("id,text,body\n{}", rows.concat())).unwrap();
    let columns = vec![
        Column::new("id".into(), [1i32, 2, 3]),
        Column::new("text".into(), TEXTS),
        Column::new("body".into(), TEXTS),
    ];
    let mut frame = DataFrame::new_infer_height(columns).unwrap();
    let parquet = fs::File::create(dir.join("texts.parquet")).unwrap();
    ParquetWriter::new(parquet).finish(&mut frame).unwrap();
}

#[test]
fn every_format_of_the_same_texts_is_the_same_data() {
    let dir = tempfile::tempdir().unwrap();
    write_texts(dir.path());
    let text = load_in(dir.path(), &cell(Data::from(file("texts.txt")))).unwrap();
    assert_eq!(text.sampler().lengths().len(), 3);
    for name in ["texts.jsonl", "texts.json", "texts.csv", "texts.parquet"] {
        for column in [None, Some("body".into())] {
            let file = DataFile { column, ..file(name) };
            let same = load_in(dir.path(), &cell(Data::from(file))).unwrap();
            assert_eq!(same.sha256(), text.sha256(), "{name}");
        }
    }
    fs::rename(dir.path().join("texts.jsonl"), dir.path().join("texts.data")).unwrap();
    let named = DataFile {
        format: Some(DataFormat::Jsonl),
        ..file("texts.data")
    };
    let same = load_in(dir.path(), &cell(Data::from(named))).unwrap();
    assert_eq!(same.sha256(), text.sha256());
}

#[test]
fn the_sample_text_is_cut_to_max_seq_length_and_seeded() {
    let with = |max_seq_length, seed| Cell {
        max_seq_length,
        seed,
        ..cell(Data::Sample)
    };
    let data = load_in(Path::new("/"), &with(100, 0)).unwrap();
    let lengths = data.sampler().lengths();
    assert!(lengths.len() > 90);
    assert_eq!(
        (0..lengths.len() as u32).map(|sample| lengths.tokens(sample)).max(),
        Some(100)
    );
    let config = Preset::named("tiny").unwrap().config();
    let order = |seed| {
        let cell = with(100, seed);
        load_in(Path::new("/"), &cell)
            .unwrap()
            .batches(&cell.data_options(), &config)
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
    };
    assert_eq!(order(0), order(0));
    assert_ne!(order(0), order(1));
    assert_eq!(data.sha256(), load_in(Path::new("/"), &with(100, 1)).unwrap().sha256());
    assert_ne!(data.sha256(), load_in(Path::new("/"), &with(99, 0)).unwrap().sha256());
}

#[test]
fn short_samples_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("short.txt"), "a\n\nlong enough\n\nb\n").unwrap();
    let data = load_in(dir.path(), &cell(Data::from(file("short.txt")))).unwrap();
    assert_eq!(data.sampler().lengths().len(), 1);
    fs::write(dir.path().join("short.txt"), "a\n\nb\n").unwrap();
    assert_eq!(
        message(dir.path(), &cell(Data::from(file("short.txt")))),
        "short.txt: nothing to train on: no sample has two tokens or more (2 shorter ones were left out)"
    );
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let dir = tempfile::tempdir().unwrap();
    write_texts(dir.path());
    fs::write(dir.path().join("empty.txt"), "").unwrap();
    fs::write(dir.path().join("empty.jsonl"), "\n").unwrap();
    fs::write(dir.path().join("image.txt"), b"\x89PNG\r\n\x1a\n\0").unwrap();
    for (name, expected) in [
        (
            "nowhere.txt",
            "cannot read nowhere.txt: No such file or directory (os error 2)",
        ),
        ("empty.txt", "empty.txt: the file is empty"),
        (
            "empty.jsonl",
            "empty.jsonl: nothing to train on: no sample has two tokens or more",
        ),
        (
            "image.txt",
            "image.txt: not text: invalid UTF-8 at byte 0; text is UTF-8 without NUL",
        ),
    ] {
        let found = message(dir.path(), &cell(Data::from(file(name))));
        assert!(found.contains(expected), "{found}");
        // No sample was too short, so none is counted.
        assert!(!found.contains("left out"), "{found}");
    }
    for (name, expected) in [
        (
            "texts.txt",
            "texts.txt: a text file has no columns; remove `column: title`",
        ),
        (
            "texts.jsonl",
            "texts.jsonl: no column `title`; there are: id, text, body",
        ),
        ("texts.csv", "texts.csv: no column `title`; there are: id, text, body"),
        ("texts.json", "texts.json: no column `title`; there are: id, text, body"),
        (
            "texts.parquet",
            "texts.parquet: no column `title`; there are: id, text, body",
        ),
    ] {
        let column = Some("title".into());
        assert_eq!(
            message(dir.path(), &cell(Data::from(DataFile { column, ..file(name) }))),
            expected
        );
    }
    for (name, line) in [("texts.jsonl", "texts.jsonl:2"), ("texts.json", "texts.json: object 2")] {
        let lines = ["{\"text\": \"one\"}", "{\"text\": 7}"];
        let text = match name {
            "texts.json" => format!("[{}]", lines.join(",")),
            _ => lines.join("\n"),
        };
        fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(
            message(dir.path(), &cell(file(name).into())),
            format!("{line}: column `text` is a number, not text")
        );
    }
}

#[test]
fn a_folder_a_glob_and_a_list_are_their_files_in_order() {
    let dir = tempfile::tempdir().unwrap();
    write_texts(dir.path());
    let of = |path: &[&str]| {
        let path = Paths(path.iter().map(|path| (*path).to_owned()).collect());
        let file = DataFile { path, ..file("") };
        load_in(dir.path(), &cell(file.into())).unwrap().sha256().to_owned()
    };
    let listed = of(&["texts.csv", "texts.json", "texts.jsonl", "texts.parquet", "texts.txt"]);
    assert_ne!(of(&["texts.csv"]), listed);
    assert_eq!(of(&["."]), listed);
    assert_eq!(of(&["texts.*"]), listed);
    assert_eq!(of(&["texts.csv", "texts.j*", "texts.parquet", "texts.txt"]), listed);
    fs::write(dir.path().join("texts.a.csv"), "").unwrap();
    assert_eq!(
        message(dir.path(), &cell(file(".").into())),
        "./texts.a.csv: the file is empty"
    );
}

#[test]
fn text_needs_the_models_tokenizer() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("model")).unwrap();
    let cell = Cell {
        model: "model".into(),
        ..cell(Data::Sample)
    };
    let tokenizer = dir.path().join("model/tokenizer.json");
    assert!(message(dir.path(), &cell).starts_with("model/tokenizer.json: no tokenizer;"));
    fs::write(&tokenizer, "{").unwrap();
    assert!(message(dir.path(), &cell).starts_with("model/tokenizer.json: not a tokenizer:"));
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/data/embedded/tokenizer.json"),
        &tokenizer,
    )
    .unwrap();
    let own = load_in(dir.path(), &cell).unwrap();
    let mut config = Preset::named("tiny").unwrap().config();
    config.vocab_size = 300;
    let foreign = load(&cell.data_options(), &config, &dir.path().into(), dir.path())
        .unwrap_err()
        .to_string();
    assert!(
        foreign.contains("has id") && foreign.contains("300 embeddings"),
        "{foreign}"
    );
    fs::remove_file(&tokenizer).unwrap();
    let synthetic = Cell {
        data: Data::Synthetic(Synthetic::default()),
        ..cell
    };
    assert_ne!(load_in(dir.path(), &synthetic).unwrap().sha256(), own.sha256());
}

#[test]
fn one_token_cannot_be_trained_on() {
    let cell = Cell {
        max_seq_length: 1,
        padding: Padding::Longest,
        ..cell(Data::Sample)
    };
    assert!(message(Path::new("/"), &cell).starts_with("`max_seq_length` is 1;"));
}

/// A bit changed in a Parquet file: refused or harmless.
#[test]
fn a_damaged_parquet_file_is_no_crash() {
    let dir = tempfile::tempdir().unwrap();
    write_texts(dir.path());
    let path = dir.path().join("texts.parquet");
    let good = fs::read(&path).unwrap();
    let cell = cell(Data::from(file("texts.parquet")));
    for position in (0..good.len()).step_by(4) {
        let mut bytes = good.clone();
        bytes[position] ^= 1 << (position % 8);
        fs::write(&path, bytes).unwrap();
        let _ = load_in(dir.path(), &cell);
    }
}
