//! A stub of systemd-logind, by which a test shuts a node down.
//!
//! It is the whole bus of its node: the kubelet connects to it, asks how long a shutdown may be
//! delayed, takes an inhibitor and waits for the signal `PrepareForShutdown` (v1.37.2,
//! `pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go`).

#![expect(
    clippy::unused_self,
    clippy::used_underscore_binding,
    reason = "D-Bus fixes the arguments of the methods, and the macro names each"
)]

use std::os::fd::OwnedFd as StdFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io;
use tokio::net::UnixListener;
use tokio::net::unix::pipe::{Receiver, pipe};
use tokio::task::JoinSet;
use zbus::object_server::SignalEmitter;
use zbus::wire::OwnedFd;
use zbus::{Connection, Guid, connection, fdo};

use crate::wait::{TIMEOUT, wait_until};

/// What it calls `InhibitDelayMaxUSec`: longer than any kubelet asks for, so that none writes a
/// configuration file of logind.
const LONGEST_DELAY: u64 = 3_600_000_000;

const PATH: &str = "/org/freedesktop/login1";

/// A bus with logind alone on it. Dropping it closes every connection.
#[derive(Debug)]
pub(super) struct Logind {
    socket: PathBuf,
    clients: Arc<Mutex<Vec<Connection>>>,
    inhibitors: Inhibitors,
    _serving: JoinSet<()>,
}

/// The other ends of the inhibitors that were given out.
type Inhibitors = Arc<Mutex<Vec<Receiver>>>;

impl Logind {
    /// Listens at this path.
    pub(super) fn start(socket: &Path) -> Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let clients = Arc::<Mutex<Vec<Connection>>>::default();
        let inhibitors = Inhibitors::default();
        let mut serving = JoinSet::new();
        let (connected, given) = (Arc::clone(&clients), Arc::clone(&inhibitors));
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = stream.into_std() else {
                    continue;
                };
                let connection = connection::Builder::unix_stream(stream)
                    .server(Guid::generate())
                    .p2p()
                    .serve_at("/org/freedesktop/DBus", Bus)
                    .serve_at(PATH, Manager(Arc::clone(&given)));
                // A kubelet that is not served says so in its log.
                if let Ok(connection) = connection.build().await {
                    lock(&connected).push(connection);
                }
            }
        });
        Ok(Self {
            socket: socket.to_owned(),
            clients,
            inhibitors,
            _serving: serving,
        })
    }

    /// The value of `DBUS_SYSTEM_BUS_ADDRESS`.
    pub(super) fn address(&self) -> String {
        format!("unix:path={}", self.socket.display())
    }

    /// Waits until somebody delays shutdowns, and announces one.
    pub(super) async fn prepare_for_shutdown(&self) -> Result<()> {
        wait_until("an inhibitor of shutdowns", TIMEOUT, async || {
            Ok((!lock(&self.inhibitors).is_empty()).then_some(()))
        })
        .await?;
        let clients = lock(&self.clients).clone();
        for client in clients {
            let emitter = SignalEmitter::new(&client, PATH)?;
            // A kubelet that was restarted has left its connection behind.
            drop(Manager::prepare_for_shutdown(&emitter, true).await);
        }
        Ok(())
    }

    /// Whether nobody delays a shutdown any more: every inhibitor was closed.
    pub(super) fn is_released(&self) -> Result<bool> {
        for inhibitor in lock(&self.inhibitors).iter() {
            match inhibitor.try_read(&mut [0]) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error).context("failed to look at an inhibitor"),
            }
        }
        Ok(true)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client asks of the bus itself.
struct Bus;

#[zbus::interface(name = "org.freedesktop.DBus")]
impl Bus {
    fn hello(&self) -> &'static str {
        ":1.1"
    }

    /// Each client gets the one signal that there is.
    fn add_match(&self, _rule: &str) {}
}

/// logind, as far as the kubelet asks it.
struct Manager(Inhibitors);

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl Manager {
    #[zbus(property, name = "InhibitDelayMaxUSec")]
    fn inhibit_delay_max(&self) -> u64 {
        LONGEST_DELAY
    }

    fn inhibit(&self, _what: &str, _who: &str, _why: &str, _mode: &str) -> fdo::Result<OwnedFd> {
        let inhibitor = || -> io::Result<StdFd> {
            let (sender, receiver) = pipe()?;
            let sender = sender.into_blocking_fd()?;
            lock(&self.0).push(receiver);
            Ok(sender)
        };
        let inhibitor = inhibitor().map_err(|error| fdo::Error::Failed(error.to_string()))?;
        Ok(inhibitor.into())
    }

    #[zbus(signal)]
    async fn prepare_for_shutdown(emitter: &SignalEmitter<'_>, active: bool) -> zbus::Result<()>;
}
