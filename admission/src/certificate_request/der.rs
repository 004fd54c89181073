//! DER values, read as Go's `encoding/asn1` reads them.

use super::unreadable::Unreadable;

// Identifier octets: class, form and tag.
pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const NUMERIC_STRING: u8 = 0x12;
const PRINTABLE_STRING: u8 = 0x13;
const T61_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BMP_STRING: u8 = 0x1e;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The bits of an identifier octet that are a tag, or say that a longer tag follows.
pub(super) const LONG_TAG: u8 = 0x1f;

/// Go reads no longer values.
const LONGEST: usize = 1 << 23;

/// A value of any type.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) identifier: u8,
    pub(super) contents: &'a [u8],
    /// With identifier and length.
    pub(super) whole: &'a [u8],
}

/// The values that follow one another in some bytes.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `parseTagAndLength`, and the contents.
    pub(super) fn any(&mut self) -> Result<Value<'a>, Unreadable> {
        let start = self.0;
        let identifier = self.octet()?;
        if identifier & LONG_TAG == LONG_TAG && self.base_128()? < u32::from(LONG_TAG) {
            return Err(Unreadable::Der);
        }
        let length = self.length()?;
        let (contents, rest) = self.0.split_at_checked(length).ok_or(Unreadable::Der)?;
        self.0 = rest;
        let (whole, _) = start.split_at(start.len() - rest.len());
        Ok(Value {
            identifier,
            contents,
            whole,
        })
    }

    fn length(&mut self) -> Result<usize, Unreadable> {
        let first = self.octet()?;
        if first & 0x80 == 0 {
            return Ok(usize::from(first));
        }
        let mut length = 0;
        for _ in 0..first & 0x7f {
            if length >= LONGEST {
                return Err(Unreadable::Der);
            }
            length = length << 8 | usize::from(self.octet()?);
            if length == 0 {
                return Err(Unreadable::Der);
            }
        }
        // The shortest form alone; none of it is an indefinite length.
        if length < 0x80 {
            return Err(Unreadable::Der);
        }
        Ok(length)
    }

    /// The contents of the next value, which must have this identifier.
    pub(super) fn take(&mut self, identifier: u8) -> Result<&'a [u8], Unreadable> {
        let value = self.any()?;
        if value.identifier != identifier {
            return Err(Unreadable::Der);
        }
        Ok(value.contents)
    }

    /// The contents of the next value if it has this identifier.
    pub(super) fn take_if(&mut self, identifier: u8) -> Result<Option<&'a [u8]>, Unreadable> {
        if self.0.first() != Some(&identifier) {
            return Ok(None);
        }
        self.take(identifier).map(Some)
    }

    /// The contents: two identifiers are equal if these are, as there is one encoding.
    pub(super) fn object_id(&mut self) -> Result<&'a [u8], Unreadable> {
        let contents = self.take(OBJECT_ID)?;
        check_object_id(contents)?;
        Ok(contents)
    }

    /// The bits without the padding (`BitString.RightAlign`).
    pub(super) fn bit_string(&mut self) -> Result<Vec<u8>, Unreadable> {
        let (padding, bits) = check_bit_string(self.take(BIT_STRING)?)?;
        let mut above = 0;
        let align = |&octet: &u8| {
            let aligned = u16::from(above) << 8 | u16::from(octet);
            above = octet;
            // The low octet of the two.
            (aligned >> padding).to_le_bytes()[0]
        };
        Ok(bits.iter().map(align).collect())
    }

    /// `parseBase128Int`.
    fn base_128(&mut self) -> Result<u32, Unreadable> {
        let mut number = 0_u64;
        for index in 0..5 {
            let octet = self.octet()?;
            if index == 0 && octet == 0x80 {
                return Err(Unreadable::Der);
            }
            number = number << 7 | u64::from(octet & 0x7f);
            if octet & 0x80 == 0 {
                let number = i32::try_from(number).map_err(|_| Unreadable::Der)?;
                return Ok(number.unsigned_abs());
            }
        }
        Err(Unreadable::Der)
    }

    fn octet(&mut self) -> Result<u8, Unreadable> {
        let (&octet, rest) = self.0.split_first().ok_or(Unreadable::Der)?;
        self.0 = rest;
        Ok(octet)
    }
}

