//! Tables that are generated from Kubernetes' source, one column for each version.
//!
//! A program that links the kubelet of a version prints what it knows
//! (`tests/control-plane/kubelet-start`), and the test `oracle::kubelet_start::tables` of the
//! crate `nodelife-tests` compares it with the column of that version, or writes the column:
//!
//! ```sh
//! for version in 1.33 1.34 1.35 1.36 1.37; do
//!   NODELIFE_UPDATE_DOCS=1 NODELIFE_KUBERNETES=$version \
//!     cargo test -p nodelife-tests --test it -- oracle::kubelet_start::tables
//! done
//! ```

/// Feature gates: name and state. `-` unknown, `p` not yet alpha, `a` alpha, `b` beta, `g` GA, `d`
/// deprecated; a capital: on by default; `0` and `1`: locked to off or on.
pub const FEATURE_GATES: &str = include_str!("feature_gates.txt");

/// Feature gates that need others: name, name of the other, and `x` for the versions that ask it.
pub const GATE_NEEDS: &str = include_str!("gate_needs.txt");

/// Fields of KubeletConfiguration: path, Go's type, and `x` for the versions that have it.
pub const FIELDS: &str = include_str!("fields.txt");

/// A row: its key, and its state in one version.
pub(super) fn rows(
    table: &'static str,
    column: usize,
) -> impl Iterator<Item = (&'static str, char)> {
    table.lines().filter_map(move |line| {
        let (key, states) = line.rsplit_once(' ')?;
        Some((key, states.chars().nth(column)?))
    })
}
