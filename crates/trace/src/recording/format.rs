//! The names of the formats in recordings.

/// The formats of a training run's buffers, by their number in a recording. The last three are packed weights.
const FORMATS: [&str; 11] = [
    "float32", "bfloat16", "float16", "float64", "uint8", "uint32", "int32", "int64", "int8", "nf4", "fp4",
];

/// The name of the format with this number in a recording.
pub fn dtype_name(number: u8) -> Option<&'static str> {
    FORMATS.get(usize::from(number)).copied()
}

/// The number of the format with this name.
pub fn dtype_number(name: &str) -> Option<u8> {
    let number = FORMATS.iter().position(|known| *known == name);
    debug_assert!(number.is_some(), "a timeline has no number for the format {name}");
    number.and_then(|number| u8::try_from(number).ok())
}
