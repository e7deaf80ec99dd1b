//! What `PYTORCH_ALLOC_CONF` (before: `PYTORCH_CUDA_ALLOC_CONF`) says.

mod options;
mod tokens;

use std::ops::Range;
use std::str::FromStr;

pub use self::options::Reserve;
use super::rounding::Divisions;

const MIB: u64 = 1 << 20;

/// The options that have to do with memory, at PyTorch's defaults unless set.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Blocks of this size and above are not split (`max_split_size_mb`); any is where it is absent. In bytes.
    pub max_split_size: Option<u64>,
    /// By how much less than this a block that is not split may be too large (`max_non_split_rounding_mb`), in bytes; by
    /// `large_segment_size` where it is absent.
    pub max_non_split_rounding: Option<u64>,
    /// `roundup_power2_divisions`.
    pub roundup_power2_divisions: Divisions,
    /// The share of the process's limit above which cached segments are released, the longest unused ones first
    /// (`garbage_collection_threshold`). Without a limit, nothing is.
    pub garbage_collection_threshold: Option<f64>,
    /// Whether segments grow (`expandable_segments`).
    pub expandable_segments: bool,
    /// How much address space a growing segment gets, 9/8 of the device's memory where it is absent
    /// (`expandable_segments_reserve`).
    pub expandable_segments_reserve: Option<Reserve>,
    /// A segment for blocks from 1 MiB to 10 MiB, in bytes; the large pool's growing segments grow by it
    /// (`large_segment_size_mb`).
    pub large_segment_size: u64,
    /// The share of the device's memory that the process may take (`per_process_memory_fraction`, or
    /// `torch.cuda.set_per_process_memory_fraction`); 1 stands for no limit.
    pub per_process_memory_fraction: f64,
    /// Which of equally large free blocks is taken; no option of PyTorch's, but of its version.
    pub ties: Ties,
}

/// Which of equally large free blocks is taken. Of one segment's, it is the one with the lowest address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// That of the oldest segment: PyTorch from 2.15 on (pytorch/pytorch#183591).
    Age,
    /// That with the lowest address, as PyTorch did before: of the newest segment, as the addresses that CUDA gives out fall.
    /// (CUDA promises no order. With this one, 15 of 16 float16 runs of `fitcheck_t4` reserve what was measured; with
    /// addresses that rise, those with eager attention are out by a matrix of scores.)
    Address,
}

impl Settings {
    /// By how much less than this a block that is not split may be too large, in bytes.
    pub fn max_non_split_rounding(&self) -> u64 {
        self.max_non_split_rounding.unwrap_or(self.large_segment_size)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_split_size: None,
            max_non_split_rounding: None,
            roundup_power2_divisions: Divisions::default(),
            garbage_collection_threshold: None,
            expandable_segments: false,
            expandable_segments_reserve: None,
            large_segment_size: 20 * MIB,
            per_process_memory_fraction: 1.0,
            ties: Ties::Age,
        }
    }
}

/// Text that is not settings. Its `Display` shows the place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}\n  {text}\n  {}", help.as_ref().map(|help| format!("; {help}")).unwrap_or_default(), self.carets())]
pub struct SettingsError {
    /// What was to be read.
    pub text: String,
    /// The bytes of `text` that are wrong.
    pub at: Range<usize>,
    /// What is wrong, with the option's name.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl SettingsError {
    /// A line that points at what is wrong in the line above.
    fn carets(&self) -> String {
        let before = self.text[..self.at.start].chars().count();
        let wrong = self.text[self.at.clone()].chars().count().max(1);
        " ".repeat(before) + &"^".repeat(wrong)
    }
}

impl FromStr for Settings {
    type Err = SettingsError;

