//! The admission engine: takes a review and looked-up objects, returns a verdict.
//!
//! `serve`, `review` and the plugin's offline test all call [`decide`], a pure function on
//! borrowed bytes: the objects of a review stay raw JSON until a policy reads a part of them.
//! A policy requests objects that the review does not contain (the pod of an eviction, the UID of a
//! node): [`Evaluation::Needs`] names the [`Lookup`]s, the caller adds the results to [`Lookups`] and
//! calls again. A failed lookup never allows a request.
//!
//! The mirrored in-tree plugins are those of Kubernetes v1.37.2, and of older versions where the
//! configuration says so.

mod certificate_request;
mod config;
mod config_file;
mod decide;
mod decision;
mod denial;
mod go_quote;
mod json;
mod lookup;
mod policy;
mod registration;
mod response;
mod review;
mod rule;

pub use config::{
    Agent, DrainSafetyException, InTreeDefaults, MinorVersion, NodeRestrictionConfig, Policies,
    TokenAudiences, TolerationPolicy, Tolerations,
};
pub use config_file::{ConfigFile, ConfigFileError};
pub use decide::{decide, decide_with};
pub use decision::{Decision, Evaluation, Patch, Refusal, Verdict};
pub use denial::{Denial, StatusReason, shown};
pub use lookup::{
    Access, Lookup, LookupResult, Lookups, MOST_LISTED, PodFacts, RecordedCluster, VolumeFacts,
};
pub use registration::{
    MatchCondition, WEBHOOK_TIMEOUT, Webhook, admission_policies, registered_resource,
    webhook_configurations,
};
pub use response::write_response;
pub use review::{AdmissionPhase, Operation, Request, Review, ReviewError, User};
pub use rule::{AdmissionRule, Mode};
