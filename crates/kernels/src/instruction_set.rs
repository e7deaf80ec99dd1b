//! Which instructions the kernels use: chosen once for the process, the fastest of the CPU unless a cell asks for
//! others.

use std::sync::OnceLock;

use options::{InstructionSet, InstructionSetChoice};

use super::arithmetic::Arithmetic;

static CHOSEN: OnceLock<InstructionSet> = OnceLock::new();

/// The level that a choice means on this CPU.
pub fn resolve(choice: InstructionSetChoice) -> InstructionSet {
    choice.level().unwrap_or_else(InstructionSet::fastest)
}

/// The level that is fastest on a CPU by this maker whose best level is `best`. Intel's dot products of bfloat16 pairs
/// are slower than its float32 vectors (benches/README.md, "Levels").
fn fastest_of(best: InstructionSet, vendor: &[u8; 12]) -> InstructionSet {
    match (best, vendor) {
        (InstructionSet::Avx512Bf16, b"GenuineIntel") => InstructionSet::Avx512,
        (best, _) => best,
    }
}

/// What a level of instructions is on this CPU, and code for it.
pub trait Dispatch: Sized {
    /// The best that this CPU, and the system for it, can do.
    fn best() -> Self;

    /// The level that trains fastest on this CPU. A table names it, so that every run on a CPU has the same level.
    fn fastest() -> Self;

    /// Whether this CPU can do it.
    fn is_available(&self) -> bool;

    /// Makes the process use this level from now on; false where another is in use already, or the CPU has not got it.
    fn choose(self) -> bool;

    /// The level that the kernels use: the chosen one, or the fastest.
    fn current() -> Self;

    /// Runs `body`, and what is inlined into it, as code for this level: loops become vectors of its width.
    ///
    /// The body, and every closure it calls, is to be `#[inline(always)]`: one that is not inlined, as the compiler
    /// does with large ones, stays code for the least level.
    fn run<R>(self, body: impl FnOnce() -> R) -> R;

    /// [`Dispatch::run`] for a body that is told how to multiply and add at this level.
    fn compute<R>(self, body: impl FnOnce(Arithmetic) -> R) -> R;
}

impl Dispatch for InstructionSet {
    fn best() -> Self {
        static BEST: OnceLock<InstructionSet> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    fn fastest() -> Self {
        static FASTEST: OnceLock<InstructionSet> = OnceLock::new();
        *FASTEST.get_or_init(|| fastest_of(Self::best(), &vendor()))
    }

    fn is_available(&self) -> bool {
        *self <= Self::best()
    }

    fn choose(self) -> bool {
        self.is_available() && *CHOSEN.get_or_init(|| self) == self
    }

    fn current() -> Self {
        #[cfg(test)]
        if let Some(level) = forced::get() {
            return level;
        }
        *CHOSEN.get_or_init(Self::fastest)
    }

    #[inline(always)]
    fn run<R>(self, body: impl FnOnce() -> R) -> R {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level is only ever in use where the CPU has its instructions (`choose` and `current`).
        unsafe {
            match self {
                Self::Portable => body(),
                Self::Avx2 => x86::avx2(body),
                Self::Avx512 | Self::Avx512Bf16 | Self::Amx => x86::avx512(body),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        body()
    }

    #[inline(always)]
    fn compute<R>(self, body: impl FnOnce(Arithmetic) -> R) -> R {
        if self == Self::Portable {
            body(Arithmetic::SEPARATE)
        } else {
            self.run(
                #[inline(always)]
                || body(Arithmetic::FUSED),
            )
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    /// # Safety
    /// The CPU has these features.
    #[inline]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
    pub(super) unsafe fn avx2<R>(body: impl FnOnce() -> R) -> R {
        body()
    }

    /// # Safety
    /// The CPU has these features.
    #[inline]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn avx512<R>(body: impl FnOnce() -> R) -> R {
        body()
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> InstructionSet {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if !avx2 {
        InstructionSet::Portable
    } else if !avx512 {
        InstructionSet::Avx2
    } else if !is_x86_feature_detected!("avx512bf16") {
        InstructionSet::Avx512
    } else if !(has_amx_bf16() && tiles_permitted()) {
        InstructionSet::Avx512Bf16
    } else {
        InstructionSet::Amx
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> InstructionSet {
    InstructionSet::Portable
}

/// The maker of this CPU (Intel SDM, CPUID leaf 0: EBX, EDX, ECX).
#[cfg(target_arch = "x86_64")]
fn vendor() -> [u8; 12] {
    let leaf = std::arch::x86_64::__cpuid(0);
    let mut name = [0; 12];
    for (part, register) in name
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip([leaf.ebx, leaf.edx, leaf.ecx])
    {
        *part = register.to_le_bytes();
    }
    name
}

#[cfg(not(target_arch = "x86_64"))]
fn vendor() -> [u8; 12] {
    [0; 12]
}

/// Intel SDM, CPUID leaf 7: EDX bit 22 is AMX-BF16, bit 24 AMX-TILE.
#[cfg(target_arch = "x86_64")]
fn has_amx_bf16() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 7 {
        return false;
    }
    let edx = __cpuid_count(7, 0).edx;
    edx & (1 << 22) != 0 && edx & (1 << 24) != 0
}

/// Asks Linux for the tile registers' state, which a process gets on request only
/// (Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn tiles_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: takes two numbers and changes nothing but what this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn tiles_permitted() -> bool {
    false
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
mod emulated_tiles;

/// Levels for tests: each thread can have its own, which the kernels it calls use on all their threads.
#[cfg(test)]
pub(crate) mod forced {
    use std::cell::Cell;

    use super::{Dispatch as _, InstructionSet};

    thread_local!(static FORCED: Cell<Option<InstructionSet>> = const { Cell::new(None) });

    pub(crate) fn get() -> Option<InstructionSet> {
        FORCED.get()
    }

    /// Calls `body` once for each level that this CPU has, from the least on, with that level in use. Tiles are
    /// emulated where it has none.
    pub(crate) fn at_each_level(mut body: impl FnMut(InstructionSet)) {
        let is_there = |level: &InstructionSet| level.is_available() || is_emulated(*level);
        for level in InstructionSet::ALL.into_iter().filter(is_there) {
            FORCED.set(Some(level));
            body(level);
        }
        FORCED.set(None);
    }

    fn is_emulated(level: InstructionSet) -> bool {
        #[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
        {
            level == InstructionSet::Amx && super::emulated_tiles::install()
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
        {
            let _ = level;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_passes_intels_dot_products_by() {
        let (intel, amd) = (b"GenuineIntel", b"AuthenticAMD");
        for level in InstructionSet::ALL {
            assert_eq!(fastest_of(level, amd), level);
            let expected = match level {
                InstructionSet::Avx512Bf16 => InstructionSet::Avx512,
                other => other,
            };
            assert_eq!(fastest_of(level, intel), expected);
        }
        assert!(InstructionSet::fastest() <= InstructionSet::best());
        assert_eq!(resolve(InstructionSetChoice::Auto), InstructionSet::fastest());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_maker_has_a_name() {
        assert!(vendor().iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '));
    }

    #[test]
    fn a_body_runs_at_each_level() {
        forced::at_each_level(|level| {
            assert_eq!(InstructionSet::current(), level);
            let values: Vec<f32> = (0..100).map(|i| i as f32).collect();
            assert_eq!(
                level.run(|| values.iter().map(|value| value * 2.0).sum::<f32>()),
                9900.0
            );
        });
    }
}
