//! What a configuration asks of the reader of its files.

use std::collections::BTreeMap;

use options::DataFormat;
use serde_json::Value;

use DataFormat::{Csv, Json, Jsonl, Parquet, Text, Tsv};

const TABLES: &[DataFormat] = &[Csv, Tsv];
const OBJECTS: &[DataFormat] = &[Json, Jsonl];
const ALL: &[DataFormat] = &[Csv, Tsv, Json, Jsonl, Parquet, Text];
const CHARACTERS: &[DataFormat] = &[Csv, Tsv, Json, Jsonl, Text];

/// The keys of a configuration that change what is read of files in these formats (`CsvConfig`, `JsonConfig`,
/// `ParquetConfig` and `TextConfig` of `datasets` 5.2), with the values that ask for what is done here anyway. It passes
/// over keys that it does not know, and so do we.
const SETTINGS: [(&str, &[DataFormat], &[&str]); 39] = [
    ("column_names", TABLES, &["null"]),
    ("columns", &[Parquet], &["null"]),
    ("comment", TABLES, &["null"]),
    ("converters", TABLES, &["null"]),
    ("date_format", TABLES, &["null"]),
    ("decimal", TABLES, &["."]),
    ("delimiter", &[Csv], &["null", ","]),
    ("delimiter", &[Tsv], &["null", "\t"]),
    ("dialect", TABLES, &["null"]),
    ("doublequote", TABLES, &["true"]),
    ("encoding", CHARACTERS, &["null", "utf-8", "utf8", "UTF-8", "utf_8"]),
    ("encoding_errors", CHARACTERS, &["null", "strict"]),
    ("error_bad_lines", TABLES, &["true"]),
    ("escapechar", TABLES, &["null"]),
    ("false_values", TABLES, &["null"]),
    ("features", ALL, &["null"]),
    ("field", OBJECTS, &["null"]),
    ("filters", &[Parquet], &["null"]),
    ("header", TABLES, &["infer", "0"]),
    ("index_col", TABLES, &["null", "false"]),
    ("keep_linebreaks", &[Text], &["false"]),
    ("lineterminator", TABLES, &["null"]),
    ("na_values", TABLES, &["null"]),
    ("names", TABLES, &["null"]),
    ("nrows", TABLES, &["null"]),
    ("on_bad_files", &[Parquet], &["error"]),
    ("on_bad_lines", TABLES, &["error"]),
    ("quotechar", TABLES, &["\""]),
    ("quoting", TABLES, &["0"]),
    ("sample_by", &[Text], &["paragraph"]),
    ("sep", &[Csv], &[","]),
    ("sep", &[Tsv], &["\t"]),
    ("skip_blank_lines", TABLES, &["true"]),
    ("skipfooter", TABLES, &["0"]),
    ("skipinitialspace", TABLES, &["false"]),
    ("skiprows", TABLES, &["null", "0"]),
    ("thousands", TABLES, &["null"]),
    ("true_values", TABLES, &["null"]),
    ("usecols", TABLES, &["null"]),
];

/// The first setting that asks for these files to be read in another way than here: the key with its value.
pub(super) fn asked(settings: &BTreeMap<String, Value>, files: &[String]) -> Option<String> {
    let formats: Vec<DataFormat> = files.iter().filter_map(|file| DataFormat::of_path(file)).collect();
    let is_other = |key: &str, value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut rules = SETTINGS
            .iter()
            .filter(|(known, of, _)| *known == key && formats.iter().any(|format| of.contains(format)));
        rules.any(|(.., usual)| !usual.contains(&&*text))
    };
    let mut settings = settings.iter();
    let (key, value) = settings.find(|(key, value)| is_other(key, value))?;
    Some(format!("{key}: {value}"))
}