    /// Reads `option:value,option:[key:value,…]` as PyTorch does, spaces ignored, the last of equal options kept; stricter
    /// where PyTorch takes what is no number or separator. Options that have no effect on the device's memory are checked
    /// and dropped.
    ///
    /// # Errors
    ///
    /// Where PyTorch refuses the text, and for `backend:cudaMallocAsync`, which is another allocator.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        options::read(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Settings {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(text: &str) -> (String, String, Option<String>) {
        let error = text.parse::<Settings>().expect_err(text);
        (error.message, text[error.at].to_owned(), error.help)
    }

    #[test]
    fn nothing_is_the_default() {
        for text in ["", "  ", "backend:native", "max_split_size_mb:20,"] {
            let settings = Settings {
                max_split_size: None,
                ..read(text)
            };
            assert_eq!(settings, Settings::default(), "{text}");
        }
    }

    #[test]
    fn every_option_is_read() {
        let text = "large_segment_size_mb:40, max_split_size_mb:128,max_non_split_rounding_mb:64,expandable_segments:True,\
                    garbage_collection_threshold:0.6,per_process_memory_fraction:0.5,expandable_segments_reserve:40G,\
                    roundup_power2_divisions:4";
        let expected = Settings {
            max_split_size: Some(128 * MIB),
            max_non_split_rounding: Some(64 * MIB),
            roundup_power2_divisions: Divisions([4; 16]),
            garbage_collection_threshold: Some(0.6),
            expandable_segments: true,
            expandable_segments_reserve: Some(Reserve::Bytes(40 << 30)),
            large_segment_size: 40 * MIB,
            per_process_memory_fraction: 0.5,
            ties: Ties::Age,
        };
        assert_eq!(read(text), expected);
        assert_eq!(
            read("expandable_segments_reserve:0.5").expandable_segments_reserve,
            Some(Reserve::Share(0.5))
        );
        assert_eq!(
            read("expandable_segments:True,expandable_segments:False"),
            Settings::default()
        );
    }

    #[test]
    fn options_without_effect_are_accepted() {
        let text = "release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:True,pinned_num_register_threads:8,\
                    pinned_use_background_threads:False,pinned_reserve_segment_size_mb:64,pinned_free_catch_all:True,\
                    graph_capture_record_stream_reuse:True,throw_on_cudamalloc_oom:True,\
                    expandable_segments_reserve_by_class:[comm:0.1,serving:4G]";
        assert_eq!(read(text), Settings::default());
    }

    #[test]
    fn divisions_by_size() {
        let divisions = |text: &str| {
            read(&format!("roundup_power2_divisions:[{text}]"))
                .roundup_power2_divisions
                .0
        };
        let expected = [8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 4, 1, 1, 1, 1, 1];
        assert_eq!(
            divisions("64:8,256:4,1024:4,>:1"),
            expected,
            "the first fills what is below, `>` what is above"
        );
        assert_eq!(
            divisions("256:1,512:2"),
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(divisions("65536:2")[14..], [2, 2], "keys above 32 GiB count as that");
    }

    #[test]
    fn errors_name_the_option_the_place_and_what_would_be_right() {
        let error = "expandable_segments:True,max_split_size:128"
            .parse::<Settings>()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown allocator option `max_split_size`; did you mean `max_split_size_mb`?\n  \
             expandable_segments:True,max_split_size:128\n                           ^^^^^^^^^^^^^^"
        );
        let cases = [
            (
                "expandable_segments:true",
                "true",
                "`expandable_segments`",
                Some("did you mean `True`?"),
            ),
            ("max_split_size_mb:19", "19", "`max_split_size_mb` is at least 20", None),
            (
                "large_segment_size_mb:40,max_split_size_mb:39",
                "39",
                "`max_split_size_mb` is at least 40",
                None,
            ),
            (
                "max_split_size_mb:39,large_segment_size_mb:40",
                "39",
                "`max_split_size_mb` is at least 40",
                None,
            ),
            (
                "max_non_split_rounding_mb:1",
                "1",
                "`max_non_split_rounding_mb` is at least 20",
                None,
            ),
            (
                "large_segment_size_mb:10",
                "10",
                "`large_segment_size_mb` is at least 11",
                None,
            ),
            ("garbage_collection_threshold:1", "1", "between 0 and 1", None),
            ("garbage_collection_threshold:0", "0", "between 0 and 1", None),
            ("garbage_collection_threshold:nan", "nan", "between 0 and 1", None),
            ("per_process_memory_fraction:1.5", "1.5", "from 0 to 1", None),
            ("roundup_power2_divisions:3", "3", "power of two", None),
            ("roundup_power2_divisions:0", "0", "power of two", None),
            ("roundup_power2_divisions:[3:4]", "3", "power of two", None),
            ("roundup_power2_divisions:[4:3]", "3", "power of two", None),
            ("roundup_power2_divisions:[4:4", "", "`]`", None),
            ("pinned_num_register_threads:256", "256", "up to 128", None),
            ("expandable_segments_reserve:-1", "-1", "40G", None),
            ("backend:cudaMallocAsync", "cudaMallocAsync", "another allocator", None),
            ("backend:nativ", "nativ", "`backend`", Some("did you mean `native`?")),
            ("max_split_size_mb:12 8x", "12 8x", "`max_split_size_mb`", None),
            (
                "max_split_size_mb=128",
                "max_split_size_mb=128",
                "unknown",
                Some("did you mean `max_split_size_mb`?"),
            ),
            ("max_split_size_mb", "", "`:`", None),
            ("max_split_size_mb:", "", "`max_split_size_mb`", None),
            (
                "max_split_size_mb:99999999999999999999",
                "99999999999999999999",
                "`max_split_size_mb`",
                None,
            ),
            (
                "expandable_segments:True;max_split_size_mb:64",
                "True;max_split_size_mb",
                "`expandable_segments`",
                None,
            ),
            ("expandable_segments:True,,", ",", "unknown", None),
        ];
        for (text, at, message, help) in cases {
            let error = refused(text);
            assert_eq!(error.1, at, "{text}: {error:?}");
            assert!(error.0.contains(message), "{text}: {error:?}");
            assert_eq!(error.2.as_deref(), help, "{text}");
        }
    }

    #[test]
    fn sizes_beyond_64_bits_are_cut() {
        assert_eq!(
            read("max_split_size_mb:18446744073709551615").max_split_size,
            Some((u64::MAX / MIB) * MIB)
        );
    }
}
