//! The reference page of specs, `docs/spec.md`, written from the JSON Schema.

use base::text::to_flow_yaml;
use cell::keys::keys;
use serde_json::Value;

use super::schema::schema;

/// Every section and key of a spec as a Markdown page: meaning, values, default and stacks.
pub fn reference() -> String {
    let schema = schema();
    let mut page = Page {
        definitions: &schema["definitions"],
        text: String::from(INTRODUCTION),
    };
    page.section(&schema, "");
    page.text
}

/// The values that a cell's key can have, in words.
pub fn values_of(key: &str) -> Option<String> {
    let free = || key.rsplit_once('.').map(|(map, _)| format!("{map}.*"));
    let find = |path: &str| keys().iter().find(|key| key.path == path);
    let found = find(key).or_else(|| find(&free()?))?;
    let schema = schema();
    let page = Page {
        definitions: &schema["definitions"],
        text: String::new(),
    };
    Some(page.values(&found.schema))
}

const INTRODUCTION: &str = "\
# The keys of a spec

<!-- Written by `expctl schema --format markdown`; the texts are the doc comments of the keys in `crates/cell/` and `crates/spec/`. -->

A spec is a YAML file that describes a study. Unknown keys are errors. An axis of `sweep` can be any key of `defaults`, by
its dotted name. `stack: candle` is our trainer, `stack: torch` is PyTorch's stack in plans; a key is for both unless it
names one.

`--set KEY=VALUE` sets a key for all cells, and so does an environment variable: `EXPCTL_` and the key in capitals, with two
underscores for a dot. `EXPCTL_RANK=8` sets `rank`, and `EXPCTL_LORA__USE_RSLORA=true` sets `lora.use_rslora`. The sweep
itself cannot be set.

A cell leaves out defaults that have no effect in it, if another cell heeds them. `null` in a row of the sweep leaves a key
out.
";

struct Page<'s> {
    definitions: &'s Value,
    text: String,
}

impl<'s> Page<'s> {
    /// The keys of the map `schema`, and the keys below them.
    fn section(&mut self, schema: &Value, prefix: &str) {
        let schema = self.resolve(schema);
        self.forms(schema, prefix);
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        self.keys(schema, prefix, required);
    }

    /// The keys of each form of `schema`, which may have forms itself. A map with several forms is known by its keys,
    /// so none of them is required of it.
    fn forms(&mut self, schema: &Value, prefix: &str) {
        let forms: Vec<&Value> = alternatives(schema).filter(|form| form["type"] != "null").collect();
        for form in &forms {
            let form = self.resolve(form);
            let required = form["required"].as_array().filter(|_| forms.len() == 1);
            self.forms(form, prefix);
            self.keys(form, prefix, required.map_or(&[], Vec::as_slice));
        }
    }

