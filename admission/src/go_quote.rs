//! Go's `strconv.Quote` (`%q`), so that a denial has the same text as the in-tree plugin's.

use std::fmt::{self, Write};

/// Prints the text in Go's double quotes (`strconv.Quote`).
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x0b' => f.write_str("\\v")?,
                ' '..='~' => f.write_char(c)?,
                c if (c as u32) < 0x80 => write!(f, "\\x{:02x}", c as u32)?,
                c if is_printed(c) => f.write_char(c)?,
                c if (c as u32) < 0x1_0000 => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "\\U{:08x}", c as u32)?,
            }
        }
        f.write_char('"')
    }
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols.
///
/// `escape_debug` leaves printable characters unchanged; inside a string it also leaves combining
/// marks unchanged, as Go does.
fn is_printed(c: char) -> bool {
    let text: String = ['a', c].iter().collect();
    text.escape_debug().eq(text.chars())
}

#[cfg(test)]
mod tests {
    use super::Quoted;

    #[test]
    fn prints_what_go_prints() {
        for (text, go) in [
            ("node-1", r#""node-1""#),
            ("", r#""""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("a\n\t\x07\x7f\x01", r#""a\n\t\a\x7f\x01""#),
            ("Grüße e\u{301}", "\"Grüße e\u{301}\""),
            ("\u{200b}\u{a0}", r#""\u200b\u00a0""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(Quoted(text).to_string(), go);
        }
    }
}