fn require(holds: bool) -> Result<(), Unreadable> {
    if holds { Ok(()) } else { Err(Unreadable::Der) }
}

/// `parseBool`.
pub(super) fn check_boolean(contents: &[u8]) -> Result<(), Unreadable> {
    require(matches!(contents, [0 | 0xff]))
}

/// `checkInteger`: of any size.
pub(super) fn check_big_integer(contents: &[u8]) -> Result<(), Unreadable> {
    require(match contents {
        [] | [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] => false,
        [_, ..] => true,
    })
}

/// `parseInt64`.
pub(super) fn check_integer(contents: &[u8]) -> Result<(), Unreadable> {
    require(contents.len() <= 8)?;
    check_big_integer(contents)
}

fn check_object_id(contents: &[u8]) -> Result<(), Unreadable> {
    let mut numbers = Reader(contents);
    numbers.base_128()?;
    while !numbers.is_empty() {
        numbers.base_128()?;
    }
    Ok(())
}

/// `parseBitString`: how many bits at the end do not count, and the bits.
fn check_bit_string(contents: &[u8]) -> Result<(u8, &[u8]), Unreadable> {
    let (&padding, bits) = contents.split_first().ok_or(Unreadable::Der)?;
    let last = bits.last().copied();
    require(
        padding <= 7 && last.map_or(padding == 0, |last| last.trailing_zeros() >= padding.into()),
    )?;
    Ok((padding, bits))
}

/// The text of a value of a string type. A value of another type is none, but must be valid if Go
/// knows the type (`parseField`, "Deal with the ANY type").
pub(super) fn text(value: Value<'_>) -> Result<Option<String>, Unreadable> {
    let contents = value.contents;
    let all = |is_allowed: fn(&u8) -> bool| {
        require(contents.iter().all(is_allowed))?;
        Ok(latin_1(contents))
    };
    let text = match value.identifier {
        UTF8_STRING => String::from_utf8(contents.to_vec()).map_err(|_| Unreadable::Der),
        NUMERIC_STRING => all(|octet| matches!(octet, b'0'..=b'9' | b' ')),
        PRINTABLE_STRING => {
            all(|octet| octet.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(octet))
        }
        IA5_STRING => all(u8::is_ascii),
        T61_STRING => Ok(latin_1(contents)),
        BMP_STRING => bmp(contents),
        other => return check_other(other, contents).map(|()| None),
    };
    text.map(Some)
}

fn check_other(identifier: u8, contents: &[u8]) -> Result<(), Unreadable> {
    match identifier {
        BOOLEAN => check_boolean(contents),
        INTEGER => check_integer(contents),
        BIT_STRING => check_bit_string(contents).map(|_| ()),
        OBJECT_ID => check_object_id(contents),
        UTC_TIME | GENERALIZED_TIME => Err(Unreadable::Time),
        _ => Ok(()),
    }
}

fn latin_1(octets: &[u8]) -> String {
    octets.iter().copied().map(char::from).collect()
}

/// `parseBMPString`: no surrogates, no noncharacters, without the NUL at the end.
fn bmp(contents: &[u8]) -> Result<String, Unreadable> {
    let (pairs, rest) = contents.as_chunks::<2>();
    require(rest.is_empty())?;
    let pairs = pairs.strip_suffix(&[[0, 0]]).unwrap_or(pairs);
    let chars = pairs.iter().map(|pair| match u16::from_be_bytes(*pair) {
        0xfdd0..=0xfdef | 0xfffe.. => None,
        point => char::from_u32(point.into()),
    });
    chars.collect::<Option<String>>().ok_or(Unreadable::Der)
}
