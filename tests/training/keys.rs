//! Nothing is parsed and ignored: every key of the training acts.

use expctl::cell::{Cell, Dtype, LoraATraining, LrScheduler, Padding, TargetModules};
use expctl::options::{InitLoraWeights, NamePattern};

use crate::setup::{Run, Training, cell, turn, values};

type Change = fn(&mut Cell);

fn pattern(text: &str) -> NamePattern {
    NamePattern::new(text).expect("a pattern")
}

/// The losses of three steps: the second step's change shows in the third.
fn losses(cell: &Cell) -> Vec<f64> {
    Training::new(cell).losses(3)
}

fn changed(cell: &Cell, change: Change) -> Cell {
    let mut cell = cell.clone();
    change(&mut cell);
    cell
}

#[test]
fn every_key_moves_the_losses() {
    let _turn = turn();
    let changes: [(&str, Change); 29] = [
        ("lora_alpha", |cell| cell.lora_alpha = Some(3.0)),
        ("lora_dropout", |cell| cell.lora_dropout = 0.3),
        ("rank", |cell| cell.rank = 3),
        ("rank 0", |cell| cell.rank = 0),
        ("target_modules", |cell| {
            cell.target_modules = Some(TargetModules::Names(vec!["v_proj".into()]));
        }),
        ("layers_to_transform", |cell| cell.layers_to_transform = Some(vec![1])),
        ("modules_to_save", |cell| {
            cell.modules_to_save = Some(vec!["input_layernorm".into(), "lm_head".into()]);
        }),
        ("lora_fa", |cell| cell.lora_fa = LoraATraining::Frozen),
        ("lora.use_rslora", |cell| cell.lora.use_rslora = true),
        ("lora.init_lora_weights: gaussian", |cell| {
            cell.lora.init_lora_weights = InitLoraWeights::Gaussian;
        }),
        ("lora.init_lora_weights: olora", |cell| {
            cell.lora.init_lora_weights = InitLoraWeights::Olora;
        }),
        ("lora.rank_pattern", |cell| {
            cell.lora.rank_pattern.insert(pattern("q_proj"), 2);
        }),
        ("lora.alpha_pattern", |cell| {
            cell.lora.alpha_pattern.insert(pattern("q_proj"), 2.5);
        }),
        ("lora.loraplus_lr_ratio", |cell| cell.lora.loraplus_lr_ratio = Some(4.0)),
        ("trainable", |cell| {
            cell.rank = 0;
            cell.trainable = Some(vec![pattern(".*norm")]);
        }),
        ("dtype", |cell| cell.dtype = Dtype::Int8),
        ("batch_size", |cell| cell.batch_size = 3),
        ("gradient_accumulation_steps", |cell| {
            cell.gradient_accumulation_steps = 2
        }),
        ("max_seq_length", |cell| cell.max_seq_length = 16),
        ("max_steps", |cell| cell.max_steps = Some(9)),
        ("learning_rate", |cell| cell.learning_rate = 2e-2),
        ("lr_scheduler_type", |cell| cell.lr_scheduler_type = LrScheduler::Cosine),
        ("warmup_ratio", |cell| cell.warmup_ratio = 0.4),
        ("weight_decay", |cell| cell.weight_decay = 0.5),
        ("adam_beta1", |cell| cell.adam_beta1 = 0.5),
        ("adam_beta2", |cell| cell.adam_beta2 = Some(0.5)),
        ("adam_epsilon", |cell| cell.adam_epsilon = 1e-2),
        ("max_grad_norm", |cell| cell.max_grad_norm = 1e-3),
        ("seed", |cell| cell.seed = 1),
    ];
    let base = losses(&cell());
    for (key, change) in changes {
        let got = losses(&changed(&cell(), change));
        assert!(got.iter().all(|loss| loss.is_finite()), "{key}: {got:?}");
        assert_ne!(got[2], base[2], "{key}");
    }

    let int4 = Cell {
        dtype: Dtype::Int4,
        ..cell()
    };
    let single = changed(&int4, |cell| cell.bnb_4bit_use_double_quant = false);
    assert_ne!(losses(&single), losses(&int4), "bnb_4bit_use_double_quant");
}

#[test]
fn dropout_is_not_applied_where_the_adapter_is_zero_or_evaluated() {
    let _turn = turn();
    let cell = Cell {
        eval_fraction: 0.25,
        ..cell()
    };
    let dropped = changed(&cell, |cell| cell.lora_dropout = 0.5);
    assert_eq!(losses(&dropped)[0], losses(&cell)[0], "B is zero");
    let evaluated = |cell: &Cell| {
        let mut training = Training::new(cell);
        training.fill_adapters();
        let batches = std::mem::take(&mut training.held_out);
        training
            .trainer
            .evaluate(batches.into_iter().map(Ok))
            .expect("a loss")
            .loss
    };
    assert_eq!(evaluated(&dropped), evaluated(&cell));
}

