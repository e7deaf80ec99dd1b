//! What is known of the keys of `data`.

use super::acts::{
    CHATS, CHATS_BY_FIELD, CHATS_WITH_TOOLS, LABELS, LINES, LOGNORMAL, LONGEST, Move::*, PAIRS, PAIRS_OF_COLUMNS,
    SPLITS, TABLE, TEXTS, UNIFORM, both, candle, torch,
};
use super::facts::{Facts, TORCH};

pub(super) const DATA: &[(&str, Facts)] = &[
    (
        "synthetic",
        Facts {
            aliases: &["lengths", "samples"],
            acts: &[both(LONGEST, "{lengths: uniform}", &[Bytes, Loss, Tokens], &[Bytes])],
            ..Facts::NONE
        },
    ),
    (
        "synthetic.lengths",
        Facts::acting(&[both(LONGEST, "[8, 16]", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "synthetic.lengths.mean",
        Facts::acting(&[both(LOGNORMAL, "8", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "synthetic.lengths.sigma",
        Facts::acting(&[both(LOGNORMAL, "0.2", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "synthetic.lengths.longest",
        Facts::acting(&[both(LOGNORMAL, "17", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "synthetic.samples",
        Facts::acting(&[
            candle("data: {synthetic: {}}", "8", &[Loss]),
            torch(UNIFORM, "64", &[Bytes]),
        ]),
    ),
    (
        "synthetic.between",
        Facts {
            stacks: TORCH,
            acts: &[torch(LONGEST, "[2, 64]", &[Report])],
            ..Facts::NONE
        },
    ),
    (
        "path",
        Facts::acting(&[both(TEXTS, "files/texts.txt", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "column",
        Facts::acting(&[both(TEXTS, "other", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "prompt_column",
        Facts::acting(&[
            candle(PAIRS, "question", &[Loss, Tokens]),
            torch(PAIRS, "long", &[Bytes]),
        ]),
    ),
    (
        "completion_column",
        Facts::acting(&[both(PAIRS, "answer", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "messages_column",
        Facts::acting(&[both(CHATS, "dialog", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "prompt_template",
        Facts::acting(&[both(
            PAIRS_OF_COLUMNS,
            "'{prompt} {question} '",
            &[Bytes, Loss, Tokens],
            &[Bytes],
        )]),
    ),
    (
        "system_column",
        Facts::acting(&[both(CHATS, "about", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "tools_column",
        Facts::acting(&[both(CHATS_WITH_TOOLS, "functions", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "role_field",
        Facts::acting(&[candle(CHATS_BY_FIELD, "speaker", &[Loss])]).of_training(),
    ),
    (
        "content_field",
        Facts::acting(&[both(CHATS, "draft", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "roles",
        Facts::acting(&[both(CHATS, "{user: the one who asks}", &[Loss, Tokens], &[Bytes])]),
    ),
    (
        "chat_template",
        Facts::acting(&[both(CHATS, "files/long.jinja", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    ("eos_token", Facts::acting(&[both(PAIRS, "the", &[Loss], &[Bytes])])),
    (
        "completion_only_loss",
        Facts::acting(&[candle(PAIRS, "false", &[Bytes, Loss])]).of_training(),
    ),
    (
        "assistant_only_loss",
        Facts::acting(&[candle(CHATS, "true", &[Bytes, Loss])]).of_training(),
    ),
    (
        "label_column",
        Facts::acting(&[candle(LABELS, "grade", &[Loss])]).of_training(),
    ),
    (
        "format",
        Facts::acting(&[both(
            "model: ./files/model, data: {path: files/texts.jsonl}, batch_size: 1, \
                 padding: longest, weights: random",
            "text",
            &[Bytes, Loss, Tokens],
            &[Bytes],
        )]),
    ),
    (
        "sep",
        Facts::acting(&[both(TABLE, "';'", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "sample_by",
        Facts::acting(&[both(LINES, "line", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    ("max_samples", Facts::acting(&[both(TEXTS, "8", &[Loss], &[Bytes])])),
    (
        "split",
        Facts::acting(&[both(SPLITS, "test", &[Bytes, Loss, Tokens], &[Bytes])]),
    ),
    (
        "eval_path",
        Facts::acting(&[candle(TEXTS, "files/splits/test.jsonl", &[Loss])]).of_training(),
    ),
    (
        "eval_split",
        Facts::acting(&[candle(SPLITS, "test", &[Loss])]).of_training(),
    ),
    (
        "forgetting_path",
        Facts::acting(&[candle(TEXTS, "files/splits/test.jsonl", &[Loss])]).of_training(),
    ),
    (
        "forgetting_split",
        Facts::acting(&[candle(SPLITS, "test", &[Loss])]).of_training(),
    ),
];
