//! Certificate requests as kubelets and tools write them, and changed ones.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::string::{Ia5String, PrintableString};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, Error, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
    PublicKeyData, SanType, SignatureAlgorithm, SigningKey,
};

use super::super::random::Random;

/// A public key with a signature that is not right: `NodeRestriction` does not look at it.
#[derive(Clone)]
struct Key {
    algorithm: &'static SignatureAlgorithm,
    public: Vec<u8>,
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for Key {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(vec![7; 64])
    }
}

fn keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        // RSAPublicKey: a modulus of 2048 bits and the exponent 65537.
        let mut rsa = vec![0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0];
        rsa.extend([0xc5; 256]);
        rsa.extend([2, 3, 1, 0, 1]);
        let curves = [
            &PKCS_ECDSA_P256_SHA256,
            &PKCS_ECDSA_P384_SHA384,
            &PKCS_ED25519,
        ];
        let on_curves = curves.map(|algorithm| Key {
            algorithm,
            public: KeyPair::generate_for(algorithm)
                .unwrap()
                .der_bytes()
                .to_vec(),
        });
        let rsa = Key {
            algorithm: &PKCS_RSA_SHA256,
            public: rsa,
        };
        on_curves.into_iter().chain([rsa]).collect()
    })
}

/// The text of `spec.request`, before base64.
pub(super) fn pem(random: &mut Random) -> String {
    request(random).pem().unwrap()
}

fn request(random: &mut Random) -> rcgen::CertificateSigningRequest {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(random);
    let names = [
        SanType::DnsName(text("n1.example.com")),
        SanType::IpAddress([10, 0, 0, 1].into()),
        SanType::IpAddress([0; 16].into()),
        SanType::Rfc822Name(text("a@example.com")),
        SanType::URI(text("spiffe://example.com/n1")),
    ];
    for _ in 0..random.below(4) {
        params.subject_alt_names.push(random.pick(&names));
    }
    if random.chance(20) {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    }
    params.serialize_request(&random.pick(keys())).unwrap()
}

fn text(text: &str) -> Ia5String {
    text.try_into().unwrap()
}

fn subject(random: &mut Random) -> DistinguishedName {
    let mut attributes = vec![(DnType::OrganizationName, "system:nodes")];
    if random.chance(95) {
        let near = ["system:node:n2", "", "n1", "system:node:N1", "admin"];
        attributes.push((DnType::CommonName, random.mostly("system:node:n1", &near)));
    }
    for kind in [
        DnType::CountryName,
        DnType::LocalityName,
        DnType::OrganizationalUnitName,
    ] {
        if random.chance(10) {
            attributes.push((kind, "CH"));
        }
    }
    if random.chance(20) {
        attributes.rotate_left(1);
    }
    let mut subject = DistinguishedName::new();
    for (kind, text) in attributes {
        let printable = || DnValue::PrintableString(PrintableString::try_from(text).unwrap());
        let value = if random.chance(50) {
            printable()
        } else {
            text.into()
        };
        subject.push(kind, value);
    }
    subject
}

/// A request of which some octets are changed, of the DER or of the text around it.
pub(super) fn changed_pem(random: &mut Random) -> Vec<u8> {
    if random.chance(70) {
        // The subject and the sizes before it are within the first 150 octets.
        let mut der = request(random).der().to_vec();
        change(random, &mut der, 150);
        let encoded = BASE64_STANDARD.encode(der);
        let lines: Vec<&str> = (0..encoded.len())
            .step_by(64)
            .map(|at| &encoded[at..encoded.len().min(at + 64)])
            .collect();
        let lines = lines.join("\n");
        return format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{lines}\n-----END CERTIFICATE REQUEST-----\n"
        )
        .into_bytes();
    }
    let mut text = pem(random).into_bytes();
    if random.chance(50) {
        change(random, &mut text, 80);
        text.extend(pem(random).as_bytes());
    }
    let end = text.len();
    change(random, &mut text, end);
    text
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, end: usize) {
    for _ in 0..=random.below(2) {
        let at = random.below(end.min(bytes.len()));
        let octet = random.pick(&[b'\n', b':', b'-', b' ', 0, 4, 12, 0x31, 0x80, 0xff]);
        match random.below(5) {
            0 => bytes[at] = octet,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.insert(at, octet),
            3 => drop(bytes.remove(at)),
            _ => bytes.extend_from_within(at..),
        }
    }
}
