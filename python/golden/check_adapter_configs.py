"""Every field of PEFT's configurations, with several values each: does expctl train as many numbers as PEFT, or say why not?

    python python/golden/check_adapter_configs.py [EXPCTL]

Of each case, PEFT saves its `adapter_config.json`, loads it, puts the adapter on a model of the preset `tiny` and does one
step. expctl plans the same file for both stacks. A line a case: method, field, value, numbers that PEFT and the two plans
train (or `-`), an answer for each stack, and the messages:

    equal            as many numbers
    both refuse      PEFT fails, and expctl names the field or its value
    refused by name  PEFT trains, and expctl names the field or its value
    DIFFERENT        other numbers, or expctl plans what PEFT refuses
    silent           expctl names neither the field nor its value, or ends otherwise than with an error

Ends with 1 if there is a case of the last two, or a field of PEFT without values here. Takes two minutes. LoftQ needs scipy.
Used with torch 2.15.0, transformers 5.24.0 and peft 0.21.2.
"""
import collections, concurrent.futures, copy, dataclasses, json, os, pathlib, re, subprocess, sys, tempfile, warnings

os.environ["HF_HUB_OFFLINE"] = "1"

import peft
import tokenizers
import torch
import transformers
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING as CONFIGS

warnings.filterwarnings("ignore")
PRESET = pathlib.Path(__file__).parents[2] / "crates/arch/src/presets/tiny.json"
STACKS = ["candle", "torch"]
FOLDER = tempfile.TemporaryDirectory()

QV = ["q_proj", "v_proj"]
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Of LLaMA-Factory, ms-swift and Unsloth, for models that also see.
PATTERNS = ["^(?!.*visual).*(?:q_proj|v_proj).*", r"^(model(?=\.).*\.(q_proj|v_proj))$",
    r"(?:.*?(?:language|text).*?(?:self_attn|mlp).*?(?:q_proj|down_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|mlp)\.(?:(?:q_proj|down_proj)))"]
RATES = [0.05, 0.5, 1, 1.5]
BY_NAME = [{}, {"q_proj": 2}, {"layers.0.self_attn.q_proj": 2}, {r"layers\.0\..*": 2}, {"^model.layers.0.self_attn.q_proj": 2},
    {"model.layers.0.self_attn.q_proj": 2}, {"q_proj": 2, ".*": 3}, {"no_such": 2}, {".*": 2}, {"q_proj": 4}, {"k_proj": 2}, {"q_proj": 0}]

# The methods of expctl, with the settings beside which each field is varied. DORA is LORA with use_dora.
METHODS = dict(
    LORA=dict(r=4, target_modules=QV), DORA=dict(use_dora=True, r=4, target_modules=QV), MISS=dict(r=4, target_modules=QV), VERA=dict(r=4, target_modules=QV),
    IA3=dict(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=[]), OFT=dict(oft_block_size=8, target_modules=QV), LN_TUNING={},
    LOHA=dict(r=4, target_modules=QV), LOKR=dict(r=4, target_modules=QV), PROMPT_TUNING=dict(num_virtual_tokens=5), PREFIX_TUNING=dict(num_virtual_tokens=5))
# What some other types of PEFT ask for. Each type is one case.
OTHERS = dict(
    ADALORA=dict(total_step=100), P_TUNING=dict(num_virtual_tokens=5, encoder_hidden_size=32), CPT=dict(cpt_token_ids=[1, 2]), BOFT=dict(boft_block_size=4),
    CARTRIDGE=dict(num_virtual_tokens=5), TRAINABLE_TOKENS=dict(token_indices=[1, 2]), OSF=dict(effective_rank=4))

