//! Tiles (Intel SDM vol. 1, ch. 18): 32 x 32 sums in four tiles. Rust has no stable intrinsics for them, so they are
//! written as assembly.

use std::arch::asm;

use half::bf16;

use super::block::{Block, TILE};

/// Eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Configuration([u8; 64]);

static CONFIGURATION: Configuration = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    Configuration(bytes)
};

/// # Safety
/// The CPU has tiles and the system permits them.
pub(super) unsafe fn configure() {
    // SAFETY: the configuration is a valid one, and it is read only.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, readonly)) }
}

/// # Safety
/// The CPU has tiles.
pub(super) unsafe fn release() {
    // SAFETY: nobody computes with the tiles at this point.
    unsafe { asm!("tilerelease", options(nostack, nomem)) }
}

/// Bytes between the rows of a packed tile, and of an output block.
const TILE_ROW: usize = 64;
const OUT_ROW: usize = TILE * 4;

/// 32 rows of a left operand, as the tiles load them: in elements, between rows, and between steps of 32 places.
#[derive(Clone, Copy)]
pub(super) struct Strided {
    pub(super) values: *const bf16,
    pub(super) row: usize,
    pub(super) step: usize,
}

/// Assembly of one shape: which of the four sums of 16 x 16 it computes.
macro_rules! shape {
    ($name:ident, $zero:expr, $load:expr, $step:expr, $store:expr) => {
        /// # Safety
        /// As [`multiply`]; `steps` is not 0.
        unsafe fn $name(left: Strided, right: *const bf16, steps: usize, out: *mut f32, accumulate: bool) {
            // SAFETY: reads `steps` packed steps of both operands and the block, and writes the block.
            unsafe {
                asm!(
                    "test {accumulate}, {accumulate}",
                    "jnz 3f",
                    $zero,
                    "jmp 2f",
                    "3:",
                    $load,
                    "2:",
                    $step,
                    "add {left}, {step}",
                    "add {lower}, {step}",
                    "add {right}, 2048",
                    "dec {steps}",
                    "jnz 2b",
                    $store,
                    accumulate = in(reg) usize::from(accumulate),
                    left = inout(reg) left.values => _,
                    lower = inout(reg) left.values.add(16 * left.row) => _,
                    left_row = in(reg) left.row * size_of::<bf16>(),
                    step = in(reg) left.step * size_of::<bf16>(),
                    right = inout(reg) right => _,
                    steps = inout(reg) steps => _,
                    row = in(reg) TILE_ROW,
                    out = in(reg) out,
                    below = in(reg) out.add(16 * TILE),
                    out_row = in(reg) OUT_ROW,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

shape!(
    both,
    "tilezero tmm0\ntilezero tmm1\ntilezero tmm2\ntilezero tmm3",
    "tileloadd tmm0, [{out} + {out_row}]\ntileloadd tmm1, [{out} + {out_row} + 64]
     tileloadd tmm2, [{below} + {out_row}]\ntileloadd tmm3, [{below} + {out_row} + 64]",
    "tileloadd tmm4, [{left} + {left_row}]\ntileloadd tmm6, [{right} + {row}]\ntdpbf16ps tmm0, tmm4, tmm6
     tileloadd tmm7, [{right} + {row} + 1024]\ntdpbf16ps tmm1, tmm4, tmm7
     tileloadd tmm5, [{lower} + {left_row}]\ntdpbf16ps tmm2, tmm5, tmm6\ntdpbf16ps tmm3, tmm5, tmm7",
    "tilestored [{out} + {out_row}], tmm0\ntilestored [{out} + {out_row} + 64], tmm1
     tilestored [{below} + {out_row}], tmm2\ntilestored [{below} + {out_row} + 64], tmm3"
);

shape!(
    upper,
    "tilezero tmm0\ntilezero tmm1 # {below}, {lower}",
    "tileloadd tmm0, [{out} + {out_row}]\ntileloadd tmm1, [{out} + {out_row} + 64]",
    "tileloadd tmm4, [{left} + {left_row}]\ntileloadd tmm6, [{right} + {row}]\ntdpbf16ps tmm0, tmm4, tmm6
     tileloadd tmm7, [{right} + {row} + 1024]\ntdpbf16ps tmm1, tmm4, tmm7",
    "tilestored [{out} + {out_row}], tmm0\ntilestored [{out} + {out_row} + 64], tmm1"
);

shape!(
    left,
    "tilezero tmm0\ntilezero tmm2",
    "tileloadd tmm0, [{out} + {out_row}]\ntileloadd tmm2, [{below} + {out_row}]",
    "tileloadd tmm4, [{left} + {left_row}]\ntileloadd tmm6, [{right} + {row}]\ntdpbf16ps tmm0, tmm4, tmm6
     tileloadd tmm5, [{lower} + {left_row}]\ntdpbf16ps tmm2, tmm5, tmm6",
    "tilestored [{out} + {out_row}], tmm0\ntilestored [{below} + {out_row}], tmm2"
);

/// Computes the quarters of the block that hold one of the first `rows` rows and `cols` columns.
///
/// # Safety
/// The tiles are configured; both operands have `steps` packed steps.
#[inline]
pub(super) unsafe fn multiply(
    left_block: Strided,
    right: *const bf16,
    steps: usize,
    (rows, cols): (usize, usize),
    out: &mut Block,
    accumulate: bool,
) {
    if steps == 0 {
        if !accumulate {
            *out = Block::ZERO;
        }
        return;
    }
    let out = out.0.as_mut_ptr();
    // SAFETY: the caller's promise.
    unsafe {
        if rows <= 16 {
            upper(left_block, right, steps, out, accumulate);
        } else if cols <= 16 {
            left(left_block, right, steps, out, accumulate);
        } else {
            both(left_block, right, steps, out, accumulate);
        }
    }
}
