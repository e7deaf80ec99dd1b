//! One option after the other.

use std::str::FromStr;

use base::text::{Mistake, quoted, suggestion};

use super::tokens::{Tokens, Word};
use super::values::{MIB, Reserve, Settings};
use crate::caching_allocator::rounding::{Divisions, SMALLEST_OWN_SEGMENT};

/// Every option of PyTorch 2.15 with the CUDA backend.
const NAMES: [&str; 22] = [
    "backend",
    "expandable_segments",
    "expandable_segments_reserve",
    "expandable_segments_reserve_by_class",
    "garbage_collection_threshold",
    "graph_capture_record_stream_reuse",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "max_split_size_mb",
    "per_process_memory_fraction",
    "pinned_free_catch_all",
    "pinned_max_cached_size_mb",
    "pinned_max_round_threshold_mb",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "roundup_power2_divisions",
    "throw_on_cudamalloc_oom",
];

impl FromStr for Settings {
    type Err = Mistake;

    /// Reads `option:value,option:[key:value,…]` as PyTorch does, spaces ignored, the last of equal options kept;
    /// stricter where PyTorch accepts what is not a number or a separator. Options that have no effect on the device's
    /// memory are checked and dropped.
    ///
    /// # Errors
    ///
    /// Where PyTorch refuses the text, and for `backend:cudaMallocAsync`, which is another allocator.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        read(text)
    }
}

fn read(text: &str) -> Result<Settings, Mistake> {
    let mut settings = Settings::default();
    let mut tokens = Tokens::of(text);
    let mut at_least_a_segment = Vec::new();
    while let Some(option) = tokens.next() {
        let value = read_option(&option, &mut tokens, &mut settings)?;
        at_least_a_segment.extend(value.map(|value| (option.clone(), value)));
        if let Some(word) = tokens.next()
            && word.text != ","
        {
            return Err(tokens.error(
                Some(word),
                format!("`,` is missing after the allocator option `{}`", option.text),
            ));
        }
    }
    for (option, word) in at_least_a_segment {
        let least = settings.large_segment_size / MIB;
        if word.text.parse().is_ok_and(|mib: u64| mib < least) {
            let value = Value {
                name: &option.text,
                tokens: &mut tokens,
            };
            return Err(value.wrong(word, &at_least(least)));
        }
    }
    Ok(settings)
}

fn at_least(mib: u64) -> String {
    format!("at least {mib} (in MiB)")
}

/// Reads the option's value. It is returned where it may not be below `large_segment_size_mb`, which may follow.
fn read_option(option: &Word, tokens: &mut Tokens<'_>, settings: &mut Settings) -> Result<Option<Word>, Mistake> {
    let name = option.text.as_str();
    if !NAMES.contains(&name) {
        let mut error = tokens.error(
            Some(option.clone()),
            format!("unknown allocator option {}", quoted(name)),
        );
        error.help = suggestion(name.split(['=', ' ']).next().unwrap_or(name), NAMES);
        return Err(error);
    }
    tokens.expect(":", name)?;
    let mut value = Value { name, tokens };
    match name {
        "backend" => value.backend()?,
        "expandable_segments" => settings.expandable_segments = value.flag()?,
        "expandable_segments_reserve" => settings.expandable_segments_reserve = Some(value.reserve()?),
        "garbage_collection_threshold" => {
            let inside = |share: f64| share > 0.0 && share < 1.0;
            settings.garbage_collection_threshold = Some(value.number(inside, "between 0 and 1")?);
        }
        "large_segment_size_mb" => settings.large_segment_size = value.mebibytes(SMALLEST_OWN_SEGMENT / MIB + 1)?.0,
        "max_split_size_mb" => {
            let (bytes, word) = value.mebibytes(0)?;
            settings.max_split_size = Some(bytes);
            return Ok(Some(word));
        }
        "max_non_split_rounding_mb" => {
            let (bytes, word) = value.mebibytes(0)?;
            settings.max_non_split_rounding = Some(bytes);
            return Ok(Some(word));
        }
        "per_process_memory_fraction" => {
            let inside = |share: f64| (0.0..=1.0).contains(&share);
            settings.per_process_memory_fraction = value.number(inside, "from 0 to 1")?;
        }
        "roundup_power2_divisions" => settings.roundup_power2_divisions = value.divisions()?,
        // What follows changes pinned host memory, locks, graph capture, the way a refusal is told, or streams that
        // were given a class: nothing that a process with one stream keeps on the device.
        "pinned_num_register_threads" => value.threads()?,
        "pinned_reserve_segment_size_mb" => drop(value.mebibytes(1)?),
        "pinned_max_cached_size_mb" | "pinned_max_round_threshold_mb" => drop(value.mebibytes(0)?),
        "expandable_segments_reserve_by_class" => value.reserves_by_class()?,
        _ => drop(value.flag()?),
    }
    Ok(None)
}

/// The value of an option, still to be read.
struct Value<'a, 'text> {
    name: &'a str,
    tokens: &'a mut Tokens<'text>,
}

