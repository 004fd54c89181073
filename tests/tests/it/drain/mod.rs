//! `kubectl nodelife drain`. Each test ends with [`bench::Bench::check`], which reads off the API
//! server's audit log that no promise was broken.

mod bench;
mod budgeted;
mod choices;
mod defects;
mod foreseen;
mod lock;
mod refused;
mod undone;
