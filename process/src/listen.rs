//! Listening on an address of which the kernel may not have the family.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted, as many as with the standard library.
const BACKLOG: u32 = 128;

/// An address that is taken, where nothing listens yet: clients are refused, and no connection comes
/// here from others that share the port.
#[derive(Debug)]
pub struct BoundSocket {
    socket: TcpSocket,
    address: SocketAddr,
}

impl BoundSocket {
    /// Takes `address`. If the kernel has no IPv6, `[::]` means `0.0.0.0`. Other processes of the same
    /// user can listen there as well if each of them sets `share_port`.
    pub fn new(address: SocketAddr, share_port: bool) -> anyhow::Result<Self> {
        let bound = match bind_socket(address, share_port) {
            Err(error)
                if address.ip() == Ipv6Addr::UNSPECIFIED
                    && matches!(
                        error.kind(),
                        ErrorKind::AddrNotAvailable | ErrorKind::Unsupported
                    ) =>
            {
                bind_socket((Ipv4Addr::UNSPECIFIED, address.port()).into(), share_port)
            }
            bound => bound,
        };
        let socket = bound.with_context(|| failure(address))?;
        Ok(Self { socket, address })
    }

    /// Listens from now on.
    /// Fails if something else listens there by now.
    pub fn listen(self) -> anyhow::Result<TcpListener> {
        let listener = self.socket.listen(BACKLOG);
        listener.with_context(|| failure(self.address))
    }
}

fn bind_socket(address: SocketAddr, share_port: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // Connections of an earlier process may still be closing.
    socket.set_reuseaddr(true)?;
    if share_port {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    Ok(socket)
}

fn failure(address: SocketAddr) -> String {
    format!("failed to listen on {address}")
}

/// Listens on `address`. If the kernel has no IPv6, `[::]` means `0.0.0.0`.
pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    BoundSocket::new(address, false)?.listen()
}
