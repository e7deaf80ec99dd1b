//! An array of JSON objects, alone or as the only array of an object. It is read as a stream and never held whole.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Value};

use super::jsonl;
use super::lines::{BYTE_ORDER_MARK, Lines};
use super::metered::{Meter, Metered};
use super::place::Place;
use super::row::{EachObject, LONGEST_SAMPLE_MIB};
use crate::DataError;

/// Calls `each` with each object. A file with an object a line is read as JSON lines, whatever its name.
pub(super) fn objects(path: &Arc<Path>, each: &mut EachObject) -> Result<(), DataError> {
    if is_lines(path) {
        return jsonl::objects(path, each);
    }
    let read_error = |source| DataError::Read {
        path: path.to_path_buf(),
        source,
    };
    let (metered, meter) = Metered::new(File::open(path).map_err(read_error)?);
    let mut reader = BufReader::with_capacity(1 << 16, metered);
    if reader.fill_buf().map_err(read_error)?.starts_with(BYTE_ORDER_MARK) {
        reader.consume(BYTE_ORDER_MARK.len());
    }
    let mut stream = Stream {
        path,
        meter: &meter,
        each,
        count: 0,
        arrays: 0,
        end: None,
    };
    let mut json = Deserializer::from_reader(reader);
    let parsed = json.deserialize_any(&mut stream).and_then(|()| json.end());
    let (count, arrays) = (stream.count, stream.arrays);
    match (stream.end, parsed) {
        (Some(End::Stopped), _) => Ok(()),
        (Some(End::Failed(error)), _) => Err(error),
        (None, Err(_)) if meter.is_exceeded() => Err(DataError::TooLong {
            place: Place::object(path, count + 1).to_string(),
            limit: LONGEST_SAMPLE_MIB,
        }),
        (None, Err(error)) => Err(jsonl::json_error(path, error.line() as u64, &error)),
        (None, Ok(())) if arrays == 1 => Ok(()),
        (None, Ok(())) => Err(DataError::JsonArray {
            path: path.to_path_buf(),
            arrays,
        }),
    }
}

/// True if the first line is a whole object and another follows.
fn is_lines(path: &Path) -> bool {
    let Ok(mut lines) = Lines::open(path) else { return false };
    let is_object = |line: &str| serde_json::from_str::<Map<String, Value>>(line).is_ok();
    if !matches!(lines.next(), Ok(Some(line)) if is_object(line)) {
        return false;
    }
    matches!(lines.next(), Ok(Some(line)) if line.starts_with('{'))
}

/// Hands the objects of an array on, one at a time.
struct Stream<'a, 'b> {
    path: &'a Arc<Path>,
    meter: &'a Meter,
    each: &'a mut EachObject<'b>,
    /// Objects so far.
    count: u64,
    /// Arrays so far.
    arrays: usize,
    /// Why no more is read.
    end: Option<End>,
}

enum End {
    Stopped,
    Failed(DataError),
}

impl<'de> Visitor<'de> for &mut Stream<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.arrays += 1;
        self.meter.begin_row();
        while let Some(object) = seq.next_element::<Map<String, Value>>()? {
            if self.arrays > 1 {
                continue;
            }
            self.count += 1;
            let place = Place::object(self.path, self.count);
            self.end = match (self.each)(place, object) {
                Ok(true) => None,
                Ok(false) => Some(End::Stopped),
                Err(error) => Some(End::Failed(error)),
            };
            if self.end.is_some() {
                return Err(de::Error::custom("no more is needed"));
            }
            self.meter.begin_row();
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Member(self))?;
        }
        Ok(())
    }
}

/// A value of the outermost object: the array, or something about the data.
struct Member<'s, 'a, 'b>(&'s mut Stream<'a, 'b>);

impl<'de> DeserializeSeed<'de> for Member<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        self.0.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Result<Vec<String>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path: Arc<Path> = file.path().into();
        let mut all = Vec::new();
        let result = objects(&path, &mut |place, object| {
            let text = object["text"].as_str().unwrap();
            all.push(format!("{place} {text}").replace(&file.path().display().to_string(), "x.json"));
            Ok(true)
        });
        let name = path.display().to_string();
        result
            .map(|()| all)
            .map_err(|error| error.to_string().replace(&name, "x.json"))
    }

    #[test]
    fn the_objects_of_the_array_are_read() {
        let rows = "[\n{\"text\": \"a\", \"n\": [1]},\n{\"text\": \"b\"}]";
        let expected = ["x.json: object 1 a", "x.json: object 2 b"];
        assert_eq!(texts(rows).unwrap(), expected);
        assert_eq!(texts(&format!("\n{rows}\n")).unwrap(), expected);
        let with_more = format!("{{\"version\": 1.5, \"about\": {{\"a\": [1]}}, \"data\": {rows}, \"end\": null}}");
        assert_eq!(texts(&with_more).unwrap(), expected);
        let lines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
        assert_eq!(texts(lines).unwrap(), ["x.json:1 a", "x.json:2 b"]);
        assert_eq!(texts(&format!("\u{feff}{rows}")).unwrap(), expected);
        assert!(texts("[]").unwrap().is_empty());
    }

    #[test]
    fn other_files_are_errors_with_their_place() {
        for (text, message) in [
            (
                "[{\"text\": \"a\"},\n {\"text\" 1}]",
                "x.json:2:10: not a JSON object: expected `:`",
            ),
            (
                "[{\"text\": \"a\"}, 7]",
                "x.json:1:18: not a JSON object: invalid type: integer `7`, expected a map",
            ),
            (
                "[{\"text\": \"a\"}",
                "x.json:1:14: not a JSON object: EOF while parsing a list",
            ),
            (
                "{\"text\": \"a\"}",
                "x.json: there is no array of objects; write one array, or use `format: jsonl` for an object a line",
            ),
            (
                "{\"a\": [{\"text\": \"a\"}], \"b\": [{\"text\": \"a\"}]}",
                "x.json: there are 2 arrays of objects, and the data must be in one; write one array, or use \
                 `format: jsonl` for an object a line",
            ),
        ] {
            assert_eq!(texts(text).unwrap_err(), message);
        }
        assert!(texts("7").unwrap_err().contains("expected an array of objects"));
    }

    #[test]
    fn an_object_without_an_end_is_not_read_forever() {
        let text = format!(
            "[{{\"text\": \"a\"}}, {{\"text\": \"{}",
            "a".repeat(3 * super::super::row::LONGEST_SAMPLE)
        );
        assert_eq!(
            texts(&text).unwrap_err(),
            "x.json: object 2: a sample is longer than 16 MiB"
        );
    }
}
