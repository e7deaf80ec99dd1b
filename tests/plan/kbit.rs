//! 4-bit weights after k-bit preparation and TRL's casts, against PyTorch on fake tensors.

use expctl::arch::Preset;
use expctl::options::{AdapterOptions, Autocast, Checkpointing, Upcast};
use expctl::torch::{Backend, Bitsandbytes, Configuration, Transformers, trace};

use super::torch::{FIGURES, figures, rows};

#[test]
fn casts_of_k_bit_preparation_take_what_pytorch_says() {
    let cases = rows(include_str!("../fixtures/torch_abstract/kbit.csv"), |row| {
        let mut model = Preset::named(row.get("model")).expect("a preset").config();
        model.num_hidden_layers = 3;
        let checkpointing = row.get("gradient_checkpointing");
        let configuration = Configuration {
            adapter: Some(AdapterOptions {
                lora_dropout: row.number("dropout"),
                ..AdapterOptions::lora(16, 32.0)
            }),
            bnb_4bit_use_double_quant: false,
            upcast: match row.get("upcast") {
                "peft" => Upcast::Peft,
                "trl" => Upcast::Trl,
                _ => Upcast::None,
            },
            autocast: match row.is("autocast") {
                true => Autocast::Bfloat16,
                false => Autocast::None,
            },
            gradient_checkpointing: match checkpointing {
                "none" => Checkpointing::None,
                _ => Checkpointing::Full,
            },
            enable_input_require_grads: checkpointing != "none",
            max_grad_norm: 0.0,
            transformers: Transformers {
                use_reentrant: checkpointing == "reentrant",
                ..Transformers::TODAY
            },
            bitsandbytes: Bitsandbytes::of(row.get("bitsandbytes")).expect("a studied release"),
            backend: Backend::Cpu,
            ..Configuration::new(model)
        };
        let micro = row.micro("batch", "len");
        let ours = figures(&trace(&configuration, &[&micro, &micro]));
        for (key, ours) in FIGURES.iter().zip(ours) {
            // Reentrant checkpoints keep the mask and the rotary angles as long as the loss lives, which no peak shows.
            if *key == "after_optimizer_step" && checkpointing == "reentrant" {
                assert!(
                    (ours as f64 / row.number(key) - 1.0).abs() <= 5e-3,
                    "{:?}: {key} {ours}",
                    row.values
                );
            } else {
                assert_eq!(ours as f64, row.number(key), "{:?}: {key}", row.values);
            }
        }
    });
    assert_eq!(cases, 72);
}
