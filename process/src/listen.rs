//! Listening on an address of which the kernel may not have the family.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use tokio::net::TcpListener;

/// Listens on `address`. If the kernel has no IPv6, `[::]` means `0.0.0.0`.
///
/// # Errors
///
/// Nothing can listen there: the address is in use or not one of this host.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && matches!(
                    error.kind(),
                    ErrorKind::AddrNotAvailable | ErrorKind::Unsupported
                ) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("failed to listen on {address}"))
}
