//! Tiles (Intel SDM vol. 1, ch. 18): 32 x 32 sums in four of them. Rust has no stable intrinsics for them, so they are
//! written as assembly.

use std::{arch::asm, mem::offset_of, ptr::null};

use half::bf16;

use super::{
    block::{Block, TILE},
    factors::{Factors, Right},
    operand::Number,
    pack::Packed,
};

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

/// Bytes between the rows of a packed tile; those of an output block are twice as far apart.
const TILE_ROW: usize = 64;
const _: () = assert!(TILE * size_of::<f32>() == 2 * TILE_ROW);

/// Products that one call of the assembly adds up, at most.
const PASSES: usize = 4;

/// A product's operands, as the assembly reads them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pass {
    left: *const bf16,
    /// Bytes from one row on the left to the next.
    left_row: usize,
    /// Bytes from one step of the depth to the next.
    left_step: usize,
    right: *const bf16,
    /// The first of four rows whose cache lines are asked for meanwhile, those of a step with the step.
    ahead: *const bf16,
    steps: usize,
}

impl Pass {
    const NONE: Self = Self {
        left: null(),
        left_row: 0,
        left_step: 0,
        right: null(),
        ahead: null(),
        steps: 0,
    };

    /// # Panics
    /// Where an operand is too small, or the right one is no panel.
    #[inline]
    fn new(Factors { left, right, depth }: &Factors<bf16>) -> Self {
        let steps = depth.div_ceil(bf16::STEP);
        left.check(TILE, steps);
        let Right::Panel(right) = right else {
            panic!("tiles multiply panels only")
        };
        assert!(right.len() >= bf16::packed_len(*depth));
        let first = left.values.as_ptr();
        Self {
            left: first,
            left_row: left.row * size_of::<bf16>(),
            left_step: left.step * size_of::<bf16>(),
            right: right.as_ptr(),
            ahead: first.wrapping_add(left.ahead * left.row),
            steps,
        }
    }
}

