//! The public key of a certificate request: it must be one that Go takes (`parsePublicKey`).

use num_bigint::BigUint;

use super::der::{INTEGER, Reader, SEQUENCE, Value, check_big_integer, check_integer};
use super::unreadable::Unreadable;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

const NULL: &[u8] = &[0x05, 0x00];
/// The first octet of a point with both coordinates.
const UNCOMPRESSED: u8 = 4;

/// A key of an unknown algorithm is not looked at.
pub(super) fn check(
    algorithm: &[u8],
    parameters: Option<Value<'_>>,
    key: &[u8],
) -> Result<(), Unreadable> {
    let parameters = parameters.map_or(&[][..], |value| value.whole);
    let is_valid = match algorithm {
        RSA => parameters == NULL && is_rsa(key).unwrap_or(false),
        DSA => is_dsa(parameters, key).unwrap_or(false),
        ECDSA => Curve::named(parameters).is_some_and(|curve| curve.has(key)),
        ED25519 => parameters.is_empty() && key.len() == 32,
        _ => true,
    };
    if is_valid {
        Ok(())
    } else {
        Err(Unreadable::PublicKey)
    }
}

fn is_rsa(key: &[u8]) -> Result<bool, Unreadable> {
    let mut numbers = Reader::new(Reader::new(key).take(SEQUENCE)?);
    let has_modulus = is_positive(&mut numbers)?;
    let exponent = numbers.take(INTEGER)?;
    check_integer(exponent)?;
    Ok(has_modulus && is_above_zero(exponent))
}

fn is_dsa(parameters: &[u8], key: &[u8]) -> Result<bool, Unreadable> {
    let mut numbers = Reader::new(Reader::new(parameters).take(SEQUENCE)?);
    let mut are_positive = is_positive(&mut Reader::new(key))?;
    for _ in ["p", "q", "g"] {
        are_positive &= is_positive(&mut numbers)?;
    }
    Ok(are_positive)
}

fn is_positive(numbers: &mut Reader<'_>) -> Result<bool, Unreadable> {
    let number = numbers.take(INTEGER)?;
    check_big_integer(number)?;
    Ok(is_above_zero(number))
}

fn is_above_zero(number: &[u8]) -> bool {
    number != [0] && number.first().is_some_and(|first| *first < 0x80)
}

/// A curve of NIST: y² = x³ - 3x + b modulo p.
struct Curve {
    octets: usize,
    p: &'static [u8],
    b: &'static [u8],
}

impl Curve {
    /// `namedCurveFromOID`, with the identifier in DER.
    fn named(oid: &[u8]) -> Option<Self> {
        let (octets, p, b): (_, &[u8], &[u8]) = match oid {
            b"\x06\x05\x2b\x81\x04\x00\x21" => (
                28,
                b"ffffffffffffffffffffffffffffffff000000000000000000000001",
                b"b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4",
            ),
            b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07" => (
                32,
                b"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
                b"5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
            ),
            b"\x06\x05\x2b\x81\x04\x00\x22" => (
                48,
                b"fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
                b"b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
            ),
            b"\x06\x05\x2b\x81\x04\x00\x23" => (
                66,
                b"01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
                b"0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
            ),
            _ => return None,
        };
        Some(Self { octets, p, b })
    }

    /// Whether `point` is on the curve, with both of its coordinates.
    fn has(&self, point: &[u8]) -> bool {
        let number = |digits| BigUint::parse_bytes(digits, 16);
        let (Some(p), Some(b)) = (number(self.p), number(self.b)) else {
            return false;
        };
        let Some((&UNCOMPRESSED, coordinates)) = point.split_first() else {
            return false;
        };
        if coordinates.len() != 2 * self.octets {
            return false;
        }
        let (x, y) = coordinates.split_at(self.octets);
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        // As x³ + b + 3(p - x): nothing here is below zero.
        x < p && y < p && &y * &y % &p == (&x * &x * &x + b + (&p - &x) * 3_u8) % &p
    }
}
