//! The fixtures that python/golden/make.py wrote.

use std::path::PathBuf;

use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// A file or folder under tests/fixtures.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A JSON file of the fixtures.
pub fn json(name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(fixture(name)).expect(name);
    serde_json::from_str(&text).expect("JSON")
}

/// A safetensors file of the fixtures.
pub struct Tensors(Vec<u8>);

impl Tensors {
    pub fn open(name: &str) -> Self {
        let path = fixture(name);
        Self(std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    pub fn has(&self, name: &str) -> bool {
        self.parsed().tensor(name).is_ok()
    }

    pub fn names(&self) -> Vec<String> {
        self.parsed().names().into_iter().map(|name| name.to_string()).collect()
    }

    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.tensor(name).shape().to_vec()
    }

    /// The values, as float32.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        let tensor = self.tensor(name);
        match tensor.dtype() {
            Dtype::F32 => chunks(&tensor).map(f32::from_le_bytes).collect(),
            Dtype::BF16 => chunks(&tensor)
                .map(|bytes| bf16::from_le_bytes(bytes).to_f32())
                .collect(),
            dtype => panic!("{name} is {dtype:?}"),
        }
    }

    pub fn u8(&self, name: &str) -> Vec<u8> {
        self.tensor(name).data().to_vec()
    }

    pub fn i8(&self, name: &str) -> Vec<i8> {
        self.u8(name).into_iter().map(u8::cast_signed).collect()
    }

    fn tensor(&self, name: &str) -> TensorView<'_> {
        self.parsed()
            .tensor(name)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn parsed(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).expect("a safetensors file")
    }
}

fn chunks<const N: usize>(tensor: &TensorView<'_>) -> impl Iterator<Item = [u8; N]> {
    tensor.data().as_chunks().0.iter().copied()
}

/// Fails with the first place where two sequences differ.
pub fn assert_same<T: PartialEq + std::fmt::Debug>(ours: &[T], theirs: &[T], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}: lengths");
    if let Some(at) = (0..ours.len()).find(|&at| ours[at] != theirs[at]) {
        panic!("{what}, element {at}: ours is {:?}, theirs {:?}", ours[at], theirs[at]);
    }
}

/// A float's bits, so that equal means equal bit for bit.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Fails where a value is further off than `tolerance` of the largest.
pub fn assert_close(ours: &[f32], theirs: &[f32], tolerance: f32, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let largest = theirs.iter().fold(0.0f32, |max, value| max.max(value.abs()));
    assert!(largest > 0.0, "{what}: nothing but zeros to compare with");
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            (ours - theirs).abs() <= tolerance * largest,
            "{what}, element {at}: ours {ours}, theirs {theirs}"
        );
    }
}

/// Fails where a number is further off than `tolerance` of the wanted one.
pub fn assert_relative(ours: f64, theirs: f64, tolerance: f64, what: &str) {
    assert!(
        (ours - theirs).abs() <= tolerance * theirs.abs(),
        "{what}: ours {ours}, theirs {theirs}"
    );
}
