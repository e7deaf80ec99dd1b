//! Products with the head.

use candle_core::{DType, Device, Result, Tensor as Candle};
use kernels::{
    gemm::{Epilogue, Operand, Segment, Term, gemm_grouped, multiply::Multiply},
    softcap::SoftCap,
};

use crate::{operand::Matrix, param::Param, tensor::Tensor};

/// Rows of the head that plain ops hold in float32 at a time, in elements (16 MiB).
const PANEL_ELEMENTS: usize = if cfg!(test) { 2048 } else { 4 << 20 };

/// The product of rows with some rows of the head, whose blocks go to `epilogue`.
pub(super) fn head_product<P: Multiply>(
    rows: usize,
    cols: usize,
    hidden: usize,
    x: &Matrix,
    head: &Matrix,
    epilogue: &dyn Epilogue,
    grain: usize,
) {
    let term = Term::<P> {
        left: Operand::depth_last(x),
        right: Operand::depth_last(head),
        depth: hidden,
    };
    let terms = vec![term];
    gemm_grouped(rows, &[Segment { cols, terms, epilogue }], grain);
}

/// `[rows, vocabulary]`, float32; capped if there is a cap.
pub(super) fn logits_plain(x: &Tensor, head: &Param, cap: Option<SoftCap>) -> Result<Candle> {
    let (x, weight) = (x.to_candle_f32()?, head.value.to_candle()?);
    head.count_rows(head.value.rows());
    let parts = panels(&weight)?
        .map(|(start, count)| x.matmul(&panel(&weight, start, count, x.device())?.t()?))
        .collect::<Result<Vec<_>>>()?;
    let logits = Candle::cat(&parts, 1)?;
    match cap.map(|cap| f64::from(cap.0)) {
        Some(cap) => (logits / cap)?.tanh()? * cap,
        None => Ok(logits),
    }
}

/// The gradient of the head's input, float32.
pub(super) fn head_backward_plain(d_logits: &Candle, head: &Param) -> Result<Candle> {
    head.count_rows(head.value.rows());
    let head = head.value.to_candle()?;
    let mut dx = Candle::zeros((d_logits.dim(0)?, head.dim(1)?), DType::F32, d_logits.device())?;
    for (start, count) in panels(&head)? {
        let weight = panel(&head, start, count, d_logits.device())?;
        // cuBLAS takes no matrix with gaps between its rows.
        dx = (dx + d_logits.narrow(1, start, count)?.contiguous()?.matmul(&weight)?)?;
    }
    Ok(dx)
}

/// Some rows of the head in float32 on `device`. candle moves a tensor with all that shares its memory, so rows that
/// leave the host are copied out of the table first.
fn panel(head: &Candle, start: usize, count: usize, device: &Device) -> Result<Candle> {
    let rows = head.narrow(0, start, count)?;
    let rows = match device.same_device(head.device()) {
        true => rows,
        false => rows.force_contiguous()?.to_device(device)?,
    };
    rows.to_dtype(DType::F32)
}

fn panels(head: &Candle) -> Result<impl Iterator<Item = (usize, usize)> + use<>> {
    let (rows, cols) = head.dims2()?;
    let step = (PANEL_ELEMENTS / cols).max(1);
    Ok((0..rows)
        .step_by(step)
        .map(move |start| (start, step.min(rows - start))))
}
