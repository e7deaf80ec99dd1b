//! The numbers of quantised weights.

use base::text::either;
use options::BLOCK_SIZES;

use super::super::Cell;
use super::found::Found;
use options::invalid::{Invalid, number};

impl Cell {
    pub(super) fn check_quantised(&self, found: &mut Found) {
        if !BLOCK_SIZES.contains(&self.bnb_4bit_blocksize) {
            let sizes: Vec<String> = BLOCK_SIZES.iter().map(ToString::to_string).collect();
            let message = format!("bitsandbytes has blocks of {} weights", either(&sizes));
            found.add(Invalid::new("bnb_4bit_blocksize", message).help("leave the key out for 64"));
        }
        if let Some(threshold) = self.llm_int8_threshold {
            found.check(number(
                "llm_int8_threshold",
                threshold,
                (0.0..=65504.0).contains(&threshold),
                "from 0 to 65504, the largest number in float16",
            ));
        }
    }
}
