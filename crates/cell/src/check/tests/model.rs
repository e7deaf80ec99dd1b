//! What formats of weights are refused for.

use super::refused;
use crate::{Cell, Dtype, QuantType};

#[test]
fn outliers_are_those_of_int8() {
    let key = Some("llm_int8_threshold");
    let of = |dtype, threshold| refused(|cell| (cell.dtype, cell.llm_int8_threshold) = (dtype, Some(threshold)));
    assert_eq!((of(Dtype::Int8, 0.0), of(Dtype::Int8, 6.0)), (None, None));
    for (dtype, threshold) in [
        (Dtype::Int4, 6.0),
        (Dtype::Int8, -1.0),
        (Dtype::Int8, f64::NAN),
        (Dtype::Int8, 1e6),
    ] {
        assert_eq!(of(dtype, threshold).as_deref(), key, "{dtype:?}, {threshold}");
    }
}

#[test]
fn codes_and_blocks_are_those_of_int4() {
    let fp4: fn(&mut Cell) = |cell| cell.bnb_4bit_quant_type = QuantType::Fp4;
    let blocks: fn(&mut Cell) = |cell| cell.bnb_4bit_blocksize = 4096;
    for (change, key) in [(fp4, "bnb_4bit_quant_type"), (blocks, "bnb_4bit_blocksize")] {
        assert_eq!(refused(change), None);
        let on_int8 = |cell: &mut Cell| {
            change(cell);
            cell.dtype = Dtype::Int8;
        };
        assert_eq!(refused(on_int8).as_deref(), Some(key));
    }
    for size in [0, 96, 8192] {
        let key = refused(|cell| cell.bnb_4bit_blocksize = size);
        assert_eq!(key.as_deref(), Some("bnb_4bit_blocksize"), "{size}");
    }
}
