//! Our quantisation against bitsandbytes' (numbers made by python/golden/make.py).

use crate::fixtures::{Tensors, assert_same, bits};
use expctl::memory::Buffer;
use expctl::options::{InstructionSet, QuantType};
use expctl::quant::codebook::{FP4, NF4};
use expctl::quant::double::{DoubleQuantised, Scales};
use expctl::quant::{Builder, Element, Format, Int4, Int4Format, Int8, Quantized, dynamic};
use half::bf16;

const CASES: [&str; 9] = [
    "normal",
    "crossing",
    "odd",
    "one",
    "groups",
    "zeros",
    "tail_zeros",
    "outliers",
    "ties",
];

/// A matrix of the fixtures.
struct Matrix {
    rows: usize,
    cols: usize,
    values: Vec<f32>,
}

impl Matrix {
    fn of(golden: &Tensors, case: &str) -> Self {
        let name = format!("{case}.weight");
        let [rows, cols] = golden.shape(&name)[..] else {
            panic!("{name} is not a matrix")
        };
        Self {
            rows,
            cols,
            values: golden.f32(&name),
        }
    }

    /// Quantised from slices whose lengths are taken from `lengths` in turn.
    fn quantized(&self, format: Format, lengths: &[usize]) -> Quantized {
        let mut builder = Builder::new(format, self.rows, self.cols);
        let (mut values, mut lengths) = (&self.values[..], lengths.iter().cycle());
        while !values.is_empty() {
            let (now, later) = values.split_at(values.len().min(*lengths.next().expect("a length")));
            builder.push(now).expect("room for the values");
            values = later;
        }
        builder.finish().expect("every value")
    }

    fn nf4(&self, double_quant: bool) -> Int4 {
        self.int4(Format::nf4(double_quant))
    }

    fn int4(&self, format: Format) -> Int4 {
        match self.quantized(format, &[usize::MAX]) {
            Quantized::Int4(matrix) => matrix,
            Quantized::Int8(_) => unreachable!("asked for 4 bits"),
        }
    }

    fn int8(&self) -> Int8 {
        match self.quantized(Format::Int8, &[usize::MAX]) {
            Quantized::Int8(matrix) => matrix,
            Quantized::Int4(_) => unreachable!("asked for int8"),
        }
    }
}

fn whole<T: Element + Default>(matrix: &Int4) -> Vec<T> {
    let mut out = vec![T::default(); matrix.rows() * matrix.cols()];
    matrix.dequantize_serial(0, &mut out);
    out
}

fn double(matrix: &Int4) -> &DoubleQuantised {
    match matrix.scales() {
        Scales::Double(scales) => scales,
        Scales::Plain(_) => panic!("the scales were not quantised"),
    }
}

/// The distance to the next float.
fn ulp(value: f32) -> f32 {
    value.abs().next_up() - value.abs()
}

#[test]
fn codebook_and_dynamic_map_are_equal_bit_for_bit() {
    let golden = Tensors::open("quant.safetensors");
    assert_same(&bits(&NF4.values), &bits(&golden.f32("nf4")), "NF4's codebook");
    let of_4_bits = Tensors::open("quant_4bit.safetensors");
    assert_same(&bits(&FP4.values), &bits(&of_4_bits.f32("fp4")), "FP4's codebook");
    assert_same(
        &bits(dynamic::SIGNED.values()),
        &bits(&golden.f32("dynamic_map")),
        "the dynamic map",
    );
}

#[test]
fn nf4_codes_and_scales_are_equal_bit_for_bit() {
    let golden = Tensors::open("quant.safetensors");
    for case in CASES {
        let matrix = Matrix::of(&golden, case).nf4(false);
        assert_same(matrix.codes(), &golden.u8(&format!("{case}.codes")), case);
        let Scales::Plain(scales) = matrix.scales() else {
            panic!("{case}: the scales were quantised")
        };
        assert_same(
            &bits(scales.values()),
            &bits(&golden.f32(&format!("{case}.absmax"))),
            case,
        );
    }
}

