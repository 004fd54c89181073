//! Scans one module's source for items, imports and paths.

use std::fmt;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The contents of a module, tests left out.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) items: Vec<String>,
    pub(crate) modules: Vec<Submodule>,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Path>,
}

#[derive(Debug)]
pub(crate) struct Submodule {
    pub(crate) name: String,
    /// `#[path = "…"]`.
    pub(crate) path: Option<String>,
    /// Of `mod name { … }`.
    pub(crate) body: Option<TokenStream>,
}

#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// What it is called here; none for `_` and for globs.
    pub(crate) name: Option<String>,
    pub(crate) glob: bool,
    /// With a visibility: it is here for others, and an arrow only if it is used here too.
    pub(crate) exported: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// What tokens are part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Items here are the module's.
    Module,
    /// The body of an item.
    Body,
    /// The variants of an enum, whose names are no uses.
    Variants,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut segments = self.segments.as_slice();
        while let [first, rest @ ..] = segments
            && ["crate", "self", "super"].contains(&first.as_str())
        {
            segments = rest;
        }
        f.write_str(&segments.join("::"))
    }
}

const ITEMS: [&str; 9] = [
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "fn",
    "const",
    "static",
    "macro_rules",
];

impl Scan {
    pub(crate) fn of(source: TokenStream) -> Self {
        let mut scan = Self::default();
        scan.walk(source, Level::Module);
        scan
    }

