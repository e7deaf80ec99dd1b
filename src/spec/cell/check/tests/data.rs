//! What a cell's data is refused for.

use super::refused;
use crate::options::Paths;
use crate::spec::cell::{DataFile, DataFormat};

#[test]
fn a_step_needs_its_samples() {
    let batch = |size: usize, eval_fraction: f64| {
        refused(|cell| {
            (cell.batch_size, cell.gradient_accumulation_steps, cell.eval_fraction) = (size, 8, eval_fraction)
        })
    };
    assert_eq!(batch(128, 0.0), None);
    assert_eq!(batch(129, 0.0).as_deref(), Some("data.synthetic.samples"));
    assert_eq!(batch(128, 0.1).as_deref(), Some("data.synthetic.samples"));
}

#[test]
fn a_file_says_what_it_is() {
    let path = |path: &str, format| {
        let file = DataFile {
            format,
            ..DataFile::new(path)
        };
        refused(|cell| cell.data = file.into())
    };
    for known in ["a.NDJSON", "a.csv", "texts", "texts.v2/", "*.docx"] {
        assert_eq!(path(known, None), None, "{known}");
    }
    for unknown in ["", "a.docx"] {
        assert_eq!(path(unknown, None).as_deref(), Some("data.path"), "{unknown}");
    }
    assert_eq!(path("a.docx", Some(DataFormat::Text)), None);
}

#[test]
fn keys_of_one_form_exclude_those_of_another() {
    let refused = |change: fn(&mut DataFile), eval_fraction: f64| {
        let mut file = DataFile::new("a.jsonl");
        change(&mut file);
        refused(|cell| (cell.data, cell.eval_fraction) = (file.into(), eval_fraction))
    };
    fn text() -> Option<String> {
        Some("x".to_owned())
    }
    assert_eq!(refused(|file| file.prompt_column = text(), 0.0), None);
    let key = |key: &str| Some(key.to_owned());
    assert_eq!(
        refused(|file| (file.column, file.completion_column) = (text(), text()), 0.0),
        key("data.completion_column")
    );
    assert_eq!(
        refused(
            |file| (file.prompt_column, file.messages_column) = (text(), text()),
            0.0
        ),
        key("data.messages_column")
    );
    assert_eq!(
        refused(
            |file| (file.column, file.assistant_only_loss) = (text(), Some(true)),
            0.0
        ),
        key("data.assistant_only_loss")
    );
    assert_eq!(refused(|file| file.eval_split = Some("test".into()), 0.0), None);
    assert_eq!(
        refused(|file| file.eval_split = Some("test".into()), 0.1),
        key("data.eval_split")
    );
    assert_eq!(
        refused(|file| file.eval_split = Some("train".into()), 0.0),
        key("data.eval_split")
    );
    assert_eq!(refused(|file| file.forgetting_split = Some("test".into()), 0.1), None);
    assert_eq!(
        refused(|file| file.forgetting_split = Some("train".into()), 0.0),
        key("data.forgetting_split")
    );
    assert_eq!(
        refused(|file| file.eval_path = Some(Paths(vec!["b.docx".into()])), 0.0),
        key("data.eval_path")
    );
}
