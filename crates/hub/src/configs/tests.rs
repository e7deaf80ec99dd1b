//! Configurations against what `datasets` 5.2 reads.

use super::*;

const README: &str = "---
license: mit
configs:
- config_name: main
  default: 1
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: [main/test-00000-of-00001.parquet]
- config_name: extra
  data_files: 'extra/**/*.jsonl'
- config_name: folder
  data_dir: folder
- config_name: here
  data_dir: .
  data_files: maps/a.csv
- config_name: map
  data_dir: ./maps/
  data_files: {validation: 'a.csv', held_out: ['c.csv', 'b.csv']}
- config_name: both
  data_files:
  - {split: dev, path: maps/a.csv}
  - {split: validation, path: maps/b.csv}
- config_name: first
  data_files: [main/train-00000-of-00002.parquet]
- config_name: twice
  data_files: [maps/b.csv, 'maps/*', gone/*.csv]
- config_name: gone
  data_files: [maps/b.csv, maps/d.csv]
- config_name: none
  data_files: 'gone/*'
---
# A data set
---
";

fn of(readme: &str, name: Option<&str>, split: Option<&str>) -> Result<Vec<String>, String> {
    let all = [
        "README.md",
        "extra/.hidden/a.jsonl",
        "extra/a.jsonl",
        "extra/deep/b.jsonl",
        "folder/test.csv",
        "folder/train.csv",
        "main/test-00000-of-00001.parquet",
        "main/train-00000-of-00002.parquet",
        "main/train-00001-of-00002.parquet",
        "maps/LICENSE",
        "maps/a.csv",
        "maps/b.csv",
        "maps/c.csv",
    ];
    let all = all.map(str::to_owned);
    let configs = Configs::of(readme).map_err(|error| error.to_string())?;
    let found = configs
        .files_of(name, &all, split)
        .expect("a configuration or a folder");
    found.map_err(|error| error.to_string())
}

fn files(name: &str, split: Option<&str>) -> Result<Vec<String>, String> {
    of(README, Some(name), split)
}

#[test]
fn a_configuration_names_the_files_of_its_splits() {
    let both = ["main/train-00000-of-00002.parquet", "main/train-00001-of-00002.parquet"];
    assert_eq!(of(README, None, None).unwrap(), both);
    assert_eq!(files("main", Some("train")).unwrap(), both);
    assert_eq!(
        of(README, None, Some("test")).unwrap(),
        ["main/test-00000-of-00001.parquet"]
    );
    assert_eq!(files("extra", None).unwrap(), ["extra/a.jsonl", "extra/deep/b.jsonl"]);
    assert_eq!(files("folder", Some("test")).unwrap(), ["folder/test.csv"]);
    assert_eq!(files("here", None).unwrap(), ["maps/a.csv"]);
    assert_eq!(files("map", Some("dev")).unwrap(), ["maps/a.csv"]);
    let error = files("map", None).unwrap_err();
    assert!(
        error.contains("has no split `train`") && error.contains("held_out"),
        "{error}"
    );
}

#[test]
fn a_split_is_the_one_with_its_name_before_one_with_another() {
    assert_eq!(files("both", Some("validation")).unwrap(), ["maps/b.csv"]);
    assert_eq!(files("both", Some("dev")).unwrap(), ["maps/a.csv"]);
}

/// As `datasets.data_files.DataFilesList.from_patterns`: a file that two patterns name is read twice.
#[test]
fn files_are_in_the_order_of_their_patterns() {
    assert_eq!(files("map", Some("held_out")).unwrap(), ["maps/c.csv", "maps/b.csv"]);
    let twice = ["maps/b.csv", "maps/a.csv", "maps/b.csv", "maps/c.csv"];
    assert_eq!(files("twice", None).unwrap(), twice);
    assert_eq!(files("first", None).unwrap(), ["main/train-00000-of-00002.parquet"]);
}

#[test]
fn files_that_are_not_there_are_named() {
    let names = |name, file| {
        let error = files(name, None).unwrap_err();
        assert_eq!(error, format!("has no file `{file}`, which its README names"));
    };
    names("gone", "maps/d.csv");
    names("none", "gone/*");
}

#[test]
fn without_a_default_one_must_be_named() {
    let en = "- config_name: en\n  data_files: maps/a.csv\n";
    let fr = "- config_name: fr\n  data_files: maps/b.csv\n";
    let readme = |configs: &str| format!("---\nconfigs:\n{configs}---\n");
    let error = of(&readme(&format!("{en}{fr}")), None, None).unwrap_err();
    assert_eq!(
        error,
        "has several configurations, and none is the default; it has en, fr"
    );
    let default = "  default: true\n";
    let error = of(&readme(&format!("{en}{default}{fr}{default}")), None, None).unwrap_err();
    assert_eq!(
        error,
        "has several default configurations, which `datasets` refuses, too; it has en, fr"
    );
    assert_eq!(
        of(&readme(&format!("{en}{fr}{default}")), None, None).unwrap(),
        ["maps/b.csv"]
    );
    let only = readme("- data_files: [maps/a.csv]\n");
    assert_eq!(of(&only, None, None).unwrap(), ["maps/a.csv"]);
    assert_eq!(of(&only, Some(DEFAULT), None).unwrap(), ["maps/a.csv"]);
    let configs = Configs::of(&only).unwrap();
    assert!(configs.files_of(Some("de"), &[], None).is_none());
}

#[test]
fn what_the_reader_of_the_files_should_do_is_never_dropped() {
    let readme =
        |settings: &str| format!("---\nconfigs:\n- config_name: en\n  data_files: maps/a.csv\n  {settings}\n---\n");
    for (settings, refused) in [
        ("sep: ;", "sep: \";\""),
        ("names: [a, b]", "names: [\"a\",\"b\"]"),
        ("header: 0\n  skiprows: 2", "skiprows: 2"),
        ("description: English\n  features: [a]", "features: [\"a\"]"),
        ("header:", "header: null"),
        ("sep:", "sep: null"),
        ("skip_blank_lines: false", "skip_blank_lines: false"),
    ] {
        let error = of(&readme(settings), None, None).unwrap_err();
        let expected = format!("asks in its README for `{refused}` (configuration `en`), which is not done here");
        assert_eq!(error, expected);
    }
    for settings in [
        "sep: ','",
        "header: 0",
        "description: English",
        "version: 1.0.0",
        "encoding: utf-8",
        "names:",
        "field: data",
        "sample_by: line",
    ] {
        assert_eq!(of(&readme(settings), None, None).unwrap(), ["maps/a.csv"], "{settings}");
    }
}

#[test]
fn settings_are_those_of_the_files_format() {
    let readme = |file: &str, settings: &str| format!("---\nconfigs:\n- data_files: {file}\n  {settings}\n---\n");
    let of = |file: &str, settings: &str| {
        let configs = Configs::of(&readme(file, settings)).unwrap();
        configs.files_of(None, &[file.to_owned()], None).unwrap().is_ok()
    };
    assert!(of("a.tsv", "sep: \"\\t\"") && !of("a.tsv", "sep: ','"));
    assert!(!of("a.csv", "sep: \"\\t\"") && of("a.parquet", "sep: ';'"));
    assert!(!of("a.json", "field: data") && of("a.csv", "field: data"));
    assert!(of("a.txt", "sample_by: paragraph") && !of("a.txt", "sample_by: line"));
}

/// As `datasets.data_files.resolve_pattern`, but that texts in Markdown may be data.
#[test]
fn a_pattern_names_data_alone() {
    let of = |pattern: &str, files: &[&str]| {
        let configs = Configs::of(&format!("---\nconfigs:\n- data_files: '{pattern}'\n---\n")).unwrap();
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let found = configs.files_of(None, &files, None).unwrap();
        found.map_err(|error| error.to_string())
    };
    let files = [
        "d/a.jsonl",
        "d/license_texts.jsonl",
        "d/notes.md",
        "d/config.json",
        "d/requirements.jsonl",
        "d/x.png",
    ];
    assert_eq!(
        of("d/*", &files).unwrap(),
        ["d/a.jsonl", "d/license_texts.jsonl", "d/requirements.jsonl"]
    );
    assert_eq!(of("*.md", &["a.md", "b.md"]).unwrap(), ["a.md", "b.md"]);
    assert_eq!(of(".h/*.jsonl", &[".h/a.jsonl"]).unwrap(), [".h/a.jsonl"]);
    assert!(
        of("d/*.arrow", &["d/a.arrow"])
            .unwrap_err()
            .starts_with("has no files that can be read")
    );
}

#[test]
fn headers_without_configurations_say_nothing() {
    for readme in [
        "",
        "# Quotes",
        "---\nlicense: mit\n---\n",
        "---\nlicense: [\n---\n",
        "---\nlicense: mit\nlicense: other\nconfigs:\n---\n",
        "---\nconfigs: []\n---\n",
    ] {
        let error = of(readme, None, None).unwrap_err();
        assert!(
            error.starts_with("has several files that could be meant"),
            "{readme}: {error}"
        );
    }
}

#[test]
fn configurations_that_cannot_be_read_are_an_error() {
    for readme in [
        "---\nconfigs: [\n---\n",
        "---\n'configs': {\n---\n",
        "---\nconfigs: 3\n---\n",
        "---\nlicense: mit\nconfigs:\n- config_name: [a]\n---\n",
        "---\nconfigs:\n- data_files: [{split: train, path: a.csv}, b.csv]\n---\n",
        "---\nconfigs:\n- data_files: [{split: train, path: a.csv}, {split: train, path: b.csv}]\n---\n",
    ] {
        let error = Configs::of(readme).unwrap_err().to_string();
        assert!(
            error.starts_with("has a README whose `configs` cannot be read: "),
            "{readme}: {error}"
        );
    }
}
