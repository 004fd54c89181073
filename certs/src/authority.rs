//! A certificate authority: a self-signed certificate and its key.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, GeneralSubtree, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, NameConstraints,
};

use crate::certificate::{Certificate, Encoded, asn1, parse};
use crate::error::{Error, Result};
use crate::lifetimes::Lifetimes;
use crate::names::ObjectNames;

/// A CA that can sign: ECDSA P-256, path length 0, and limited to the webhook's own names, so that
/// a stolen key is useless elsewhere.
pub struct Authority {
    pub(crate) certificate: Encoded,
    key: KeyPair,
}

impl Authority {
    /// Makes a CA that is valid from `now` less the backdate.
    pub fn make(names: &ObjectNames, lifetimes: &Lifetimes, now: Timestamp) -> Result<Self> {
        let key = KeyPair::generate().map_err(Error::make("the CA's key"))?;
        let mut params = CertificateParams::default();
        params.not_before = asn1(instant(now, -lifetimes.backdate)?)?.to_datetime();
        params.not_after = asn1(instant(now, lifetimes.ca)?)?.to_datetime();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, names.ca_subject());
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: names.dns().map(GeneralSubtree::DnsName).to_vec(),
            excluded_subtrees: Vec::new(),
        });
        let certificate = params
            .self_signed(&key)
            .map_err(Error::make("the CA's certificate"))?;
        let certificate = Encoded::read(certificate.der().to_vec(), &names.ca_subject())?;
        Ok(Self { certificate, key })
    }

    /// Reads a stored pair; the key must match the certificate.
    pub(crate) fn read(certificate: &[u8], key: &[u8], names: &ObjectNames) -> Result<Self> {
        let what = "the CA";
        let [certificate] =
            <[Encoded; 1]>::try_from(Encoded::read_all(certificate, &names.ca_subject())?)
                .map_err(|all| Error::unusable(what, format!("{} certificates", all.len())))?;
        let key = read_key(key, &certificate, what)?;
        if !certificate.signed(&certificate) {
            return Err(Error::unusable(what, "it is not a self-signed CA"));
        }
        Ok(Self { certificate, key })
    }

    pub fn summary(&self) -> Certificate {
        self.certificate.summary
    }

    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    pub(crate) fn issuer(&self) -> Result<Issuer<'_, &KeyPair>> {
        let der = self.certificate.der.as_slice().into();
        Issuer::from_ca_cert_der(&der, &self.key).map_err(Error::make("a signature of the CA"))
    }
}

pub(crate) fn read_key(pem: &[u8], certificate: &Encoded, what: &'static str) -> Result<KeyPair> {
    let text =
        std::str::from_utf8(pem).map_err(|_| Error::unusable(what, "the key is not text"))?;
    let key = KeyPair::from_pem(text).map_err(|error| Error::unusable(what, error.to_string()))?;
    let x509 = parse(&certificate.der)?;
    if x509.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        let why = "the key does not match the certificate";
        return Err(Error::unusable(what, why));
    }
    Ok(key)
}

pub(crate) fn instant(now: Timestamp, after: jiff::SignedDuration) -> Result<Timestamp> {
    now.checked_add(after).map_err(|_| Error::Time(now))
}
