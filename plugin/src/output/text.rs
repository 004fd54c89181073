//! Texts that a terminal shows: plain, and shortened to a number of columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// As much as fits, with an ellipsis where something is missing. What would move the cursor is
/// not shown: messages of servers go through here.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let clean = plain(text).replace('\n', "");
    if clean.width() <= width {
        return clean;
    }
    let mut kept = head(&clean, width.saturating_sub(1)).to_owned();
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Shortened in the middle: the ends of pods' names are what tells them apart.
pub(crate) fn shorten(name: &str, width: usize) -> String {
    if name.width() <= width || width < 5 {
        return cut(name, width);
    }
    let tail = (width - 1) / 2;
    let reversed: String = name.chars().rev().collect();
    let end: String = head(&reversed, tail).chars().rev().collect();
    format!("{}…{end}", head(name, width - 1 - tail))
}

/// The longest beginning of a text that is at most so wide.
pub(super) fn head(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// The text without characters that a terminal obeys or that make it show another text than it holds:
/// objects, files and servers may contain any. Lines stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !(c.is_control() && *c != '\n' || is_invisible(*c)))
        .collect()
}

/// Characters of no width, those that change the direction of the text, and line separators that no
/// program counts as lines (Unicode 17, categories Cf, Zl and Zp, without those of single scripts).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(cut("a\x1b[2Jb\nc", 80), "a[2Jbc");
        // A wide character that does not fit is left out whole.
        assert_eq!(cut("日本語", 4), "日…");
    }

    #[test]
    fn both_ends_of_a_name_are_kept() {
        assert_eq!(
            shorten("gke-main-pool-1-0a1b2c3d-x7k2", 15),
            "gke-mai…3d-x7k2"
        );
        assert_eq!(shorten("node-1", 6), "node-1");
        assert_eq!(shorten("node-10", 4), "nod…");
    }

    #[test]
    fn what_a_terminal_would_obey_is_removed() {
        assert_eq!(plain("a\x1b[2Jb\u{9b}31m\r\n\tc\x07"), "a[2Jb31m\nc");
        assert_eq!(
            plain("n\u{202e}1\u{2066}\u{200b}\u{2028}\u{feff}é漢"),
            "n1é漢"
        );
        // The soft hyphen, a mark for Arabic, a joiner, an annotation and tags.
        assert_eq!(plain("a\u{ad}\u{61c}\u{2060}\u{fff9}\u{e0041}b"), "ab");
    }
}
