//! A prompt that is made of a sample's columns.

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPart {
    /// Text as it is.
    Text(String),
    /// The text of a column.
    Column(String),
}

/// Texts and columns in their order, out of `Question: {question}`. A doubled brace stands for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTemplate(pub Vec<PromptPart>);

impl PromptTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// A brace without its pair, or no column; with the reason.
    pub fn parse(template: &str) -> Result<Self, String> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, tag) = rest.split_at(at);
            text.push_str(before);
            let (brace, after) = tag.split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                text.push_str(brace);
                rest = after;
                continue;
            }
            let column = after.split_once('}').map(|(column, _)| column);
            let Some(column) = column.filter(|column| brace == "{" && !column.is_empty() && !column.contains('{'))
            else {
                let what = if brace == "{" {
                    "a `{` has no column and `}` behind it"
                } else {
                    "a `}` has no `{` before it"
                };
                return Err(format!("{what}; a brace of the text is written twice"));
            };
            if !text.is_empty() {
                parts.push(PromptPart::Text(std::mem::take(&mut text)));
            }
            parts.push(PromptPart::Column(column.to_owned()));
            rest = &after[column.len() + 1..];
        }
        text.push_str(rest);
        if parts.is_empty() {
            return Err("it names no column, as in `{question}`".into());
        }
        if !text.is_empty() {
            parts.push(PromptPart::Text(text));
        }
        Ok(Self(parts))
    }

    /// The columns that it names.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            PromptPart::Column(column) => Some(column.as_str()),
            PromptPart::Text(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_braces() {
        let text = |text: &str| PromptPart::Text(text.into());
        let column = |name: &str| PromptPart::Column(name.into());
        let parsed = PromptTemplate::parse("Q {{: {question}{context}\n}}").unwrap();
        assert_eq!(
            parsed.0,
            [text("Q {: "), column("question"), column("context"), text("\n}")]
        );
        assert_eq!(parsed.columns().collect::<Vec<_>>(), ["question", "context"]);
        assert_eq!(PromptTemplate::parse("{a}").unwrap().0, [column("a")]);
    }

    #[test]
    fn a_brace_has_its_pair() {
        for (template, reason) in [
            ("{a", "a `{` has no column"),
            ("{}", "a `{` has no column"),
            ("{a{b}}", "a `{` has no column"),
            ("a}", "a `}` has no `{`"),
            ("plain {{a}}", "it names no column"),
        ] {
            let message = PromptTemplate::parse(template).unwrap_err();
            assert!(message.starts_with(reason), "{template}: {message}");
        }
    }
}
