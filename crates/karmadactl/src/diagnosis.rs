//! Diagnosis of failed requests: the cause of a connection error or refusal, with the context and the next step.
//!
//! The first line is kubectl's; the second names the context and the next step.

use client::kubeconfig::{Connection, Facts};
use client::{Client, Failure};
use jiff::Timestamp;
use serde_json::Value;
use world::World;

use crate::Context;
use crate::error::Error;

/// Every control plane serves it, and no other API server does.
const GROUP: &str = "cluster.karmada.io";
const JSON: &str = "application/json";

/// The flags that choose a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    ControlPlane,
    Member,
}

impl Side {
    fn flags(self) -> &'static str {
        match self {
            Self::ControlPlane => "--kubeconfig or --karmada-context",
            Self::Member => "--cluster-kubeconfig or --cluster-context",
        }
    }

    fn owner(self) -> &'static str {
        match self {
            Self::ControlPlane => "control plane",
            Self::Member => "cluster",
        }
    }
}

/// The message of a failed command on stderr. Sends another request where the error leaves the cause open.
pub async fn explain(context: &Context, error: &Error) -> String {
    let known = match error {
        Error::Client { source, .. } => unanswered(context, source),
        Error::Server(status) if status.code == 401 => unauthenticated(context, &status.message).await,
        Error::Server(status) if status.code == 404 && status.details.as_ref().is_none_or(|it| it.name.is_empty()) => {
            not_karmada_message(context).await
        }
        Error::UnknownType(_) => not_karmada_message(context).await,
        _ => None,
    };
    known.unwrap_or_else(|| error.render())
}

fn opened(context: &Context) -> impl Iterator<Item = (Side, &Connection)> {
    let opened = &context.opened;
    let sides = [(Side::ControlPlane, opened.control_plane.get()), (Side::Member, opened.member.get())];
    sides.into_iter().filter_map(|(side, connection)| Some((side, connection?)))
}

fn unanswered(context: &Context, error: &client::Error) -> Option<String> {
    let (failure, host) = error.failure().zip(error.host())?;
    let (side, connection) = opened(context).find(|(_, it)| authority(&it.facts) == host)?;
    Some(unreachable(&failure, side, &connection.facts, World::system().now()))
}

async fn unauthenticated(context: &Context, words: &str) -> Option<String> {
    for (side, connection) in opened(context) {
        let again = connection.client.document("/api", JSON).await;
        if again.is_err_and(|error| error.is_unauthorized()) {
            return Some(unauthorized(words, side, &connection.facts, World::system().now()));
        }
    }
    None
}

/// The message for a server that is not a Karmada control plane; `None` if it is one.
async fn not_karmada_message(context: &Context) -> Option<String> {
    let connection = context.opened.control_plane.get()?;
    let groups = groups(&connection.client).await?;
    (!groups.iter().any(|group| group == GROUP)).then(|| not_karmada(&connection.facts))
}

/// The API groups of a server.
async fn groups(client: &Client) -> Option<Vec<String>> {
    let list: Value = serde_json::from_slice(&client.document("/apis", JSON).await.ok()?).ok()?;
    let name = |group: &Value| group["name"].as_str().map(str::to_owned);
    Some(list["groups"].as_array()?.iter().filter_map(name).collect())
}