# The values of a field, besides its default, none, and null.
VALUES = dict(
    task_type=["CAUSAL_LM", "SEQ_CLS", "SEQ_2_SEQ_LM", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION", "NO_SUCH"], peft_type=["lora", "NO_SUCH"],
    auto_mapping=[{"base_model_class": "LlamaForCausalLM", "parent_library": "transformers.models.llama.modeling_llama"}], peft_version=["0.10.0", "0.21.2.dev0@1a2b3c", "99.0.0"],
    base_model_name_or_path=["org/model", "", "/models/tiny"], revision=["main", "1a2b3c"], inference_mode=[True], r=[1, 16, 64, 128, 0, -1], alpha=[16, 0.5, 0, -1],
    lora_alpha=[16, 16.0, 0.5, 0, -1], lora_dropout=RATES, rank_dropout=RATES, module_dropout=RATES, target_modules=["all-linear", SEVEN, ["q_proj"], ["q_proj", "q_proj"], [*QV, "lm_head"],
    ["lm_head"], ["q_proj", "embed_tokens"], ["no_such"], ["q_proj", "W_pack", "no_such"], ["self_attn.q_proj"], ["layers.0.self_attn.q_proj", "layers.1.mlp.up_proj"],
    ["model.layers.0.self_attn.q_proj"], ["q_proj", "norm"], ["self_attn"], ["all-linear"], [], "", "q_proj", "no_such", r".*\.(q|v)_proj", r".*layers\.0\.mlp\..*_proj", ".*self_attn.*",
    ".*lm_head", ".*", "(", *PATTERNS], exclude_modules=[["v_proj"], ["layers.0.self_attn.v_proj"], ["lm_head"], ["no_such"], [], QV, r".*layers\.0\..*", "v_proj"],
    modules_to_save=[["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head"], ["norm"], ["model.norm"], ["input_layernorm"], ["mlp"], ["q_proj"], ["classifier", "score"], ["no_such"], [],
    "lm_head"], layers_to_transform=[0, 1, [1], [0, 1], [], 2, [1, 7], -1], layers_pattern=["layers", ["layers"], "h", []], rank_pattern=BY_NAME, alpha_pattern=BY_NAME, fan_in_fan_out=[True],
    bias=["none", "all", "no_such"], use_rslora=[True], use_dora=[True, False], lora_bias=[True], use_qalora=[True], qalora_group_size=[32, 0],
    init_lora_weights=[True, False, "gaussian", "eva", "olora", "pissa", "pissa_niter_4", "corda", "loftq", "orthogonal", "mica", "lora_ga", "no_such"],
    megatron_config=[{}, {"tensor_model_parallel_size": 1}], megatron_core=["megatron.core", "megatron"],
    trainable_token_indices=[[0, 1], {"embed_tokens": [0, 1]}, {"lm_head": [1]}, [], {}, [1000]], loftq_config=[{}, {"loftq_bits": 4, "loftq_iter": 1}], eva_config=[{"rho": 2.0}],
    corda_config=[{"corda_method": "kpm"}], lora_ga_config=[{"direction": "ArBr"}], velora_config=[{"num_groups": 8}], alora_invocation_tokens=[[3, 4], []],
    monteclora_config=[{"num_samples": 4}], layer_replication=[[[0, 2], [1, 2]], [[0, 2]], []], runtime_config=[{"ephemeral_gpu_offload": True}],
    target_parameters=[["q_proj.weight"], ["mlp.up_proj.weight"], ["no_such"], []], use_bdlora=[{"nblocks": 2, "target_modules_bd_a": ["q_proj"]}],
    arrow_config=[{"top_k": 2, "task_adapter_names": ["a"]}], kasa_config=[{"beta": 1e-4}], ensure_weight_tying=[True],
    feedforward_modules=[[], ["down_proj"], ["v_proj"], ["k_proj", "v_proj", "down_proj"], ["up_proj"], "down_proj", ".*down_proj"], init_ia3_weights=[False],
    init_weights=[True, False, "no_such"], miss_dropout=RATES, mini_r=[2, 4, 3, 0], projection_prng_key=[7, -1], save_projection=[False], vera_dropout=RATES, d_initial=[1.0, 0, -1],
    oft_block_size=[4, 32, 5, 7, 64, 100, 0], coft=[True], eps=[1e-4], block_share=[True], use_cayley_neumann=[False], num_cayley_neumann_terms=[7, 1, 0], use_effective_conv2d=[True],
    decompose_both=[True], decompose_factor=[2, 8, 7, 0, -2], rank_dropout_scale=[True], num_virtual_tokens=[1, 20, 1000, 0, -1], token_dim=[64, 128], num_transformer_submodules=[1, 2],
    num_attention_heads=[4, 2, 8], num_layers=[2, 1, 3], prompt_tuning_init=["RANDOM", "SAMPLE_VOCAB", "TEXT", "no_such"], prompt_tuning_init_text=["a b c"],
    tokenizer_name_or_path=["org/model", "{tokenizer}"], tokenizer_kwargs=[{"trust_remote_code": False}, {}], encoder_hidden_size=[32], prefix_projection=[True])
# Those of a method, where it differs.
LORA_BIASES = dict(bias=["none", "all", "lora_only", "no_such"])
OWN = dict(
    LN_TUNING=dict(
        target_modules=[["input_layernorm", "post_attention_layernorm", "norm"], ["norm"], ["input_layernorm"], ["post_attention_layernorm"], ["no_such"], [],
        ["layers.0.input_layernorm"], ["q_proj"], ["embed_tokens"], "all-linear", ".*norm", ".*input_layernorm"],
        exclude_modules=[["norm"], ["no_such"], [], r".*layers\.0\..*"], modules_to_save=[["lm_head"], ["embed_tokens"], ["q_proj"], "lm_head", []]),
    LORA=LORA_BIASES, DORA=LORA_BIASES, VERA=dict(bias=["none", "all", "vera_only", "no_such"]), LOKR=dict(init_weights=[True, False, "lycoris", "no_such"]),
    OFT=dict(r=[1, 4, 16, 0, -1], bias=["none", "all", "oft_only", "no_such"]), MISS=dict(init_weights=[True, False, "bat", "mini", "no_such"]),
    PREFIX_TUNING=dict(init_weights=["zero", "no_such"]))
# Fields that mean something together, of methods that have them all.
TOGETHER = [
    dict(target_modules=None, r=8, lora_alpha=32), dict(target_modules=None, modules_to_save=["lm_head"]), dict(target_modules=None, layers_to_transform=[0]),
    dict(target_modules=None, exclude_modules=["v_proj"]), dict(target_modules=None, rank_pattern={"q_proj": 2}), dict(target_modules=None, feedforward_modules=None),
    dict(target_modules=None, feedforward_modules=["down_proj"]), dict(target_modules=QV, feedforward_modules=None), dict(target_modules="all-linear", feedforward_modules=["down_proj"]),
    dict(target_modules="all-linear", exclude_modules=["lm_head"]), dict(target_modules=r".*\.(q|v)_proj", exclude_modules=["layers.0.self_attn.q_proj"]),
    dict(target_modules="all-linear", layers_to_transform=[0]), dict(target_modules=r".*\.(q|v)_proj", layers_to_transform=[0]), dict(target_modules=[*SEVEN, "lm_head"], r=8),
    dict(target_modules=[*QV, "lm_head"], modules_to_save=["embed_tokens"]), dict(target_modules=[*QV, "lm_head"], modules_to_save=["lm_head"]),
    dict(target_modules="all-linear", modules_to_save=["lm_head"]), dict(layers_to_transform=[0], layers_pattern="layers"), dict(layers_to_transform=1, layers_pattern=["layers"]),
    dict(layers_to_transform=[1], layers_pattern="h"), dict(init_lora_weights="loftq", loftq_config={"loftq_bits": 4, "loftq_iter": 1}),
    dict(init_lora_weights="eva", eva_config={"rho": 2.0}, rank_pattern={"q_proj": 2}), dict(init_lora_weights="corda", corda_config={"corda_method": "kpm"}),
    dict(init_lora_weights="pissa", use_rslora=True), dict(bias="all", lora_bias=True), dict(ensure_weight_tying=True, modules_to_save=["embed_tokens"]),
    dict(ensure_weight_tying=True, target_modules=[*QV, "embed_tokens"]), dict(ensure_weight_tying=True, target_modules=[*QV, "lm_head"]),
    dict(ensure_weight_tying=True, trainable_token_indices=[0, 1]), dict(trainable_token_indices=[0, 1], modules_to_save=["lm_head"]),
    dict(target_modules=[], target_parameters=["mlp.up_proj.weight"]), dict(inference_mode=True, base_model_name_or_path="org/model", revision="main"), dict(init_weights="mini", mini_r=4),
    dict(init_weights="mini", mini_r=3), dict(oft_block_size=0, r=4), dict(oft_block_size=0, r=10), dict(oft_block_size=8, block_share=True), dict(decompose_both=True, decompose_factor=8, r=2),
    dict(r=64, decompose_both=True), dict(prompt_tuning_init="TEXT", prompt_tuning_init_text="a b c", tokenizer_name_or_path="{tokenizer}"), dict(prefix_projection=True, encoder_hidden_size=32),
    dict(num_layers=2, token_dim=64, num_attention_heads=4, num_transformer_submodules=1)]

# Fields that PEFT does not have (any more), and ones of others.
UNKNOWN = [("a_new_field", value) for value in [None, False, True, 0, 0.0, 1, "", "text", [], {}, [1], {"a": 1}]] + [("enable_lora", None),
    ("merge_weights", False), ("merge_weights", True), ("lora_rank", 8), ("use_mora", True), ("lora_dropuot", 0.1), ("task", "CAUSAL_LM"), ("fan_in_fan_out_", False)]
# What expctl's keys call a field otherwise.
KEYS = dict(r="rank", task_type="task", peft_type="adapter")


@dataclasses.dataclass
class Case:
    method: str
    fields: list
    value: str
    folder: pathlib.Path
    trained: object = None


def save(method, settings, forced={}, removed=()):
    """Writes adapter_config.json as PEFT does, with the forced fields as they are. What PEFT's class refuses is written as it is, beside what is saved without."""
    kind = CONFIGS["LORA" if method == "DORA" else method]
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER.name))
    fields = {"peft_type": method} | settings
    for given, kept in [(settings, {}), (METHODS.get(method, {}), settings)]:
        try:
            kind(**{"task_type": "CAUSAL_LM"} | given).save_pretrained(folder)
            fields = json.loads((folder / "adapter_config.json").read_text()) | kept
            break
        except Exception:
            continue
    fields = {name: value for name, value in (fields | forced).items() if name not in removed}
    (folder / "adapter_config.json").write_text(json.dumps(fields, indent=2, sort_keys=True))
    return folder


