//! The files that some cells name: models of tiny's size, data, and an adapter's configuration.

use serde_json::{Value, json};

use crate::common::project::Project;

const TOKENIZER: &str = include_str!("../../crates/data/embedded/tokenizer.json");
const WORDS: [&str; 12] = [
    "the", "cat", "sat", "on", "a", "mat", "and", "it", "ran", "to", "dog", ".",
];

/// Writes them into the project.
pub fn write(project: &Project) {
    let write = |path: &str, content: &str| project.write(format!("files/{path}"), content);
    write(
        "model/config.json",
        &model(json!({ "eos_token_id": 0, "bos_token_id": 0 })),
    );
    write(
        "qwen/config.json",
        &model(json!({ "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1e6 })),
    );
    let bert = json!({
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_act": "gelu", "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 512,
        "max_position_embeddings": 128, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1, "pad_token_id": 0,
    });
    write("bert/config.json", &bert.to_string());
    for folder in ["model", "qwen", "bert"] {
        write(&format!("{folder}/tokenizer.json"), TOKENIZER);
    }
    write("llama/config.json", include_str!("../fixtures/tiny_llama/config.json"));
    let weights = include_bytes!("../fixtures/tiny_llama/model.safetensors");
    project.write("files/llama/model.safetensors", weights);
    let adapter = json!({
        "task_type": "CAUSAL_LM", "peft_type": "LORA", "r": 8, "lora_alpha": 32, "lora_dropout": 0.0, "bias": "none",
        "target_modules": ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"],
    });
    write("adapter/adapter_config.json", &adapter.to_string());
    write(
        "accelerate.yaml",
        "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n",
    );
    write(
        "deepspeed.json",
        r#"{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}"#,
    );
    write_data(&write);
}

/// tiny's shape, and what differs.
fn model(other: Value) -> String {
    let mut config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
        "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 512, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": true,
    });
    if let (Value::Object(config), Value::Object(other)) = (&mut config, other) {
        config.extend(other);
    }
    config.to_string()
}

fn write_data(write: &dyn Fn(&str, &str)) {
    let mut random = Random(1);
    let lines = |count: usize, line: &mut dyn FnMut(usize) -> Value| -> String {
        (0..count).map(|at| format!("{}\n", line(at))).collect()
    };
    let mut texts = |at: usize| json!({ "text": random.words(3, 8), "other": random.words(8, 16), "label": at % 3, "grade": at / 2 % 3 });
    write("texts.jsonl", &lines(40, &mut texts));
    for split in ["train", "validation", "test"] {
        write(&format!("splits/{split}.jsonl"), &lines(20, &mut texts));
    }
    let mut pairs = |_| {
        json!({
            "prompt": random.words(3, 6), "completion": random.words(3, 5), "question": random.words(5, 8),
            "answer": random.words(7, 11), "long": random.words(18, 28),
        })
    };
    write("pairs.jsonl", &lines(40, &mut pairs));
    let mut chats = |_| {
        let mut chat = |least: usize, most: usize| {
            let mut message = |role: &str, speaker: &str| {
                let (content, draft) = (random.words(least, most), random.words(least + 8, most + 8));
                json!({ "role": role, "speaker": speaker, "content": content, "draft": draft })
            };
            json!([message("user", "the cat"), message("assistant", "a dog")])
        };
        let (messages, dialog) = (chat(3, 6), chat(7, 10));
        json!({ "messages": messages, "dialog": dialog, "about": random.words(4, 8), "functions": [{ "name": random.words(4, 8) }] })
    };
    write("chats.jsonl", &lines(40, &mut chats));
    let rows: Vec<String> = (0..40)
        .map(|_| format!("{},{};{}", random.words(2, 3), random.words(4, 6), random.words(8, 12)))
        .collect();
    write("table.csv", &format!("text,x;text\n{}\n", rows.join("\n")));
    let lines: Vec<String> = (0..40)
        .map(|_| format!("{}\n{}", random.words(4, 10), random.words(2, 3)))
        .collect();
    write("lines.txt", &lines.join("\n\n"));
    let paragraphs: Vec<String> = (0..40).map(|_| random.words(4, 10)).collect();
    write("texts.txt", &paragraphs.join("\n\n"));
    write(
        "plain.jinja",
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
    );
    write(
        "tools.jinja",
        "{% for t in tools or [] %}{{ t.name }}\n{% endfor %}{% for m in messages %}{{ m['content'] }}\n{% endfor %}",
    );
    write(
        "long.jinja",
        "{% for m in messages %}### {{ m['role'] }} says this\n\n{{ m['content'] }}\n\n{% endfor %}",
    );
}

/// Numbers that look random and are always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    /// A text of at least and at most so many words.
    fn words(&mut self, least: usize, most: usize) -> String {
        let count = least + self.below(most + 1 - least);
        let words: Vec<&str> = (0..count).map(|_| WORDS[self.below(WORDS.len())]).collect();
        words.join(" ")
    }
}
