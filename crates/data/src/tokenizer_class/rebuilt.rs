//! The parts that some classes make themselves. They keep the vocabulary, the merges and, unless it is said, what stands
//! around a text.

use serde_json::{Value, json};
use tokenizers::models::ModelWrapper;
use tokenizers::models::unigram::Unigram;
use tokenizers::{NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer};

use super::added::Added;
use super::choice::Rebuilt;
use super::files::Files;

/// How Qwen's classes split words.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What CodeLlama's class adds, for text that is filled in.
const INFILLING: [&str; 4] = ["▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"];

/// The tokenizer of a class, without added tokens.
pub(super) fn rebuild(file: &Tokenizer, class: Rebuilt, files: &Files, added: &Added) -> tokenizers::Result<Tokenizer> {
    let unknown = added.named("unk_token").map(str::to_owned);
    let mut made = Tokenizer::new(model(file, class, files, unknown)?);
    let [normalizer, pre_tokenizer] = parts(class, files, file)?;
    made.with_normalizer(serde_json::from_value::<Option<NormalizerWrapper>>(normalizer)?)?;
    made.with_pre_tokenizer(serde_json::from_value::<Option<PreTokenizerWrapper>>(pre_tokenizer)?);
    made.with_post_processor(file.get_post_processor().cloned());
    made.with_decoder(file.get_decoder().cloned());
    if class == Rebuilt::CodeLlama {
        let tokens = INFILLING.iter().filter(|token| file.token_to_id(token).is_some());
        let tokens: Vec<_> = tokens.map(|token| tokenizers::AddedToken::from(*token, true)).collect();
        made.add_tokens(tokens)?;
    }
    Ok(made)
}

fn model(file: &Tokenizer, class: Rebuilt, files: &Files, unknown: Option<String>) -> tokenizers::Result<ModelWrapper> {
    let mut model = file.get_model().clone();
    match &mut model {
        ModelWrapper::BPE(bpe) => {
            let is_sentencepiece = matches!(class, Rebuilt::Llama | Rebuilt::CodeLlama | Rebuilt::Gemma);
            bpe.dropout = None;
            bpe.ignore_merges = false;
            bpe.fuse_unk = is_sentencepiece;
            bpe.byte_fallback = is_sentencepiece;
            bpe.unk_token = unknown.filter(|_| matches!(class, Rebuilt::CodeLlama | Rebuilt::Gemma));
        }
        ModelWrapper::WordPiece(pieces) => {
            pieces.unk_token = unknown.unwrap_or_else(|| "None".into());
            pieces.continuing_subword_prefix = "##".into();
            pieces.max_input_chars_per_word = 100;
        }
        ModelWrapper::Unigram(unigram) => {
            let vocab: Vec<(String, f64)> = unigram.iter().cloned().collect();
            let of_unknown = |(token, score): &(String, f64)| Some(token) == unknown.as_ref() && *score == 0.0;
            let of_config = files.config["unk_id"].as_u64().map_or(1, |id| id as usize);
            let id = match class {
                Rebuilt::XlmRoberta => 3,
                _ => vocab.iter().position(of_unknown).unwrap_or(of_config),
            };
            model = Unigram::from(vocab, Some(id), false)?.into();
        }
        ModelWrapper::WordLevel(_) => {}
    }
    Ok(model)
}

