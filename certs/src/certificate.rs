//! A certificate as stored in a Secret or a caBundle.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::error::Error;

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
        for byte in self.0.iter().take(8) {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The properties of a certificate that the rotation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub id: Fingerprint,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Whether it is a CA with our common name, so that certs may have created it.
    pub own: bool,
}

impl Certificate {
    /// Whether `now` is in its validity.
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
    pub(crate) fn read(der: Vec<u8>, subject: &str) -> Result<Self, Error> {
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
    pub(crate) fn read_all(pem: &[u8], subject: &str) -> Result<Vec<Self>, Error> {
        Pem::iter_from_buffer(pem)
            .map(|block| {
                let block = block.map_err(|error| Error::unusable("PEM", error.to_string()))?;
                if block.label != "CERTIFICATE" {
                    return Err(Error::unusable(
                        "PEM",
                        format!("expected CERTIFICATE, found {}", block.label),
                    ));
                }
                Self::read(block.contents, subject)
            })
            .collect()
    }

    /// PEM, with the line length that every reader accepts.
    pub(crate) fn pem(&self) -> String {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        for (index, character) in text.chars().enumerate() {
            if index > 0 && index % 64 == 0 {
                pem.push('\n');
            }
            pem.push(character);
        }
        pem.push_str("\n-----END CERTIFICATE-----\n");
        pem
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
pub(crate) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, Error> {
    match X509Certificate::from_der(der) {
        Ok(([], x509)) => Ok(x509),
        Ok(_) => Err(Error::unusable("certificate", "it has trailing bytes")),
        Err(error) => Err(Error::unusable("certificate", error.to_string())),
    }
}

fn timestamp(time: ASN1Time) -> Result<Timestamp, Error> {
    Timestamp::from_second(time.timestamp())
        .map_err(|error| Error::unusable("certificate", error.to_string()))
}

/// The instant as rcgen wants it.
pub(crate) fn asn1(time: Timestamp) -> Result<ASN1Time, Error> {
    ASN1Time::from_timestamp(time.as_second()).map_err(|_| Error::Time(time))
}
