//! Tiles in software, so that their code is tested on CPUs without them: the CPU rejects an instruction, and the
//! signal's handler does what the instruction would have done, but for the rounding of sums (Intel SDM vol. 2, the
//! instructions of AMX).

use std::{cell::UnsafeCell, ptr::null_mut, slice, sync::OnceLock};

use libc::{c_int, c_void, siginfo_t, ucontext_t};
use options::InstructionSet;

use crate::Dispatch as _;

/// Rows of a tile, and the numbers of 32 bits in each.
const ROWS: usize = 16;
const COLUMNS: usize = 16;

/// A thread's tiles.
struct Tiles {
    is_configured: bool,
    values: [[[u32; COLUMNS]; ROWS]; 8],
}

thread_local!(static TILES: UnsafeCell<Tiles> = const {
    UnsafeCell::new(Tiles { is_configured: false, values: [[[0; COLUMNS]; ROWS]; 8] })
});

/// Makes the process do in software what the CPU rejects. False if the CPU has not got what goes with tiles.
pub(super) fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        // SAFETY: the action is whole, and its handler takes these arguments.
        InstructionSet::best() >= InstructionSet::Avx512Bf16
            && unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO;
                libc::sigaction(libc::SIGILL, &action, null_mut()) == 0
            }
    })
}

extern "C" fn handle(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system gives the handler the context that it interrupted, and no one else has it. The instruction was
    // read by the CPU, and reads and writes what its author promised. No two handlers of a thread run at a time.
    unsafe {
        let registers = &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs;
        let code = registers[libc::REG_RIP as usize] as *const u8;
        match Instruction::decode(code) {
            Some(instruction) if TILES.with(|tiles| instruction.execute(registers, &mut *tiles.get())) => {
                registers[libc::REG_RIP as usize] += instruction.len as i64;
            }
            // The instruction is rejected again, and ends the process.
            _ => drop(libc::signal(libc::SIGILL, libc::SIG_DFL)),
        }
    }
}

/// An instruction with a VEX prefix of three bytes from the map 0F 38 (Intel SDM vol. 2, 2.3).
struct Instruction {
    opcode: u8,
    /// The mandatory prefix: none, 66, F3, F2.
    prefix: u8,
    /// The register of `vvvv`.
    third: usize,
    /// The register of ModR/M.
    register: usize,
    /// The register or the memory of `r/m`.
    operand: Operand,
    len: usize,
}

enum Operand {
    Register(usize),
    Memory {
        base: usize,
        /// The register, and what it is multiplied by.
        index: Option<(usize, i64)>,
        displacement: i64,
    },
}

impl Instruction {
    /// # Safety
    /// There is an instruction.
    unsafe fn decode(code: *const u8) -> Option<Self> {
        let at = |place: usize| {
            // SAFETY: only bytes that belong to the instruction are read.
            unsafe { *code.add(place) }
        };
        if at(0) != 0xc4 || at(1) & 0x1f != 2 {
            return None;
        }
        // The prefix has these bits inverted.
        let extended = |bit: u8, register: u8| usize::from(register & 7) + if at(1) & bit == 0 { 8 } else { 0 };
        let (modrm, mut len) = (at(4), 5);
        let (mode, rm) = (modrm >> 6, modrm & 7);
        let operand = if mode == 3 {
            Operand::Register(extended(0x20, rm))
        } else {
            let (mut base, mut index) = (extended(0x20, rm), None);
            if rm == 4 {
                let sib = at(len);
                len += 1;
                base = extended(0x20, sib);
                index = Some((extended(0x40, sib >> 3), 1 << (sib >> 6))).filter(|(register, _)| *register != 4);
            }
            if mode == 0 && base & 7 == 5 {
                return None;
            }
            let bytes = [0, 1, 4][usize::from(mode)];
            let displacement = (0..bytes)
                .map(|place| i64::from(at(len + place)) << (8 * place))
                .sum::<i64>();
            len += bytes;
            let displacement = match bytes {
                1 => i64::from(displacement as i8),
                _ => i64::from(displacement as i32),
            };
            Operand::Memory {
                base,
                index,
                displacement,
            }
        };
        Some(Self {
            opcode: at(3),
            prefix: at(2) & 3,
            third: usize::from(!at(2) >> 3 & 15),
            register: extended(0x80, modrm >> 3),
            operand,
            len,
        })
    }

    /// False if it is none of a tile's, or is not allowed.
    ///
    /// # Safety
    /// Memory that the instruction reads or writes is there.
    unsafe fn execute(&self, registers: &[i64], tiles: &mut Tiles) -> bool {
        // The first byte, and bytes from one row to the next.
        let memory = match self.operand {
            Operand::Register(_) => None,
            Operand::Memory {
                base,
                index,
                displacement,
            } => {
                let stride = index.map_or(0, |(register, scale)| general(registers, register) * scale);
                Some((general(registers, base) + displacement, stride))
            }
        };
        let row = |(address, stride): (i64, i64), row: usize| (address + stride * row as i64) as *mut [u32; COLUMNS];
        match (self.opcode, self.prefix, memory, &self.operand) {
            // LDTILECFG: palette 1, every tile whole.
            (0x49, 0, Some((address, _)), _) => {
                // SAFETY: the caller's promise: a configuration has 64 bytes.
                let bytes = unsafe { slice::from_raw_parts(address as *const u8, 64) };
                let is_whole = |tile: usize| bytes[16 + 2 * tile..][..2] == [64, 0] && bytes[48 + tile] == 16;
                tiles.is_configured = bytes[0] == 1 && (0..8).all(is_whole);
                tiles.values = [[[0; COLUMNS]; ROWS]; 8];
            }
            // TILERELEASE
            (0x49, 0, None, _) => tiles.is_configured = false,
            _ if !tiles.is_configured || self.register >= 8 || self.third >= 8 => return false,
            // TILEZERO
            (0x49, 3, None, _) => tiles.values[self.register] = [[0; COLUMNS]; ROWS],
            // TILELOADD, and TILELOADDT1 with a hint.
            (0x4b, 3 | 1, Some(place), _) => {
                for (at, values) in tiles.values[self.register].iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *values = unsafe { row(place, at).read_unaligned() };
                }
            }
            // TILESTORED
            (0x4b, 2, Some(place), _) => {
                for (at, values) in tiles.values[self.register].iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { row(place, at).write_unaligned(*values) };
                }
            }
            // TDPBF16PS
            (0x5c, 2, None, &Operand::Register(left @ 0..8)) => {
                let (left, right) = (tiles.values[left], tiles.values[self.third]);
                for (sums, left) in tiles.values[self.register].iter_mut().zip(&left) {
                    add_pairs(sums, left, &right);
                }
            }
            _ => return false,
        }
        true
    }
}

/// A general register by its number.
fn general(registers: &[i64], number: usize) -> i64 {
    use libc::*;
    const ORDER: [c_int; 16] = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11,
        REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    registers[ORDER[number] as usize]
}

/// Adds a row of pairs of bfloat16, times rows of pairs, to a row of float32.
fn add_pairs(sums: &mut [u32; COLUMNS], left: &[u32; COLUMNS], right: &[[u32; COLUMNS]; ROWS]) {
    let halves = |pair: u32| [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)];
    for (left, right) in left.iter().zip(right) {
        let left = halves(*left);
        for (sum, right) in sums.iter_mut().zip(right) {
            let right = halves(*right);
            *sum = (f32::from_bits(*sum) + left[0] * right[0] + left[1] * right[1]).to_bits();
        }
    }
}
