//! The time of a step beside published speeds.

use arch::Preset;
use cell::{
    Adapter, Attention, Autocast, Cell, Checkpointing, Data, Dtype, FloatDtype, Optimizer, Stack, Synthetic,
    TargetModules, Upcast,
};
use options::Lengths;
use plan::speed::speed;
use torch::gpu::Gpu;

/// Published speeds of presets on one GPU, each the seconds of a micro-batch, forward and backward. Half of them,
/// `choose`, chose the constants of `plan::speed`; `check` and `unseen` did not.
const SPEEDS: &str = include_str!("../fixtures/speeds.csv");

#[test]
fn published_speeds_are_in_the_range() {
    let mut reader = csv::Reader::from_reader(SPEEDS.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let mut ratios: Vec<(bool, f64)> = Vec::new();
    for record in reader.records() {
        let record = record.unwrap();
        let get = |name: &str| {
            let column = headers.iter().position(|header| header == name).unwrap();
            &record[column]
        };
        let cell = cell(&get);
        let model = Preset::named(get("model")).unwrap().config();
        let speed = speed(&cell, &model, Gpu::named(get("gpu")).ok()).unwrap();
        let [low, high] = speed.seconds;
        assert!(high / low < 2.001, "the ends differ by at most a factor of 2");
        let measured: f64 = get("seconds").parse().unwrap();
        let ratio = measured / (low * high).sqrt();
        println!("{} {}: {ratio:.2}", get("source"), get("row"));
        ratios.push((get("set") == "choose", ratio));
    }
    for chosen in [true, false] {
        let mut of_half: Vec<f64> = ratios
            .iter()
            .filter(|(set, _)| *set == chosen)
            .map(|(_, ratio)| *ratio)
            .collect();
        of_half.sort_by(f64::total_cmp);
        let spread = std::f64::consts::SQRT_2;
        let inside = of_half
            .iter()
            .filter(|ratio| (1.0 / spread..=spread).contains(*ratio))
            .count();
        let (count, median) = (of_half.len(), of_half[of_half.len() / 2]);
        println!(
            "chosen {chosen}: {inside} of {count}, median {median:.2}, {:.2} to {:.2}",
            of_half[0],
            of_half[count - 1]
        );
        assert!(
            count >= 40 && inside * 5 >= count * 4,
            "{inside} of {count} are in the range"
        );
    }
}

fn cell<'r>(get: &impl Fn(&str) -> &'r str) -> Cell {
    let yes = |name: &str| get(name) == "yes";
    let format = match get("dtype") {
        "float32" => Dtype::Float32,
        "float16" => Dtype::Float16,
        _ => Dtype::Bfloat16,
    };
    let method = get("method");
    let names = get("targets").split('+').filter_map(|target| {
        Some(match target {
            "q" | "k" | "v" | "o" => format!("{target}_proj"),
            "gate" | "up" | "down" => format!("{target}_proj"),
            _ => return None,
        })
    });
    let names: Vec<String> = names.collect();
    Cell {
        model: get("model").into(),
        stack: Stack::Torch,
        dtype: if method == "qlora nf4" { Dtype::Int4 } else { format },
        autocast: match (yes("autocast"), format) {
            (false, _) => Autocast::None,
            (true, Dtype::Float16) => Autocast::Float16,
            (true, _) => Autocast::Bfloat16,
        },
        upcast: if yes("kbit_preparation") {
            Upcast::Peft
        } else {
            Upcast::None
        },
        adapter: if method == "ia3" { Adapter::Ia3 } else { Adapter::Lora },
        rank: match method {
            "full" => 0,
            _ => get("rank").parse().unwrap_or(1),
        },
        target_modules: (!names.is_empty()).then_some(TargetModules::Names(names.into_iter().collect())),
        adapter_dtype: if yes("adapters_in_16_bits") {
            FloatDtype::Bfloat16
        } else {
            FloatDtype::Float32
        },
        lora_dropout: if yes("dropout") { 0.1 } else { 0.0 },
        batch_size: get("batch_size").parse().unwrap(),
        max_seq_length: get("tokens").parse::<f64>().unwrap() as usize,
        gradient_checkpointing: if yes("checkpointing") {
            Checkpointing::Full
        } else {
            Checkpointing::None
        },
        attn_implementation: match get("attention") {
            "eager" => Attention::Eager,
            "flash" => Attention::FlashAttention2,
            _ => Attention::Sdpa,
        },
        optim: match get("optim") {
            "fused" => Optimizer::AdamwTorchFused,
            "adafactor" => Optimizer::Adafactor,
            "adam8bit" => Optimizer::Adamw8bit,
            _ => Optimizer::Adamw,
        },
        max_grad_norm: 1.0,
        data: Data::Synthetic(Synthetic {
            lengths: match yes("mask") {
                // Uneven samples have a mask.
                true => Lengths::List(vec![1, 2]),
                false => Lengths::Fixed,
            },
            ..Synthetic::default()
        }),
        ..Cell::default()
    }
}
