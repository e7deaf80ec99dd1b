mod adapter;
mod data;
mod model;
mod optimizer;
mod process;
mod stack;
mod trained;

use options::LogNormal;

use crate::{Cell, Checkpointing, Data, DataFile, Dtype, Lengths, Stack, Synthetic, TargetModules, Weights};

/// The key that is refused after `change`, or none.
fn refused(change: impl FnOnce(&mut Cell)) -> Option<String> {
    let mut cell = Cell::default();
    change(&mut cell);
    cell.validate().err().map(|invalid| invalid.0[0].key.to_string())
}

#[test]
fn the_defaults_and_the_ends_of_the_ranges_are_valid() {
    assert_eq!(refused(|_| ()), None);
    assert_eq!(
        refused(|cell| (cell.lora_dropout, cell.learning_rate, cell.warmup_ratio) = (0.99, 0.0, 1.0)),
        None
    );
    assert_eq!(refused(|cell| (cell.rank, cell.dtype) = (0, Dtype::Float16)), None);
    assert_eq!(
        refused(|cell| (cell.max_seq_length, cell.max_grad_norm) = (2, 0.0)),
        None
    );
    assert_eq!(
        refused(|cell| {
            cell.model = "./dir".into();
            cell.weights = Some(Weights::Pretrained);
        }),
        None
    );
    assert_eq!(refused(|cell| cell.device = Some("cuda:12".into())), None);
}

#[test]
fn numbers_out_of_range_are_refused_by_their_key() {
    for value in [1.0, -0.1, f64::NAN, f64::INFINITY] {
        assert_eq!(
            refused(|cell| cell.lora_dropout = value).as_deref(),
            Some("lora_dropout"),
            "{value}"
        );
        assert_eq!(
            refused(|cell| cell.eval_fraction = value).as_deref(),
            Some("eval_fraction"),
            "{value}"
        );
        assert_eq!(
            refused(|cell| cell.adam_beta2 = Some(value)).as_deref(),
            Some("adam_beta2"),
            "{value}"
        );
    }
    for value in [-1e-9, f64::NAN, 1e4] {
        assert_eq!(
            refused(|cell| cell.learning_rate = value).as_deref(),
            Some("learning_rate"),
            "{value}"
        );
        assert_eq!(
            refused(|cell| cell.weight_decay = value).as_deref(),
            Some("weight_decay"),
            "{value}"
        );
    }
    for value in [0, usize::MAX] {
        assert_eq!(refused(|cell| cell.batch_size = value).as_deref(), Some("batch_size"));
        assert_eq!(
            refused(|cell| cell.max_seq_length = value).as_deref(),
            Some("max_seq_length")
        );
        assert_eq!(refused(|cell| cell.threads = Some(value)).as_deref(), Some("threads"));
    }
    assert_eq!(refused(|cell| cell.rank = usize::MAX).as_deref(), Some("rank"));
    assert_eq!(
        refused(|cell| cell.lora_alpha = Some(0.0)).as_deref(),
        Some("lora_alpha")
    );
    assert_eq!(
        refused(|cell| cell.num_train_epochs = Some(0.0)).as_deref(),
        Some("num_train_epochs")
    );
}

#[test]
fn words_and_lists_are_refused_by_their_key() {
    let every = |cell: &mut Cell| cell.gradient_checkpointing = Checkpointing::Every(0);
    assert_eq!(refused(every).as_deref(), Some("gradient_checkpointing.every"));
    let modules = |names: &[&str]| TargetModules::Names(names.iter().map(|&name| name.to_owned()).collect());
    assert_eq!(
        refused(|cell| cell.target_modules = Some(modules(&[]))).as_deref(),
        Some("target_modules")
    );
    let twice = modules(&["q_proj", "k_proj", "q_proj"]);
    assert_eq!(
        refused(|cell| cell.target_modules = Some(twice)).as_deref(),
        Some("target_modules[2]")
    );
    let lengths = Synthetic {
        lengths: Lengths::List(vec![8, 1]),
        ..Synthetic::default()
    };
    let key = refused(|cell| cell.data = Data::Synthetic(lengths));
    assert_eq!(key.as_deref(), Some("data.synthetic.lengths[1]"));
    let between = |stack, bounds, lengths| {
        let data = Data::Synthetic(Synthetic {
            between: Some(bounds),
            lengths,
            ..Synthetic::default()
        });
        refused(|cell| (cell.stack, cell.data) = (stack, data))
    };
    let key = Some("data.synthetic.between");
    assert_eq!(between(Stack::Candle, [2, 8], Lengths::Fixed).as_deref(), key);
    assert_eq!(between(Stack::Torch, [8, 2], Lengths::Fixed).as_deref(), key);
    assert_eq!(between(Stack::Torch, [1, 8], Lengths::Fixed).as_deref(), key);
    assert_eq!(between(Stack::Torch, [2, 8], Lengths::List(vec![8, 9])).as_deref(), key);
    assert_eq!(between(Stack::Torch, [2, 9], Lengths::List(vec![8, 9])), None);
    let distribution = |mean, sigma, longest| Lengths::LogNormal(LogNormal { mean, sigma, longest });
    let longest = |longest| between(Stack::Torch, [2, 9], distribution(4.0, 0.4, longest));
    assert_eq!(longest(Some(10)).as_deref(), key);
    assert_eq!([longest(Some(9)), longest(None)], [None, None]);
    for (mean, sigma, longest, key) in [
        (1.0, 0.4, None, "mean"),
        (f64::NAN, 0.4, None, "mean"),
        (100.0, -0.1, None, "sigma"),
        (100.0, 0.4, Some(99), "longest"),
    ] {
        let lengths = Synthetic {
            lengths: distribution(mean, sigma, longest),
            ..Synthetic::default()
        };
        let refused = refused(|cell| cell.data = Data::Synthetic(lengths));
        assert_eq!(refused, Some(format!("data.synthetic.lengths.{key}")));
    }
    let file = DataFile {
        column: Some("text".into()),
        ..DataFile::new("a.md")
    };
    assert_eq!(refused(|cell| cell.data = file.into()).as_deref(), Some("data.column"));
    for device in [
        "", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:01", "cuda:+1", "CPU", "mps",
    ] {
        assert_eq!(
            refused(|cell| cell.device = Some(device.into())).as_deref(),
            Some("device"),
            "{device}"
        );
    }
}
