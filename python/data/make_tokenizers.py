"""Small tokenizers of each kind, and their ids by transformers' classes.

    python python/data/make_tokenizers.py

Writes `tests/fixtures/tokenizers/` and `tests/fixtures/tokenizer_classes.json`: for each class and option the files beside
tokenizer.json, and the ids of some texts with and without special tokens. Written with transformers 5.24.0. What the files say of
normalizers and splits differs on purpose from what the classes make of them.
"""

import json
import pathlib
import tempfile

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
SAMPLE = (ROOT / "crates/data/embedded/sample.txt").read_text()

TEXTS = [
    "The river keeps it.", " leading", "trailing ", "two  spaces", "line\nend\r\n\ttab", "12345 ½ ² ３", "naïve Café é",
    "漢字 🙂", "<s>inside</s> and <mask> after", "<extra> text", "don't WE'LL", "", "a.b,c;d!",
]


def metaspace():
    """Llama 2's kind: characters with a mark for spaces, and bytes for what is unknown."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(
        vocab_size=560, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)], show_progress=False)
    tokenizer.train_from_iterator([SAMPLE], trainer)
    for token in list(tokenizer.get_added_tokens_decoder().values())[3:]:
        assert token.content.startswith("<0x")
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([SAMPLE], trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    return tokenizer


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    tokenizer.train_from_iterator([SAMPLE, SAMPLE.lower()], trainer)
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", "<mask>"],
        unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator([SAMPLE], trainer)
    return tokenizer


FILES = dict(metaspace=metaspace, byte_level=byte_level, word_piece=word_piece, unigram=unigram)
BERT = dict(unk_token="[UNK]", sep_token="[SEP]", pad_token="[PAD]", cls_token="[CLS]", mask_token="[MASK]")

# The kind of file, the class, the `model_type`, and further keys of tokenizer_config.json.
CASES = [
    ("metaspace", "LlamaTokenizer", "llama", {}),
    ("metaspace", "LlamaTokenizer", "llama", dict(legacy=True)),
    ("metaspace", "LlamaTokenizerFast", "llama", dict(add_prefix_space=False)),
    ("metaspace", "LlamaTokenizer", "mistral", {}),
    ("metaspace", "LlamaTokenizer", "phi3", {}),
    ("metaspace", "PreTrainedTokenizerFast", "llama", dict(split_special_tokens=True)),
    ("metaspace", "GemmaTokenizer", "gemma", dict(bos_token="<s>", eos_token="</s>")),
    ("byte_level", "LlamaTokenizer", "llama", {}),
    ("byte_level", "GPT2Tokenizer", "gpt2", {}),
    ("byte_level", "GPT2Tokenizer", "starcoder2", dict(add_prefix_space=True)),
    ("byte_level", "GPTNeoXTokenizer", "gpt_neox", {}),
    ("byte_level", "Qwen2Tokenizer", "qwen2", dict(extra_special_tokens=["<extra>"])),
    ("byte_level", None, "qwen3", {}),
    ("byte_level", "Qwen3_5Tokenizer", "qwen3_5", {}),
    ("byte_level", "CohereTokenizer", "cohere", {}),
    ("byte_level", "RobertaTokenizer", "roberta", {}),
    ("byte_level", "PreTrainedTokenizerFast", "smollm3", dict(eos_token="<end>", extra_special_tokens=["<extra>"])),
    ("byte_level", "PreTrainedTokenizerFast", "llama", dict(added_tokens_decoder={
        "2": dict(content="</s>", lstrip=True, rstrip=True, normalized=False, single_word=False, special=True)})),
    ("word_piece", "BertTokenizer", "bert", {}),
    ("word_piece", "BertTokenizerFast", "bert", dict(do_lower_case=False)),
    ("word_piece", "DistilBertTokenizer", "distilbert", dict(strip_accents=False, tokenize_chinese_chars=False)),
    ("unigram", "XLMRobertaTokenizer", "xlm-roberta", {}),
    ("unigram", "DebertaV2Tokenizer", "deberta-v2", dict(do_lower_case=True)),
]


def case(kind, name, model_type, options):
    config = {"tokenizer_class": name} if name else {}
    beside = {"tokenizer_config.json": config | options, "config.json": {"model_type": model_type}}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer.json").write_text((FIXTURES / f"tokenizers/{kind}.json").read_text())
        for file, content in beside.items():
            (folder / file).write_text(json.dumps(content))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = lambda text, special: tokenizer(text, add_special_tokens=special)["input_ids"]
        samples = [dict(text=text, ids=ids(text, False), with_special_tokens=ids(text, True)) for text in TEXTS]
    return dict(name=f"{name} of {model_type} {options}", file=f"{kind}.json", beside=beside, samples=samples)


def main():
    (FIXTURES / "tokenizers").mkdir(exist_ok=True)
    for kind, make in FILES.items():
        make().save(str(FIXTURES / f"tokenizers/{kind}.json"), pretty=False)
    cases = ",\n".join(json.dumps(case(*args)) for args in CASES)
    (FIXTURES / "tokenizer_classes.json").write_text(f"[\n{cases}\n]\n")


main()
