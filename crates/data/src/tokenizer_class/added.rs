//! The tokens that a class adds to those of tokenizer.json, with their settings.

use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer};

use super::choice::{Class, Rebuilt};
use super::files::Files;

/// The named tokens that classes know, in transformers' order.
const NAMES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The tokens of a tokenizer.
#[derive(Debug)]
pub(super) struct Added {
    /// Those that a file lists, by id.
    listed: Vec<AddedToken>,
    /// Those that have a name, such as `bos_token`.
    named: Vec<(String, AddedToken)>,
    /// Further special ones.
    extra: Vec<AddedToken>,
}

impl Added {
    pub(super) fn of(files: &Files, tokenizer: &Tokenizer, class: Class) -> Self {
        let mut config = files.config.as_object().cloned().unwrap_or_default();
        let is_empty = |value: Option<&Value>| match value {
            Some(Value::Array(values)) => values.is_empty(),
            Some(Value::Object(values)) => values.is_empty(),
            other => other.is_none_or(Value::is_null),
        };
        if let Some(extra) = config.remove("additional_special_tokens")
            && is_empty(config.get("extra_special_tokens"))
        {
            config.insert("extra_special_tokens".into(), extra);
        }
        let mut listed: Vec<(u32, AddedToken)> = Vec::new();
        match config.get("added_tokens_decoder").and_then(Value::as_object) {
            Some(decoder) => {
                let tokens = decoder
                    .iter()
                    .filter_map(|(id, value)| Some((id.parse().ok()?, token(value)?)));
                listed.extend(tokens);
            }
            None => {
                for (key, value) in &files.special {
                    let mut value = value.clone();
                    if let Some(settings) = value.as_object_mut() {
                        settings.insert("special".into(), true.into());
                    }
                    match (key.as_str(), config.get_mut(key), value) {
                        (
                            "extra_special_tokens" | "additional_special_tokens",
                            Some(Value::Array(known)),
                            Value::Array(more),
                        ) => {
                            known.extend(more);
                        }
                        ("additional_special_tokens", _, value) => {
                            _ = config.insert("extra_special_tokens".into(), value)
                        }
                        (_, _, value) => _ = config.insert(key.clone(), value),
                    }
                }
                let is_special = |content: &str| {
                    let named = NAMES.iter().filter_map(|name| config.get(*name));
                    let extra = config.get("extra_special_tokens").and_then(Value::as_array);
                    named
                        .chain(extra.into_iter().flatten())
                        .any(|value| text(value) == Some(content))
                };
                for (content, id) in &files.added {
                    if let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) {
                        listed.push((id, AddedToken::from(content.clone(), is_special(content))));
                    }
                }
                let of_file = tokenizer.get_added_tokens_decoder();
                listed.extend(of_file.iter().map(|(id, token)| (*id, token.clone())));
            }
        }
        listed.sort_by_key(|(id, _)| *id);
        listed.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                first.1 = later.1.clone();
            }
            is_same
        });
        let listed: Vec<AddedToken> = listed.into_iter().map(|(_, token)| token).collect();
        let known = |value: &Value| {
            let found = listed.iter().find(|token| Some(token.content.as_str()) == text(value));
            found.cloned().or_else(|| token(value))
        };
        let mut named = Vec::new();
        for (name, default) in NAMES.iter().map(|name| (*name, default(class, name))) {
            let value = match config.get(name) {
                None => default.map(Value::from),
                Some(value) => Some(value.clone()).filter(|value| !value.is_null()),
            };
            named.extend(value.as_ref().and_then(known).map(|token| (name.to_owned(), token)));
        }
        let of_config = config
            .iter()
            .filter(|(key, _)| key.ends_with("_token") && !NAMES.contains(&key.as_str()));
        let models = config.get("extra_special_tokens").and_then(Value::as_object);
        for (key, value) in of_config.chain(models.into_iter().flatten()) {
            if value.is_string() || value.get("content").is_some() {
                named.extend(known(value).map(|token| (key.clone(), token)));
            }
        }
        let extra = config.get("extra_special_tokens").and_then(Value::as_array);
        let extra = extra.into_iter().flatten().filter_map(token).collect();
        Self { listed, named, extra }
    }

    /// The text of a named token.
    pub(super) fn named(&self, name: &str) -> Option<&str> {
        let found = self.named.iter().find(|(known, _)| known == name);
        found.map(|(_, token)| token.content.as_str())
    }

    /// Adds the tokens that the tokenizer does not have yet in this form.
    pub(super) fn add_to(&self, tokenizer: &mut Tokenizer, class: Class) -> tokenizers::Result<()> {
        let there: Vec<AddedToken> = tokenizer.get_added_tokens_decoder().into_values().collect();
        let is_named = |content: &str| self.named.iter().any(|(_, token)| token.content == content);
        let special = |mut token: AddedToken| {
            token.special |= is_named(&token.content);
            token
        };
        let same = |one: &AddedToken, other: &AddedToken| settings(one) == settings(other);
        let mut all: Vec<AddedToken> = self
            .listed
            .iter()
            .filter(|token| !there.iter().any(|known| same(known, token)))
            .cloned()
            .collect();
        let others = self.named.iter().map(|(_, token)| token).chain(&self.extra);
        for token in others {
            let is_there = |known: &AddedToken| known.content == token.content;
            if !there.iter().any(is_there) && !all.iter().any(is_there) {
                all.push(token.clone());
            }
        }
        tokenizer.add_tokens(all.into_iter().filter(|token| !token.content.is_empty()).map(special))?;
        let again = self.named.iter().map(|(_, token)| token).chain(&self.extra).cloned();
        match class {
            Class::Rebuilt(Rebuilt::Qwen2) => {
                let plain = again.map(|token| AddedToken::from(token.content, true));
                tokenizer.add_tokens(plain.collect::<Vec<_>>())?;
            }
            Class::Rebuilt(Rebuilt::Cohere) => {
                let all = again.map(|token| AddedToken { special: true, ..token });
                tokenizer.add_tokens(all.collect::<Vec<_>>())?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// What tells tokens apart: the library compares their texts alone.
fn settings(token: &AddedToken) -> (&str, [bool; 5]) {
    let flags = [
        token.single_word,
        token.lstrip,
        token.rstrip,
        token.normalized,
        token.special,
    ];
    (&token.content, flags)
}

/// The text of a token, which stands alone or among its settings.
fn text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// A token. A text alone is a special one.
fn token(value: &Value) -> Option<AddedToken> {
    let content = text(value)?.to_owned();
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    let special = flag("special").unwrap_or(value.is_string());
    Some(AddedToken {
        content,
        single_word: flag("single_word").unwrap_or(false),
        lstrip: flag("lstrip").unwrap_or(false),
        rstrip: flag("rstrip").unwrap_or(false),
        normalized: flag("normalized").unwrap_or(!special),
        special,
    })
}

/// The named token that a class has by default.
fn default(class: Class, name: &str) -> Option<&'static str> {
    let Class::Rebuilt(class) = class else { return None };
    let tokens: &[(&str, &'static str)] = match class {
        Rebuilt::Llama | Rebuilt::CodeLlama => &[("unk_token", "<unk>"), ("bos_token", "<s>"), ("eos_token", "</s>")],
        Rebuilt::Gemma => &[
            ("unk_token", "<unk>"),
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        Rebuilt::Gpt2 => &[
            ("unk_token", "<|endoftext|>"),
            ("bos_token", "<|endoftext|>"),
            ("eos_token", "<|endoftext|>"),
        ],
        Rebuilt::GptNeoX => &[
            ("unk_token", "<|endoftext|>"),
            ("bos_token", "<|endoftext|>"),
            ("eos_token", "<|endoftext|>"),
            ("pad_token", "<|padding|>"),
        ],
        Rebuilt::Qwen2 | Rebuilt::Qwen3_5 => &[
            ("unk_token", "<|endoftext|>"),
            ("eos_token", "<|endoftext|>"),
            ("pad_token", "<|endoftext|>"),
        ],
        Rebuilt::Cohere => &[
            ("unk_token", "<UNK>"),
            ("bos_token", "<BOS_TOKEN>"),
            ("eos_token", "<|END_OF_TURN_TOKEN|>"),
            ("pad_token", "<PAD>"),
            ("cls_token", "<CLS>"),
            ("sep_token", "<SEP>"),
            ("mask_token", "<MASK_TOKEN>"),
        ],
        Rebuilt::Bert => &[
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ],
        Rebuilt::DebertaV2 => &[
            ("bos_token", "[CLS]"),
            ("eos_token", "[SEP]"),
            ("unk_token", "[UNK]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("cls_token", "[CLS]"),
            ("mask_token", "[MASK]"),
        ],
        Rebuilt::Roberta | Rebuilt::XlmRoberta => &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("sep_token", "</s>"),
            ("cls_token", "<s>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
    };
    tokens.iter().find(|(known, _)| *known == name).map(|(_, token)| *token)
}
