//! Python's pickle format, protocol 2, for plain dictionaries, lists, texts and numbers. Python and memory_viz's own
//! reader read it. CPython's `Lib/pickletools.py` describes the opcodes.

use std::collections::HashMap;
use std::io::{self, Write};

/// A writer of one pickle.
pub(super) struct Pickle<W> {
    out: W,
    /// Numbers of the texts that were written.
    texts: HashMap<String, u32>,
    memoized: u32,
}

impl<W: Write> Pickle<W> {
    /// Begins a pickle.
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0x80, 2])?;
        Ok(Self {
            out,
            texts: HashMap::new(),
            memoized: 0,
        })
    }

    /// Ends the pickle.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b".")?;
        self.out.flush()
    }

    /// Writes a dictionary, whose keys and values `fill` writes in turn.
    pub(super) fn dict(&mut self, fill: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.out.write_all(b"}(")?;
        fill(self)?;
        self.out.write_all(b"u")
    }

    /// Writes a list, whose items `write` writes. Like Python, it adds a batch at a time, because readers keep a batch
    /// on their stack.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        const BATCH: usize = 1000;
        self.out.write_all(b"]")?;
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            self.out.write_all(b"(")?;
            for item in items.by_ref().take(BATCH) {
                write(self, item)?;
            }
            self.out.write_all(b"e")?;
        }
        Ok(())
    }

    /// Writes a text the first time, and a reference to it afterwards.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&number) = self.texts.get(text) {
            return self.again(number);
        }
        self.out.write_all(b"X")?;
        self.out.write_all(&(text.len() as u32).to_le_bytes())?;
        self.out.write_all(text.as_bytes())?;
        let number = self.memoize()?;
        self.texts.insert(text.to_owned(), number);
        Ok(())
    }

    /// Writes a number.
    pub(super) fn number(&mut self, number: u64) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(number) {
            self.out.write_all(&[b'K', byte])
        } else if let Ok(short) = u16::try_from(number) {
            self.out.write_all(b"M")?;
            self.out.write_all(&short.to_le_bytes())
        } else if let Ok(int) = i32::try_from(number) {
            self.out.write_all(b"J")?;
            self.out.write_all(&int.to_le_bytes())
        } else {
            // The shortest signed number.
            let bytes = number.to_le_bytes();
            let length = 8 - number.leading_zeros() as usize / 8;
            let sign = usize::from(bytes[length - 1] >= 0x80);
            self.out.write_all(&[0x8a, (length + sign) as u8])?;
            self.out.write_all(&bytes[..length])?;
            self.out.write_all(&[0][..sign])
        }
    }

    /// Writes `False`.
    pub(super) fn no(&mut self) -> io::Result<()> {
        self.out.write_all(&[0x89])
    }

    /// Gives the last value a number.
    pub(super) fn memoize(&mut self) -> io::Result<u32> {
        let number = self.memoized;
        self.memoized += 1;
        self.out.write_all(b"r")?;
        self.out.write_all(&number.to_le_bytes())?;
        Ok(number)
    }

    /// Writes a reference to the value with this number.
    pub(super) fn again(&mut self, number: u32) -> io::Result<()> {
        self.out.write_all(b"j")?;
        self.out.write_all(&number.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_format() {
        let mut bytes = Vec::new();
        let mut pickle = Pickle::new(&mut bytes).unwrap();
        pickle
            .dict(|pickle| {
                pickle.text("a")?;
                pickle.list([7, 300, 70_000, 1 << 31, 1 << 47], |pickle, n| pickle.number(n))?;
                pickle.text("b")?;
                pickle.text("a")
            })
            .unwrap();
        pickle.finish().unwrap();
        // pickle.loads of this is {'a': [7, 300, 70000, 2147483648, 140737488355328], 'b': 'a'}
        let want = [
            b"\x80\x02}(X\x01\x00\x00\x00ar\x00\x00\x00\x00](K\x07M\x2c\x01Jp\x11\x01\x00".as_slice(),
            b"\x8a\x05\x00\x00\x00\x80\x00\x8a\x07\x00\x00\x00\x00\x00\x80\x00e",
            b"X\x01\x00\x00\x00br\x01\x00\x00\x00j\x00\x00\x00\x00u.",
        ]
        .concat();
        assert_eq!(bytes, want);
    }

    #[test]
    fn long_lists_are_added_in_parts() {
        let mut bytes = Vec::new();
        let mut pickle = Pickle::new(&mut bytes).unwrap();
        pickle.list(0..2500, |pickle, _| pickle.no()).unwrap();
        pickle.finish().unwrap();
        assert_eq!(bytes.iter().filter(|&&byte| byte == b'e').count(), 3);
    }
}
