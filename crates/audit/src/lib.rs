//! Auditing as pure functions: the policy (`audit.k8s.io/v1`) that decides how much of a request is recorded, the
//! recorded events, and the removal of secrets. The server decides where events are sent.
//!
//! ```
//! let policy = audit::Policy::parse(br#"{
//!     "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
//!     "rules": [{"level": "None", "verbs": ["watch"]}, {"level": "Metadata"}]
//! }"#).expect("a policy").policy;
//! let get = audit::Attributes { verb: "get", resource: "pods", is_resource: true, ..Default::default() };
//! assert_eq!(policy.decide(&get).level, audit::Level::Metadata);
//! let watch = audit::Attributes { verb: "watch", ..get };
//! assert_eq!(policy.decide(&watch).level, audit::Level::None);
//! ```

#![warn(missing_docs)]

mod event;
mod limit;
mod policy;
mod redact;

pub use event::{Event, ObjectReference, Outcome, Stage, User, event_list};
pub use limit::Limits;
pub use policy::{Attributes, Decision, Level, Parsed, Policy, PolicyError};
pub use redact::{omit_managed_fields, redact};