/// Assembly of one shape: which of the four sums of 16 x 16 it computes. Right operands come from the second-level
/// cache: the hint of `tileloaddt1` keeps them from taking the left operand's place in the first-level cache. Whole
/// blocks ask for cache lines of the next rows on the left between the tile products.
macro_rules! shape {
    ($name:ident, $zero:expr, $load:expr, $step:expr, $store:expr) => {
        /// # Safety
        /// The tiles are configured, there is a pass, and each has a step and the elements of all its steps.
        unsafe fn $name(passes: &[Pass], out: &mut Block, accumulate: bool) {
            // SAFETY: reads the passes, their operands and the block, and writes the block; prefetches do neither.
            unsafe {
                asm!(
                    "test {steps}, {steps}",
                    "jnz 3f",
                    $zero,
                    "jmp 2f",
                    "3:",
                    $load,
                    "2:",
                    "mov {left}, [{pass} + {left_at}]",
                    "mov {left_row}, [{pass} + {left_row_at}]",
                    "mov {left_step}, [{pass} + {left_step_at}]",
                    "mov {right}, [{pass} + {right_at}]",
                    "mov {ahead}, [{pass} + {ahead_at}]",
                    "mov {steps}, [{pass} + {steps_at}]",
                    "mov {lower}, {left_row}",
                    "shl {lower}, 4",
                    "add {lower}, {left}",
                    "lea {further}, [{ahead} + 2 * {left_row}]",
                    ".p2align 6",
                    "4:",
                    $step,
                    "add {left}, {left_step}",
                    "add {lower}, {left_step}",
                    "add {ahead}, {left_step}",
                    "add {further}, {left_step}",
                    "add {right}, 2048",
                    "dec {steps}",
                    "jnz 4b",
                    "add {pass}, {pass_size}",
                    "dec {passes}",
                    "jnz 2b",
                    $store,
                    left_at = const offset_of!(Pass, left),
                    left_row_at = const offset_of!(Pass, left_row),
                    left_step_at = const offset_of!(Pass, left_step),
                    right_at = const offset_of!(Pass, right),
                    ahead_at = const offset_of!(Pass, ahead),
                    steps_at = const offset_of!(Pass, steps),
                    pass_size = const size_of::<Pass>(),
                    pass = inout(reg) passes.as_ptr() => _,
                    passes = inout(reg) passes.len() => _,
                    // Says at first whether to accumulate.
                    steps = inout(reg) usize::from(accumulate) => _,
                    left = out(reg) _,
                    lower = out(reg) _,
                    left_row = out(reg) _,
                    left_step = out(reg) _,
                    right = out(reg) _,
                    ahead = out(reg) _,
                    further = out(reg) _,
                    row = in(reg) TILE_ROW,
                    out = in(reg) out.0.as_mut_ptr(),
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
    "tileloadd tmm0, [{out} + 2 * {row}]\ntileloadd tmm1, [{out} + 2 * {row} + 64]
     tileloadd tmm2, [{out} + 2 * {row} + 2048]\ntileloadd tmm3, [{out} + 2 * {row} + 2112]",
    "tileloadd tmm4, [{left} + {left_row}]\ntileloaddt1 tmm6, [{right} + {row}]\ntdpbf16ps tmm0, tmm4, tmm6
     prefetcht1 [{ahead}]\nprefetcht1 [{ahead} + {left_row}]
     tileloaddt1 tmm7, [{right} + {row} + 1024]\ntdpbf16ps tmm1, tmm4, tmm7
     prefetcht1 [{further}]\nprefetcht1 [{further} + {left_row}]
     tileloadd tmm5, [{lower} + {left_row}]\ntdpbf16ps tmm2, tmm5, tmm6\ntdpbf16ps tmm3, tmm5, tmm7",
    "tilestored [{out} + 2 * {row}], tmm0\ntilestored [{out} + 2 * {row} + 64], tmm1
     tilestored [{out} + 2 * {row} + 2048], tmm2\ntilestored [{out} + 2 * {row} + 2112], tmm3"
);

shape!(
    upper,
    "tilezero tmm0\ntilezero tmm1",
    "tileloadd tmm0, [{out} + 2 * {row}]\ntileloadd tmm1, [{out} + 2 * {row} + 64]",
    "tileloadd tmm4, [{left} + {left_row}]\ntileloaddt1 tmm6, [{right} + {row}]\ntdpbf16ps tmm0, tmm4, tmm6
     tileloaddt1 tmm7, [{right} + {row} + 1024]\ntdpbf16ps tmm1, tmm4, tmm7",
    "tilestored [{out} + 2 * {row}], tmm0\ntilestored [{out} + 2 * {row} + 64], tmm1"
);

shape!(
    left,
    "tilezero tmm0\ntilezero tmm2",
    "tileloadd tmm0, [{out} + 2 * {row}]\ntileloadd tmm2, [{out} + 2 * {row} + 2048]",
    "tileloadd tmm4, [{left} + {left_row}]\ntileloaddt1 tmm6, [{right} + {row}]\ntdpbf16ps tmm0, tmm4, tmm6
     tileloadd tmm5, [{lower} + {left_row}]\ntdpbf16ps tmm2, tmm5, tmm6",
    "tilestored [{out} + 2 * {row}], tmm0\ntilestored [{out} + 2 * {row} + 2048], tmm2"
);

/// The sum of the products, or what the block holds and that sum: the quarters of the block that hold one of the first
/// `rows` rows and `cols` columns. Sums stay in tiles from one product to the next.
///
/// # Panics
/// Where an operand is too small, or a right one is no panel.
///
/// # Safety
/// The tiles are configured.
#[inline]
pub(super) unsafe fn multiply(
    factors: &[Factors<bf16>],
    (rows, cols): (usize, usize),
    out: &mut Block,
    mut accumulate: bool,
) {
    for together in factors.chunks(PASSES) {
        let (mut passes, mut count) = ([Pass::NONE; PASSES], 0);
        for factors in together.iter().filter(|factors| factors.depth > 0) {
            passes[count] = Pass::new(factors);
            count += 1;
        }
        let passes = &passes[..count];
        if passes.is_empty() {
            continue;
        }
        // SAFETY: the caller's promise, and what a pass checks.
        unsafe {
            if rows <= 16 {
                upper(passes, out, accumulate);
            } else if cols <= 16 {
                left(passes, out, accumulate);
            } else {
                both(passes, out, accumulate);
            }
        }
        accumulate = true;
    }
    if !accumulate {
        *out = Block::ZERO;
    }
}
