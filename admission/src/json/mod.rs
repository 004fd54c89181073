//! JSON that borrows from the bytes of a review, and is read no further than it has to be.

pub(crate) mod partial;
pub(crate) mod skip;
pub(crate) mod text;
