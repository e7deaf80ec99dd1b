//! Trains a byte-level BPE tokenizer on a text: what a model directory needs as `tokenizer.json`.
//!
//!     cargo run --release --example train_tokenizer -- TEXT TOKENIZER VOCABULARY
//!
//! A TEXT that ends in `.jsonl` has a `text` in each line.
//! With `crates/data/embedded/sample.txt crates/data/embedded/tokenizer.json 512` it writes the tokenizer of the presets again, byte for byte.

use std::fs;

use anyhow::Context;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Model, NormalizerWrapper, TokenizerBuilder};

/// A line of a JSONL file.
#[derive(serde::Deserialize)]
struct Line {
    text: String,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [text, output, vocabulary] = &arguments[..] else {
        anyhow::bail!("the arguments are TEXT TOKENIZER VOCABULARY");
    };
    let vocabulary = vocabulary
        .parse()
        .with_context(|| format!("`{vocabulary}` is not a number of tokens"))?;
    train(text, output, vocabulary).map_err(anyhow::Error::from_boxed)
}

fn train(text: &str, output: &str, vocabulary: usize) -> tokenizers::Result<()> {
    let mut trainer = BpeTrainer::builder()
        .vocab_size(vocabulary)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .special_tokens(vec![AddedToken::from("<|endoftext|>", true)])
        .show_progress(false)
        .build();
    let mut tokenizer = TokenizerBuilder::new()
        .with_model(BPE::default())
        .with_normalizer(None::<NormalizerWrapper>)
        .with_pre_tokenizer(Some(ByteLevel::new(false, false, true)))
        .with_post_processor(Some(ByteLevel::new(false, false, true)))
        .with_decoder(Some(ByteLevel::default()))
        .build()?;
    if text.ends_with(".jsonl") {
        let texts = fs::read_to_string(text)?;
        let texts = texts.lines().map(|line| Ok(serde_json::from_str::<Line>(line)?.text));
        tokenizer.train(&mut trainer, texts.collect::<tokenizers::Result<Vec<_>>>()?.into_iter())?;
    } else {
        tokenizer.train_from_files(&mut trainer, vec![text.to_owned()])?;
    }
    tokenizer.save(output, true)?;
    println!("{output}: {} tokens", tokenizer.get_model().get_vocab_size());
    Ok(())
}
