//! Natural order of names: `node-2` before `node-10`.

use std::cmp::Ordering;

pub fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (x, y) = (part(left), part(right));
        if x.is_empty() || y.is_empty() {
            // Equal but for leading zeros: some order is needed all the same.
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        }
        let order = match (number(x), number(y)) {
            // Of two numbers without leading zeros the longer one is greater.
            (Some(x), Some(y)) => x.len().cmp(&y.len()).then_with(|| x.cmp(y)),
            _ => x.cmp(y),
        };
        if order != Ordering::Equal {
            return order;
        }
        left = left.get(x.len()..).unwrap_or_default();
        right = right.get(y.len()..).unwrap_or_default();
    }
}

/// The digits at the beginning of a text, or what comes before the first digit.
fn part(text: &str) -> &str {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != is_number);
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

fn number(part: &str) -> Option<&str> {
    let is_number = part.starts_with(|c: char| c.is_ascii_digit());
    is_number.then(|| part.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = [
            "node-10",
            "node-2",
            "ip-10-0-9-1",
            "node",
            "ip-10-0-10-1",
            "node-02",
            "b",
            "node-1",
        ];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            [
                "b",
                "ip-10-0-9-1",
                "ip-10-0-10-1",
                "node",
                "node-1",
                "node-02",
                "node-2",
                "node-10",
            ]
        );
    }

    #[test]
    fn the_order_is_total() {
        let names = [
            "", "0", "00", "a", "a0", "a00", "a1b", "a01b", "é1", "1é", "10", "9z",
        ];
        for a in names {
            for b in names {
                assert_eq!(compare(a, b), compare(b, a).reverse(), "{a} {b}");
                assert_eq!(compare(a, b).is_eq(), a == b, "{a} {b}");
                for c in names {
                    if compare(a, b).is_le() && compare(b, c).is_le() {
                        assert!(compare(a, c).is_le(), "{a} {b} {c}");
                    }
                }
            }
        }
    }
}
