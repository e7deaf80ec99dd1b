//! A quantised matrix in a device's memory. candle's ops dequantise it there: they look codes up in a table. On the
//! CPU, [`Quantized`] is faster.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};
use memory::tiers::Slot;

use super::{
    double::{GROUP, Scales},
    dynamic,
    quantized::Quantized,
};

/// Codes and scales as tensors.
#[derive(Debug)]
pub struct OnDevice {
    rows: usize,
    cols: usize,
    codes: Codes,
}

#[derive(Debug)]
enum Codes {
    Int4 {
        /// Two codes in each byte, `[blocks, block / 2]`. The last block is filled up with zeros.
        bytes: Tensor,
        /// The two values of each byte, `[256, 2]`.
        table: Tensor,
        scales: BlockScales,
    },
    /// Codes plus 128 `[rows, cols]`, since candle has no signed bytes; one scale for each row, `[rows, 1]`.
    Int8 {
        codes: Tensor,
        scales: Tensor,
        outlier_threshold: Option<f32>,
    },
}

#[derive(Debug)]
enum BlockScales {
    Plain(Tensor),
    /// One code for each block `[blocks]`, the dynamic map `[256]`, one scale for each group `[groups]`, and the
    /// offset.
    Double {
        codes: Tensor,
        map: Tensor,
        absmax: Tensor,
        offset: f64,
    },
}

impl OnDevice {
    /// Copies a matrix to a device.
    ///
    /// # Errors
    /// If the device has no room for it.
    pub fn new(matrix: &Quantized, device: &Device) -> Result<Self> {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let codes = match matrix {
            Quantized::Int4(matrix) => {
                let (block, values) = (matrix.format().block_size, matrix.format().codebook().values);
                let blocks = (rows * cols).div_ceil(block);
                let mut bytes = matrix.codes().to_vec();
                bytes.resize(blocks * block / 2, 0);
                let table: Vec<f32> = (0..256)
                    .flat_map(|byte| [values[byte >> 4], values[byte & 15]])
                    .collect();
                Codes::Int4 {
                    bytes: Tensor::from_vec(bytes, (blocks, block / 2), device)?,
                    table: Tensor::from_vec(table, (256, 2), device)?,
                    scales: BlockScales::new(matrix.scales(), device)?,
                }
            }
            Quantized::Int8(matrix) => {
                let codes: Vec<u8> = matrix
                    .codes()
                    .iter()
                    .map(|&code| (i16::from(code) + 128) as u8)
                    .collect();
                Codes::Int8 {
                    codes: Tensor::from_vec(codes, (rows, cols), device)?,
                    scales: Tensor::from_slice(matrix.scales(), (rows, 1), device)?,
                    outlier_threshold: matrix.outlier_threshold(),
                }
            }
        };
        Ok(Self { rows, cols, codes })
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The least magnitude of an outlier among activations, if they are quantised for the products (LLM.int8()).
    pub fn outlier_threshold(&self) -> Option<f32> {
        match &self.codes {
            Codes::Int4 { .. } => None,
            Codes::Int8 { outlier_threshold, .. } => *outlier_threshold,
        }
    }

    /// The places of the codes and the scales. The tables are small and stay.
    pub fn slots<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        match &mut self.codes {
            Codes::Int4 { bytes, scales, .. } => {
                slots.push(bytes);
                match scales {
                    BlockScales::Plain(scales) => slots.push(scales),
                    BlockScales::Double { codes, absmax, .. } => {
                        slots.push(codes);
                        slots.push(absmax);
                    }
                }
            }
            Codes::Int8 { codes, scales, .. } => {
                slots.push(codes);
                slots.push(scales);
            }
        }
    }

    /// Rows in float32, `[rows.len(), cols]`. They equal [`Quantized::dequantize_rows`] except for the last bit.
    ///
    /// # Errors
    /// If the device has no room for the rows.
    pub fn rows_f32(&self, rows: Range<usize>) -> Result<Tensor> {
        match &self.codes {
            Codes::Int8 { codes, scales, .. } => {
                let codes = codes.narrow(0, rows.start, rows.len())?.to_dtype(DType::F32)?;
                (codes - 128.0)?.broadcast_mul(&scales.narrow(0, rows.start, rows.len())?)
            }
            Codes::Int4 { bytes, table, scales } => {
                let (start, end) = (rows.start * self.cols, rows.end * self.cols);
                let block = 2 * bytes.dim(1)?;
                let blocks = start / block..end.div_ceil(block);
                let bytes = bytes.narrow(0, blocks.start, blocks.len())?.flatten_all()?;
                let values = look_up(table, &bytes)?.reshape((blocks.len(), block))?;
                let values = values.broadcast_mul(&scales.of(blocks.clone())?)?.flatten_all()?;
                values
                    .narrow(0, start - blocks.start * block, end - start)?
                    .reshape((rows.len(), self.cols))
            }
        }
    }
}

