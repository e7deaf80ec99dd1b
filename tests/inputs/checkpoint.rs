//! Checkpoint directories: those that transformers wrote are read, and damaged ones are refused with a clear error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use candle_core::Device;
use expctl::arch::Preset;
use expctl::cell::{self, Cell, Weights};
use expctl::model::{Source, load};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde_json::json;

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

const DOWN: &str = "model.layers.1.mlp.down_proj.weight";
const NORM: &str = "model.layers.0.input_layernorm.weight";

fn cell(dir: &Path) -> Cell {
    Cell {
        model: dir.display().to_string(),
        ..Cell::default()
    }
}

fn open(dir: &Path) -> Result<Source, String> {
    let shown = format!("{}/", dir.display());
    Source::open(&cell(dir).model_options(), &"/".into()).map_err(|error| error.to_string().replace(&shown, ""))
}

/// Element `index` of a tensor in the checkpoints that are written here; exact in every format.
fn value(name: &str, index: usize) -> f32 {
    (name.len() + index % 97) as f32 * 0.25
}

fn tensors(dtype: Dtype) -> Tensors {
    let bytes = |value: f32| match dtype {
        Dtype::F32 => value.to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        _ => bf16::from_f32(value).to_le_bytes().to_vec(),
    };
    let tensor = |name: &str, shape: &[usize]| {
        (0..shape.iter().product())
            .flat_map(|i| bytes(value(name, i)))
            .collect()
    };
    let config = Preset::named("tiny").unwrap().config();
    let all = config.weights().into_iter();
    all.map(|t| (t.name.clone(), (dtype, t.shape.clone(), tensor(&t.name, &t.shape))))
        .collect()
}

fn write_file(path: &Path, tensors: &Tensors) {
    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, bytes))| (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    fs::write(path, serialize(views, None).unwrap()).unwrap();
}

/// A directory with the shape of `tiny` and these weights in one file.
fn directory(tensors: &Tensors) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": true,
        "max_position_embeddings": 512
    });
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    write_file(&dir.path().join("model.safetensors"), tensors);
    dir
}

/// The same in two files with an index.
fn sharded(tensors: &Tensors) -> tempfile::TempDir {
    let dir = directory(tensors);
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let shard = |name: &str| {
        if name.contains("layers.1") {
            "two.safetensors"
        } else {
            "one.safetensors"
        }
    };
    for file in ["one.safetensors", "two.safetensors"] {
        let part = tensors.iter().filter(|(name, _)| shard(name) == file);
        write_file(
            &dir.path().join(file),
            &part.map(|(name, tensor)| (name.clone(), tensor.clone())).collect(),
        );
    }
    let map: BTreeMap<_, _> = tensors.keys().map(|name| (name, shard(name))).collect();
    fs::write(
        dir.path().join("model.safetensors.index.json"),
        json!({ "weight_map": map }).to_string(),
    )
    .unwrap();
    dir
}

#[test]
fn every_stored_format_is_read_in_any_range_of_rows() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        let all = tensors(dtype);
        for dir in [directory(&all), sharded(&all)] {
            let source = open(dir.path()).unwrap();
            assert_eq!(source.config(), &Preset::named("tiny").unwrap().config());
            assert_eq!(source.shape(DOWN).unwrap(), [64, 160]);
            for rows in [0..64, 0..1, 63..64, 5..5, 7..50] {
                let mut out = vec![0.0; rows.len() * 160];
                source.read_rows(DOWN, rows.clone(), &mut out).unwrap();
                let expected = (rows.start * 160..rows.end * 160).map(|index| value(DOWN, index));
                assert_eq!(out, expected.collect::<Vec<_>>(), "{dtype} rows {rows:?}");
            }
            let mut norm = [0.0; 64];
            source.read_rows(NORM, 0..1, &mut norm).unwrap();
            assert_eq!(norm[3], value(NORM, 3));
        }
    }
}

