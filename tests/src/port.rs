//! Free loopback ports for servers that a test starts.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Result;

/// The range that ports are taken from: below the kernel's ephemeral range (32768 and up on
/// Linux), so that no outgoing connection takes the port of a part that is being restarted.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// The offset in the range that is tried next by this process.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 that nobody listens on now, and that this process hands out once only.
///
/// Two test processes begin at different places of the range, as their process ids differ.
pub fn free() -> Result<u16> {
    let start = u16::try_from((std::process::id() * 37) % u32::from(COUNT))?;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = (u32::from(start) + u32::from(step)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset)?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("failed to find a free port of 127.0.0.1 from {FIRST} on: all are taken")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_out_each_port_once() {
        let one = free().unwrap();
        let two = free().unwrap();
        assert_ne!(one, two);
    }
}
