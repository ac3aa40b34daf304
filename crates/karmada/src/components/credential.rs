//! The client certificate with which a component reaches the control plane: warnings before it expires, and the reason
//! in the error of a component that is no longer authenticated.

use std::convert::Infallible;
use std::time::Duration;

use client::Client;
use client::kubeconfig::{Facts, Places};
use jiff::Timestamp;
use pki::rotation;
use world::World;

/// Warnings are due on three days of a certificate's life.
const CHECKED_EVERY: Duration = Duration::from_secs(3600);
/// A control plane that does not answer is not the reason to look for.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
const JSON: &str = "application/json";

/// The user of a component's kubeconfig.
#[derive(Clone)]
pub(super) struct Credential {
    pub places: Places,
    /// `None` for the current one.
    pub context: Option<String>,
    /// The component renews its certificate, and reports what prevents that.
    pub renews: bool,
    /// What the administrator does about an expired certificate.
    pub next: &'static str,
}

impl Credential {
    /// The user of `--kubeconfig` or `KUBECONFIG`.
    pub fn of_component(places: Places) -> Self {
        Self {
            places,
            context: None,
            renews: false,
            next: "replace the kubeconfig, which is read again without a restart",
        }
    }

    /// Logs 30, 7 and 1 days before the certificate expires, and when it has expired, until the process ends.
    pub async fn warn(&self, world: &World) -> Infallible {
        let mut last = None;
        loop {
            let now = world.now().as_second();
            if let Some((facts, end)) = self.certificate().filter(|_| !self.renews) {
                let due = rotation::warning(end, now).map(|days| (days, end, end < now));
                if let Some((days, _, has_expired)) = due.filter(|due| last != Some(*due)) {
                    let (user, place, next) = (&facts.user, &facts.place, self.next);
                    match has_expired {
                        true => {
                            tracing::warn!(user, expired = %time(end), "The client certificate in {place} has expired; {next}")
                        }
                        false => tracing::warn!(
                            user,
                            expires = %time(end),
                            "The client certificate in {place} expires within {days} days; {next}"
                        ),
                    }
                }
                last = due;
            }
            tokio::time::sleep(CHECKED_EVERY).await;
        }
    }

    /// Adds the reason to the error of a component that the control plane no longer authenticates.
    pub async fn explain(&self, error: anyhow::Error, control: &Client, now: i64) -> anyhow::Error {
        let again = tokio::time::timeout(ANSWERED_WITHIN, control.document("/api", JSON)).await;
        if !again.is_ok_and(|answer| answer.is_err_and(|error| error.is_unauthorized())) {
            return error;
        }
        match self.expired(now).or_else(|| self.refused()) {
            Some(reason) => anyhow::anyhow!("{}: {reason}", client::chain(error.as_ref())),
            None => error,
        }
    }

    fn expired(&self, now: i64) -> Option<String> {
        let (facts, end) = self.certificate().filter(|(_, end)| *end < now)?;
        let (user, place, end, next) = (&facts.user, &facts.place, time(end), self.next);
        Some(format!("the client certificate of user {user:?} in {place} expired at {end}; {next}"))
    }

    fn refused(&self) -> Option<String> {
        let facts = self.facts()?;
        let (server, user, place, next) = (facts.server(), &facts.user, &facts.place, self.next);
        Some(format!("the server {server} does not accept the credentials of user {user:?} in {place}; {next}"))
    }

    /// `None` in a pod without a kubeconfig, and for one that cannot be read.
    fn facts(&self) -> Option<Facts> {
        self.places.read().ok()??.facts(self.context.as_deref()).ok()
    }

    fn certificate(&self) -> Option<(Facts, i64)> {
        let facts = self.facts()?;
        let end = facts.certificate_ends()?;
        Some((facts, end))
    }
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pki::kubeconfig::User;
    use pki::{Authority, Kubeconfig};

    use super::*;

    #[tokio::test]
    async fn reasons_name_the_user_the_file_and_the_next_step() {
        let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 7);
        let now = world.now().as_second();
        let (authority, _) = Authority::generate("ca", &world).expect("an authority");
        let day = Duration::from_secs(24 * 3600);
        let pair = authority.issue_client_for("system:karmada:agent:m1", &[], day, &world).expect("issued");
        let config = Kubeconfig::new("karmada-apiserver", "https://a:1", "ca", "m1", User::with_certificate(&pair));
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("agent.config");
        std::fs::write(&file, config.to_yaml().expect("YAML")).expect("written");
        let credential = Credential { next: "renew it", ..Credential::of_component(Places::file(&file)) };
        let reason = |text: Option<String>| text.map(|text| text.replace(&file.display().to_string(), "F"));
        assert_eq!(credential.expired(now + 24 * 3600 - 1), None);
        let expired = "the client certificate of user \"m1\" in kubeconfig F expired at 2026-11-22T00:00:00Z; renew it";
        assert_eq!(reason(credential.expired(now + 24 * 3600 + 1)).as_deref(), Some(expired));
        let refused = "the server https://a:1 does not accept the credentials of user \"m1\" in kubeconfig F; renew it";
        assert_eq!(reason(credential.refused()).as_deref(), Some(refused));
        let missing = Credential::of_component(Places::file(std::path::Path::new("/nonexistent")));
        assert_eq!((missing.expired(now), missing.refused()), (None, None));
    }
}