/// `python/real_input/make_checkpoint.py` made these with transformers: a tied model in one bfloat16 file, and one with
/// Llama 3's rotary scaling in three float32 shards.
#[test]
fn directories_of_transformers_are_read() {
    for name in ["tiny_llama", "tiny_llama3"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let source = open(&dir).unwrap();
        assert_eq!(source.config().rope.scaling.is_some(), name == "tiny_llama3");
        let mut seen = 0;
        for file in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "safetensors") {
                continue;
            }
            let bytes = fs::read(file).unwrap();
            for (name, view) in SafeTensors::deserialize(&bytes).unwrap().tensors() {
                let data = view.data();
                let expected: Vec<f32> = match view.dtype() {
                    Dtype::F32 => data
                        .as_chunks()
                        .0
                        .iter()
                        .map(|bytes| f32::from_le_bytes(*bytes))
                        .collect(),
                    _ => data
                        .as_chunks()
                        .0
                        .iter()
                        .map(|bytes| bf16::from_le_bytes(*bytes).to_f32())
                        .collect(),
                };
                let mut out = vec![0.0; expected.len()];
                assert_eq!(source.shape(&name).unwrap(), view.shape());
                let rows = if view.shape().len() == 1 { 1 } else { view.shape()[0] };
                source.read_rows(&name, 0..rows, &mut out).unwrap();
                assert_eq!(out, expected, "{name}");
                seen += 1;
            }
        }
        assert_eq!(seen, source.config().weights().len(), "{name}");
    }
}

#[test]
fn random_weights_may_take_their_shape_from_a_directory() {
    let dir = directory(&Tensors::new());
    let cell = Cell {
        weights: Some(Weights::Random),
        ..cell(dir.path())
    };
    let source = Source::open(&cell.model_options(), &"/".into()).unwrap();
    let preset = Cell {
        model: "tiny".into(),
        ..Cell::default()
    };
    let preset = Source::open(&preset.model_options(), &"/".into()).unwrap();
    let read = |source: &Source| {
        let mut out = vec![0.0; 64 * 160];
        source.read_rows(DOWN, 0..64, &mut out).unwrap();
        out
    };
    assert_eq!(read(&source), read(&preset));
    let mut norm = [0.0; 64];
    source.read_rows(NORM, 0..1, &mut norm).unwrap();
    assert_eq!(norm, [1.0; 64]);
}

#[test]
fn a_preset_has_no_pretrained_weights() {
    let cell = Cell {
        model: "tiny".into(),
        weights: Some(Weights::Pretrained),
        ..Cell::default()
    };
    let message = Source::open(&cell.model_options(), &"/".into())
        .unwrap_err()
        .to_string();
    assert!(message.contains("`tiny` is a preset"), "{message}");
}

#[test]
fn missing_files_are_named() {
    let dir = directory(&tensors(Dtype::BF16));
    let file = |name: &str| dir.path().join(name);
    fs::remove_file(file("model.safetensors")).unwrap();
    assert!(
        open(dir.path())
            .unwrap_err()
            .contains("no weights: neither model.safetensors nor")
    );
    fs::write(file("pytorch_model.bin"), "").unwrap();
    assert!(open(dir.path()).unwrap_err().contains("pytorch_model.bin is not read"));
    fs::remove_file(file("config.json")).unwrap();
    assert_eq!(
        open(dir.path()).unwrap_err(),
        "cannot read config.json: No such file or directory (os error 2)"
    );
    assert!(open(&file("nowhere")).unwrap_err().contains("neither a preset"));
}

#[test]
fn an_index_must_fit_its_shards() {
    let dir = sharded(&tensors(Dtype::F32));
    let (one, two) = (dir.path().join("one.safetensors"), dir.path().join("two.safetensors"));
    let index = dir.path().join("model.safetensors.index.json");
    fs::copy(&one, &two).unwrap();
    let message = open(dir.path()).unwrap_err();
    assert_eq!(
        message,
        "two.safetensors: tensor `model.layers.1.input_layernorm.weight` is missing; \
         model.safetensors.index.json says it is there"
    );
    let whole = fs::read(&one).unwrap();
    fs::write(&two, &whole[..whole.len() / 2]).unwrap();
    let message = open(dir.path()).unwrap_err();
    assert!(
        message.starts_with("two.safetensors: truncated: its header describes"),
        "{message}"
    );
    fs::remove_file(&two).unwrap();
    let message = open(dir.path()).unwrap_err();
    assert_eq!(
        message,
        "model.safetensors.index.json names a file that is missing: two.safetensors"
    );
    for outside in ["../two.safetensors", "/two.safetensors"] {
        fs::write(&index, format!("{{\"weight_map\": {{\"x\": \"{outside}\"}}}}")).unwrap();
        let message = open(dir.path()).unwrap_err();
        assert!(
            message.contains(&format!("`{outside}` is not a file of its folder")),
            "{message}"
        );
    }
    fs::write(&index, "{}").unwrap();
    assert!(
        open(dir.path())
            .unwrap_err()
            .contains("not an index of safetensors files: missing field `weight_map`")
    );
}

