//! [`Unreadable`]: why a certificate request is not read.

/// Why a certificate request is refused before its name is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Pem,
    #[error("not a PKCS #10 certification request in DER")]
    Der,
    #[error("the public key is not valid")]
    PublicKey,
    /// `Decode` finds another block in such a text before Go 1.24.8, with which Kubernetes up to
    /// 1.34.1 is built, than since.
    #[error("PEM with a BEGIN inside of a line, or with a colon in its line, is not accepted")]
    BeginLine,
    /// Not worth a reader of times: no attribute of a name is one.
    #[error("a time in the subject is not accepted")]
    Time,
    /// Not worth Go's reader of URLs: the signers for kubelets do not sign it
    /// (`ErrURISANsNotAllowed`).
    #[error("URI subjectAltNames are not accepted")]
    Uri,
}
