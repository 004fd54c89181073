//! Tests of the controller's manifests: what each half may do.

mod rights;
mod scene;
