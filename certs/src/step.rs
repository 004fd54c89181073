//! The state machine of the rotation: a pure function from observed state to actions.

use crate::certificate::{Certificate, Fingerprint};
use crate::history::History;
use crate::lifetimes::Lifetimes;
use crate::observed::{Now, Observed, Rotation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationAction {
    /// Create the first CA, or a new one if the CA's Secret is lost or damaged. The bundle is the
    /// new CA and these, whose leaves may still be served.
    Found(Vec<Fingerprint>),
    /// Add a CA to the bundle that every configuration trusts and that signed the served leaf: the
    /// CA's Secret was restored to an older state.
    Adopt(Fingerprint),
    Stage,
    Promote,
    Retire(Vec<Fingerprint>),
    Publish(usize),
    Issue,
}

pub struct Situation<'a> {
    pub observed: &'a Observed,
    pub history: &'a History,
    pub now: Now,
    pub lifetimes: &'a Lifetimes,
}

/// The actions that are due.
///
/// A change of the CA's Secret is returned alone: further actions are decided after the next read, or by
/// `repairs` if the change fails. Writes to the other objects are independent.
pub fn step(situation: &Situation<'_>) -> Vec<RotationAction> {
    let Some(rotation) = &situation.observed.rotation else {
        let kept = survivors(situation.observed, situation.now);
        return vec![RotationAction::Found(kept)];
    };
    turn(rotation, situation).map_or_else(|| repairs(situation), |action| vec![action])
}

/// The actions that are due as long as the CA's Secret stays as it is.
pub(crate) fn repairs(situation: &Situation<'_>) -> Vec<RotationAction> {
    let Some(rotation) = &situation.observed.rotation else {
        return Vec::new();
    };
    let mut actions = Vec::new();
    for (index, configuration) in situation.observed.configurations.iter().enumerate() {
        if !configuration.matches(&rotation.bundle) {
            actions.push(RotationAction::Publish(index));
        }
    }
    if issue(rotation, situation) {
        actions.push(RotationAction::Issue);
    }
    actions
}

/// The CAs that the bundle of a new CA must keep, because a leaf of theirs may be served: the one
/// that signed the leaf in the serving Secret, and, in case that Secret is lost as well, our own
/// CAs that every configuration trusts.
fn survivors(observed: &Observed, now: Now) -> Vec<Fingerprint> {
    let lives = |one: &Certificate| one.not_after > now.wall;
    let issuer = observed.serving.map(|serving| serving.issuer);
    let issuer = issuer.filter(lives).map(|issuer| issuer.id);
    let mut kept = Vec::from_iter(issuer);
    let bundles = observed.configurations.iter().flat_map(|one| &one.bundles);
    let trusted = bundles.flatten().flatten();
    for one in trusted.filter(|one| one.own && lives(one)) {
        if !kept.contains(&one.id) && observed.everywhere(one.id) {
            kept.push(one.id);
        }
    }
    kept
}

fn turn(rotation: &Rotation, situation: &Situation<'_>) -> Option<RotationAction> {
    let (observed, now) = (situation.observed, situation.now.wall);
    if let Some(serving) = &observed.serving
        && !rotation.trusts(serving.issuer.id)
        && serving.issuer.not_after > now
        && !observed.configurations.is_empty()
        && observed.everywhere(serving.issuer.id)
    {
        return Some(RotationAction::Adopt(serving.issuer.id));
    }
    match &rotation.next {
        Some(next) if !next.valid(now) => return Some(RotationAction::Stage),
        Some(next) if published_long_enough(next, situation) => {
            return Some(RotationAction::Promote);
        }
        None if !rotation.signer.valid(now) || rotation.signer.aged(now, 1, 2) => {
            return Some(RotationAction::Stage);
        }
        Some(_) | None => {}
    }
    let dead = retired(rotation, situation);
    (!dead.is_empty()).then_some(RotationAction::Retire(dead))
}

/// The CAs that are no longer needed.
///
/// The last leaf of a former signer was issued before the promotion, so it has expired one leaf's
/// life later. A wall clock that jumped ahead could suggest that too early, so the servers must
/// also have had time to load a leaf of the signer.
fn retired(rotation: &Rotation, situation: &Situation<'_>) -> Vec<Fingerprint> {
    let (now, lifetimes) = (situation.now, situation.lifetimes);
    let served = situation.history.served(rotation.signer.id, now);
    let settled = served.is_some_and(|long| long >= lifetimes.propagation.unsigned_abs());
    let over = now.wall.duration_since(rotation.promoted) >= lifetimes.retirement();
    if !settled || !over {
        return Vec::new();
    }
    // The served leaf is the signer's, by `settled`.
    let needed = |id| id == rotation.signer.id || rotation.next.is_some_and(|next| next.id == id);
    let bundle = rotation.bundle.iter().map(|one| one.id);
    bundle.filter(|id| !needed(*id)).collect()
}

fn issue(rotation: &Rotation, situation: &Situation<'_>) -> bool {
    let (observed, now) = (situation.observed, situation.now.wall);
    let signer = &rotation.signer;
    if !signer.valid(now) {
        // Its leaf would be refused as well; the next CA is coming.
        return false;
    }
    let everywhere = observed.everywhere(signer.id);
    match &observed.serving {
        // Nothing to lose: no leaf, or one that no API server accepts.
        None => everywhere,
        Some(serving) if !rotation.trusts(serving.issuer.id) => everywhere,
        // The leaf and its successor have the same CA.
        Some(serving) if serving.issuer.id == signer.id => {
            everywhere && (!serving.leaf.valid(now) || serving.leaf.aged(now, 2, 3))
        }
        Some(_) => published_long_enough(signer, situation),
    }
}

fn published_long_enough(certificate: &Certificate, situation: &Situation<'_>) -> bool {
    let published = situation.history.published(certificate.id, situation.now);
    published.is_some_and(|long| long >= situation.lifetimes.propagation.unsigned_abs())
}
