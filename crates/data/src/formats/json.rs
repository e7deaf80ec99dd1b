//! JSON objects in an array, alone or as the only one of an object, or one after the other. A file is read as a stream and
//! never held whole.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Map, Value};

use super::jsonl;
use super::lines::{BYTE_ORDER_MARK, Lines};
use super::metered::{Meter, Metered};
use super::opened::open;
use super::place::Place;
use super::row::{EachObject, LONGEST_SAMPLE_MIB, TEXT_COLUMN, kind};
use crate::DataError;

/// Calls `each` with each object: of an array, of the only array of an object, or of objects one after the other, on a line
/// each or not. What the file holds decides; of one that holds a single line with an object, its name does: it is a row of
/// JSON lines (`is_lines`). An object alone that has no array is one row.
pub(super) fn objects(path: &Arc<Path>, is_lines: bool, each: &mut EachObject) -> Result<(), DataError> {
    match shape(path, is_lines)? {
        Shape::Lines => jsonl::lines(path, each),
        Shape::Objects => several(path, each),
        Shape::Value => value(path, each),
    }
}

/// How the objects of a file stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Each on its line.
    Lines,
    /// One after the other, on any lines.
    Objects,
    /// In an array, or in something of one value.
    Value,
}

/// The shape of a file, as far as its beginning says. What cannot be read is an error of its reader.
fn shape(path: &Path, is_lines: bool) -> Result<Shape, DataError> {
    let mut lines = Lines::open(path)?;
    let (mut first, mut is_blank) = (None, true);
    while let Ok(Some(line)) = lines.next() {
        is_blank &= line.trim().is_empty();
        match (line.trim(), &first) {
            ("", _) => {}
            (line, None) if !line.starts_with('{') => return Ok(Shape::Value),
            (line, None) if serde_json::from_str::<IgnoredAny>(line).is_ok() => {
                if is_lines {
                    return Ok(Shape::Lines);
                }
                first = Some(());
            }
            (_, None) => break,
            (line, Some(())) if line.starts_with('{') => return Ok(Shape::Lines),
            _ => break,
        }
    }
    if first.is_none() && is_lines && is_blank {
        return Ok(Shape::Lines);
    }
    let mut reader = Reader::open(path)?;
    let mut values = Deserializer::from_reader(&mut reader.buffer).into_iter::<IgnoredAny>();
    let is_object = matches!(values.next(), Some(Ok(_))) && (is_lines || values.next().is_some());
    Ok(if is_object { Shape::Objects } else { Shape::Value })
}

/// A file that is read as a stream, with the bytes that may still be read for a row.
struct Reader {
    buffer: BufReader<Metered>,
    meter: Meter,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, DataError> {
        let (metered, meter) = Metered::new(open(path)?);
        let mut buffer = BufReader::with_capacity(1 << 16, metered);
        let start = buffer.fill_buf().map_err(|source| DataError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        if start.starts_with(BYTE_ORDER_MARK) {
            buffer.consume(BYTE_ORDER_MARK.len());
        }
        Ok(Self { buffer, meter })
    }
}

fn too_long(path: &Arc<Path>, object: u64) -> DataError {
    DataError::TooLong {
        place: Place::object(path, object).to_string(),
        limit: LONGEST_SAMPLE_MIB,
    }
}

/// Objects one after the other.
fn several(path: &Arc<Path>, each: &mut EachObject) -> Result<(), DataError> {
    let Reader { buffer, meter } = Reader::open(path)?;
    let mut count = 0;
    for object in Deserializer::from_reader(buffer).into_iter::<Map<String, Value>>() {
        let object = object.map_err(|error| match meter.is_exceeded() {
            true => too_long(path, count + 1),
            false => jsonl::json_error(path, error.line() as u64, &error),
        })?;
        count += 1;
        if !each(Place::object(path, count), object)? {
            break;
        }
        meter.begin_row();
    }
    Ok(())
}

/// The objects of an array, or of the only one in an object.
fn value(path: &Arc<Path>, each: &mut EachObject) -> Result<(), DataError> {
    let Reader { buffer, meter } = Reader::open(path)?;
    let mut stream = Stream {
        path,
        meter: &meter,
        each,
        count: 0,
        arrays: 0,
        end: None,
    };
    let mut json = Deserializer::from_reader(buffer);
    let parsed = json.deserialize_any(&mut stream).and_then(|()| json.end());
    let (count, arrays) = (stream.count, stream.arrays);
    match (stream.end, parsed) {
        (Some(End::Stopped), _) => Ok(()),
        (Some(End::Failed(error)), _) => Err(error),
        (None, Err(_)) if meter.is_exceeded() => Err(too_long(path, count + 1)),
        (None, Err(error)) => Err(jsonl::json_error(path, error.line() as u64, &error)),
        (None, Ok(())) if arrays == 1 => Ok(()),
        (None, Ok(())) if arrays == 0 => several(path, each),
        (None, Ok(())) => Err(DataError::JsonArray {
            path: path.to_path_buf(),
            arrays,
        }),
    }
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

impl<'de> Stream<'_, '_> {
    /// The items of an array, of which the first one may be read already.
    fn array<A: SeqAccess<'de>>(&mut self, first: Option<Map<String, Value>>, mut seq: A) -> Result<(), A::Error> {
        self.arrays += 1;
        self.meter.begin_row();
        let mut first = first.map(Item);
        while let Some(Item(object)) = first.take().map_or_else(|| seq.next_element(), |item| Ok(Some(item)))? {
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
}

impl<'de> Visitor<'de> for &mut Stream<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        self.array(None, seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Member(self))?;
        }
        Ok(())
    }
}

/// An item of an array: an object, or a text, which is one of the column of texts.
struct Item(Map<String, Value>);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(object) => Ok(Self(object)),
            text @ Value::String(_) => Ok(Self(Map::from_iter([(TEXT_COLUMN.to_owned(), text)]))),
            other => Err(de::Error::custom(format_args!(
                "{} is no object; the items of an array are objects, or texts",
                kind(&other)
            ))),
        }
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

    /// An array that begins with something else than an object is a value of the object, and not the data.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match seq.next_element::<Value>()? {
            Some(Value::Object(first)) => self.0.array(Some(first), seq),
            _ => {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(())
            }
        }
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
        let result = objects(&path, false, &mut |place, object| {
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
        assert_eq!(texts("[\"a\",\n\"b\"]").unwrap(), expected);
        assert_eq!(texts("{\"text\":\n\"a\"}\n\n{\n\"text\": \"b\"}").unwrap(), expected);
        assert_eq!(texts("{\"text\": \"a\"}{\"text\": \"b\"}").unwrap(), expected);
        assert_eq!(texts("{\"text\": \"a\",\n\"n\": {}}").unwrap(), expected[..1]);
        let with_texts = "{\"text\": \"a\", \"tags\": [\"x\", \"y\"]}";
        assert_eq!(texts(with_texts).unwrap(), expected[..1], "its texts are no samples");
        let with_numbers = format!("{{\"ids\": [1, 2], \"data\": {rows}}}");
        assert_eq!(texts(&with_numbers).unwrap(), expected);
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
                "x.json:1:18: not a JSON object: a number is no object; the items of an array are objects, or texts",
            ),
            (
                "[{\"text\": \"a\"}",
                "x.json:1:14: not a JSON object: EOF while parsing a list",
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
