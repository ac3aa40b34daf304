//! `--etcd-servers-overrides`: resources in other etcds.

use anyhow::{Context as _, ensure};

/// Resources that are in another etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Group and plural of each.
    pub resources: Vec<(String, String)>,
    /// The client URLs of its members.
    pub servers: Vec<String>,
}

/// The resources that are never written in one transaction with others.
const ALONE: &[(&str, &str)] = &[("", "events"), ("coordination.k8s.io", "leases")];

/// Reads the values of the flag, `GROUP/RESOURCE#URL;URL`. Those with the same servers are one override.
///
/// # Errors
/// The invalid value, with the reason.
pub fn parse(values: &[String], main: &[String]) -> anyhow::Result<Vec<Override>> {
    let mut found: Vec<Override> = Vec::new();
    for value in values {
        let (resource, servers) = one(value).with_context(|| format!("--etcd-servers-overrides: {value:?}"))?;
        ensure!(
            servers != main,
            "--etcd-servers-overrides: {value:?} names the servers of --etcd-servers; leave it out"
        );
        ensure!(
            !found.iter().any(|it| it.resources.contains(&resource)),
            "--etcd-servers-overrides: {}/{} has two overrides",
            resource.0,
            resource.1
        );
        match found.iter_mut().find(|it| it.servers == servers) {
            Some(other) => other.resources.push(resource),
            None => found.push(Override { resources: vec![resource], servers }),
        }
    }
    Ok(found)
}

type Resource = (String, String);

fn one(value: &str) -> anyhow::Result<(Resource, Vec<String>)> {
    let (resource, servers) = value.split_once('#').context("it is not GROUP/RESOURCE#URL;URL")?;
    let (group, plural) = resource.split_once('/').context("it is not GROUP/RESOURCE#URL;URL; events are /events")?;
    // Both groups have the same objects.
    let group = if (group, plural) == ("events.k8s.io", "events") { "" } else { group };
    ensure!(
        ALONE.contains(&(group, plural)),
        "only /events and coordination.k8s.io/leases can be in an etcd of their own: objects of {resource} may be stored in \
         one transaction with others, as a template is with its binding, and a transaction is of one etcd"
    );
    let servers: Vec<_> = servers.split(';').filter(|url| !url.is_empty()).map(str::to_owned).collect();
    ensure!(!servers.is_empty(), "it names no server");
    Ok(((group.to_owned(), plural.to_owned()), servers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: &[&str]) -> String {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        match parse(&values, &["http://main:2379".to_owned()]) {
            Ok(found) => {
                let one = |it: &Override| {
                    let resources: Vec<_> =
                        it.resources.iter().map(|(group, plural)| format!("{group}/{plural}")).collect();
                    format!("{} at {}", resources.join("+"), it.servers.join(" "))
                };
                found.iter().map(one).collect::<Vec<_>>().join(", ")
            }
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn values_are_those_of_kube_apiserver() {
        let (events, leases) = ("/events#http://a:1;http://b:1", "coordination.k8s.io/leases#");
        for (values, expected) in [
            (vec![], ""),
            (vec![events], "/events at http://a:1 http://b:1"),
            (vec!["events.k8s.io/events#http://a:1"], "/events at http://a:1"),
            (
                vec![events, "coordination.k8s.io/leases#http://a:1;http://b:1"],
                "/events+coordination.k8s.io/leases at http://a:1 http://b:1",
            ),
            (
                vec![events, "coordination.k8s.io/leases#http://c:1"],
                "/events at http://a:1 http://b:1, coordination.k8s.io/leases at http://c:1",
            ),
            (vec![events, events], "--etcd-servers-overrides: /events has two overrides"),
            (vec![leases], "--etcd-servers-overrides: \"coordination.k8s.io/leases#\": it names no server"),
            (vec!["/events"], "--etcd-servers-overrides: \"/events\": it is not GROUP/RESOURCE#URL;URL"),
            (
                vec!["/events#http://main:2379"],
                "--etcd-servers-overrides: \"/events#http://main:2379\" names the servers of --etcd-servers; leave it out",
            ),
        ] {
            assert_eq!(shown(&values), expected, "{values:?}");
        }
        for (value, why) in [
            ("events#http://a:1", "events are /events"),
            ("apps/deployments#http://a:1", "only /events and coordination.k8s.io/leases"),
            ("work.karmada.io/works#http://a:1", "a transaction is of one etcd"),
        ] {
            assert!(shown(&[value]).contains(why), "{value}");
        }
    }
}