impl Value<'_, '_> {
    fn word(&mut self) -> Result<Word, Mistake> {
        self.tokens.value(self.name)
    }

    /// The error that `word` is not what the option `is`.
    fn wrong(&self, word: Word, is: &str) -> Mistake {
        let message = format!(
            "the allocator option `{}` is {is}, not {}",
            self.name,
            quoted(&word.text)
        );
        self.tokens.error(Some(word), message)
    }

    /// The error of [`Value::wrong`], for one of a few words.
    fn none_of(&self, word: Word, words: &[&str]) -> Mistake {
        let help = suggestion(&word.text, words.iter().copied());
        let mut error = self.wrong(word, &format!("`{}`", words.join("` or `")));
        error.help = help;
        error
    }

    fn flag(&mut self) -> Result<bool, Mistake> {
        let word = self.word()?;
        match word.text.as_str() {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.none_of(word, &["True", "False"])),
        }
    }

    fn backend(&mut self) -> Result<(), Mistake> {
        let word = self.word()?;
        match word.text.as_str() {
            "native" => Ok(()),
            "cudaMallocAsync" => Err(self.tokens.error(
                Some(word),
                "the allocator option `backend` is `native`: `cudaMallocAsync` is another allocator, CUDA's own".into(),
            )),
            _ => Err(self.none_of(word, &["native"])),
        }
    }

    fn integer(&mut self, is: &str) -> Result<(u64, Word), Mistake> {
        let word = self.word()?;
        match word.text.parse() {
            Ok(number) => Ok((number, word)),
            Err(_) => Err(self.wrong(word, is)),
        }
    }

    /// Whole MiB from `least` on, in bytes and as written; what is beyond 64 bits is cut.
    fn mebibytes(&mut self, least: u64) -> Result<(u64, Word), Mistake> {
        let (mib, word) = self.integer(&at_least(least))?;
        if mib < least {
            return Err(self.wrong(word, &at_least(least)));
        }
        Ok((mib.min(u64::MAX / MIB) * MIB, word))
    }

    fn number(&mut self, inside: impl Fn(f64) -> bool, is: &str) -> Result<f64, Mistake> {
        let word = self.word()?;
        match word.text.parse() {
            Ok(number) if inside(number) => Ok(number),
            _ => Err(self.wrong(word, is)),
        }
    }

    fn threads(&mut self) -> Result<(), Mistake> {
        const IS: &str = "a power of two up to 128";
        match self.integer(IS)? {
            (threads, _) if threads.is_power_of_two() && threads <= 128 => Ok(()),
            (_, word) => Err(self.wrong(word, IS)),
        }
    }

    fn reserve(&mut self) -> Result<Reserve, Mistake> {
        let word = self.word()?;
        let number = word.text.strip_suffix(['G', 'g']);
        match number.unwrap_or(&word.text).parse::<f64>() {
            Ok(share) if share > 0.0 && share.is_finite() => Ok(match number {
                Some(_) => Reserve::Bytes((share * (1u64 << 30) as f64) as u64),
                None => Reserve::Share(share),
            }),
            _ => Err(self.wrong(word, "a share of the device's memory such as 0.5, or GiB such as 40G")),
        }
    }

    fn reserves_by_class(&mut self) -> Result<(), Mistake> {
        self.tokens.expect("[", self.name)?;
        while !self.tokens.skip("]") {
            self.word()?;
            self.tokens.expect(":", self.name)?;
            self.reserve()?;
            if !self.tokens.skip(",") {
                return self.tokens.expect("]", self.name);
            }
        }
        Ok(())
    }

    /// One number for all sizes, or `[MiB:number,…,>:number]`: the first also stands for all smaller sizes, `>` for all
    /// sizes above the one before it.
    fn divisions(&mut self) -> Result<Divisions, Mistake> {
        if !self.tokens.skip("[") {
            let (all, word) = self.integer("a power of two")?;
            return match all.is_power_of_two() {
                true => Ok(Divisions([all; Divisions::INTERVALS])),
                false => Err(self.wrong(word, "a power of two")),
            };
        }
        let mut divisions = Divisions::default();
        let mut last = None;
        while !self.tokens.skip("]") {
            let key = self.word()?;
            self.tokens.expect(":", self.name)?;
            const IS: &str = "by powers of two, each a power of two or 0";
            let (number, word) = self.integer(IS)?;
            if number != 0 && !number.is_power_of_two() {
                return Err(self.wrong(word, IS));
            }
            if key.text == ">" {
                divisions.0[(last.unwrap_or(0) + 1).min(Divisions::INTERVALS)..].fill(number);
            } else {
                let Some(mib) = key.text.parse().ok().filter(|mib: &u64| mib.is_power_of_two()) else {
                    return Err(self.wrong(key, IS));
                };
                let interval = Divisions::interval(mib);
                if last.is_none() {
                    divisions.0[..interval].fill(number);
                }
                divisions.0[interval] = number;
                last = Some(interval);
            }
            if !self.tokens.skip(",") {
                self.tokens.expect("]", self.name)?;
                break;
            }
        }
        Ok(divisions)
    }
}