    fn walk(&mut self, source: TokenStream, level: Level) {
        let tokens: Vec<TokenTree> = source.into_iter().collect();
        let mut at = 0;
        // Of the item that begins here.
        let (mut path, mut test, mut exported) = (None, false, false);
        let mut body = Level::Body;
        let mut first = true;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    at += 1 + usize::from(is(tokens.get(at + 1), '!'));
                    if let Some(TokenTree::Group(attribute)) = tokens.get(at) {
                        test |= is_test(attribute);
                        path = path.or_else(|| file_of(attribute));
                        self.attribute(attribute);
                    }
                    at += 1;
                    if test {
                        first = true;
                        at = end_of_item(&tokens, at);
                        test = false;
                    }
                    continue;
                }
                TokenTree::Group(group) => {
                    self.walk(group.stream(), body);
                    if group.delimiter() == Delimiter::Brace {
                        body = Level::Body;
                    }
                }
                TokenTree::Ident(ident) => {
                    let word = word(&ident.to_string());
                    let next = name_at(&tokens, at + 1);
                    match word.as_str() {
                        "pub" => {
                            exported = true;
                            at += 1;
                            // `pub(in crate::drain)` is no use of it.
                            let scope = |g: &Group| g.delimiter() == Delimiter::Parenthesis;
                            if matches!(tokens.get(at), Some(TokenTree::Group(g)) if scope(g)) {
                                at += 1;
                            }
                            continue;
                        }
                        "use" if !is(tokens.get(at + 1), '<') => {
                            at = self.import(&tokens, at + 1, exported);
                        }
                        "mod" if next.is_some() => {
                            let body = match tokens.get(at + 2) {
                                Some(TokenTree::Group(body)) => Some(body.stream()),
                                _ => None,
                            };
                            self.modules.extend(next.map(|name| Submodule {
                                name,
                                path: path.take(),
                                body,
                            }));
                            at += 2;
                        }
                        _ if level == Level::Variants && first => {}
                        // Not `fn` as a type.
                        "fn" if level == Level::Body && next.is_some() => at += 1,
                        item if level == Level::Module && ITEMS.contains(&item) => {
                            if item == "enum" {
                                body = Level::Variants;
                            }
                            // `macro_rules!`, `const fn`, `static mut`, `*const T`.
                            let mut name = at + 1;
                            if is(tokens.get(name), '!') {
                                name += 1;
                            }
                            let keyword = ["fn", "unsafe", "extern", "async", "mut"];
                            if let Some(found) = name_at(&tokens, name)
                                && !keyword.contains(&found.as_str())
                            {
                                self.items.push(found);
                                at = name;
                            }
                        }
                        _ => {
                            at = self.path(&tokens, at);
                            first = false;
                            continue;
                        }
                    }
                    exported = false;
                    path = None;
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            first = is(Some(token), ',');
            at += 1;
        }
    }

    /// The tree of a `use`, up to its semicolon, whose place is the answer.
    fn import(&mut self, tokens: &[TokenTree], from: usize, exported: bool) -> usize {
        let rest = tokens.get(from..).unwrap_or_default();
        let length = rest.iter().position(|token| is(Some(token), ';'));
        let length = length.unwrap_or(rest.len());
        let tree = rest.get(..length).unwrap_or_default();
        // `::name` is a crate.
        if !is(tree.first(), ':') {
            self.import_tree(&[], tree, exported);
        }
        from + length
    }

    fn import_tree(&mut self, before: &[String], tree: &[TokenTree], exported: bool) {
        let mut segments = before.to_vec();
        let mut line = 0;
        let mut renamed = None;
        let mut glob = false;
        for (at, token) in tree.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if ident == "as" => {
                    renamed = Some(name_at(tree, at + 1));
                    break;
                }
                TokenTree::Ident(ident) => {
                    line = ident.span().start().line;
                    segments.push(word(&ident.to_string()));
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    line = punct.span().start().line;
                    glob = true;
                }
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in inner.split(|token| is(Some(token), ',')) {
                        if !branch.is_empty() {
                            self.import_tree(&segments, branch, exported);
                        }
                    }
                    return;
                }
                _ => {}
            }
        }
        if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
            segments.pop();
        }
        let name = match renamed {
            Some(name) => name.filter(|name| name != "_"),
            None => segments.last().cloned(),
        };
        self.imports.push(Import {
            path: Path { segments, line },
            name: name.filter(|_| !glob),
            glob,
            exported,
        });
    }

    /// The path that begins here, if one does. The answer is what comes after it.
    fn path(&mut self, tokens: &[TokenTree], from: usize) -> usize {
        let mut segments = Vec::new();
        let mut at = from;
        let mut line = 0;
        while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
            if segments.is_empty() {
                line = ident.span().start().line;
            }
            segments.push(word(&ident.to_string()));
            at += 1;
            if !is_colons(tokens, at) {
                break;
            }
            at += 2;
        }
        let before =
            |back: usize, c: char| is(from.checked_sub(back).and_then(|i| tokens.get(i)), c);
        // A field or a method; `..name` is neither.
        let member = before(1, '.') && !before(2, '.');
        // `::name`, `<T>::name`, `'name`.
        let tail = before(1, ':') && before(2, ':') || before(1, '\'');
        let single = segments.len() == 1;
        let lower = segments
            .first()
            .is_some_and(|name| name.starts_with(char::is_lowercase));
        let called = is(tokens.get(at), '!')
            || matches!(tokens.get(at), Some(TokenTree::Group(group))
                if group.delimiter() == Delimiter::Parenthesis);
        // A word in lower case is a variable or a field more often than a function.
        if !member && !tail && (!single || !lower || called) {
            self.paths.push(Path { segments, line });
        }
        at
    }

    /// Paths in an attribute, those in texts included: `#[serde(with = "crate::text")]`.
    fn attribute(&mut self, attribute: &Group) {
        let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
        if name_at(&tokens, 0).is_some_and(|name| name == "doc") {
            return;
        }
        self.walk(attribute.stream(), Level::Body);
        if let (Some(serde), Some(TokenTree::Group(arguments))) =
            (name_at(&tokens, 0), tokens.get(1))
            && serde == "serde"
        {
            for token in arguments.stream() {
                if let TokenTree::Literal(literal) = token {
                    let text = literal.to_string();
                    let text = text.trim_matches('"');
                    if text.contains("::")
                        && let Ok(path) = text.parse::<TokenStream>()
                    {
                        let line = literal.span().start().line;
                        let mut inner = Self::default();
                        inner.walk(path, Level::Body);
                        let paths = inner.paths.into_iter();
                        self.paths.extend(paths.map(|path| Path { line, ..path }));
                    }
                }
            }
        }
    }
}

/// `#[cfg(test)]`, `#[cfg(all(test, …))]`, `#[test]`.
fn is_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().to_string();
    let text: String = text.split_whitespace().collect();
    text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The file of `#[path = "…"]`.
fn file_of(attribute: &Group) -> Option<String> {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(path), _, TokenTree::Literal(file)] if path == "path" => {
            Some(file.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// The place after an item, a statement, a field or an arm.
fn end_of_item(tokens: &[TokenTree], from: usize) -> usize {
    let rest = tokens.get(from..).unwrap_or_default();
    let mut attribute = false;
    for (at, token) in rest.iter().enumerate() {
        match token {
            TokenTree::Punct(punct) if matches!(punct.as_char(), ';' | ',') => {
                return from + at + 1;
            }
            TokenTree::Punct(punct) => attribute = punct.as_char() == '#',
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !attribute => {
                return from + at + 1;
            }
            _ => attribute = false,
        }
    }
    tokens.len()
}

fn name_at(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(word(&ident.to_string())),
        _ => None,
    }
}

fn is(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let followed = matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)));
    is(tokens.get(at), ':') && is(tokens.get(at + 1), ':') && followed
}

fn word(ident: &str) -> String {
    ident.strip_prefix("r#").unwrap_or(ident).to_owned()
}
