//! The class that transformers' `AutoTokenizer` takes.

use tokenizers::models::ModelWrapper;

use super::files::Files;

/// A class of transformers, by what it does with tokenizer.json.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// It takes the file as it is.
    AsFile,
    /// It makes most parts itself.
    Rebuilt(Rebuilt),
    /// It makes parts itself, and it is not known here which.
    Unknown(&'static str),
}

/// The classes that make most parts themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rebuilt {
    Llama,
    CodeLlama,
    Gemma,
    Gpt2,
    GptNeoX,
    Qwen2,
    Qwen3_5,
    Cohere,
    Bert,
    Roberta,
    XlmRoberta,
    DebertaV2,
}

/// Classes by name, without the `Fast` at its end. Those that are not here take the file as it is.
const CLASSES: [(&str, Rebuilt); 22] = [
    ("LlamaTokenizer", Rebuilt::Llama),
    ("CodeLlamaTokenizer", Rebuilt::CodeLlama),
    ("GemmaTokenizer", Rebuilt::Gemma),
    ("GPT2Tokenizer", Rebuilt::Gpt2),
    ("CodeGenTokenizer", Rebuilt::Gpt2),
    ("GPTNeoXTokenizer", Rebuilt::GptNeoX),
    ("Qwen2Tokenizer", Rebuilt::Qwen2),
    ("Qwen3_5Tokenizer", Rebuilt::Qwen3_5),
    ("CohereTokenizer", Rebuilt::Cohere),
    ("BertTokenizer", Rebuilt::Bert),
    ("DistilBertTokenizer", Rebuilt::Bert),
    ("ElectraTokenizer", Rebuilt::Bert),
    ("LxmertTokenizer", Rebuilt::Bert),
    ("MobileBertTokenizer", Rebuilt::Bert),
    ("SqueezeBertTokenizer", Rebuilt::Bert),
    ("RobertaTokenizer", Rebuilt::Roberta),
    ("BartTokenizer", Rebuilt::Roberta),
    ("LEDTokenizer", Rebuilt::Roberta),
    ("LongformerTokenizer", Rebuilt::Roberta),
    ("MvpTokenizer", Rebuilt::Roberta),
    ("XLMRobertaTokenizer", Rebuilt::XlmRoberta),
    ("DebertaV2Tokenizer", Rebuilt::DebertaV2),
];

/// Classes whose parts are not described here.
const UNKNOWN: [&str; 46] = [
    "AlbertTokenizer",
    "BarthezTokenizer",
    "BertweetTokenizer",
    "BigBirdTokenizer",
    "BioGptTokenizer",
    "BlenderbotTokenizer",
    "BlenderbotSmallTokenizer",
    "ByT5Tokenizer",
    "CamembertTokenizer",
    "CanineTokenizer",
    "CLIPTokenizer",
    "CTRLTokenizer",
    "DebertaTokenizer",
    "EsmTokenizer",
    "FlaubertTokenizer",
    "FSMTTokenizer",
    "FunnelTokenizer",
    "GPTSw3Tokenizer",
    "HerbertTokenizer",
    "LayoutLMTokenizer",
    "LukeTokenizer",
    "M2M100Tokenizer",
    "MarianTokenizer",
    "MBartTokenizer",
    "MBart50Tokenizer",
    "MPNetTokenizer",
    "NllbTokenizer",
    "OpenAIGPTTokenizer",
    "PegasusTokenizer",
    "PhobertTokenizer",
    "PLBartTokenizer",
    "ProphetNetTokenizer",
    "ReformerTokenizer",
    "RemBertTokenizer",
    "RoFormerTokenizer",
    "SeamlessM4TTokenizer",
    "SiglipTokenizer",
    "SplinterTokenizer",
    "T5Tokenizer",
    "UdopTokenizer",
    "WhisperTokenizer",
    "XGLMTokenizer",
    "XLMTokenizer",
    "XLNetTokenizer",
    "TapasTokenizer",
    "Wav2Vec2Tokenizer",
];

/// The class of each `model_type` (`TOKENIZER_MAPPING_NAMES`), of language models.
const OF_MODELS: [(&str, &[&str]); 11] = [
    (
        "GPT2Tokenizer",
        &[
            "gpt2",
            "gpt_neo",
            "gptj",
            "opt",
            "phi",
            "codegen",
            "starcoder2",
            "dbrx",
            "jais2",
        ],
    ),
    (
        "GPTNeoXTokenizer",
        &[
            "gpt_neox",
            "olmo",
            "olmoe",
            "mamba",
            "mamba2",
            "mpt",
            "rwkv",
            "falcon_mamba",
            "xlstm",
        ],
    ),
    (
        "GemmaTokenizer",
        &[
            "gemma",
            "gemma2",
            "gemma3",
            "gemma3_text",
            "gemma3n",
            "gemma3n_text",
            "recurrent_gemma",
            "t5gemma",
            "zaya",
        ],
    ),
    (
        "Qwen2Tokenizer",
        &[
            "qwen2",
            "qwen2_moe",
            "qwen2_vl",
            "qwen2_5_vl",
            "qwen3",
            "qwen3_moe",
            "qwen3_next",
            "qwen3_vl",
        ],
    ),
    (
        "Qwen3_5Tokenizer",
        &[
            "qwen3_5",
            "qwen3_5_text",
            "qwen3_5_moe",
            "qwen3_5_moe_text",
            "qwen4_exp",
        ],
    ),
    ("CohereTokenizer", &["cohere", "cohere2"]),
    ("CodeLlamaTokenizer", &["code_llama"]),
    (
        "BertTokenizer",
        &[
            "bert",
            "distilbert",
            "electra",
            "nomic_bert",
            "mobilebert",
            "squeezebert",
        ],
    ),
    ("RobertaTokenizer", &["roberta", "bart", "longformer"]),
    ("XLMRobertaTokenizer", &["xlm-roberta", "xmod", "gte"]),
    ("DebertaV2Tokenizer", &["deberta-v2"]),
];