    fn keys(&mut self, schema: &Value, prefix: &str, required: &[Value]) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            // The keys of a cell have no prefix: sweeps and overrides know them by these names.
            let (path, level) = match prefix {
                "" => (name.clone(), "##"),
                "defaults" => (name.clone(), "###"),
                prefix => (format!("{prefix}.{name}"), "###"),
            };
            self.entry(&path, level, property, required.iter().any(|key| key == name));
            if !self.takes_cell_keys(property) {
                self.section(property, &path);
            }
        }
        if schema["items"].is_object() {
            self.section(&schema["items"], prefix);
        }
        if schema["additionalProperties"].is_object() {
            self.section(&schema["additionalProperties"], &format!("{prefix}.*"));
        }
    }

    fn entry(&mut self, path: &str, level: &str, schema: &Value, required: bool) {
        let resolved = self.resolve(schema);
        let description = [schema, resolved]
            .into_iter()
            .find_map(|schema| schema["description"].as_str());
        let description = description.unwrap_or_default().replace('\n', " ");
        let mut facts = vec![self.values(schema)];
        match &schema["default"] {
            Value::Null if required => facts.push("required".into()),
            Value::Null => facts.push("optional".into()),
            default => facts.push(format!("default {}", code(default))),
        }
        if let Some(stack) = only_stack(schema) {
            facts.push(format!("only for `stack: {stack}`"));
        }
        self.text += &format!("\n{level} {path}\n\n{description}\n\n*{}*\n", facts.join(" · "));
        let choices = alternatives(resolved).filter(|choice| choice["const"].is_string());
        let described = choices.filter_map(|choice| {
            let meaning = choice["description"].as_str()?;
            Some((choice, meaning.replace('\n', " ")))
        });
        let list: Vec<_> = described
            .map(|(choice, meaning)| match only_stack(choice) {
                Some(stack) => format!("* {}: {meaning} Only for `stack: {stack}`.\n", code(&choice["const"])),
                None => format!("* {}: {meaning}\n", code(&choice["const"])),
            })
            .collect();
        if !list.is_empty() {
            self.text += &format!("\n{}", list.concat());
        }
    }

    /// The values that `schema` allows, in words.
    fn values(&self, schema: &Value) -> String {
        let schema = self.resolve(schema);
        if let Some(title) = schema["title"].as_str() {
            return title.to_owned();
        }
        if let Some(names) = schema["enum"].as_array() {
            return names.iter().map(code).collect::<Vec<_>>().join(", ");
        }
        let mut names = Vec::new();
        let mut words = Vec::new();
        for alternative in alternatives(schema).filter(|alternative| alternative["type"] != "null") {
            match (alternative["enum"].as_array(), &alternative["const"]) {
                (Some(list), _) => names.extend(list.iter().map(code)),
                (None, Value::Null) => words.push(self.values(alternative)),
                (None, name) => names.push(code(name)),
            }
        }
        if !names.is_empty() {
            words.insert(0, names.join(", "));
        }
        if words.is_empty() {
            let types = match &schema["type"] {
                Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
                one => Vec::from_iter(one.as_str()),
            };
            let types = types.into_iter().filter(|&name| name != "null");
            words.extend(types.map(|name| self.of_type(name, schema)));
        }
        words.dedup();
        words.join(" or ")
    }

    fn of_type(&self, name: &str, schema: &Value) -> String {
        match name {
            "string" => "text".into(),
            "boolean" => "`true` or `false`".into(),
            "array" => format!("list of: {}", self.values(&schema["items"])),
            "object" if self.takes_cell_keys(schema) => "map of a cell's keys".into(),
            "object" if schema["additionalProperties"].is_object() => "map by name".into(),
            "object" => "map of the keys below".into(),
            number => match (&schema["minimum"], &schema["maximum"]) {
                (Value::Null, _) => number.into(),
                (least, Value::Null) => format!("{number}, at least {least}"),
                (least, most) => format!("{number} from {least} to {most}"),
            },
        }
    }

    /// True for a map whose keys are those of a cell, such as `sweep.grid`, and for a list of such maps.
    fn takes_cell_keys(&self, schema: &Value) -> bool {
        let schema = self.resolve(schema);
        let map = if schema["type"] == "array" {
            self.resolve(&schema["items"])
        } else {
            schema
        };
        map["patternProperties"].is_object()
    }

    /// Follows a `$ref`, and an `allOf` with one entry, into the definitions.
    fn resolve<'v>(&self, schema: &'v Value) -> &'v Value
    where
        's: 'v,
    {
        let own_forms = alternatives(schema).next().is_some();
        let schema = schema["allOf"].get(0).filter(|_| !own_forms).unwrap_or(schema);
        let reference = schema["$ref"].as_str();
        let name = reference.and_then(|reference| reference.strip_prefix("#/definitions/"));
        name.map_or(schema, |name| &self.definitions[name])
    }
}

/// The stack of a key or a choice that one stack alone heeds.
fn only_stack(schema: &Value) -> Option<&str> {
    match schema["x-stacks"].as_array()?.as_slice() {
        [stack] => stack.as_str(),
        _ => None,
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["oneOf", "anyOf"].map(|choice| schema[choice].as_array());
    lists.into_iter().flatten().flatten()
}

fn code(value: &Value) -> String {
    format!("`{}`", to_flow_yaml(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_schema_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec.md");
        let committed = std::fs::read_to_string(path).unwrap();
        let page = reference();
        let mut lines = page.lines().zip(committed.lines()).zip(1..);
        let first = lines.find(|((is, was), _)| is != was);
        assert!(
            page == committed,
            "docs/spec.md is stale: {first:?}\n\
             write it again: cargo run --release -- schema --format markdown > docs/spec.md"
        );
    }
}
