//! Names of objects and labels, as Kubernetes validates them (apimachinery `pkg/api/validate/content`,
//! v0.37.2).

/// `IsDNS1123Subdomain` (`dns.go`).
pub fn is_subdomain(text: &str) -> bool {
    let mut labels = text.split('.');
    text.len() <= 253 && labels.all(|label| is_word(label, is_small, &['-']))
}

/// Whether it is the key of a label without its prefix, or the value of one that is not empty.
pub fn is_label_name(text: &str) -> bool {
    text.len() <= 63 && is_word(text, |c| c.is_ascii_alphanumeric(), &['-', '_', '.'])
}

/// Whether the text begins and ends with such characters, and has only these and `others` between.
pub fn is_word(text: &str, is_end: fn(char) -> bool, others: &[char]) -> bool {
    text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || others.contains(&c))
}

pub fn is_small(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}