/// Name and port as in the URL.
fn authority(facts: &Facts) -> &str {
    let rest = facts.server().split_once("://").map_or(facts.server(), |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// The context and the file that led to the server.
fn place(facts: &Facts) -> String {
    match facts.context.as_str() {
        "" => facts.place.clone(),
        context => format!("context {context:?} of {}", facts.place),
    }
}

fn unreachable(failure: &Failure, side: Side, facts: &Facts, now: Timestamp) -> String {
    let (host, place, flags, owner) = (authority(facts), place(facts), side.flags(), side.owner());
    let cannot = format!("Unable to connect to the server {host}");
    let x509 = "tls: failed to verify certificate: x509";
    let check = format!("Check the address and that the {owner} runs, or choose another with {flags}.");
    let (what, next) = match failure {
        Failure::Refused => {
            let first =
                format!("The connection to the server {host} was refused - did you specify the right host or port?");
            (first, format!("Start the {owner}, or choose another with {flags}."))
        }
        Failure::Unresolved(why) => {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            (
                format!("{cannot}: lookup {name}: {why}"),
                format!("Correct the host name, or choose another {owner} with {flags}."),
            )
        }
        Failure::NoConnection(after) => (format!("{cannot}: no connection within {} s", after.as_secs()), check),
        Failure::NoAnswer { attempt, after } => {
            (format!("{cannot}: no answer to {attempt} within {} s", after.as_secs()), check)
        }
        Failure::UnknownAuthority => (
            format!("{cannot}: {x509}: certificate signed by unknown authority"),
            format!(
                "The server's certificate is not from the authority that cluster {:?} of the kubeconfig trusts: get the \
                 kubeconfig of this {owner} again, or choose another with {flags}.",
                facts.cluster
            ),
        ),
        Failure::Expired { now, ended } => (
            format!(
                "{cannot}: {x509}: certificate has expired or is not yet valid: current time {} is after {}",
                time(*now),
                time(*ended)
            ),
            "Renew the server's certificate.".to_owned(),
        ),
        Failure::NotYetValid { now, begins } => (
            format!(
                "{cannot}: {x509}: certificate has expired or is not yet valid: current time {} is before {}",
                time(*now),
                time(*begins)
            ),
            "Check the clock of this machine.".to_owned(),
        ),
        Failure::OtherNames { expected, names } if names.is_empty() => (
            format!("{cannot}: {x509}: certificate is not valid for any names, but wanted to match {expected}"),
            rename(facts, owner),
        ),
        Failure::OtherNames { expected, names } => (
            format!("{cannot}: {x509}: certificate is valid for {}, not {expected}", names.join(", ")),
            rename(facts, owner),
        ),
        Failure::Certificate(why) => (
            format!("{cannot}: {x509}: {why}"),
            format!("Replace the server's certificate, or choose another {owner} with {flags}."),
        ),
        Failure::ClientCertificate(alert) => (
            format!("{cannot}: tls: the server rejected the client certificate: {alert}"),
            credentials(side, facts, now),
        ),
        Failure::Plain => (
            format!("{cannot}: the server does not use TLS"),
            format!(
                "Correct the address: it begins with https, and the server uses another protocol. Or choose another {owner} with {flags}."
            ),
        ),
        Failure::Other(why) => (format!("{cannot}: {why}"), check),
    };
    format!("{what}\nThe server is that of {place}. {next}\n")
}

/// The next step after a certificate for other names.
fn rename(facts: &Facts, owner: &str) -> String {
    format!(
        "Use one of these names in `server` of cluster {:?}, or set its `tls-server-name` to one; or add the name to the \
         certificate of the {owner}.",
        facts.cluster
    )
}

fn unauthorized(words: &str, side: Side, facts: &Facts, now: Timestamp) -> String {
    let (host, place) = (authority(facts), place(facts));
    let words = if words.is_empty() { "Unauthorized" } else { words };
    let next = credentials(side, facts, now);
    format!("error: You must be logged in to the server {host} ({words})\nThe server is that of {place}. {next}\n")
}

/// The visible problem of the user's credentials.
fn credentials(side: Side, facts: &Facts, now: Timestamp) -> String {
    let (user, owner, flags) = (&facts.user, side.owner(), side.flags());
    let again = format!("get a new kubeconfig of this {owner}, or choose another with {flags}.");
    match facts.certificate_ends() {
        Some(end) if end < now.as_second() => {
            let end = u64::try_from(end).unwrap_or_default();
            format!("The client certificate of user {user:?} expired at {}: {again}", time(end))
        }
        _ if !facts.has_credentials() => format!("User {user:?} has no credentials: {again}"),
        _ => format!("It does not accept the credentials of user {user:?}: {again}"),
    }
}

fn not_karmada(facts: &Facts) -> String {
    let (host, place) = (authority(facts), place(facts));
    let others: Vec<&str> = facts.contexts.iter().map(String::as_str).filter(|name| *name != facts.context).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        several => format!(" Other contexts: {}.", several.join(", ")),
    };
    format!(
        "error: the server {host} is not a Karmada control plane: it does not serve {GROUP}\nThe server is that of \
         {place}. Choose the kubeconfig of the control plane with --kubeconfig, or its context with \
         --karmada-context.{others}\n"
    )
}

/// As in certificates.
fn time(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    at.map_or_else(|| seconds.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::kubeconfig::Places;
    use expect_test::{Expect, expect};

    use super::*;

    const CONFIG: &str = r#"{"current-context": "c", "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}, {"name": "d", "context": {"cluster": "k", "user": "nobody"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://karmada.example:5443/base"}}]}"#;

    fn facts(context: &str) -> Facts {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), CONFIG).expect("written");
        let found = Places::file(file.path()).read().expect("a kubeconfig").expect("not in a pod");
        let mut facts = found.facts(Some(context)).expect("a context");
        facts.place = "kubeconfig F".into();
        facts
    }

    /// In the year 2001.
    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000_000).expect("a time")
    }

    fn check(failure: &Failure, side: Side, expected: &Expect) {
        expected.assert_eq(&unreachable(failure, side, &facts("c"), now()));
    }

    #[test]
    fn failures_name_host_context_and_next_step() {
        let seconds = Duration::from_secs;
        let check = |failure: Failure, expected: Expect| check(&failure, Side::ControlPlane, &expected);
        check(
            Failure::Refused,
            expect![[r#"
            The connection to the server karmada.example:5443 was refused - did you specify the right host or port?
            The server is that of context "c" of kubeconfig F. Start the control plane, or choose another with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::Unresolved("Name or service not known".into()),
            expect![[r#"
            Unable to connect to the server karmada.example:5443: lookup karmada.example: Name or service not known
            The server is that of context "c" of kubeconfig F. Correct the host name, or choose another control plane with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::NoConnection(seconds(15)),
            expect![[r#"
            Unable to connect to the server karmada.example:5443: no connection within 15 s
            The server is that of context "c" of kubeconfig F. Check the address and that the control plane runs, or choose another with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::NoAnswer { attempt: "GET /api".into(), after: seconds(32) },
            expect![[r#"
            Unable to connect to the server karmada.example:5443: no answer to GET /api within 32 s
            The server is that of context "c" of kubeconfig F. Check the address and that the control plane runs, or choose another with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::UnknownAuthority,
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: failed to verify certificate: x509: certificate signed by unknown authority
            The server is that of context "c" of kubeconfig F. The server's certificate is not from the authority that cluster "k" of the kubeconfig trusts: get the kubeconfig of this control plane again, or choose another with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::Expired { now: 1_000_000_000, ended: 900_000_000 },
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2001-09-09T01:46:40Z is after 1998-07-09T16:00:00Z
            The server is that of context "c" of kubeconfig F. Renew the server's certificate.
        "#]],
        );
        check(
            Failure::NotYetValid { now: 900_000_000, begins: 1_000_000_000 },
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 1998-07-09T16:00:00Z is before 2001-09-09T01:46:40Z
            The server is that of context "c" of kubeconfig F. Check the clock of this machine.
        "#]],
        );
        let names = vec!["a".to_owned(), "10.0.0.1".to_owned()];
        check(
            Failure::OtherNames { expected: "karmada.example".into(), names },
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: failed to verify certificate: x509: certificate is valid for a, 10.0.0.1, not karmada.example
            The server is that of context "c" of kubeconfig F. Use one of these names in `server` of cluster "k", or set its `tls-server-name` to one; or add the name to the certificate of the control plane.
        "#]],
        );
        check(
            Failure::OtherNames { expected: "karmada.example".into(), names: Vec::new() },
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: failed to verify certificate: x509: certificate is not valid for any names, but wanted to match karmada.example
            The server is that of context "c" of kubeconfig F. Use one of these names in `server` of cluster "k", or set its `tls-server-name` to one; or add the name to the certificate of the control plane.
        "#]],
        );
        check(
            Failure::Certificate("Revoked".into()),
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: failed to verify certificate: x509: Revoked
            The server is that of context "c" of kubeconfig F. Replace the server's certificate, or choose another control plane with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::ClientCertificate("CertificateExpired".into()),
            expect![[r#"
            Unable to connect to the server karmada.example:5443: tls: the server rejected the client certificate: CertificateExpired
            The server is that of context "c" of kubeconfig F. It does not accept the credentials of user "u": get a new kubeconfig of this control plane, or choose another with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::Plain,
            expect![[r#"
            Unable to connect to the server karmada.example:5443: the server does not use TLS
            The server is that of context "c" of kubeconfig F. Correct the address: it begins with https, and the server uses another protocol. Or choose another control plane with --kubeconfig or --karmada-context.
        "#]],
        );
        check(
            Failure::Other("connection reset by peer".into()),
            expect![[r#"
            Unable to connect to the server karmada.example:5443: connection reset by peer
            The server is that of context "c" of kubeconfig F. Check the address and that the control plane runs, or choose another with --kubeconfig or --karmada-context.
        "#]],
        );
    }

    #[test]
    fn a_member_is_chosen_by_flags_of_its_own() {
        check(
            &Failure::Refused,
            Side::Member,
            &expect![[r#"
            The connection to the server karmada.example:5443 was refused - did you specify the right host or port?
            The server is that of context "c" of kubeconfig F. Start the cluster, or choose another with --cluster-kubeconfig or --cluster-context.
        "#]],
        );
        let expected = expect![[r#"
            error: You must be logged in to the server karmada.example:5443 (Unauthorized)
            The server is that of context "d" of kubeconfig F. User "nobody" has no credentials: get a new kubeconfig of this cluster, or choose another with --cluster-kubeconfig or --cluster-context.
        "#]];
        expected.assert_eq(&unauthorized("", Side::Member, &facts("d"), now()));
        let expected = expect![[r#"
            error: You must be logged in to the server karmada.example:5443 (Unauthorized)
            The server is that of context "c" of kubeconfig F. It does not accept the credentials of user "u": get a new kubeconfig of this control plane, or choose another with --kubeconfig or --karmada-context.
        "#]];
        expected.assert_eq(&unauthorized("Unauthorized", Side::ControlPlane, &facts("c"), now()));
    }
}
