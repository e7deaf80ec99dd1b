//! Reads YAML into a [`Node`] tree.

use std::collections::HashMap;
use std::rc::Rc;

use base::text::quoted;
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span, StructureStyle};

use super::diagnostic::Diagnostic;
use super::place::Place;
use super::tree::{Entry, Map, Node, Scalar, Value};

/// The most that a text may cost.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Values, counted after aliases are resolved.
    pub nodes: u32,
    /// Lists and maps within each other.
    pub depth: u32,
}

impl Budget {
    /// For a file that a person writes.
    pub const SPEC: Budget = Budget {
        nodes: 200_000,
        depth: 32,
    };
    /// For a `study.yaml`, which has every cell.
    pub const STUDY: Budget = Budget {
        nodes: 20_000_000,
        depth: 32,
    };
}

/// Parses one YAML document that starts at byte `offset` of source number `source`. An empty text is null.
pub fn parse(text: &str, source: u32, offset: u32, budget: Budget) -> Result<Node, Diagnostic> {
    let depth = budget.depth as usize;
    let mut options = granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: depth,
        block_nesting_limit: depth,
    };
    options.set_emit_comments(false);
    let mut builder = Builder::new(source, offset, budget);
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| builder.syntax_error(text, &error))?;
        builder.event(event, &span)?;
    }
    Ok(builder.finish(text))
}

/// A collection whose end has not come yet.
struct Open {
    items: Items,
    place: Place,
    flow: bool,
    anchor: usize,
    size: u32,
    height: u32,
}

enum Items {
    List(Vec<Node>),
    Map {
        map: Map,
        key: Option<Key>,
        merges: Vec<Node>,
    },
}

struct Key {
    text: Rc<str>,
    place: Place,
    merge: bool,
}

/// A node with what it weighs when its aliases are resolved.
#[derive(Clone)]
struct Weighed {
    node: Node,
    size: u32,
    height: u32,
}

struct Builder {
    source: u32,
    offset: u32,
    budget: Budget,
    open: Vec<Open>,
    anchors: HashMap<usize, Weighed>,
    root: Option<Node>,
    documents: usize,
}

impl Builder {
    fn new(source: u32, offset: u32, budget: Budget) -> Self {
        Self {
            source,
            offset,
            budget,
            open: Vec::new(),
            anchors: Default::default(),
            root: None,
            documents: 0,
        }
    }

    fn place(&self, span: &Span) -> Place {
        let range = span.byte_range().unwrap_or(0..0);
        let (start, end) = (
            range.start as u32 + self.offset,
            range.end.max(range.start) as u32 + self.offset,
        );
        Place {
            source: self.source,
            start,
            end,
        }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Diagnostic> {
        let place = self.place(span);
        if let Some(tag) = event.tag() {
            let tag = quoted(&format!("{}{}", tag.original_handle(), tag.suffix()));
            return Err(Diagnostic::new(format!("tags such as {tag} are not supported"))
                .at(place)
                .help("values are typed by their key: leave the tag out"));
        }
        match event {
            Event::DocumentStart(..) => self.document(place),
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == ScalarStyle::Plain;
                let node = Node {
                    value: Value::Scalar(Scalar {
                        text: text.into(),
                        plain,
                    }),
                    place,
                };
                self.add(
                    Weighed {
                        node,
                        size: 1,
                        height: 1,
                    },
                    anchor,
                )
            }
            Event::Alias(anchor) => self.alias(anchor, place),
            Event::SequenceStart(style, anchor, _) => self.begin(Items::List(Vec::new()), place, style, anchor),
            Event::MappingStart(style, anchor, _) => {
                let items = Items::Map {
                    map: Map::new(),
                    key: None,
                    merges: Vec::new(),
                };
                self.begin(items, place, style, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(place),
            _ => Ok(()),
        }
    }

    fn document(&mut self, place: Place) -> Result<(), Diagnostic> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(Diagnostic::new("a second YAML document begins here; one file is one spec").at(place));
        }
        Ok(())
    }