#[test]
fn gradients_are_clipped_to_their_norm() {
    let _turn = turn();
    let norms = |max_grad_norm: f64| {
        let mut training = Training::new(&Cell {
            max_grad_norm,
            ..cell()
        });
        let reported = training.step(0).gradient_norm;
        let squares = training.gradients().into_values().flatten();
        let held = squares.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        (reported, held)
    };
    let (reported, held) = norms(0.0);
    assert!((reported / held - 1.0).abs() < 1e-5, "{reported} reported, {held} held");
    let (reported_clipped, clipped) = norms(reported / 10.0);
    assert_eq!(reported_clipped, reported, "the norm is reported before clipping");
    assert!((clipped / reported - 0.1).abs() < 1e-5, "{clipped}");
}

#[test]
fn weight_decay_shrinks_weights() {
    let _turn = turn();
    let norm = |weight_decay| {
        let mut training = Training::new(&Cell {
            rank: 0,
            learning_rate: 1e-3,
            weight_decay,
            ..cell()
        });
        training.losses(3);
        let params = training.trainer.trainable();
        params
            .iter()
            .flat_map(|param| values(&param.value))
            .map(|value| f64::from(value).powi(2))
            .sum::<f64>()
    };
    assert!(norm(10.0) < 0.97 * norm(0.0));
}

#[test]
fn the_learning_rate_follows_its_schedule() {
    let _turn = turn();
    for (lr_scheduler_type, factors) in [
        (LrScheduler::Linear, [0.0, 0.5, 1.0, 2.0 / 3.0, 1.0 / 3.0]),
        (LrScheduler::Cosine, [0.0, 0.5, 1.0, 0.75, 0.25]),
        (LrScheduler::ConstantWithWarmup, [0.0, 0.5, 1.0, 1.0, 1.0]),
    ] {
        let cell = Cell {
            lr_scheduler_type,
            warmup_ratio: 0.4,
            ..cell()
        };
        let run = Run::of(&cell).expect("a run");
        let got: Vec<f64> = run.steps.iter().map(|step| step.learning_rate).collect();
        for (got, factor) in got.iter().zip(factors) {
            assert!((got - 1e-2 * factor).abs() < 1e-12, "{lr_scheduler_type:?}: {got}");
        }
        let losses = run.losses();
        assert_eq!(got.len(), 5);
        assert!(losses.iter().all(|loss| loss.is_finite()));
    }
}

#[test]
fn data_that_is_held_out_gives_a_loss_of_its_own() {
    let _turn = turn();
    assert_eq!(Run::of(&cell()).expect("a run").measured.loss_eval, None);
    // With a learning rate of 0 the model stays what it was, and so does its loss.
    let cell = Cell {
        eval_fraction: 0.25,
        learning_rate: 0.0,
        ..cell()
    };
    let reported = Run::of(&cell).expect("a run").measured.loss_eval.expect("a loss");
    let mut training = Training::new(&cell);
    let samples: usize = training.held_out.iter().map(|batch| batch.sequences.count()).sum();
    assert_eq!(samples, 10);
    let batches = std::mem::take(&mut training.held_out);
    let evaluation = training.trainer.evaluate(batches.into_iter().map(Ok)).expect("a loss");
    assert_eq!((evaluation.loss, evaluation.accuracy), (reported, None));
    assert!(
        (reported - 512f64.ln()).abs() < 0.5,
        "an untrained model knows nothing: {reported}"
    );
}

#[test]
fn epochs_and_padding_say_how_many_tokens_there_are() {
    let _turn = turn();
    let cell = Cell {
        max_steps: None,
        num_train_epochs: Some(1.0),
        padding: Padding::Longest,
        ..cell()
    };
    let run = Run::of(&cell).expect("a run");
    assert_eq!(run.steps.len(), 10, "40 samples in batches of 4");
    let tokens = |run: &Run| run.steps.iter().map(|step| step.tokens).sum::<usize>();
    let padded = Run::of(&changed(&cell, |cell| cell.padding = Padding::MaxLength)).expect("a run");
    assert_eq!(tokens(&padded), 40 * 24);
    assert!(tokens(&run) < tokens(&padded));
    assert_eq!(run.measured.tokens, tokens(&run));
}
