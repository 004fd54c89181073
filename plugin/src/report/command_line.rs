//! The command line, as evidence in a report.

use nodelife_cluster::without_user;

/// The words after the program's name as a shell takes them, without what nobody else may read.
pub(crate) fn command_line(words: impl IntoIterator<Item = String>) -> String {
    let mut line = "kubectl nodelife".to_owned();
    let mut is_secret = false;
    for word in words.into_iter().skip(1) {
        line.push(' ');
        if std::mem::take(&mut is_secret) {
            line.push_str("...");
        } else if word.starts_with("--token=") {
            line.push_str("--token=...");
        } else {
            is_secret = word == "--token";
            line.push_str(&quoted(without_user(&word)));
        }
    }
    line
}

pub(crate) fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_works_in_a_shell_and_has_no_token() {
        for (words, line) in [
            ("/bin/kubectl-nodelife audit", "kubectl nodelife audit"),
            (
                "n audit --token abc -o html",
                "kubectl nodelife audit --token ... -o html",
            ),
            ("n audit --token=abc", "kubectl nodelife audit --token=..."),
            (
                "n audit -shttps://u:p@a:1/b@c --proxy-url http://u:@p@h",
                "kubectl nodelife audit -shttps://a:1/b@c --proxy-url http://h",
            ),
            ("n audit -f a@b", "kubectl nodelife audit -f a@b"),
            ("n audit -l a!=b", "kubectl nodelife audit -l 'a!=b'"),
            ("n audit it's", "kubectl nodelife audit 'it'\\''s'"),
        ] {
            let words = words.split(' ').map(ToOwned::to_owned);
            assert_eq!(command_line(words), line);
        }
    }
}
