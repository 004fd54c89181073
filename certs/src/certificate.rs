//! A certificate as stored in a Secret or a caBundle.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::error::{Error, Result};

/// SHA-256 of a certificate's DER.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub fn of(der: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, der).as_ref());
        Self(bytes)
    }
}

/// The first eight bytes in hex: enough to tell a handful of certificates apart.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.0.first_chunk().copied();
        write!(f, "{:016x}", u64::from_be_bytes(first.unwrap_or_default()))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub id: Fingerprint,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Whether it is a CA with our common name, so that certs may have created it.
    pub own: bool,
}

impl Certificate {
    pub fn valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Whether `numerator/denominator` of its life have passed.
    pub(crate) fn aged(&self, now: Timestamp, numerator: i32, denominator: i32) -> bool {
        let life: SignedDuration = self.not_after.duration_since(self.not_before);
        now.duration_since(self.not_before) >= life / denominator * numerator
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) summary: Certificate,
    pub(crate) der: Vec<u8>,
}

impl Encoded {
    /// Reads DER. `subject` is the common name that makes a CA our own.
    pub(crate) fn read(der: Vec<u8>, subject: &str) -> Result<Self> {
        let x509 = parse(&der)?;
        let own = x509.is_ca()
            && x509
                .subject()
                .iter_common_name()
                .any(|name| name.as_str() == Ok(subject));
        let summary = Certificate {
            id: Fingerprint::of(&der),
            not_before: timestamp(x509.validity().not_before)?,
            not_after: timestamp(x509.validity().not_after)?,
            own,
        };
        Ok(Self { summary, der })
    }

    /// Every certificate of a PEM document, in order.
    pub(crate) fn read_all(pem: &[u8], subject: &str) -> Result<Vec<Self>> {
        Pem::iter_from_buffer(pem)
            .map(|block| {
                let block = block.map_err(|error| Error::unusable("PEM", error.to_string()))?;
                if block.label != "CERTIFICATE" {
                    let why = format!("expected CERTIFICATE, found {}", block.label);
                    return Err(Error::unusable("PEM", why));
                }
                Self::read(block.contents, subject)
            })
            .collect()
    }

    /// The certificate in PEM, in lines of 64 characters.
    pub(crate) fn pem(&self) -> String {
        let pem = pem::Pem::new("CERTIFICATE", self.der.as_slice());
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_config(&pem, config)
    }

    pub(crate) fn signed(&self, leaf: &Self) -> bool {
        let (Ok(ca), Ok(leaf)) = (parse(&self.der), parse(&leaf.der)) else {
            return false;
        };
        ca.is_ca()
            && leaf.issuer().as_raw() == ca.subject().as_raw()
            && leaf.verify_signature(Some(ca.public_key())).is_ok()
    }
}

pub(crate) fn render<'a>(certificates: impl IntoIterator<Item = &'a Encoded>) -> String {
    certificates.into_iter().map(Encoded::pem).collect()
}

/// Parses DER without trailing bytes.
pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>> {
    match X509Certificate::from_der(der) {
        Ok(([], x509)) => Ok(x509),
        Ok(_) => Err(Error::unusable("certificate", "it has trailing bytes")),
        Err(error) => Err(Error::unusable("certificate", error.to_string())),
    }
}

fn timestamp(time: ASN1Time) -> Result<Timestamp> {
    Timestamp::from_second(time.timestamp())
        .map_err(|error| Error::unusable("certificate", error.to_string()))
}

pub(crate) fn asn1(time: Timestamp) -> Result<ASN1Time> {
    ASN1Time::from_timestamp(time.as_second()).map_err(|_| Error::Time(time))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Until then.
    Accepted(Timestamp),
    /// A CA of the bundle signed it, but it expired then or becomes valid then.
    NotValid(Timestamp),
    UnknownAuthority,
    Unreadable(String),
}

/// Judges the first certificate of `leaf` by `bundle`, both PEM.
pub fn trust(leaf: &[u8], bundle: &[u8], now: Timestamp) -> Trust {
    let read =
        |pem| Encoded::read_all(pem, "").map_err(|error| Trust::Unreadable(error.to_string()));
    let (leaf, bundle) = match (read(leaf), read(bundle)) {
        (Ok(leaf), Ok(bundle)) => (leaf, bundle),
        (Err(trouble), _) | (_, Err(trouble)) => return trouble,
    };
    let Some(leaf) = leaf.first() else {
        return Trust::Unreadable("there is no certificate".to_owned());
    };
    if !bundle.iter().any(|ca| ca.signed(leaf)) {
        return Trust::UnknownAuthority;
    }
    let leaf = leaf.summary;
    if leaf.valid(now) {
        Trust::Accepted(leaf.not_after)
    } else if now < leaf.not_before {
        Trust::NotValid(leaf.not_before)
    } else {
        Trust::NotValid(leaf.not_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Leaf, Lifetimes, ObjectNames};
    use jiff::SignedDuration;

    #[test]
    fn distinguishes_an_expired_leaf_from_a_foreign_one() {
        let (names, lifetimes) = (ObjectNames::default(), Lifetimes::default());
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let ca = Authority::make(&names, &lifetimes, now).unwrap();
        let other = Authority::make(&names, &lifetimes, now).unwrap();
        let leaf = Leaf::make(&ca, &names, &lifetimes, now).unwrap();
        let end = now + lifetimes.leaf;
        let pem = leaf.certificate_pem();
        let judge = |bundle: &str, now| trust(pem.as_bytes(), bundle.as_bytes(), now);
        let both = other.certificate_pem() + &ca.certificate_pem();
        assert_eq!(judge(&both, now), Trust::Accepted(end));
        let late = end + SignedDuration::from_secs(1);
        assert_eq!(judge(&both, late), Trust::NotValid(end));
        assert_eq!(
            judge(&other.certificate_pem(), now),
            Trust::UnknownAuthority
        );
        assert_eq!(judge("", now), Trust::UnknownAuthority);
        assert!(matches!(
            judge("-----BEGIN X-----\nAAAA\n-----END X-----\n", now),
            Trust::Unreadable(_)
        ));
    }
}
