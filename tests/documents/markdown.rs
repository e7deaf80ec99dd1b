//! The commands of a Markdown text, and what it says of their output and exit code.
//!
//! A command is a line of a `sh` block, of a `console` block after `$`, or of an indented block, or it is a code span. It
//! begins with `expctl` or with `cargo run --release --`. What a page prints of a command's output stands in a `text` block
//! behind it, or in a `console` block below it. A line that changes has `…` for its changing part; `…` or `[…]` alone stands
//! for any lines. A command exits with 0, unless the page says `<!-- exits 1 -->` before it, or `# exits 1` behind it. A
//! comment can hold a command that readers need not see: `<!-- expctl validate typo.yaml -->`. In a block of commands each
//! line is one that the suite knows; `<!-- not run: REASON -->` before a block leaves it out.

use std::mem;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::command::{Command, is_command};
use crate::other::is_other;

/// Programs that prepare files for the commands behind them.
const PREPARATIONS: [&str; 4] = ["cat", "cp", "echo", "mkdir"];

/// A page with its commands, in their order.
pub struct Document {
    pub name: String,
    pub commands: Vec<Command>,
    /// Outputs that belong to no command, and lines of programs that the suite does not know.
    pub strays: Vec<String>,
}

impl Document {
    pub fn read(name: &str, text: &str) -> Self {
        let mut reader = Reader::new(name);
        let mut block = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Heading { .. }) => reader.shown = None,
                Event::Start(Tag::CodeBlock(kind)) => block = Some((kind, line, String::new())),
                Event::Text(part) if block.is_some() => block.iter_mut().for_each(|(_, _, code)| code.push_str(&part)),
                Event::End(TagEnd::CodeBlock) => {
                    let (kind, line, code) = block.take().expect("a block that began");
                    reader.block(&kind, line, &code);
                }
                Event::Code(code) => reader.span(&code, line),
                Event::Html(html) | Event::InlineHtml(html) => reader.comment(&html, line),
                _ => {}
            }
        }
        reader.document
    }
}

struct Reader {
    document: Document,
    /// The exit code that a comment gives to the next command.
    exits: Option<i32>,
    /// Whether a comment leaves the next block out.
    is_left_out: bool,
    /// The command whose output the next `text` block is: the last one of the section.
    shown: Option<usize>,
}

impl Reader {
    fn new(name: &str) -> Self {
        let document = Document {
            name: name.to_owned(),
            commands: Vec::new(),
            strays: Vec::new(),
        };
        Self {
            document,
            exits: None,
            is_left_out: false,
            shown: None,
        }
    }

    fn push(&mut self, text: &str, line: usize) {
        let exits = text.rsplit_once("# exits ").map(|(_, code)| number(code));
        self.shown = Some(self.document.commands.len());
        self.document.commands.push(Command {
            text: text.to_owned(),
            line,
            exits: exits.or(self.exits.take()).unwrap_or(0),
            is_span: false,
            output: None,
        });
    }

    fn comment(&mut self, html: &str, line: usize) {
        let Some(comment) = html
            .trim()
            .strip_prefix("<!--")
            .and_then(|rest| rest.strip_suffix("-->"))
        else {
            return;
        };
        self.is_left_out = comment.trim().starts_with("not run: ");
        match comment.trim().strip_prefix("exits ") {
            Some(code) => self.exits = Some(number(code)),
            None if is_command(comment.trim()) => self.push(comment.trim(), line),
            None => {}
        }
    }

    fn span(&mut self, code: &str, line: usize) {
        if !is_command(code) && !is_other(code) {
            return;
        }
        let shown = self.shown;
        self.push(code, line);
        let command = self.document.commands.last_mut().expect("a command");
        command.is_span = true;
        if command.is_looked_up() {
            self.shown = shown;
        }
    }

    fn block(&mut self, kind: &CodeBlockKind<'_>, line: usize, code: &str) {
        if mem::take(&mut self.is_left_out) {
            return;
        }
        match kind {
            CodeBlockKind::Indented => self.script(code, line, false),
            CodeBlockKind::Fenced(language) => match &**language {
                "sh" | "bash" | "shell" => self.script(code, line + 1, true),
                "console" => self.console(code, line + 1),
                "text" => self.output(code, line),
                _ => {}
            },
        }
    }

    /// Commands alone, each on a line or on several that end in `\`, or with the document that `<<'END'` begins.
    /// A block that need not be a script is one if it has a line of a program that the suite knows.
    fn script(&mut self, code: &str, first: usize, is_script: bool) {
        let mut found = Vec::new();
        let mut lines = code.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let mut text = line.trim_start().to_owned();
            let end = text.split_once("<<").and_then(|(_, end)| end.split_whitespace().next());
            let end = end.map(|end| end.trim_matches(['\'', '"']).to_owned());
            let goes_on = |text: &str| match &end {
                Some(end) => text.lines().last() != Some(end),
                None => text.ends_with('\\'),
            };
            while goes_on(&text)
                && let Some((_, line)) = lines.next()
            {
                text.push('\n');
                text.push_str(line);
            }
            if !text.is_empty() && !text.starts_with('#') {
                found.push((text, first + at));
            }
        }
        let is_known = |text: &str| is_command(text) || is_other(text);
        if !is_script && !found.iter().any(|(text, _)| is_known(text)) {
            return;
        }
        for (text, line) in found {
            match is_command(&text) {
                true => self.push(&text, line),
                false => self.other_line(&text, line),
            }
        }
    }

    /// A line of another program, which the suite must know.
    fn other_line(&mut self, text: &str, line: usize) {
        let Some(program) = text.split_whitespace().next() else {
            return;
        };
        if is_other(text) || PREPARATIONS.contains(&program) {
            return self.push(text, line);
        }
        let name = &self.document.name;
        self.document.strays.push(format!(
            "{name}:{line}: {text}\nthe suite knows no program `{program}`; tests/documents/other.rs lists them"
        ));
    }

    /// Commands behind `$`, each with its output below it.
    fn console(&mut self, code: &str, first: usize) {
        let (mut output, mut at) = (String::new(), None);
        for (number, line) in code.lines().chain(["$"]).enumerate() {
            let Some(text) = line.strip_prefix('$') else {
                output.push_str(line);
                output.push('\n');
                continue;
            };
            let output = mem::take(&mut output);
            if let Some(at) = at.take()
                && !output.trim().is_empty()
            {
                self.output(&output, at);
            }
            self.shown = None;
            let text = text.trim();
            if is_command(text) {
                self.push(text, first + number);
                at = Some(first + number);
            } else {
                self.other_line(text, first + number);
            }
        }
    }

    fn output(&mut self, output: &str, line: usize) {
        match self.shown.take() {
            Some(at) => self.document.commands[at].output = Some(output.to_owned()),
            None => self.document.strays.push(format!(
                "{}:{line}: this output belongs to no command; a block of something else is not `text`",
                self.document.name
            )),
        }
    }
}

fn number(text: &str) -> i32 {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("an exit code")
}
