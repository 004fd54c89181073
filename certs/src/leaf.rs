//! The serving certificate of the webhook.

use jiff::Timestamp;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use x509_parser::extensions::GeneralName;

use crate::authority::{Authority, instant, read_key};
use crate::certificate::{Encoded, asn1, parse};
use crate::error::{Error, Result};
use crate::lifetimes::Lifetimes;
use crate::names::ObjectNames;

pub struct Leaf {
    pub(crate) certificate: Encoded,
    pub(crate) issuer: Encoded,
    key: KeyPair,
}

impl Leaf {
    /// Makes a leaf that `authority` signs. It never outlives its CA.
    pub fn make(
        authority: &Authority,
        names: &ObjectNames,
        lifetimes: &Lifetimes,
        now: Timestamp,
    ) -> Result<Self> {
        let key = KeyPair::generate().map_err(Error::make("the leaf's key"))?;
        let end = instant(now, lifetimes.leaf)?.min(authority.summary().not_after);
        let mut params =
            CertificateParams::new(names.dns()).map_err(Error::make("the leaf's names"))?;
        params.not_before = asn1(instant(now, -lifetimes.backdate)?)?.to_datetime();
        params.not_after = asn1(end)?.to_datetime();
        params.distinguished_name = DistinguishedName::new();
        let [first, ..] = names.dns();
        // A common name holds at most 64 characters; the names that count are the SANs.
        let common: String = first.chars().take(64).collect();
        params.distinguished_name.push(DnType::CommonName, common);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params
            .signed_by(&key, &authority.issuer()?)
            .map_err(Error::make("the leaf's certificate"))?;
        Ok(Self {
            certificate: Encoded::read(certificate.der().to_vec(), &names.ca_subject())?,
            issuer: authority.certificate.clone(),
            key,
        })
    }

    /// Reads the content of a Secret: the key must match the leaf, one certificate of `ca` must
    /// have signed it, and it must have the name that API servers verify.
    pub(crate) fn read(
        certificate: &[u8],
        key: &[u8],
        ca: &[u8],
        names: &ObjectNames,
    ) -> Result<Self> {
        let what = "the leaf";
        let certificate = Encoded::read_all(certificate, &names.ca_subject())?
            .into_iter()
            .next()
            .ok_or_else(|| Error::unusable(what, "there is no certificate"))?;
        let key = read_key(key, &certificate, what)?;
        let issuer = Encoded::read_all(ca, &names.ca_subject())?
            .into_iter()
            .find(|ca| ca.signed(&certificate))
            .ok_or_else(|| Error::unusable(what, "it is not signed by ca.crt"))?;
        let [name, ..] = names.dns();
        if !bears(&certificate, &name)? {
            return Err(Error::unusable(what, format!("it is not for {name}")));
        }
        Ok(Self {
            certificate,
            issuer,
            key,
        })
    }

    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    pub fn issuer_pem(&self) -> String {
        self.issuer.pem()
    }
}

fn bears(certificate: &Encoded, name: &str) -> Result<bool> {
    let x509 = parse(&certificate.der)?;
    let names = x509
        .subject_alternative_name()
        .map_err(|error| Error::unusable("the leaf", error.to_string()))?;
    let is_it = |san: &GeneralName<'_>| matches!(san, GeneralName::DNSName(dns) if *dns == name);
    Ok(names.is_some_and(|names| names.value.general_names.iter().any(is_it)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_leaf_reads_back_with_its_issuer() {
        let (names, lifetimes) = (ObjectNames::default(), Lifetimes::default());
        let ca = Authority::make(&names, &lifetimes, now()).unwrap();
        let ca = Authority::read(
            ca.certificate_pem().as_bytes(),
            ca.key_pem().as_bytes(),
            &names,
        )
        .unwrap();
        let leaf = Leaf::make(&ca, &names, &lifetimes, now()).unwrap();
        let read = |names: &ObjectNames| {
            Leaf::read(
                leaf.certificate_pem().as_bytes(),
                leaf.key_pem().as_bytes(),
                leaf.issuer_pem().as_bytes(),
                names,
            )
        };
        let read_back = read(&names).unwrap();
        assert_eq!(read_back.issuer.summary, ca.summary());
        assert!(ca.summary().own && !read_back.certificate.summary.own);
        assert_eq!(
            read_back.certificate.summary.not_after,
            now() + lifetimes.leaf
        );
        let other = ObjectNames {
            service: "another".to_owned(),
            ..names
        };
        assert!(read(&other).is_err(), "a leaf for another Service");
    }

    #[test]
    fn a_mismatched_pair_is_refused() {
        let (names, lifetimes) = (ObjectNames::default(), Lifetimes::default());
        let ca = Authority::make(&names, &lifetimes, now()).unwrap();
        let other = Authority::make(&names, &lifetimes, now()).unwrap();
        let leaf = Leaf::make(&ca, &names, &lifetimes, now()).unwrap();
        let next = Leaf::make(&ca, &names, &lifetimes, now()).unwrap();
        let read = |crt: &Leaf, key: &Leaf, ca: &Authority| {
            Leaf::read(
                crt.certificate_pem().as_bytes(),
                key.key_pem().as_bytes(),
                ca.certificate_pem().as_bytes(),
                &names,
            )
        };
        assert!(read(&leaf, &leaf, &ca).is_ok());
        assert!(read(&leaf, &next, &ca).is_err(), "key of another leaf");
        assert!(read(&leaf, &leaf, &other).is_err(), "CA of the same name");
    }

    #[test]
    fn a_leaf_expires_with_its_ca() {
        let (names, lifetimes) = (ObjectNames::default(), Lifetimes::default());
        let ca = Authority::make(&names, &lifetimes, now()).unwrap();
        let late = ca.summary().not_after - SignedDuration::from_hours(1);
        let leaf = Leaf::make(&ca, &names, &lifetimes, late).unwrap();
        assert_eq!(leaf.certificate.summary.not_after, ca.summary().not_after);
    }
}
