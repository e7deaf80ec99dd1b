//! What training carries from one step to the next.

use candle_core::Result;

/// Walks over what training carries from step to step. One walk saves it and restores it: whoever saves reads the bytes
/// that it is given, and whoever restores writes them.
pub trait Carrier {
    /// Takes or gives these bytes.
    ///
    /// # Errors
    /// They cannot be written, or there are none left to read.
    fn bytes(&mut self, bytes: &mut [u8]) -> Result<()>;

    /// Takes or gives a number.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    fn number(&mut self, number: &mut f64) -> Result<()> {
        let mut bytes = number.to_le_bytes();
        self.bytes(&mut bytes)?;
        *number = f64::from_le_bytes(bytes);
        Ok(())
    }

    /// Takes or gives a count.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes).
    fn count(&mut self, count: &mut usize) -> Result<()> {
        let mut bytes = (*count as u64).to_le_bytes();
        self.bytes(&mut bytes)?;
        *count = u64::from_le_bytes(bytes) as usize;
        Ok(())
    }

    /// Takes or gives the elements of a tensor; `None` of one that is candle's.
    ///
    /// # Errors
    /// Those of [`bytes`](Self::bytes), and the tensor is candle's.
    fn elements(&mut self, bytes: Option<&mut [u8]>) -> Result<()> {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => candle_core::bail!("what is carried lies in this process's memory, and not in candle's"),
        }
    }
}
