//! What a cell's data is refused for.

use options::Paths;

use super::refused;
use crate::{
    Attention, Cell, Data, DataFile, DataFormat, PackingAttention, PackingSeparator, PackingStrategy, Padding, Stack,
    TargetModules, Task,
};

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

#[test]
fn batches_that_cannot_be_cut_are_refused_by_their_key() {
    let packed = |change: fn(&mut Cell)| {
        refused(|cell| {
            cell.packing = true;
            change(cell);
        })
    };
    assert_eq!(packed(|cell| cell.packing_separator = PackingSeparator::Eos), None);
    assert_eq!(packed(|cell| cell.padding = Padding::Longest), None, "there is none");
    assert_eq!(
        packed(|cell| cell.pad_to_multiple_of = Some(8)).as_deref(),
        Some("pad_to_multiple_of")
    );
    let encoder = |cell: &mut Cell| (cell.task, cell.model) = (Task::SequenceClassification, "bert-base".into());
    assert_eq!(packed(encoder).as_deref(), Some("packing"));
    let unpacked = refused(|cell| cell.packing_separator = PackingSeparator::Eos);
    assert_eq!(unpacked.as_deref(), Some("packing_separator"));
    let unpacked = refused(|cell| cell.packing_attention = PackingAttention::Full);
    assert_eq!(unpacked.as_deref(), Some("packing_attention"));
    let limited =
        |most, multiple| refused(|cell| (cell.max_tokens_per_batch, cell.pad_to_multiple_of) = (Some(most), multiple));
    assert_eq!(limited(128, None), None);
    assert_eq!(limited(127, None).as_deref(), Some("max_tokens_per_batch"));
    assert_eq!(
        limited(128, Some(48)).as_deref(),
        Some("max_tokens_per_batch"),
        "144 tokens"
    );
    assert_eq!(limited(128, Some(0)).as_deref(), Some("pad_to_multiple_of"));
    let both = refused(|cell| (cell.group_by_length, cell.length_buckets) = (true, Some(20)));
    assert_eq!(both.as_deref(), Some("length_buckets"));
    assert_eq!(
        refused(|cell| cell.length_buckets = Some(0)).as_deref(),
        Some("length_buckets")
    );
    let torch = |change: fn(&mut Cell)| {
        refused(|cell| {
            (cell.stack, cell.packing) = (Stack::Torch, true);
            change(cell);
        })
    };
    assert_eq!(torch(|_| ()).as_deref(), Some("packing"), "sdpa would need a mask");
    assert_eq!(
        torch(|cell| cell.attn_implementation = Attention::FlashAttention2),
        None
    );
    let wrapped = |cell: &mut Cell| cell.torch.packing_strategy = PackingStrategy::Wrapped;
    assert_eq!(torch(wrapped), None);
    let unpacked = |cell: &mut Cell| {
        cell.packing = false;
        cell.torch.packing_strategy = PackingStrategy::Wrapped;
    };
    assert_eq!(torch(unpacked).as_deref(), Some("torch.packing_strategy"));
}

#[test]
fn model_task_and_data_belong_together() {
    let told = |change: fn(&mut Cell)| {
        let mut cell = Cell {
            model: "distilbert-base".into(),
            task: Task::SequenceClassification,
            ..Cell::default()
        };
        change(&mut cell);
        cell.validate()
            .map_or_else(|invalid| invalid.to_string(), |()| String::new())
    };
    let file = |path: &str, label_column: Option<&str>| {
        Data::from(DataFile {
            label_column: label_column.map(str::to_owned),
            ..DataFile::new(path)
        })
    };
    assert_eq!(told(|_| ()), "");
    assert_eq!(told(|cell| cell.num_labels = 20), "");
    let mut labelled = Cell {
        model: "bert-base".into(),
        task: Task::SequenceClassification,
        data: file("a.jsonl", Some("mood")),
        ..Cell::default()
    };
    labelled.target_modules = Some(TargetModules::Names(vec!["query".into(), "dense".into()]));
    assert_eq!(labelled.validate(), Ok(()));
    assert_eq!(
        told(|cell| cell.task = Task::CausalLm),
        "task: `distilbert-base` is an encoder and does not predict tokens; write `task: sequence_classification`"
    );
    assert_eq!(
        told(|cell| cell.model = "tiny".into()),
        "task: `tiny` is a decoder; `sequence_classification` is for encoders; leave the key out, or use `distilbert-base` or \
         `bert-base` or `bert-large`"
    );
    assert_eq!(
        told(|cell| cell.num_labels = 1),
        "num_labels: must be at least 2, got 1"
    );
    assert_eq!(
        told(|cell| {
            (cell.model, cell.task) = ("tiny".into(), Task::CausalLm);
            cell.num_labels = 3;
        }),
        "num_labels: a causal language model has no labels; leave the key out, or write `task: sequence_classification`"
    );
    assert!(told(|cell| cell.data = Data::Sample).starts_with("data: the sample text has no labels; use `synthetic`"));
    assert_eq!(
        told(|cell| cell.target_modules = Some(TargetModules::Names(vec!["q_proj".into()]))),
        "target_modules[0]: `q_proj` is not a linear layer of this model; the modules are q_lin, k_lin, v_lin, out_lin, lin1, lin2, \
         query, key, value, dense"
    );
    let text = Cell {
        data: file("a.txt", None),
        ..labelled.clone()
    };
    assert_eq!(&*text.validate().unwrap_err().0[0].key, "data.path");
    let decoder = Cell {
        data: file("a.jsonl", Some("mood")),
        ..Cell::default()
    };
    assert_eq!(&*decoder.validate().unwrap_err().0[0].key, "data.label_column");
}
