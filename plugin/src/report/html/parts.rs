//! Pieces of the page that several sections use.

use std::fmt;

use nodelife_audit::Subject;

pub(super) fn broken(subject: &Subject) -> String {
    let text = Escaped(&subject.path()).to_string();
    text.replace('/', "/<wbr>")
}

pub(super) fn key(class: &str, glyph: &str, text: &str) -> String {
    format!("<span><i class=\"key {class}\">{glyph}</i>{text}</span>")
}

pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['<', '>', '&', '"', '\'']) {
            let (plain, special) = rest.split_at(at);
            let (special, tail) = special.split_at(1);
            f.write_str(plain)?;
            f.write_str(match special {
                "<" => "&lt;",
                ">" => "&gt;",
                "&" => "&amp;",
                "\"" => "&quot;",
                _ => "&#39;",
            })?;
            rest = tail;
        }
        f.write_str(rest)
    }
}
