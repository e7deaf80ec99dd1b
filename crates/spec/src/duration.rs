//! Durations as people write them: `10m`, `1h 30m`.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    value
        .map(|value| humantime::format_duration(value).to_string())
        .serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = Option<Duration>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as `90s`, `10m` or `1h 30m`")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            match humantime::parse_duration(text) {
                Ok(Duration::ZERO) => Err(E::custom("a duration of 0 leaves no time")),
                Ok(duration) => Ok(Some(duration)),
                Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
            Err(E::custom(format!(
                "`{number}` has no unit: write `{number}s` for seconds or `{number}m` for minutes"
            )))
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    deserializer.deserialize_any(Text)
}
