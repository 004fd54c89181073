//! Whether the environment takes more characters than ASCII.

use std::ffi::OsString;

/// Whether the locale is of UTF-8 and the terminal not dumb. `variable` reads the environment.
pub(super) fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    if set(&"TERM").is_some_and(|term| term == "dumb") {
        return false;
    }
    // Windows has no such variables, and its console takes UTF-16.
    if cfg!(windows) {
        return true;
    }
    // The first that is set decides (locale(7)).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set);
    let locale = locale.map(|locale| locale.to_string_lossy().to_lowercase());
    locale.is_some_and(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> bool {
        is_utf8(|name| {
            let mut variables = variables.iter();
            let (_, value) = variables.find(|(known, _)| *known == name)?;
            Some(OsString::from(value))
        })
    }

    #[test]
    fn the_locale_and_the_terminal_decide() {
        assert!(!with(&[]));
        assert!(with(&[("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LANG", "C.utf8"), ("LC_ALL", "")]));
        assert!(!with(&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")]));
        assert!(with(&[("LC_CTYPE", "UTF-8"), ("LANG", "C")]));
        assert!(!with(&[("LANG", "en_US.UTF-8"), ("TERM", "dumb")]));
        assert!(with(&[("LANG", "en_US.UTF-8"), ("TERM", "xterm")]));
    }
}
