//! PyTorch's message of an allocation that did not fit.

use std::ops::RangeInclusive;

use torch::caching_allocator::rounding;

/// An amount as a message has it, with few digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// The most that rounding took or added, in bytes.
    pub rounding: u64,
}

/// What a message says. Releases differ in their words; what one does not say is absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Message {
    /// The segment that was asked of the device.
    pub tried: Amount,
    /// The device's memory.
    pub total: Option<Amount>,
    /// What is free of it.
    pub free: Option<Amount>,
    /// Blocks in use.
    pub allocated: Option<Amount>,
    /// What the allocator holds besides.
    pub unallocated: Option<Amount>,
}

/// There is no such message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text has no `Tried to allocate 2.00 GiB`, with which PyTorch says what did not fit")]
pub struct NoMessage;

/// The words before the amount.
const TRIED: &str = "Tried to allocate ";

impl Message {
    /// Reads the messages of a text, such as a log; one that is repeated counts once.
    ///
    /// # Errors
    /// There is none.
    pub fn read_all(text: &str) -> Result<Vec<Self>, NoMessage> {
        let mut messages: Vec<Self> = Vec::new();
        for message in text.split(TRIED).skip(1).filter_map(Self::after_tried) {
            messages.retain(|other| *other != message);
            messages.push(message);
        }
        match messages.is_empty() {
            true => Err(NoMessage),
            false => Ok(messages),
        }
    }

    /// The message whose text from the amount on is `text`, with what follows in the log.
    fn after_tried(text: &str) -> Option<Self> {
        // Lines of a log may break it anywhere.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let after = |words: &str| amount(&text[text.find(words)? + words.len()..]);
        let before = |words: &str| {
            let text = text[..text.find(words)?].trim_end();
            let (start, _) = text.rmatch_indices(' ').nth(1)?;
            amount(&text[start + 1..])
        };
        let allocated = before("is allocated by PyTorch").or_else(|| before("already allocated"));
        let unallocated = before("is reserved by PyTorch but unallocated").or_else(|| {
            let reserved = before("reserved in total by PyTorch").or_else(|| before("cached"))?;
            let allocated = allocated?;
            Some(Amount {
                bytes: reserved.bytes.checked_sub(allocated.bytes)?,
                rounding: reserved.rounding + allocated.rounding,
            })
        });
        Some(Self {
            tried: amount(&text)?,
            total: after("has a total capacity of ")
                .or_else(|| after("has a total capacty of "))
                .or_else(|| before("total capacity")),
            free: before("is free").or_else(|| before("free;")),
            allocated,
            unallocated,
        })
    }

    /// Bytes of the device that PyTorch's allocator does not hold: the CUDA context, and what other programs have.
    pub fn outside(&self) -> Option<u64> {
        let within = [self.free?, self.allocated?, self.unallocated?];
        let within: u64 = within.iter().map(|amount| amount.bytes).sum();
        self.total?.bytes.checked_sub(within)
    }

    /// Requests for which the allocator asks the device for as much, the smallest first.
    pub fn requests(&self) -> Vec<RangeInclusive<u64>> {
        let Amount { bytes, rounding } = self.tried;
        rounding::requests(&(bytes.saturating_sub(rounding)..=bytes + rounding))
    }

    /// The requests, if they get a segment for themselves: their size is known to 2 MiB and the rounding.
    pub fn own_requests(&self) -> Option<RangeInclusive<u64>> {
        match self.requests().as_slice() {
            [requests] if *requests.end() >= rounding::SMALLEST_OWN_SEGMENT => Some(requests.clone()),
            _ => None,
        }
    }
}

impl Amount {
    /// True for a number of bytes that would be written so.
    pub fn is(self, bytes: u64) -> bool {
        self.bytes.abs_diff(bytes) <= self.rounding
    }
}

