//! Makes `data/tokenizer.json` from `data/sample.txt`: `cargo run --release --example train_tokenizer`.

use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Model, NormalizerWrapper, Result, TokenizerBuilder};

/// The vocabulary of the preset `tiny`.
const VOCAB_SIZE: usize = 512;

fn main() -> Result<()> {
    let mut trainer = BpeTrainer::builder()
        .vocab_size(VOCAB_SIZE)
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
    tokenizer.train_from_files(&mut trainer, vec!["data/sample.txt".into()])?;
    tokenizer.save("data/tokenizer.json", true)?;
    println!("data/tokenizer.json: {} tokens", tokenizer.get_model().get_vocab_size());
    Ok(())
}
