//! The imports of a source file, read from its tokens, so that comments, strings and test modules count for nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path of names, as `crate::tree::Node`.
pub type Names = Vec<String>;

/// A name that a `use` brings in; `*` for all of a module's.
#[derive(Clone, Debug)]
pub struct Use {
    pub path: Names,
    pub name: String,
    pub is_public: bool,
}

/// The imports and items of one file.
#[derive(Debug, Default)]
pub struct Source {
    pub file: PathBuf,
    pub uses: Vec<Use>,
    /// Paths of two names or more outside `use`.
    pub paths: Vec<Names>,
    /// Names of the items that the file defines.
    pub items: BTreeSet<String>,
    /// Lines with the keyword `unsafe`.
    pub unsafe_lines: Vec<usize>,
}

impl Source {
    /// Reads the file `file` of the folder `src`.
    pub fn read(src: &Path, file: &Path) -> Self {
        let text = fs::read_to_string(src.join(file)).unwrap();
        let tokens: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut source = Self {
            file: file.to_owned(),
            ..Self::default()
        };
        source.scan(tokens);
        source
    }

    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            let was_public = std::mem::take(&mut is_public);
            match &tokens[at] {
                TokenTree::Punct(_) if is_test_attribute(&tokens[at..]) => {
                    at += 2;
                    at += length_of_module(&tokens[at..]);
                    continue;
                }
                TokenTree::Group(group) => {
                    is_public = was_public && group.delimiter() == Delimiter::Parenthesis;
                    self.scan(group.stream());
                }
                TokenTree::Ident(name) => match name.to_string().as_str() {
                    "pub" => is_public = true,
                    "use" if !is_punct(tokens.get(at + 1), '<') => {
                        let end = at
                            + tokens[at..]
                                .iter()
                                .position(|token| is_punct(Some(token), ';'))
                                .unwrap();
                        self.read_use(&tokens[at + 1..end], &[], was_public);
                        at = end;
                    }
                    keyword => {
                        if keyword == "unsafe" {
                            self.unsafe_lines.push(name.span().start().line);
                        }
                        if let (true, Some(TokenTree::Ident(item))) = (defines(keyword), tokens.get(at + 1)) {
                            self.items.insert(item.to_string());
                        }
                        let (path, length) = path_at(&tokens[at..]);
                        // A name after `::` continues a path that began otherwise, as with `<T as Trait>::name`.
                        let is_rest = at > 1 && is_separator(&tokens[at - 2], &tokens[at - 1]);
                        if path.len() > 1 && !is_rest {
                            self.paths.push(path);
                        }
                        at += length - 1;
                    }
                },
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads the tree between `use` and `;`.
    fn read_use(&mut self, tree: &[TokenTree], prefix: &[String], is_public: bool) {
        let mut path = prefix.to_vec();
        let mut name = None;
        for (at, token) in tree.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if ident == "as" => {
                    name = tree.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    name = Some("*".into());
                    break;
                }
                TokenTree::Group(group) => {
                    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                    for part in tokens.split(|token| is_punct(Some(token), ',')) {
                        self.read_use(part, &path, is_public);
                    }
                    return;
                }
                _ => {}
            }
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(last) = path.last().filter(|_| path.len() > prefix.len() || !tree.is_empty()) {
            let name = name.unwrap_or_else(|| last.clone());
            self.uses.push(Use { path, name, is_public });
        }
    }
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

fn is_separator(first: &TokenTree, second: &TokenTree) -> bool {
    is_punct(Some(first), ':') && is_punct(Some(second), ':')
}

fn defines(keyword: &str) -> bool {
    [
        "fn",
        "struct",
        "enum",
        "trait",
        "const",
        "static",
        "type",
        "macro_rules",
    ]
    .contains(&keyword)
}

/// The path that begins with the first token, and the number of its tokens.
fn path_at(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = vec![tokens[0].to_string()];
    let mut length = 1;
    while let [first, second, TokenTree::Ident(name), ..] = &tokens[length..]
        && is_separator(first, second)
    {
        path.push(name.to_string());
        length += 3;
    }
    (path, length)
}

/// `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = tokens else {
        return false;
    };
    let text: String = group.stream().to_string().split_whitespace().collect();
    is_punct(Some(hash), '#') && (text.starts_with("cfg(test") || text.starts_with("cfg(all(test"))
}

/// The number of tokens of the module that they begin with; 0 if they begin with something else.
fn length_of_module(tokens: &[TokenTree]) -> usize {
    let is_module = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == "mod");
    let Some(at) = tokens.iter().take(3).position(is_module) else {
        return 0;
    };
    at + 3
}
