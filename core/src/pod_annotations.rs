//! Which annotations of pods are read. Decoders of lists leave out all others: those of network
//! plugins and sidecars are long, and no two replicas share them.

use crate::disruption::PROTECTIONS;
use crate::drainer::ANNOTATIONS;
use crate::object::MIRROR_ANNOTATION;
use crate::operator::reads_annotation;

const OURS: &str = "nodelife.dev/";

/// Whether anything reads this annotation of a pod. What is to read another has to name it here.
pub fn is_read(key: &str) -> bool {
    key.starts_with(OURS)
        || key == MIRROR_ANNOTATION
        || ANNOTATIONS.contains(&key)
        || PROTECTIONS.iter().any(|(known, _)| *known == key)
        || reads_annotation(key)
}
