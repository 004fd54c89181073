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
