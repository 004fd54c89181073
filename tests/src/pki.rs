//! The certificates of a control plane: one CA that signs the API server's serving certificate
//! and the client certificates of its users.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct KeyAndCertificate {
    pub certificate: String,
    /// The private key, PKCS 8.
    pub key: String,
}

/// The CA of one control plane.
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl TestCa {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "nodelife-tests");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)
            .context("failed to make a CA")?;
        Ok(Self { issuer })
    }

    /// The CA's own certificate, PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// The CA's private key, PEM: for the controller that signs certificate requests.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A serving certificate for `names` and for 127.0.0.1 and `addresses`.
    pub fn server(&self, names: &[&str], addresses: &[Ipv4Addr]) -> Result<KeyAndCertificate> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        for address in std::iter::once(&Ipv4Addr::LOCALHOST).chain(addresses) {
            params
                .subject_alt_names
                .push(SanType::IpAddress(IpAddr::V4(*address)));
        }
        params
            .distinguished_name
            .push(DnType::CommonName, "nodelife-tests-server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A serving certificate whose time was over at the end of 2024.
    pub fn expired_server(&self, name: &str) -> Result<KeyAndCertificate> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        expire(&mut params);
        self.sign(params)
    }

    /// A kubelet's serving certificate, as the signer `kubernetes.io/kubelet-serving` issues them, for
    /// this address.
    pub fn kubelet(&self, user: &str, group: &str, address: Ipv4Addr) -> Result<KeyAndCertificate> {
        let mut params = client(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(address))];
        self.sign(params)
    }

    /// A client certificate: the API server takes the common name for the user and the
    /// organization for the group.
    pub fn client(&self, user: &str, group: &str) -> Result<KeyAndCertificate> {
        self.sign(client(user, group))
    }

    /// A client certificate whose time was over at the end of 2024.
    pub fn expired_client(&self, user: &str, group: &str) -> Result<KeyAndCertificate> {
        let mut params = client(user, group);
        expire(&mut params);
        self.sign(params)
    }

    /// A client certificate of whose time less than a tenth is left: until tomorrow's end.
    pub fn client_of_last_day(&self, user: &str, group: &str) -> Result<KeyAndCertificate> {
        let today = jiff::Timestamp::now()
            .to_zoned(jiff::tz::TimeZone::UTC)
            .date();
        let day = |days: i64| -> Result<_> {
            let date = today.checked_add(jiff::Span::new().try_days(days)?)?;
            let month = u8::try_from(date.month())?;
            let day = u8::try_from(date.day())?;
            Ok(rcgen::date_time_ymd(i32::from(date.year()), month, day))
        };
        let mut params = client(user, group);
        params.not_before = day(-60)?;
        params.not_after = day(2)?;
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<KeyAndCertificate> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .context("failed to sign a certificate")?;
        Ok(KeyAndCertificate {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn expire(params: &mut CertificateParams) {
    params.not_before = rcgen::date_time_ymd(2024, 1, 1);
    params.not_after = rcgen::date_time_ymd(2024, 12, 31);
}

fn client(user: &str, group: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    params
        .distinguished_name
        .push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// The files that the programs of a control plane read.
pub struct Files {
    pub ca: PathBuf,
    /// The certificate that every server of the control plane serves with.
    pub server_certificate: PathBuf,
    pub server_key: PathBuf,
    /// The key that ServiceAccount tokens are signed with.
    pub service_account_key: PathBuf,
    /// Its public half, which the API server wants in a file of its own: it does not take one
    /// out of a PKCS 8 key.
    pub service_account_public_key: PathBuf,
}

impl Files {
    /// Writes the files into `folder`. The API server is reached at 127.0.0.1 and at `addresses`.
    pub fn write(authority: &TestCa, folder: &Path, addresses: &[Ipv4Addr]) -> Result<Self> {
        let server = authority.server(
            &[
                "localhost",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
            ],
            addresses,
        )?;
        let put = |name: &str, text: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text)
                .with_context(|| format!("failed to write {}", path.display()))?;
            Ok(path)
        };
        let service_account = KeyPair::generate()?;
        Ok(Self {
            ca: put("ca.crt", &authority.certificate())?,
            server_certificate: put("server.crt", &server.certificate)?,
            server_key: put("server.key", &server.key)?,
            service_account_key: put("sa.key", &service_account.serialize_pem())?,
            service_account_public_key: put("sa.pub", &service_account.public_key_pem())?,
        })
    }
}
