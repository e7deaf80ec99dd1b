use super::values::MIB;
use super::*;
use crate::caching_allocator::rounding::Divisions;

fn read(text: &str) -> Settings {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> (String, String, Option<String>) {
    let error = text.parse::<Settings>().expect_err(text);
    (error.message, text[error.range.unwrap()].to_owned(), error.help)
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
        tie_break: TieBreak::Age,
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
    let text = "expandable_segments:True,max_split_size:128";
    let error = text.parse::<Settings>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown allocator option `max_split_size`; did you mean `max_split_size_mb`?"
    );
    assert_eq!(error.range.map(|at| &text[at]), Some("max_split_size"));
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