/// The normalizer and the pre-tokenizer of a class, as a tokenizer.json has them.
fn parts(class: Rebuilt, files: &Files, file: &Tokenizer) -> tokenizers::Result<[Value; 2]> {
    let given = files.flag("add_prefix_space");
    // Null, as another value, is what a key comes to that is there.
    let is_left_out = files.config.get("add_prefix_space").is_none();
    let prefix = given.unwrap_or(false);
    let bytes = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": use_regex});
    let spaces = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
    let sequence = |parts: Vec<Value>| json!({"type": "Sequence", "pretokenizers": parts});
    let words = |pattern: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        sequence(vec![split, bytes(false)])
    };
    let nfc = json!({"type": "NFC"});
    Ok(match class {
        Rebuilt::Llama => {
            let scheme = match (given.unwrap_or(true), files.flag("legacy")) {
                (false, _) => "never",
                (true, Some(true)) => "always",
                (true, _) => "first",
            };
            [Value::Null, spaces(scheme, false)]
        }
        Rebuilt::CodeLlama => [
            Value::Null,
            spaces(if given.unwrap_or(true) { "first" } else { "never" }, false),
        ],
        Rebuilt::Gemma => [
            json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
            json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false}),
        ],
        Rebuilt::Gpt2 | Rebuilt::Roberta => [Value::Null, bytes(true)],
        Rebuilt::GptNeoX => [nfc, bytes(true)],
        Rebuilt::Qwen2 => [nfc, words(QWEN2)],
        Rebuilt::Qwen3_5 => [nfc, words(QWEN3_5)],
        Rebuilt::Cohere => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            [nfc, sequence(vec![digits, bytes(true)])]
        }
        Rebuilt::Bert => {
            let normalizer = json!({
                "type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": files.flag("tokenize_chinese_chars").unwrap_or(true),
                "strip_accents": files.flag("strip_accents"),
                "lowercase": files.flag("do_lower_case").unwrap_or(true),
            });
            [normalizer, json!({"type": "BertPreTokenizer"})]
        }
        Rebuilt::XlmRoberta => {
            let scheme = if prefix || is_left_out { "always" } else { "never" };
            let split = json!({"type": "WhitespaceSplit"});
            [precompiled(file)?, sequence(vec![split, spaces(scheme, true)])]
        }
        Rebuilt::DebertaV2 => {
            let mut normalizers = Vec::new();
            if files.flag("do_lower_case") == Some(true) {
                normalizers.push(json!({"type": "Lowercase"}));
            }
            normalizers.extend([
                json!({"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "}),
                nfc,
                json!({"type": "Strip", "strip_left": false, "strip_right": true}),
            ]);
            let mut parts = Vec::new();
            if files.flag("split_by_punct") == Some(true) {
                parts.push(json!({"type": "Punctuation", "behavior": "Isolated"}));
            }
            parts.push(spaces(if prefix || is_left_out { "always" } else { "first" }, true));
            [json!({"type": "Sequence", "normalizers": normalizers}), sequence(parts)]
        }
    })
}

/// The first table of characters in a file's normalizer.
fn precompiled(file: &Tokenizer) -> tokenizers::Result<Value> {
    let normalizer = serde_json::to_value(file.get_normalizer())?;
    let is_table = |part: &&Value| part["type"] == "Precompiled";
    let parts = normalizer["normalizers"]
        .as_array()
        .map_or(std::slice::from_ref(&normalizer), Vec::as_slice);
    Ok(parts.iter().find(is_table).cloned().unwrap_or_default())
}

/// Sets what stands around a text, for classes that do not take it from the file.
pub(super) fn surround(tokenizer: &mut Tokenizer, class: Rebuilt, added: &Added) -> tokenizers::Result<()> {
    let [before, behind] = match class {
        Rebuilt::GptNeoX => [None, None],
        Rebuilt::CodeLlama => [Some("bos_token"), None],
        Rebuilt::Bert | Rebuilt::Roberta | Rebuilt::DebertaV2 => [Some("cls_token"), Some("sep_token")],
        Rebuilt::XlmRoberta => [Some("bos_token"), Some("eos_token")],
        Rebuilt::Llama | Rebuilt::Gemma | Rebuilt::Gpt2 | Rebuilt::Qwen2 | Rebuilt::Qwen3_5 | Rebuilt::Cohere => {
            return Ok(());
        }
    };
    let mut special = serde_json::Map::new();
    let mut piece = |name: Option<&str>| {
        let content = added.named(name?)?;
        let id = tokenizer.token_to_id(content)?;
        special.insert(content.into(), json!({"id": content, "ids": [id], "tokens": [content]}));
        Some(json!({"SpecialToken": {"id": content, "type_id": 0}}))
    };
    let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let (before, behind) = (piece(before), piece(behind));
    let single: Vec<Value> = before.into_iter().chain([text("A")]).chain(behind).collect();
    let pair: Vec<Value> = single.iter().cloned().chain([text("B")]).collect();
    let processor = json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special});
    tokenizer.with_post_processor(Some(serde_json::from_value::<PostProcessorWrapper>(processor)?));
    Ok(())
}
