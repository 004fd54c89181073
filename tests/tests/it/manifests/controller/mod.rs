//! Tests of the controller's manifests: what each half may do, upgrade, and removal in any order.

mod approval;
mod removal;
mod rights;
mod scene;
