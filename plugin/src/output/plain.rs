/// The text without control characters, which a terminal would obey: objects, files and servers may
/// contain any. Lines stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_removed() {
        assert_eq!(plain("a\x1b[2Jb\u{9b}31m\r\n\tc\x07"), "a[2Jb31m\nc");
    }
}