/// Other `model_type`s with a class, which takes the file as it is.
const MODELS_AS_FILE: [&str; 22] = [
    "mistral",
    "mistral3",
    "ministral",
    "ministral3",
    "mixtral",
    "pixtral",
    "granite",
    "granitemoe",
    "granitemoehybrid",
    "granitemoeshared",
    "olmo2",
    "olmo3",
    "olmo_hybrid",
    "flex_olmo",
    "glm",
    "glm4",
    "glm4_moe",
    "gpt_bigcode",
    "stablelm",
    "persimmon",
    "xlm-roberta-xl",
    "umt5",
];

/// `MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS`: the class of the model counts, and not the one that the checkpoint names.
const MISNAMED: [&str; 45] = [
    "arctic",
    "chatlm",
    "ernie4_5",
    "ernie4_5_moe",
    "fuyu",
    "h2ovl_chat",
    "hyperclovax",
    "hyperclovax_vlm",
    "hyperclovax_vision_v2",
    "internlm2",
    "internlm3",
    "iquestcoder",
    "jamba",
    "llava",
    "llava_next",
    "minicpm3",
    "minicpmv",
    "minimax_m2",
    "modernbert",
    "modernbert-decoder",
    "molmo",
    "molmo2",
    "nemotron",
    "nvfp4",
    "opencua",
    "openvla",
    "paddleocr_vl",
    "phi3",
    "phi3_v",
    "phimoe",
    "qwen2",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "qwen4_exp",
    "step3_vl",
    "vipllava",
    "cohere_asr",
    "camembertv2-base",
    "siglip2",
    "smolvlm",
    "h2ovl",
    "kimi_k2",
    "kimi_k25",
    "kimi_linear",
];

impl Class {
    /// The class for these files and the text of tokenizer.json.
    pub(super) fn of(files: &Files, file: &[u8]) -> Self {
        let model_type = files.model["model_type"].as_str().unwrap_or_default();
        let named = files.config["tokenizer_class"]
            .as_str()
            .or(files.model["tokenizer_class"].as_str());
        let named = named.map(without_fast);
        let of_model = of_model(model_type);
        let is_misnamed = MISNAMED.contains(&model_type);
        let Some(named) = named else {
            return of_model.map_or(Self::AsFile, Self::named);
        };
        if named == "LlamaTokenizer" && !is_misnamed && has_byte_level(file) {
            return Self::AsFile;
        }
        match of_model {
            Some(of_model) if of_model != named => match Self::named(of_model) {
                Self::AsFile => Self::AsFile,
                of_model if is_misnamed => of_model,
                _ => Self::named(named),
            },
            _ => Self::named(named),
        }
    }

    /// The class for a file's kind of model. transformers cannot make another kind of it.
    pub(super) fn for_model(self, model: &ModelWrapper) -> Self {
        let Self::Rebuilt(class) = self else { return self };
        let fits = match class {
            Rebuilt::Bert => matches!(model, ModelWrapper::WordPiece(_)),
            Rebuilt::XlmRoberta | Rebuilt::DebertaV2 => matches!(model, ModelWrapper::Unigram(_)),
            _ => matches!(model, ModelWrapper::BPE(_)),
        };
        if fits { self } else { Self::AsFile }
    }

    fn named(name: &str) -> Self {
        let name = without_fast(name);
        if let Some(unknown) = UNKNOWN.into_iter().find(|unknown| *unknown == name) {
            return Self::Unknown(unknown);
        }
        let known = CLASSES.iter().find(|(known, _)| *known == name);
        known.map_or(Self::AsFile, |(_, class)| Self::Rebuilt(*class))
    }
}

fn without_fast(name: &str) -> &str {
    name.strip_suffix("Fast").unwrap_or(name)
}

/// The class that a `model_type` has; `None` if transformers has none for it.
fn of_model(model_type: &str) -> Option<&'static str> {
    let found = OF_MODELS.iter().find(|(_, models)| models.contains(&model_type));
    let as_file = MODELS_AS_FILE.contains(&model_type) || MISNAMED.contains(&model_type);
    found
        .map(|(class, _)| *class)
        .or(as_file.then_some("TokenizersBackend"))
}

/// True if a tokenizer.json has a part that works on bytes, as Llama 3's has.
fn has_byte_level(file: &[u8]) -> bool {
    const NAME: &[u8] = b"\"ByteLevel\"";
    file.windows(NAME.len()).any(|window| window == NAME)
}