#[test]
fn damaged_files_are_refused() {
    let dir = directory(&tensors(Dtype::BF16));
    let path = dir.path().join("model.safetensors");
    let good = fs::read(&path).unwrap();
    let message_of = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        open(dir.path()).unwrap_err()
    };
    for length in [8, 9, 100, good.len() / 2, good.len() - 1] {
        let message = message_of(&good[..length]);
        assert!(
            message.starts_with("model.safetensors: truncated: its header describes"),
            "{message}"
        );
    }
    assert!(message_of(&[&good[..], b"more"].concat()).contains("too long"));
    assert!(message_of(b"").contains("0 bytes are too few for a header"));
    assert!(message_of(b"version https://git-lfs.github.com/spec/v1").contains("not a safetensors file"));
    let mut broken = good.clone();
    broken[8] = b'[';
    assert!(message_of(&broken).contains("not a safetensors file"));
}

/// A bit changed in the header is refused or harmless, never a panic.
#[test]
fn no_byte_of_a_header_can_make_it_panic() {
    let dir = directory(&tensors(Dtype::BF16));
    let path = dir.path().join("model.safetensors");
    let good = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    for position in (0..header).step_by(5) {
        let mut bytes = good.clone();
        bytes[position] ^= 1 << (position % 7);
        fs::write(&path, &bytes).unwrap();
        if let Ok(source) = open(dir.path()) {
            source.read_rows(DOWN, 0..64, &mut vec![0.0; 64 * 160]).unwrap();
        }
    }
}

/// A configuration that describes other weights than those that are there.
#[test]
fn a_config_that_lies_is_refused() {
    let dir = directory(&tensors(Dtype::BF16));
    let path = dir.path().join("config.json");
    let honest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (key, value, part) in [
        (
            "hidden_size",
            json!(128),
            "tensor `model.embed_tokens.weight` has shape [512, 64], config.json makes it [512, 128]",
        ),
        (
            "vocab_size",
            json!(600),
            "has shape [512, 64], config.json makes it [600, 64]",
        ),
        (
            "num_attention_heads",
            json!(8),
            "k_proj.weight` has shape [32, 64], config.json makes it [16, 64]",
        ),
        (
            "num_key_value_heads",
            json!(4),
            "k_proj.weight` has shape [32, 64], config.json makes it [64, 64]",
        ),
        (
            "head_dim",
            json!(32),
            "q_proj.weight` has shape [64, 64], config.json makes it [128, 64]",
        ),
        (
            "intermediate_size",
            json!(161),
            "has shape [160, 64], config.json makes it [161, 64]",
        ),
        (
            "num_hidden_layers",
            json!(3),
            "`model.layers.2.input_layernorm.weight` is missing; config.json describes 3 layers, and this one has no tensor",
        ),
        (
            "num_hidden_layers",
            json!(1),
            "is not a weight of this model: config.json describes 1 layers",
        ),
        (
            "tie_word_embeddings",
            json!(false),
            "`lm_head.weight` is missing; if the head is the embedding's, config.json needs `tie_word_embeddings: true`",
        ),
        (
            "attention_bias",
            json!(true),
            "`model.layers.0.self_attn.q_proj.bias` is missing",
        ),
        (
            "hidden_size",
            json!(0),
            "`hidden_size`: expected a number from 1 to 1048576, found 0",
        ),
        (
            "hidden_size",
            json!(1e18),
            "`hidden_size`: expected a number from 1 to 1048576, found 1e+18",
        ),
        (
            "model_type",
            json!("mamba"),
            "unknown model family mamba; known are llama, ",
        ),
        ("model_type", json!("mamba"), "plan a preset of its size in its place"),
    ] {
        let mut config = honest.clone();
        config[key] = value.clone();
        if key == "model_type" {
            config.as_object_mut().unwrap().remove("architectures");
        }
        fs::write(&path, config.to_string()).unwrap();
        let message = open(dir.path()).unwrap_err();
        assert!(message.contains(part), "{key}: {value}: {message}");
    }
    for number in ["NaN", "Infinity", "-Infinity"] {
        let text = honest.to_string().replacen("64", number, 1);
        fs::write(&path, text).unwrap();
        let message = open(dir.path()).unwrap_err();
        assert!(
            message.starts_with("config.json: not JSON: ") && message.contains("line 1 column"),
            "{message}"
        );
    }
}

