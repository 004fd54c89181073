//! Patterns of names: `*` for any characters, `?` for one, `[a-c]` and `[^a-c]` for one of some.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<char>);

impl Glob {
    pub fn new(pattern: &str) -> Self {
        Self(pattern.chars().collect())
    }

    pub fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    /// Whether the pattern matches the whole name, as Go's `path.Match`, but a slash is a
    /// character like any other. The time grows with the product of both lengths at most.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut pattern, mut rest) = (self.0.as_slice(), name.as_slice());
        // After the last star: the pattern, and the name from where it was tried.
        let mut retry: Option<(&[char], &[char])> = None;
        loop {
            if let Some(('*', after)) = pattern.split_first() {
                (pattern, retry) = (after, Some((after, rest)));
                continue;
            }
            match (step(pattern, rest), rest.split_first()) {
                (Some(after), Some((_, tail))) => (pattern, rest) = (after, tail),
                _ if pattern.is_empty() && rest.is_empty() => return true,
                // The star takes one character more.
                _ => match retry {
                    Some((after, [_, from @ ..])) => {
                        retry = Some((after, from));
                        (pattern, rest) = (after, from);
                    }
                    _ => return false,
                },
            }
        }
    }
}

/// The pattern after the part that matches the first character.
fn step<'a>(pattern: &'a [char], name: &[char]) -> Option<&'a [char]> {
    let (c, (wanted, rest)) = (name.first()?, pattern.split_first()?);
    match wanted {
        '?' => Some(rest),
        '[' => {
            let end = rest.iter().position(|c| *c == ']')?;
            let (class, after) = rest.split_at(end);
            is_in(class, *c).then(|| after.get(1..).unwrap_or_default())
        }
        _ => (wanted == c).then_some(rest),
    }
}

/// Whether a class, `a-z` or `^0-9`, has the character.
fn is_in(class: &[char], c: char) -> bool {
    let (negated, class) = match class.split_first() {
        Some(('^', rest)) => (true, rest),
        _ => (false, class),
    };
    let ranges = class.windows(3).any(|range| match range {
        [from, '-', to] => (*from..=*to).contains(&c),
        _ => false,
    });
    negated != (ranges || class.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, expected) in [
            ("*.json", "a.json", true),
            ("*.json", "a.yaml", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]1", "b1", true),
            ("[^a-c]1", "b1", false),
            ("[ab", "a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a*", "a", true),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*ab", "aab", true),
            ("*a?c", "abcabd", false),
        ] {
            let found = Glob::new(pattern).matches(name);
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_one() {
        let pattern = "a*".repeat(40) + "b";
        assert!(!Glob::new(&pattern).matches(&"a".repeat(200)));
    }
}