def cases_of(method, base, tokenizer, missing):
    """The cases of a method: each field alone, fields together, and unknown ones."""
    def case(fields, value, settings, forced={}, removed=()):
        return Case(method, list(fields), value, save(method, settings, forced, removed))

    def placed(value):
        return tokenizer if value == "{tokenizer}" else value

    names = [field.name for field in dataclasses.fields(CONFIGS["LORA" if method == "DORA" else method])]
    for name in names:
        others = {key: value for key, value in base.items() if key != name}
        yield case([name], "(default)", others)
        yield case([name], "(left out)", others, removed=[name])
        yield case([name], "null", base, {name: None})
        if name not in VALUES:
            missing.append((method, name))
        for value in map(placed, OWN.get(method, {}).get(name, VALUES.get(name, []))):
            # PEFT's class sets the type itself.
            settings, forced = (base, {name: value}) if name == "peft_type" else (base | {name: value}, {})
            yield case([name], json.dumps(value), settings, forced)
    for together in TOGETHER:
        if set(together) <= set(names):
            settings = {name: placed(value) for name, value in together.items()}
            yield case(together, json.dumps(list(settings.values())), base | settings)
    for name, value in UNKNOWN:
        yield case([name], json.dumps(value), base, {name: value})


def by_peft(folder, model):
    """The numbers that PEFT trains, or why it does not. An adapter that was saved for inference is made trainable, as by `is_trainable`."""
    try:
        kind = json.loads((folder / "adapter_config.json").read_text())["peft_type"]
        config = CONFIGS[kind].from_pretrained(folder)
        config.inference_mode = False
        adapted = peft.get_peft_model(copy.deepcopy(model), config)
        tokens = torch.arange(8).reshape(1, 8)
        adapted(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss.backward()
        return sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def by_expctl(program, case, stack):
    """The numbers that a plan trains, or what expctl prints, with its exit status."""
    spec = case.folder / f"{stack}.yaml"
    spec.write_text(f"name: {stack}\ndefaults: {{model: tiny, dtype: float32, stack: {stack}, adapter_config: adapter_config.json}}\n")
    out = subprocess.run([program, "plan", spec.name, "--format", "json"], capture_output=True, text=True, cwd=case.folder)
    if out.returncode == 0:
        return json.loads(out.stdout)[0]["predicted_trainable_count"]
    return out.returncode, out.stderr.replace(f"{case.folder}/", "")


def answer(case, ours):
    """How expctl's number or message stands to PEFT's."""
    if not isinstance(ours, tuple):
        return "equal" if ours == case.trained else "DIFFERENT"
    status, message = ours
    names = case.fields + [KEYS[name] for name in case.fields if name in KEYS]
    is_named = any(re.search(rf"[`\" .]{name}[`\":\[ ]", message) for name in names)
    is_named |= len(case.value) > 3 and case.value not in ("null", "true", "false") and case.value in message
    if status != 2 or not is_named:
        return "silent"
    return "refused by name" if isinstance(case.trained, int) else "both refuse"


def shortened(text, length):
    text = " ".join(text.split()).replace("|", "/")
    return text if len(text) <= length else text[:length - 1] + "…"


def main():
    program = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/expctl").resolve())
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**json.loads(PRESET.read_text())))
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    tokenizer = FOLDER.name + "/tokenizer"
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="a").save_pretrained(tokenizer)
    missing = []
    cases = [case for method, base in METHODS.items() for case in cases_of(method, base, tokenizer, missing)]
    for kind in sorted(kind.value for kind in map(peft.PeftType, CONFIGS)):
        if kind not in METHODS:
            cases.append(Case(kind, ["peft_type"], json.dumps(kind), save(kind, OTHERS.get(kind, {}))))
    totals = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        plans = pool.map(lambda case: [by_expctl(program, case, stack) for stack in STACKS], cases)
        for case in cases:
            case.trained = by_peft(case.folder, model)
        for case, ours in zip(cases, plans):
            answers = [answer(case, own) for own in ours]
            totals.update((case.method if case.method in METHODS else "other types", stack, found) for stack, found in zip(STACKS, answers))
            numbers = [str(number) if isinstance(number, int) else "-" for number in [case.trained, *ours]]
            errors = [shortened(own[1], 200) for own in ours if isinstance(own, tuple)]
            errors += [] if isinstance(case.trained, int) else ["PEFT: " + shortened(case.trained, 150)]
            print(" | ".join([case.method, "+".join(case.fields), shortened(case.value, 90), *numbers, *answers, *dict.fromkeys(errors)]))
    for (method, stack, found), count in sorted(totals.items()):
        print(f"total | {method} | {stack} | {found} | {count}")
    for method, name in missing:
        print(f"no values | {method} | {name}")
    sys.exit(bool(missing) or any(found in ("DIFFERENT", "silent") for _, _, found in totals))


if __name__ == "__main__":
    main()