#[test]
fn a_tied_head_must_be_the_embedding() {
    let embedding = "model.embed_tokens.weight";
    let with_head = |change: &dyn Fn(&mut Vec<u8>, &mut Vec<usize>)| {
        let mut tensors = tensors(Dtype::BF16);
        let (dtype, mut shape, mut bytes) = tensors[embedding].clone();
        change(&mut bytes, &mut shape);
        tensors.insert("lm_head.weight".into(), (dtype, shape, bytes));
        open(directory(&tensors).path()).map(|_| ())
    };
    with_head(&|_, _| ()).unwrap();
    for message in [
        with_head(&|bytes, _| bytes.iter_mut().for_each(|byte| *byte ^= 1)),
        with_head(&|_, shape| shape.reverse()),
    ] {
        assert_eq!(
            message.unwrap_err(),
            format!(
                "model.safetensors: tensor `lm_head.weight` is not `{embedding}`, but config.json has \
                 `tie_word_embeddings: true`; write false there to use both"
            )
        );
    }
}

/// Found while the model is loaded.
#[test]
fn weights_that_are_not_finite_are_refused() {
    let message_with = |name: &str, value: f32, cell_of: &dyn Fn(Cell) -> Cell| {
        let mut tensors = tensors(Dtype::F32);
        let (_, _, bytes) = tensors.get_mut(name).unwrap();
        bytes[4 * 70..][..4].copy_from_slice(&value.to_le_bytes());
        let dir = directory(&tensors);
        let options = cell_of(cell(dir.path())).model_options();
        let source = Source::open(&options, &"/".into()).unwrap();
        load(&options, &source, &Device::Cpu).unwrap_err().to_string()
    };
    let of = |dtype| move |cell| Cell { dtype, ..cell };
    let embedding = "model.embed_tokens.weight";
    assert_eq!(
        message_with(embedding, f32::NAN, &of(cell::Dtype::Bfloat16)),
        format!("tensor `{embedding}`, row 1: NaN is not a finite number; the checkpoint is damaged")
    );
    let message = message_with(embedding, 1e5, &of(cell::Dtype::Float16));
    assert!(
        message.contains("1e5 is beyond the largest number of float16; choose another `dtype`"),
        "{message}"
    );
    for dtype in [cell::Dtype::Int4, cell::Dtype::Int8] {
        let message = message_with(DOWN, f32::INFINITY, &of(dtype));
        assert!(
            message.contains(DOWN) && message.contains("a value in row 0 is not finite"),
            "{message}"
        );
    }
}

#[test]
fn tensors_must_be_those_of_the_config() {
    let message_with = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = tensors(Dtype::BF16);
        change(&mut tensors);
        open(directory(&tensors).path()).map(|_| ())
    };
    let bf16 = |count: usize| vec![0; 2 * count];
    let rename = |tensors: &mut Tensors, name: &str| {
        let tensor = tensors.remove(DOWN).unwrap();
        tensors.insert(name.into(), tensor);
    };
    assert_eq!(
        message_with(&|tensors| {
            tensors.insert(DOWN.into(), (Dtype::BF16, vec![160, 64], bf16(64 * 160)));
        })
        .unwrap_err(),
        format!("model.safetensors: tensor `{DOWN}` has shape [160, 64], config.json makes it [64, 160]")
    );
    let message = message_with(&|tensors| rename(tensors, "model.layers.1.mlp.down_projection.weight")).unwrap_err();
    let hint = "is missing; did you mean `model.layers.1.mlp.down_projection.weight`?";
    assert!(message.contains(hint), "{message}");
    assert!(
        message_with(&|tensors| {
            tensors.insert(DOWN.into(), (Dtype::F64, vec![64, 160], vec![0; 8 * 64 * 160]));
        })
        .unwrap_err()
        .contains("is stored as F64; F32, F16 and BF16 can be read")
    );
    for extra in [
        "model.layers.2.mlp.down_proj.weight",
        "model.layers.0.self_attn.q_proj.bias",
    ] {
        let message = message_with(&|tensors| {
            tensors.insert(extra.into(), (Dtype::BF16, vec![64], bf16(64)));
        });
        assert!(
            message.unwrap_err().contains("is not a weight of this model"),
            "{extra}"
        );
    }
    for harmless in ["model.layers.0.self_attn.rotary_emb.inv_freq", "score.weight"] {
        message_with(&|tensors| {
            tensors.insert(harmless.into(), (Dtype::BF16, vec![64], bf16(64)));
        })
        .expect(harmless);
    }
}
