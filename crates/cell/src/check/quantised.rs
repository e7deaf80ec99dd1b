//! The keys of quantised weights: those of int4 and those of int8.

use base::text::either;
use options::BLOCK_SIZES;
use serde_json::{Map, Value};

use super::super::{Cell, Dtype, Stack};
use super::found::Found;
use options::invalid::{Invalid, number};

impl Cell {
    /// The codes, blocks and scales of int4.
    pub(super) fn check_int4(&self, keys: &Map<String, Value>, found: &mut Found) {
        for (key, message) in [
            ("bnb_4bit_quant_type", "only int4 has codes of 4 bits"),
            ("bnb_4bit_blocksize", "only int4 has scales of blocks"),
            ("bnb_4bit_use_double_quant", "only int4 has scales to quantise twice"),
            ("bnb_4bit_compute_dtype", "only int4 has products of its own format"),
        ] {
            let is_of_int8 = key == "bnb_4bit_compute_dtype" && self.stack == Stack::Torch;
            let is_heeded = self.dtype == Dtype::Int4 || is_of_int8 && self.dtype == Dtype::Int8;
            if keys[key] != Cell::default_map()[key] && !is_heeded {
                let invalid = Invalid::idle(key, message).with("dtype");
                found.add(invalid.help("leave the key out, or use `dtype: int4`"));
            }
        }
        if !BLOCK_SIZES.contains(&self.bnb_4bit_blocksize) {
            let sizes: Vec<String> = BLOCK_SIZES.iter().map(ToString::to_string).collect();
            let message = format!("bitsandbytes has blocks of {} weights", either(&sizes));
            found.add(Invalid::new("bnb_4bit_blocksize", message).help("leave the key out for 64"));
        }
    }

    /// The outliers of int8.
    pub(super) fn check_int8(&self, found: &mut Found) {
        let Some(threshold) = self.llm_int8_threshold else {
            return;
        };
        if self.dtype != Dtype::Int8 {
            let invalid = Invalid::idle("llm_int8_threshold", "only int8 has products of 8 bits").with("dtype");
            found.add(invalid.help("leave the key out, or use `dtype: int8`"));
        }
        found.check(number(
            "llm_int8_threshold",
            threshold,
            (0.0..=65504.0).contains(&threshold),
            "from 0 to 65504, the largest number in float16",
        ));
    }
}