    fn begin(&mut self, items: Items, place: Place, style: StructureStyle, anchor: usize) -> Result<(), Diagnostic> {
        if self.open.len() as u32 >= self.budget.depth {
            return Err(self.too_deep(place));
        }
        let flow = style == StructureStyle::Flow;
        // A block has no brackets to point at; its key is pointed at instead.
        let place = match self.open.last() {
            Some(Open {
                items: Items::Map { key: Some(key), .. },
                ..
            }) if !flow => key.place,
            _ => place,
        };
        self.open.push(Open {
            items,
            place,
            flow,
            anchor,
            size: 1,
            height: 1,
        });
        Ok(())
    }

    fn end(&mut self, end: Place) -> Result<(), Diagnostic> {
        let Some(Open {
            items,
            mut place,
            flow,
            anchor,
            size,
            height,
        }) = self.open.pop()
        else {
            return Ok(());
        };
        if flow {
            place.end = end.end;
        }
        let value = match items {
            Items::List(list) => Value::List(Rc::new(list)),
            Items::Map { map, merges, .. } => Value::Map(Rc::new(merge(map, merges)?)),
        };
        self.add(
            Weighed {
                node: Node { value, place },
                size,
                height: height + 1,
            },
            anchor,
        )
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Diagnostic> {
        // An anchor is known from the end of its node on, so a missing one is the node we are in.
        let Some(target) = self.anchors.get(&anchor) else {
            return Err(Diagnostic::new("this alias refers to the value that it is a part of").at(place));
        };
        self.add(target.clone(), 0)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, weighed: Weighed, anchor: usize) -> Result<(), Diagnostic> {
        if anchor != 0 {
            self.anchors.insert(anchor, weighed.clone());
        }
        let Weighed { node, size, height } = weighed;
        let depth = self.open.len() as u32 + height;
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size = open.size.saturating_add(size);
        open.height = open.height.max(height);
        if open.size > self.budget.nodes {
            let message = format!("more than {} values, aliases resolved", self.budget.nodes);
            return Err(Diagnostic::new(message).at(node.place));
        }
        if depth > self.budget.depth + 2 {
            return Err(self.too_deep(node.place));
        }
        match &mut open.items {
            Items::List(list) => list.push(node),
            Items::Map { key: slot @ None, .. } => *slot = Some(key(node)?),
            Items::Map { map, key, merges } => {
                if let Some(key) = key.take() {
                    insert(map, merges, key, node)?;
                }
            }
        }
        Ok(())
    }

    fn too_deep(&self, place: Place) -> Diagnostic {
        Diagnostic::new(format!("nested more than {} levels deep", self.budget.depth)).at(place)
    }

    fn syntax_error(&self, text: &str, error: &granit_parser::ScanError) -> Diagnostic {
        let start = error.marker().byte_offset().unwrap_or(0).min(text.len()) as u32 + self.offset;
        let place = Place {
            source: self.source,
            start,
            end: start,
        };
        if *error.kind() == ErrorKind::RecursionLimitExceeded {
            return self.too_deep(place);
        }
        let tab = text[..start as usize - self.offset as usize]
            .lines()
            .last()
            .is_some_and(|line| line.contains('\t'))
            || text.as_bytes().get((start - self.offset) as usize) == Some(&b'\t');
        Diagnostic::new(format!("not valid YAML: {}", error.info().replace('\n', " ")))
            .at(place)
            .help_if(tab.then_some("YAML is indented with spaces; there is a tab in this line"))
    }

    fn finish(self, text: &str) -> Node {
        let end = self.offset + text.len() as u32;
        let place = Place {
            source: self.source,
            start: self.offset,
            end,
        };
        self.root.unwrap_or(Node {
            value: Value::Scalar(Scalar {
                text: "".into(),
                plain: true,
            }),
            place,
        })
    }
}

fn key(node: Node) -> Result<Key, Diagnostic> {
    match node.value {
        Value::Scalar(Scalar { text, plain }) => Ok(Key {
            merge: plain && &*text == "<<",
            text,
            place: node.place,
        }),
        _ => Err(Diagnostic::new(format!("{} cannot be a key", node.kind())).at(node.place)),
    }
}

fn insert(map: &mut Map, merges: &mut Vec<Node>, key: Key, node: Node) -> Result<(), Diagnostic> {
    let place = key.place;
    if key.merge {
        if !merges.is_empty() {
            return Err(Diagnostic::new("`<<` is here twice; give it a list: `<<: [*a, *b]`").at(place));
        }
        match node.value {
            Value::List(list) => merges.extend(list.iter().cloned()),
            _ => merges.push(node),
        }
        return Ok(());
    }
    if let Some(first) = map.get(&*key.text) {
        let message = format!("the key {} is here twice", quoted(&key.text));
        return Err(Diagnostic::new(message).label(place, "again").label(first.key, "first"));
    }
    map.insert(
        key.text,
        Entry {
            key: place,
            value: node,
        },
    );
    Ok(())
}

/// YAML's merge key: what `map` does not have comes from `merges`, the first that has it.
fn merge(mut map: Map, merges: Vec<Node>) -> Result<Map, Diagnostic> {
    for node in merges {
        let Value::Map(other) = &node.value else {
            let message = format!("`<<` takes a map or a list of maps, not {}", node.kind());
            return Err(Diagnostic::new(message).at(node.place));
        };
        for (key, entry) in other.iter() {
            map.entry(key.clone()).or_insert_with(|| entry.clone());
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, Diagnostic> {
        parse(text, 0, 0, Budget::SPEC)
    }

    fn shown(text: &str) -> String {
        read(text).map_or_else(|error| error.message, |node| node.to_flow_yaml())
    }

    #[test]
    fn scalars_keep_their_text_and_quotes() {
        assert_eq!(
            shown("[08, 1e-4, no, 'no', \"a\\tb\", ~]"),
            "[08, 1e-4, no, \"no\", \"a\\tb\", ~]"
        );
        assert_eq!(shown("a: |\n  x\n  y\nb:\n"), "{a: \"x\\ny\\n\", b: ~}");
    }

    #[test]
    fn line_ends_of_windows_and_a_byte_order_mark_do_no_harm() {
        assert_eq!(shown("a: 1\r\nb: [x,\r\n  y]\r\n"), "{a: 1, b: [x, y]}");
        assert_eq!(shown("\u{feff}a: 1\n"), "{a: 1}");
    }

    #[test]
    fn places_are_bytes_of_the_text() {
        let text = "ä: {b: [x, ü]}";
        let node = read(text).unwrap();
        let place = node.get(&["ä", "b", "1"]).unwrap().place;
        assert_eq!(&text[place.start as usize..place.end as usize], "ü");
        let place = node.get(&["ä", "b"]).unwrap().place;
        assert_eq!(&text[place.start as usize..place.end as usize], "[x, ü]");
    }

    #[test]
    fn aliases_and_merge_keys() {
        assert_eq!(
            shown("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}"),
            "{a: {x: 1, y: 2}, b: {y: 3, x: 1}}"
        );
        assert_eq!(
            shown("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}"),
            "{a: {x: 1}, b: {x: 2, y: 2}, c: {x: 1, y: 2}}"
        );
        assert_eq!(shown("a: {'<<': 1}"), "{a: {<<: 1}}");
        assert!(shown("a: {<<: {x: 1}, <<: {y: 1}}").contains("twice"));
    }

    #[test]
    fn depth_counts_through_aliases() {
        let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(20), "]".repeat(20));
        assert!(read(&nested("x")).is_ok());
        let text = format!("a: &a {}\nb: {}", nested("x"), nested("*a"));
        assert!(read(&text).is_err_and(|error| error.message.contains("deep")));
    }
}
