//! The open connections, and which of them is closed for a new one.
//!
//! Anybody in the pod network can connect, so nobody may take the slots of the API servers: when
//! all are taken, a connection that never got a response is closed before others, and among those
//! that of the address with the most connections which has been idle for the longest time.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::connection_state::ConnectionState;

#[derive(Debug)]
pub struct Connections {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    state: ConnectionState,
    closed: CancellationToken,
}

/// The slot of one connection, free again when it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    id: u64,
    connections: Arc<Connections>,
    closed: CancellationToken,
}

impl Connections {
    pub fn new(most: usize) -> Arc<Self> {
        let open = Mutex::default();
        Arc::new(Self { most, open })
    }

    /// Takes a slot for a new connection. When all are taken, another connection has to close.
    pub fn enter(self: &Arc<Self>, peer: IpAddr, state: ConnectionState) -> ConnectionSlot {
        let mut open = self.open();
        while open.all.len() >= self.most {
            let Some(closed) = open.to_close().and_then(|id| open.all.remove(&id)) else {
                break;
            };
            closed.closed.cancel();
        }
        open.next += 1;
        let (id, closed) = (open.next, CancellationToken::new());
        let connection = Connection {
            peer,
            state,
            closed: closed.clone(),
        };
        open.all.insert(id, connection);
        ConnectionSlot {
            id,
            connections: Arc::clone(self),
            closed,
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn to_close(&self) -> Option<u64> {
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.all.values() {
            *held.entry(connection.peer).or_default() += 1;
        }
        let first = self.all.iter().min_by_key(|(_, one)| {
            let held = held.get(&one.peer).copied();
            (
                one.state.has_answered(),
                one.state.is_handling(),
                Reverse(held),
                one.state.since(),
            )
        });
        first.map(|(id, _)| *id)
    }
}

impl ConnectionSlot {
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.open().all.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API_SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_silent_connection_closes_before_one_that_is_used() {
        let connections = Connections::new(3);
        let used = ConnectionState::default();
        let kept = connections.enter(API_SERVER, used.clone());
        used.begin_request();
        used.end_request();
        let silent = [(); 2].map(|()| connections.enter(OTHER, ConnectionState::default()));
        let new = connections.enter(API_SERVER, ConnectionState::default());
        let is_closed = |place: &ConnectionSlot| place.closed.is_cancelled();
        assert!(is_closed(&silent[0]));
        assert!(!is_closed(&silent[1]) && !is_closed(&kept) && !is_closed(&new));
        drop(silent);
        let _next = connections.enter(OTHER, ConnectionState::default());
        assert!(!is_closed(&kept) && !is_closed(&new));
    }

    #[test]
    fn the_address_with_the_most_connections_gives_way() {
        let connections = Connections::new(4);
        let lone = connections.enter(API_SERVER, ConnectionState::default());
        let many = [(); 3].map(|()| connections.enter(OTHER, ConnectionState::default()));
        let _new = connections.enter(API_SERVER, ConnectionState::default());
        assert!(!lone.closed.is_cancelled());
        assert!(many[0].closed.is_cancelled());
    }
}