/// An amount at the beginning of a text: `2.00 GiB`.
fn amount(text: &str) -> Option<Amount> {
    let mut words = text.split_whitespace();
    let number = words.next()?.trim_start_matches(['(', ';']);
    let unit = words.next()?.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    let factor: u64 = match unit {
        "bytes" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    // Neither `nan` nor `inf`.
    let amount: f64 = number
        .parse()
        .ok()
        .filter(|_| number.starts_with(|c: char| c.is_ascii_digit()))?;
    let bytes = amount * factor as f64;
    // No device has so many.
    if bytes > (1u64 << 50) as f64 {
        return None;
    }
    let rounding = 0.5 * factor as f64 / 10f64.powi(decimals as i32);
    let is_exact = factor == 1;
    Some(Amount {
        bytes: bytes.round() as u64,
        rounding: if is_exact { 0 } else { rounding.ceil() as u64 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1u64 << 30) as f64;

    fn gib(amount: Option<Amount>) -> f64 {
        (amount.unwrap().bytes as f64 / GIB * 100.0).round() / 100.0
    }

    fn read(text: &str) -> Message {
        *Message::read_all(text).unwrap().last().unwrap()
    }

    #[test]
    fn messages_of_all_ages_are_read() {
        let new = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.52 GiB of \
                   which 1.14 GiB is free. Including non-PyTorch memory, this process has 22.37 GiB memory in use. Of the \
                   allocated memory 20.23 GiB is allocated\nby PyTorch, and 1.75 GiB is reserved by PyTorch but unallocated.";
        let message = read(new);
        assert_eq!(message.tried.bytes, 2 << 30);
        assert!(message.tried.is((2 << 30) + (5 << 20)) && !message.tried.is((2 << 30) + (6 << 20)));
        assert_eq!((gib(message.total), gib(message.allocated)), (23.52, 20.23));
        assert_eq!((gib(message.unallocated), gib(message.free)), (1.75, 1.14));
        let old = "RuntimeError: CUDA out of memory. Tried to allocate 384.00 MiB (GPU 0; 14.61 GiB total capacity; 13.70 GiB \
                   already allocated; 384.00 MiB free; 13.78 GiB reserved in total by PyTorch) If reserved memory is >> allocated";
        let message = read(old);
        assert_eq!(message.tried.bytes, 384 << 20);
        assert_eq!((gib(message.total), gib(message.allocated)), (14.61, 13.7));
        assert_eq!((gib(message.unallocated), gib(message.free)), (0.08, 0.38));
        let oldest = "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 5.94 GiB total capacity; 4.64 GiB already allocated; \
                      20.75 MiB free; 198.00 MiB cached)";
        let message = read(oldest);
        assert_eq!((gib(message.total), gib(message.allocated)), (5.94, 4.64));
        for text in [
            "CUDA out of memory",
            "Tried to allocate nan GiB",
            "Tried to allocate 1e30 GiB",
            "Tried to allocate -1 GiB",
        ] {
            assert_eq!(Message::read_all(text), Err(NoMessage));
        }
    }

    #[test]
    fn what_others_hold_of_the_device_is_what_is_left() {
        let message = "Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 79.15 GiB of which 1.00 GiB is free. Process \
                       1 has 30.00 GiB memory in use. Process 2 has 48.15 GiB memory in use. Of the allocated memory 46.00 GiB is \
                       allocated by PyTorch, with 1.00 GiB allocated in private pools (e.g., CUDA Graphs), and 1.65 GiB is \
                       reserved by PyTorch but unallocated. If reserved";
        let message = read(message);
        let outside = message.outside().unwrap() as f64 / GIB;
        assert!((outside - 30.5).abs() < 0.01, "{outside}");
        assert_eq!(read("Tried to allocate 20.00 MiB").outside(), None);
    }

    #[test]
    fn a_log_may_have_several_messages() {
        let [first, second] = [
            "Tried to allocate 1.96 GiB. 8.02 GiB is allocated by PyTorch",
            "Tried to allocate 20.00 MiB",
        ];
        let messages = Message::read_all(&format!("{first}\n{second}\n{second}, and\n{first}")).unwrap();
        let tried: Vec<u64> = messages.iter().map(|message| message.tried.bytes >> 20).collect();
        assert_eq!(tried, [20, 2007]);
        assert_eq!(messages[0].allocated, None, "each has its own figures alone");
    }
}