impl BlockScales {
    fn new(scales: &Scales, device: &Device) -> Result<Self> {
        Ok(match scales {
            Scales::Plain(scales) => Self::Plain(Tensor::new(scales.values(), device)?),
            Scales::Double(double) => Self::Double {
                codes: Tensor::new(double.codes.values(), device)?,
                map: Tensor::new(dynamic::SIGNED.values().as_slice(), device)?,
                absmax: Tensor::new(double.absmax.values(), device)?,
                offset: f64::from(double.offset),
            },
        })
    }

    /// The scales of some blocks, `[blocks, 1]`.
    fn of(&self, blocks: Range<usize>) -> Result<Tensor> {
        match self {
            Self::Plain(scales) => scales.narrow(0, blocks.start, blocks.len())?.unsqueeze(1),
            Self::Double {
                codes,
                map,
                absmax,
                offset,
            } => {
                let codes = codes.narrow(0, blocks.start, blocks.len())?;
                let groups: Vec<u32> = blocks.map(|block| (block / GROUP) as u32).collect();
                let groups = Tensor::new(groups.as_slice(), codes.device())?;
                let scales = (look_up(map, &codes)? * absmax.index_select(&groups, 0)?)?;
                (scales + *offset)?.unsqueeze(1)
            }
        }
    }
}

/// The rows of `table` with these numbers. candle returns zeros for an index type's largest value, which is 255 for
/// bytes, so the bytes are widened.
fn look_up(table: &Tensor, bytes: &Tensor) -> Result<Tensor> {
    table.index_select(&bytes.to_dtype(DType::U32)?, 0)
}

#[cfg(test)]
mod tests {
    use options::QuantType;

    use super::*;
    use crate::{Builder, Format, Int4Format};

    /// Both kinds of codes reach 255: two neighbours of the largest magnitude, and a group's largest scale.
    #[test]
    fn the_largest_codes_are_not_zeros() {
        let mut values = vec![0.01f32; 64 * 300];
        values[..64].fill(1.0);
        let mut builder = Builder::new(Format::nf4(true), 300, 64);
        builder.push(&values).unwrap();
        let device = OnDevice::new(&builder.finish().unwrap(), &Device::Cpu).unwrap();
        let first: Vec<f32> = device.rows_f32(0..1).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        assert!(first.iter().all(|value| (value - 1.0).abs() < 0.01), "{first:?}");
    }

    #[test]
    fn gives_the_values_of_the_matrix_itself() {
        let formats = [
            Format::nf4(true),
            Format::nf4(false),
            Format::Int4(Int4Format {
                quant_type: QuantType::Fp4,
                block_size: 256,
                double_quant: true,
            }),
            Format::Int8,
        ];
        for format in formats {
            for (rows, cols) in [(1, 1), (3, 65), (7, 33), (300, 64), (17, 1100)] {
                let values: Vec<f32> = (0..rows * cols)
                    .map(|i| (i as f32 * 0.37).sin() * (1.0 + i as f32 / 99.0))
                    .collect();
                let mut builder = Builder::new(format, rows, cols);
                builder.push(&values).unwrap();
                let matrix = builder.finish().unwrap();
                let device = OnDevice::new(&matrix, &Device::Cpu).unwrap();
                for range in [0..rows, rows - 1..rows, rows / 2..rows] {
                    let mut want = vec![0f32; range.len() * cols];
                    matrix.dequantize_rows(range.clone(), &mut want);
                    let got = device
                        .rows_f32(range)
                        .unwrap()
                        .flatten_all()
                        .unwrap()
                        .to_vec1::<f32>()
                        .unwrap();
                    // candle adds a constant by way of float64, which can round the other way.
                    for (got, want) in got.iter().zip(&want) {
                        assert!(
                            (got - want).abs() <= 1e-6 * want.abs(),
                            "{format:?} {rows} x {cols}: {got}, {want}"
                        );
                    }
                }
            }
        }
    }
}
