//! Templates, rendered as transformers renders them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use super::*;

/// What `python/data/make_chat_templates.py` wrote.
#[derive(Deserialize)]
struct Golden {
    templates: Map<String, Json>,
    conversations: Vec<Vec<Json>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    template: String,
    conversation: usize,
    add_generation_prompt: bool,
    text: Option<String>,
    #[serde(default)]
    parts: Vec<[usize; 2]>,
    error: Option<String>,
}

fn place() -> Place {
    Place::line(&Path::new("x.jsonl").into(), 7)
}

fn tokens() -> SpecialTokens {
    let Json::Object(by_name) = json!({"bos_token": "<s>", "eos_token": "</s>"}) else {
        unreachable!()
    };
    SpecialTokens { by_name }
}

fn template(source: &str) -> Result<ChatTemplate, ChatTemplateError> {
    ChatTemplate::new("chat.jinja".into(), source, &tokens())
}

fn render(template: &ChatTemplate, messages: &[Json], add_generation_prompt: bool) -> Result<Marked, DataError> {
    let conversation = Conversation {
        messages: messages.to_vec(),
        ..Conversation::default()
    };
    template.render(&conversation, messages.len(), add_generation_prompt, &place())
}

#[test]
fn conversations_are_rendered_as_by_transformers() {
    let golden: Golden = serde_json::from_str(include_str!("../../../../tests/fixtures/chat_templates.json")).unwrap();
    assert!(golden.cases.len() > 100);
    for case in golden.cases {
        let template = template(golden.templates[&case.template].as_str().unwrap()).unwrap();
        let messages = &golden.conversations[case.conversation];
        let rendered = render(&template, messages, case.add_generation_prompt);
        let name = format!("{} of conversation {}", case.template, case.conversation);
        match (rendered, case.text) {
            (Ok(marked), Some(text)) => {
                assert_eq!(marked.text, text, "{name}");
                let parts: Vec<[usize; 2]> = marked.parts.iter().map(|part| [part.start, part.end]).collect();
                assert_eq!(parts, case.parts, "{name}");
            }
            (Err(_), None) => {}
            (Ok(marked), None) => panic!("{name}: {}, not {:?}", marked.text, case.error),
            (Err(error), Some(_)) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn a_template_that_fails_names_its_line_and_the_sample() {
    let fails = |source: &str| {
        let messages = [json!({"role": "user", "content": "a"})];
        render(&template(source).unwrap(), &messages, false)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        fails("a\n{{ raise_exception('no ' + messages[0].role) }}"),
        "x.jsonl:7: the chat template fails at chat.jinja:2: no user"
    );
    assert!(fails("\n\n{{ messages[3].content }}").contains("fails at chat.jinja:3: undefined value"));
    assert!(fails("{{ messages.colour() }}").contains("fails at chat.jinja:1: "));
    let invalid = template("a\n{% for %}").err().unwrap().to_string();
    assert!(invalid.starts_with("chat.jinja:2: syntax error: "), "{invalid}");
}

#[test]
fn a_template_that_would_not_end_is_stopped() {
    let fails = |source: &str| {
        let messages = [json!({"role": "user", "content": "a".repeat(1 << 16)})];
        render(&template(source).unwrap(), &messages, false)
            .unwrap_err()
            .to_string()
    };
    let nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = a %}{% endfor %}{% endfor %}";
    assert!(fails(nested).ends_with("does a loop of it end?"), "{}", fails(nested));
    let doubling = "{% macro d(n) %}{% if n %}{{ d(n - 1) }}{{ d(n - 1) }}{% endif %}{% endmacro %}{{ d(40) }}";
    assert!(
        fails(doubling).contains("instructions for one conversation"),
        "{}",
        fails(doubling)
    );
    let long = "{% for a in range(9999) %}{{ messages[0].content }}{% endfor %}";
    assert!(
        fails(long).ends_with("the text is longer than 16 MiB"),
        "{}",
        fails(long)
    );
}

/// The marks of `{% generation %}` are characters that a message may have as well.
#[test]
fn a_template_that_marks_nothing_changes_no_character() {
    let template = template("{{ messages[0].content }}").unwrap();
    let message = json!({"role": "user", "content": "a\u{fdd0}b\u{fdd1}"});
    let marked = render(&template, &[message], false).unwrap();
    assert_eq!((marked.text.as_str(), marked.parts.len()), ("a\u{fdd0}b\u{fdd1}", 0));
}

/// The folder of a model with these files.
fn model(files: &[(&str, Json)]) -> (tempfile::TempDir, Location) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let location = Location::Directory(dir.path().into());
    (dir, location)
}

fn opened(given: Option<PathBuf>, location: &Location) -> Result<String, String> {
    let template = SpecialTokens::of(location)
        .and_then(|tokens| ChatTemplate::open(given.map(Given::File), location, &tokens))
        .map_err(|error| error.to_string())?;
    Ok(render(&template, &[], false).unwrap().text)
}

#[test]
fn the_template_is_that_of_the_file_of_the_model_or_of_the_spec() {
    let config =
        |template: Json| json!({"eos_token": {"content": "<e>"}, "bos_token": null, "chat_template": template});
    let (dir, location) = model(&[(
        "tokenizer_config.json",
        config(json!("own {{ eos_token }}{{ bos_token }}")),
    )]);
    assert_eq!(opened(None, &location).unwrap(), "own <e>");
    std::fs::write(dir.path().join("chat_template.jinja"), "file").unwrap();
    assert_eq!(opened(None, &location).unwrap(), "file");
    let given = dir.path().join("other.jinja");
    std::fs::write(&given, "given").unwrap();
    assert_eq!(opened(Some(given), &location).unwrap(), "given");
    let named = json!([{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]);
    let (_dir, location) = model(&[("tokenizer_config.json", config(named))]);
    assert_eq!(opened(None, &location).unwrap(), "b");
}

#[test]
fn special_tokens_are_those_that_transformers_reads() {
    let tokens = |files: &[(&str, Json)]| {
        let (_dir, location) = model(files);
        let tokens = SpecialTokens::of(&location).unwrap().by_name;
        Json::Object(tokens).to_string()
    };
    let map = (
        "special_tokens_map.json",
        json!({"eos_token": {"content": "<map>"}, "additional_special_tokens": []}),
    );
    let config = |more: Json| {
        let mut config = json!({"bos_token": "<b>", "eos_token": "<e>"});
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        ("tokenizer_config.json", config)
    };
    assert_eq!(tokens(std::slice::from_ref(&map)), r#"{"eos_token":"<map>"}"#);
    let old = config(json!({}));
    assert_eq!(
        tokens(&[old, map.clone()]),
        r#"{"bos_token":"<b>","eos_token":"<map>"}"#
    );
    let new = config(json!({"added_tokens_decoder": {}}));
    assert_eq!(tokens(&[new, map]), r#"{"bos_token":"<b>","eos_token":"<e>"}"#);
}

#[test]
fn a_model_without_a_template_says_where_it_would_be() {
    let (dir, location) = model(&[]);
    let message = opened(None, &location).unwrap_err();
    let message = message.replace(&format!("{}/", dir.path().display()), "");
    assert_eq!(
        message,
        "chat_template.jinja, tokenizer_config.json: no chat template, which messages need; name a file with one: `data: \
         {chat_template: chat_template.jinja}`"
    );
    for (config, expected) in [
        (json!({"chat_template": 7}), "neither a text nor a list"),
        (
            json!({"chat_template": [{"name": "rag", "template": ""}]}),
            "among its templates (rag)",
        ),
        (json!("{"), "tokenizer_config.json:1:1: not a JSON object"),
    ] {
        let (_dir, location) = model(&[("tokenizer_config.json", config)]);
        let message = opened(None, &location).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
    let preset = Location::Preset(arch::Preset::named("tiny").unwrap());
    assert!(
        opened(None, &preset)
            .unwrap_err()
            .starts_with("the preset `tiny`: no chat template")
    );
    assert!(
        opened(Some("/nowhere/x".into()), &preset)
            .unwrap_err()
            .starts_with("cannot read /nowhere/x")
    );
}

/// What `python/data/make_jinja.py` wrote.
#[derive(Deserialize)]
struct Jinja {
    values: Map<String, Json>,
    cases: Vec<JinjaCase>,
}

#[derive(Deserialize)]
struct JinjaCase {
    template: String,
    text: Option<String>,
}

/// Walks the filters, tests, methods and statements of Jinja2. A template gives Jinja2's text, or is an error; those that
/// give another are listed. minijinja renders some that Jinja2 refuses.
#[test]
fn templates_are_read_as_by_jinja2() {
    let golden: Jinja = serde_json::from_str(include_str!("../../../../tests/fixtures/jinja.json")).unwrap();
    let listed = include_str!("../../../../tests/fixtures/jinja_differences.txt").lines();
    let listed: BTreeSet<String> = listed
        .filter(|line| line.starts_with('"'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let messages = golden.values["messages"].as_array().unwrap().clone();
    let conversation = Conversation {
        messages: messages.clone(),
        variables: golden.values,
        ..Conversation::default()
    };
    let (mut equal, mut different) = (0, BTreeSet::new());
    for case in golden.cases {
        let rendered = template(&case.template).ok().and_then(|template| {
            let rendered = template.render(&conversation, messages.len(), false, &place());
            rendered.map(|marked| marked.text).ok()
        });
        match (rendered, case.text) {
            (Some(text), Some(expected)) if text != expected => _ = different.insert(case.template),
            (one, other) => equal += usize::from(one.is_some() == other.is_some()),
        }
    }
    assert!(equal > 950, "{equal}");
    let new: Vec<_> = different.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&different).collect();
    assert!(new.is_empty() && gone.is_empty(), "new: {new:#?}\nno longer: {gone:#?}");
}
