//! Authentication and authorization of requests over a socket; callers in this process have an identity.

use std::time::Duration;

use apimachinery::Status;
use metrics::{Buckets, Counter, Description, Histogram, Registry};
use transport::Identity;

use crate::auth::authz::Decision;

const BUCKETS: Buckets = Buckets::Exponential { start: 0.001, factor: 2.0, count: 15 };

pub const AUTHENTICATIONS: Description = Description::counter(
    "authentication_attempts",
    &["result"],
    "Authentications of requests by result: success, failure, error.",
);
pub const AUTHENTICATION: Description = Description::histogram(
    "authentication_duration_seconds",
    &["result"],
    BUCKETS,
    "Duration of an authentication by result.",
);
pub const USERS: Description = Description::counter(
    "authenticated_user_requests",
    &["username"],
    "Authenticated requests by user: admin and client by name, email_id for names with an @, other.",
);
pub const AUTHORIZATIONS: Description = Description::counter(
    "authorization_attempts_total",
    &["result"],
    "Authorizations of requests by result: allowed, no-opinion.",
);
pub const AUTHORIZATION: Description = Description::histogram(
    "authorization_duration_seconds",
    &["result"],
    BUCKETS,
    "Duration of an authorization by result.",
);

/// One outcome.
#[derive(Debug)]
struct Outcome {
    count: Counter,
    took: Histogram,
}

impl Outcome {
    fn count(&self, took: Duration) {
        self.count.increment();
        self.took.took(took);
    }
}

/// All outcomes, resolved once.
#[derive(Debug)]
pub(crate) struct Access {
    /// Success, failure, error.
    authentication: [Outcome; 3],
    allowed: Outcome,
    /// No rule grants the request.
    unanswered: Outcome,
    /// In the order of [`NAMES`].
    users: [Counter; 4],
}

/// Few, so that users cannot multiply the series.
const NAMES: [&str; 4] = ["admin", "client", "email_id", "other"];

fn name_of(user: &str) -> usize {
    match user {
        "admin" => 0,
        "client" => 1,
        _ if user.contains('@') => 2,
        _ => 3,
    }
}

impl Access {
    pub fn new(registry: &Registry) -> Self {
        let outcome = |counted: &Description, timed: &Description, name: &str| Outcome {
            count: registry.counters(counted).of(&[name]),
            took: registry.histograms(timed).of(&[name]),
        };
        let users = registry.counters(&USERS);
        Self {
            authentication: ["success", "failure", "error"]
                .map(|name| outcome(&AUTHENTICATIONS, &AUTHENTICATION, name)),
            allowed: outcome(&AUTHORIZATIONS, &AUTHORIZATION, "allowed"),
            unanswered: outcome(&AUTHORIZATIONS, &AUTHORIZATION, "no-opinion"),
            users: NAMES.map(|name| users.of(&[name])),
        }
    }

    pub fn authenticated(&self, outcome: &Result<Identity, Status>, took: Duration) {
        let place = match outcome {
            Ok(_) => 0,
            Err(status) if status.code == 401 => 1,
            Err(_) => 2,
        };
        self.authentication[place].count(took);
        if let Ok(identity) = outcome {
            self.users[name_of(&identity.user)].increment();
        }
    }

    pub fn authorized(&self, decision: &Decision, took: Duration) {
        let outcome = if decision.is_allowed() { &self.allowed } else { &self.unanswered };
        outcome.count(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_a_series() {
        let registry = Registry::default();
        let access = Access::new(&registry);
        let user = |user: &str| Ok(Identity { user: user.into(), ..Identity::default() });
        for outcome in [
            user("admin"),
            user("a@example.org"),
            user("system:node:n1"),
            Err(crate::auth::authn::unauthorized()),
            Err(Status::internal("the store")),
        ] {
            access.authenticated(&outcome, Duration::from_millis(1));
        }
        access.authorized(&Decision::Allow(String::new()), Duration::from_millis(1));
        access.authorized(&Decision::NoOpinion(String::new()), Duration::from_millis(1));
        let (attempts, users) = (registry.counters(&AUTHENTICATIONS), registry.counters(&USERS));
        assert_eq!(["success", "failure", "error"].map(|result| attempts.value(&[result])), [3, 1, 1]);
        assert_eq!(NAMES.map(|name| users.value(&[name])), [1, 0, 1, 1]);
        let authorizations = registry.histograms(&AUTHORIZATION);
        assert_eq!(["allowed", "no-opinion"].map(|result| authorizations.count(&[result])), [1, 1]);
    }
}
