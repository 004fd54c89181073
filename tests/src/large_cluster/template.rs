//! Byte templates with fixed-width placeholders.

use anyhow::{Result, ensure};

/// A stored object, and where in it the words stand that differ between its clones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    /// Offset and index of the word.
    places: Vec<(usize, usize)>,
    widths: Vec<usize>,
}

impl Template {
    /// Finds every occurrence of the placeholders.
    pub fn new(bytes: Vec<u8>, placeholders: &[impl AsRef<str>]) -> Result<Self> {
        let mut places = Vec::new();
        for (index, placeholder) in placeholders.iter().enumerate() {
            let placeholder = placeholder.as_ref();
            let width = placeholder.len();
            let found = bytes
                .windows(width.max(1))
                .enumerate()
                .filter(|(_, window)| *window == placeholder.as_bytes())
                .map(|(at, _)| (at, index));
            let before = places.len();
            places.extend(found);
            ensure!(places.len() > before, "the template has no {placeholder:?}");
        }
        Ok(Self {
            bytes,
            places,
            widths: placeholders.iter().map(|p| p.as_ref().len()).collect(),
        })
    }

    /// A clone with a word in the place of each placeholder, in their order.
    pub fn with(&self, words: &[impl AsRef<str> + std::fmt::Debug]) -> Result<Vec<u8>> {
        ensure!(
            words
                .iter()
                .map(|word| word.as_ref().len())
                .eq(self.widths.iter().copied()),
            "{words:?} are not as wide as the placeholders: {:?}",
            self.widths
        );
        let mut bytes = self.bytes.clone();
        for (at, index) in &self.places {
            if let Some(word) = words.get(*index).map(AsRef::as_ref)
                && let Some(place) = bytes.get_mut(*at..at + word.len())
            {
                place.copy_from_slice(word.as_bytes());
            }
        }
        Ok(bytes)
    }

    /// Bytes of a clone.
    #[expect(clippy::len_without_is_empty, reason = "a stored object has a length")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_take_the_place_of_placeholders_of_their_width() {
        let template = Template::new(b"\x04aaaa\x02bb\x04aaaa".to_vec(), &["aaaa", "bb"]).unwrap();
        assert_eq!(
            template.with(&["1234", "56"]).unwrap(),
            b"\x041234\x0256\x041234"
        );
        assert!(template.with(&["123", "56"]).is_err());
        assert!(Template::new(b"x".to_vec(), &["aaaa"]).is_err());
    }
}
