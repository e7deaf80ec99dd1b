//! A checkpoint's tokenizer as transformers 5 makes it. Most of its classes take tokenizer.json as it is; some take only the
//! vocabulary, the merges and what stands around a text, and make the rest themselves. All add the tokens that
//! tokenizer_config.json names.
//!
//! Read from transformers 5.24: `tokenization_auto.py`, `tokenization_utils_tokenizers.py` and the classes' own files.
//! `python/data/check_tokenizers.py` compares ids.

mod added;
mod choice;
mod files;
mod rebuilt;

use std::path::Path;

use tokenizers::Tokenizer;

use added::Added;
use choice::Class;
use files::Files;

/// The tokenizer in a file with what its class in transformers makes of it, and a remark if that is not known.
///
/// # Errors
/// The library refuses a part; with its reason.
pub(super) fn as_in_transformers(
    tokenizer: Tokenizer,
    file: &[u8],
    dir: &Path,
) -> tokenizers::Result<(Tokenizer, Option<String>)> {
    let files = Files::read(dir)?;
    let class = Class::of(&files, file).for_model(tokenizer.get_model());
    let added = Added::of(&files, &tokenizer, class);
    let (mut made, remark) = match class {
        Class::AsFile => (tokenizer, None),
        Class::Unknown(name) => (
            tokenizer,
            Some(format!(
                "the tokenizer is read as its file says; transformers' {name} may make other tokens of it"
            )),
        ),
        Class::Rebuilt(class) => (rebuilt::rebuild(&tokenizer, class, &files, &added)?, None),
    };
    added.add_to(&mut made, class)?;
    if let Class::Rebuilt(class) = class {
        rebuilt::surround(&mut made, class, &added)?;
    }
    made.set_encode_special_tokens(files.config["split_special_tokens"] == true);
    Ok((made, remark))
}

#[cfg(test)]
mod tests;