/// FP4, and blocks of other sizes.
#[test]
fn codes_of_every_type_and_block_are_equal_bit_for_bit() {
    let (weights, golden) = (
        Tensors::open("quant.safetensors"),
        Tensors::open("quant_4bit.safetensors"),
    );
    let mut compared = 0;
    for case in CASES {
        for quant_type in [QuantType::Nf4, QuantType::Fp4] {
            for block_size in [32, 64, 128, 256, 512, 1024, 2048, 4096] {
                let name = format!("{case}.{}.{block_size}", quant_type.name());
                if !golden.has(&format!("{name}.codes")) {
                    continue;
                }
                let format = Int4Format {
                    quant_type,
                    block_size,
                    double_quant: false,
                };
                let matrix = Matrix::of(&weights, case).int4(Format::Int4(format));
                assert_same(matrix.codes(), &golden.u8(&format!("{name}.codes")), &name);
                let Scales::Plain(scales) = matrix.scales() else {
                    panic!("{name}: the scales were quantised")
                };
                let want = golden.f32(&format!("{name}.absmax"));
                assert_same(&bits(scales.values()), &bits(&want), &name);
                if golden.has(&format!("{name}.dequantized")) {
                    let values: Vec<f32> = whole(&matrix);
                    let want = golden.f32(&format!("{name}.dequantized"));
                    assert_same(&bits(&values), &bits(&want), &name);
                }
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 14);
}

#[test]
fn double_quantisation_has_the_offset_and_the_scales_to_an_ulp() {
    let golden = Tensors::open("quant.safetensors");
    for case in CASES {
        let matrix = Matrix::of(&golden, case).nf4(true);
        assert_same(matrix.codes(), &golden.u8(&format!("{case}.codes")), case);
        let ours = double(&matrix);
        let offset = golden.f32(&format!("{case}.double.offset"))[0];
        assert!(
            (ours.offset - offset).abs() <= ulp(offset),
            "{case}: offset {} and {offset}",
            ours.offset
        );
        // around the same offset, for an ulp of the offset is many of a scale that is a difference to it
        let ours = DoubleQuantised::with_offset(&golden.f32(&format!("{case}.absmax")).into(), offset);
        for (&ours, theirs) in ours
            .absmax
            .values()
            .iter()
            .zip(golden.f32(&format!("{case}.double.absmax")))
        {
            assert!(
                (ours - theirs).abs() <= ulp(theirs),
                "{case}: scale {ours} and {theirs}"
            );
        }
    }
}

#[test]
fn second_level_codes_are_equal_except_on_ties() {
    let golden = Tensors::open("quant.safetensors");
    for case in CASES {
        let (absmax, theirs) = (
            Buffer::from(golden.f32(&format!("{case}.absmax"))),
            golden.u8(&format!("{case}.double.codes")),
        );
        let offset = golden.f32(&format!("{case}.double.offset"))[0];
        let ours = DoubleQuantised::with_offset(&absmax, offset);
        assert_eq!(ours.codes.len(), theirs.len(), "{case}");
        for (block, (&ours_code, &their_code)) in ours.codes.values().iter().zip(&theirs).enumerate() {
            let x = (absmax.values()[block] - offset) / ours.absmax.values()[block / 256];
            // bitsandbytes' CPU library decides by the middle of one of 65536 bins
            let between = &dynamic::SIGNED.values()
                [usize::from(ours_code.min(their_code))..=usize::from(ours_code.max(their_code))];
            let tie = between
                .windows(2)
                .all(|pair| ((pair[0] + pair[1]) / 2.0 - x).abs() <= 1.0 / 65536.0);
            assert!(tie, "{case}, block {block}: code {ours_code} and {their_code} for {x}");
        }
    }
}

#[test]
fn dequantised_values_are_equal_bit_for_bit() {
    let golden = Tensors::open("quant.safetensors");
    for case in ["normal", "odd"] {
        let weight = Matrix::of(&golden, case);
        let plain: Vec<f32> = whole(&weight.nf4(false));
        assert_same(&bits(&plain), &bits(&golden.f32(&format!("{case}.dequantized"))), case);

        let matrix = weight.nf4(true);
        let theirs = golden.u8(&format!("{case}.double.codes"));
        assert_eq!(
            double(&matrix).codes.values(),
            theirs,
            "{case}: no tie among these scales"
        );
        let values: Vec<f32> = whole(&matrix);
        assert_same(
            &bits(&values),
            &bits(&golden.f32(&format!("{case}.double.dequantized"))),
            case,
        );
        let name = format!("{case}.double.dequantized_bfloat16");
        if golden.has(&name) {
            let values: Vec<f32> = whole::<bf16>(&matrix).into_iter().map(bf16::to_f32).collect();
            assert_same(&bits(&values), &bits(&golden.f32(&name)), case);
        }
    }
}

#[test]
fn int8_codes_and_scales_are_equal() {
    let golden = Tensors::open("quant.safetensors");
    for case in CASES
        .into_iter()
        .filter(|case| golden.has(&format!("{case}.int8.codes")))
    {
        let matrix = Matrix::of(&golden, case).int8();
        assert_same(matrix.codes(), &golden.i8(&format!("{case}.int8.codes")), case);
        let scales: Vec<f32> = golden
            .f32(&format!("{case}.int8.absmax"))
            .iter()
            .map(|absmax| absmax / 127.0)
            .collect();
        assert_same(&bits(matrix.scales()), &bits(&scales), case);
    }
}

#[test]
fn slices_of_any_length_give_the_same_matrix() {
    let golden = Tensors::open("quant.safetensors");
    let weight = Matrix::of(&golden, "groups");
    for format in [Format::nf4(true), Format::nf4(false), Format::Int8] {
        let matrix = weight.quantized(format, &[usize::MAX]);
        let dry = || Builder::new(format, weight.rows, weight.cols).finish();
        let (dry, _) = memory::dry_run(InstructionSet::Portable, 0, dry);
        assert_eq!(matrix.bytes(), dry.expect("no values are needed").bytes());
        for lengths in [&[1][..], &[65], &[63, 2, 64, 1, 130], &[255, 2], &[5_000]] {
            let same = weight.quantized(format, lengths) == matrix;
            assert!(same, "{format:?} from slices of {lengths:?}");
        }
    }
}

#[test]
fn any_part_is_that_part_of_the_whole() {
    let mut rng = 0x2545_f491_4f6c_dd1d_u64;
    let values: Vec<f32> = std::iter::repeat_with(|| {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        (rng >> 40) as f32 / (1 << 24) as f32 - 0.5
    })
    .take(501 * 99)
    .collect();
    let wide = Format::Int4(Int4Format {
        quant_type: QuantType::Fp4,
        block_size: 512,
        double_quant: false,
    });
    let weight = Matrix {
        rows: 501,
        cols: 99,
        values,
    };
    for format in [Format::nf4(true), wide, Format::Int8] {
        let matrix = weight.quantized(format, &[usize::MAX]);
        let mut whole = vec![0.0f32; weight.values.len()];
        matrix.dequantize(0, &mut whole);
        for (start, len) in [
            (0, 1),
            (1, 1),
            (63, 2),
            (64, 64),
            (65, 127),
            (7, 40_001),
            (16_383, 70),
            (16_384, 20_000),
            (49_598, 1),
        ] {
            let (end, what) = (start + len, format!("{format:?} from {start}"));
            let mut part = vec![0.0f32; len];
            matrix.dequantize(start, &mut part);
            assert_same(&part, &whole[start..end], &what);
            matrix.dequantize_serial(start, &mut part);
            assert_same(&part, &whole[start..end], &format!("{what}, on one thread"));
            let mut rounded = vec![bf16::ZERO; len];
            matrix.dequantize_serial(start, &mut rounded);
            let expected: Vec<bf16> = whole[start..end].iter().map(|value| bf16::from_f32(*value)).collect();
            assert_same(&rounded, &expected, &format!("{what}, in bfloat16"));
        }
        let mut rows = vec![0.0f32; 3 * 99];
        matrix.dequantize_rows(11..14, &mut rows);
        assert_same(&rows, &whole[11 * 99..14 * 99], &format!("{format:?}, rows"));
    }
}

#[test]
fn a_matrix_that_is_not_finite_or_not_whole_is_an_error() {
    for format in [Format::nf4(true), Format::Int8] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut builder = Builder::new(format, 3, 64);
            let mut values = [0.5; 3 * 64];
            values[70] = value;
            builder.push(&values).expect("room for the values");
            let error = builder.finish().expect_err("a value is not finite").to_string();
            assert!(error.contains("row 1"), "{error}");
        }
        let mut builder = Builder::new(format, 3, 64);
        builder.push(&[0.0; 100]).expect("room for the values");
        assert!(builder.push(&[0.0; 100]).is_err(), "{format:?}: too many values");
        let error = builder.finish().expect_err("values are missing").to_string();
        assert_eq!(error, "a 3 x 64 matrix has 192 values, but 100 were given");
    }
}
