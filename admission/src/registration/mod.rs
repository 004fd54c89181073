//! Registration with the API server: webhook configurations, and policies that need no webhook.

mod cel;
mod match_conditions;
mod webhooks;

pub use cel::admission_policies;
pub use match_conditions::MatchCondition;
pub use webhooks::{WEBHOOK_TIMEOUT, Webhook, registered_resource, webhook_configurations};
