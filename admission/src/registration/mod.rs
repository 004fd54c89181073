//! Which requests the API server sends, and which it can judge by itself.

mod cel;
mod match_conditions;
mod webhooks;

pub use cel::admission_policies;
pub use match_conditions::MatchCondition;
pub use webhooks::{Webhook, webhook_configurations};
