//! Reader of the protobuf wire format: keys, varints, lengths.

use std::borrow::Cow;

use super::encoding::{DecodeError, Result};

#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A fixed-width number: no field that we read is one.
    Fixed,
}

impl<'a> Payload<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(DecodeError("a number where bytes belong".to_owned())),
        }
    }

    pub(super) fn varint(self) -> Result<u64> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(DecodeError("bytes where a number belongs".to_owned())),
        }
    }

    /// Invalid UTF-8 is replaced, as it is in the API server's JSON: Go's protobuf lets clients store it.
    pub(super) fn text(self) -> Result<Cow<'a, str>> {
        self.bytes().map(String::from_utf8_lossy)
    }

    pub(super) fn is_zero(self) -> bool {
        match self {
            Self::Varint(number) => number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Fixed => true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (tag, wire_type) = self.key()?;
        Ok(Some((tag, self.payload(wire_type)?)))
    }

    pub(super) fn key(&mut self) -> Result<(u32, u64)> {
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).map_err(|_| cut())?;
        Ok((tag, key & 7))
    }

    pub(super) fn payload(&mut self, wire_type: u64) -> Result<Payload<'a>> {
        Ok(match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => self.take(8).map(|_| Payload::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| cut())?;
                Payload::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Payload::Fixed)?,
            other => return Err(DecodeError(format!("unknown wire type {other}"))),
        })
    }

    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or_else(cut)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError("a number longer than 64 bits".to_owned()))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }
}

pub(super) fn cut() -> DecodeError {
    DecodeError("the message is truncated".to_owned())
}
