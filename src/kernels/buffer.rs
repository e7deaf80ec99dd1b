//! Memory for a kernel's output.

use super::Element;

/// `len` elements that `fill` writes: every one of them, and none before it is written. The memory is not cleared first,
/// which would cost as much as many a kernel.
#[expect(clippy::uninit_vec, reason = "fill writes every element")]
pub fn written<E: Element>(len: usize, fill: impl FnOnce(&mut [E])) -> Vec<E> {
    let mut values = Vec::<E>::with_capacity(len);
    // SAFETY: the capacity is there, and each pattern of bits is a value of the three formats; what is there before
    // `fill` is read by nobody.
    unsafe {
        values.set_len(len);
    }
    if cfg!(test) {
        values.fill(E::narrow(f32::NAN));
    }
    fill(&mut values);
    values
}
