//! The input of `doctor`'s decisions as plain values, and its extraction from metrics and health responses. Pure.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pki::Holder;
use serde_json::Value;

use super::grants::Missing;

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// This machine's clock, in seconds since 1970.
    pub now: i64,
    pub control: Control,
    pub members: Vec<Member>,
    pub objects: Vec<Stuck>,
    /// Rights that agents had and lack now.
    pub missing: Vec<Missing>,
    pub requests: Vec<Request>,
    /// The checks that failed to run, with the reason.
    pub unread: Vec<(String, String)>,
    pub counts: Counts,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    pub members: usize,
    pub bindings: usize,
    pub works: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Control {
    /// How far its clock is ahead of this machine's, in seconds, and how exactly that is known.
    pub skew: Option<Skew>,
    /// Health checks that fail.
    pub failed_checks: Vec<String>,
    pub metrics: Vec<Sample>,
    /// The end of the user's own certificate.
    pub client_certificate_ends: Option<i64>,
    /// The Leases of elected processes: the name, and when it was renewed last.
    pub leaders: Vec<(String, i64)>,
    /// The members with open tunnels; `None` where the metrics do not count them.
    pub tunnels: Option<BTreeSet<String>>,
    /// Why NoExecute taints evict nothing; `None` if they do, or if that is unknown.
    pub no_evictions: Option<String>,
}

/// The validity of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub begins: i64,
    pub ends: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    pub seconds: f64,
    pub tolerance: f64,
}

/// A member cluster.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The Cluster.
    pub object: Value,
    /// When the agent's Lease was renewed last; `None` for a cluster without one.
    pub renewed: Option<i64>,
    /// The certificate by which the agent of a pull-mode member reaches the control plane.
    pub agent_certificate: Option<Validity>,
    /// The result of the probe through the proxy, or the reason for its absence.
    pub probe: Option<Result<Probe, String>>,
}

#[derive(Clone, Debug, Default)]
pub struct Probe {
    pub version: String,
    pub skew: Option<Skew>,
}

/// An object of the pipeline with something wrong, as far as the rules need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stuck {
    /// `deployment.apps/web in namespace shop`, or another name that commands take.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The template that a binding or a Work is about.
    pub subject: Option<Subject>,
    pub problem: Problem,
    /// Since when, in seconds since 1970.
    pub since: i64,
}

/// A template, and the cluster of its Work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// In lower case, as commands take it.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Empty for a binding.
    pub cluster: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Problem {
    /// In deletion, blocked by these finalizers.
    Deleting(Vec<String>),
    /// The reason and message of the scheduler.
    Unscheduled { reason: String, message: String },
    /// The scheduler has not processed it.
    #[default]
    Unseen,
    /// No object owns the binding: its template was deleted alone.
    Orphaned,
    /// No attempt to apply it has ended.
    NotAttempted,
    /// The member's error.
    NotApplied(String),
    /// The event of an attempt of the control plane that fails.
    Failing { reason: String, message: String },
    /// The condition of a FederatedHPA that does not scale its target.
    Unscalable { reason: String, message: String },
}

/// A certificate request that is neither approved nor denied.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub name: String,
    pub user: String,
    pub since: i64,
}

/// One line of the metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

impl Sample {
    pub fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// The samples whose names are wanted, of a text in Prometheus' format.
pub fn samples(text: &str, names: &[&str]) -> Vec<Sample> {
    text.lines().filter_map(|line| sample(line, names)).collect()
}

fn sample(line: &str, names: &[&str]) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let name = &line[..end];
    if !names.contains(&name) {
        return None;
    }
    let (labels, value) = match line[end..].strip_prefix('{') {
        None => (Vec::new(), line[end..].trim()),
        Some(rest) => {
            let (labels, value) = rest.rsplit_once('}')?;
            let pair = |pair: &str| {
                let (key, value) = pair.split_once("=\"")?;
                Some((key.trim_start_matches(',').to_owned(), value.to_owned()))
            };
            (labels.split("\",").filter_map(|it| pair(it.trim_end_matches('"'))).collect(), value.trim())
        }
    };
    let value = value.split(' ').next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// The members with at least one tunnel, of the same text. Families without a series are not printed, so the build of
/// the server shows that it counts tunnels.
pub fn tunnels(text: &str) -> Option<BTreeSet<String>> {
    let found = samples(text, &["karmada_tunnels", "karmada_build_info"]);
    let is_karmada = found.iter().any(|sample| sample.name == "karmada_build_info");
    let open = found.iter().filter(|sample| sample.name == "karmada_tunnels" && sample.value > 0.0);
    is_karmada.then(|| open.map(|sample| sample.label("member_cluster").to_owned()).collect())
}

/// The certificate in the kubeconfig of an agent's Secret.
pub fn agent_certificate(secret: &Value) -> Option<Validity> {
    let kubeconfig = STANDARD.decode(secret["data"]["karmada-kubeconfig"].as_str()?).ok()?;
    let kubeconfig = apimachinery::yaml::to_json_value(&kubeconfig).ok()?;
    let users = kubeconfig["users"].as_array()?;
    let certificate = users.iter().find_map(|user| user["user"]["client-certificate-data"].as_str())?;
    let certificate = String::from_utf8(STANDARD.decode(certificate).ok()?).ok()?;
    let holder = Holder::from_pem(&certificate).ok()?;
    Some(Validity { begins: holder.not_before, ends: holder.not_after })
}

/// The checks that fail, of the text of `/readyz?verbose`.
pub fn failed_checks(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("[-]")).map(str::to_owned).collect()
}

/// How far a server's clock is ahead, by its `Date` header and the times before and after the request. The header
/// counts whole seconds.
pub fn skew(date: &str, before: Timestamp, after: Timestamp) -> Option<Skew> {
    let date = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let seconds = |at: Timestamp| at.as_millisecond() as f64 / 1000.0;
    let middle = f64::midpoint(seconds(before), seconds(after));
    Some(Skew { seconds: seconds(date) + 0.5 - middle, tolerance: 0.5 + (seconds(after) - seconds(before)) / 2.0 })
}

/// A time of an object, in seconds since 1970.
pub fn seconds(value: &Value) -> Option<i64> {
    value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let text = "# HELP a b\nworkqueue_depth{name=\"binding\",controller=\"binding\",priority=\"\"} 7\n\
                    karmada_store_damaged 0\nother{x=\"y\"} 3\nworkqueue_depth 1e3\nworkqueue_depth broken\n";
        let found = samples(text, &["workqueue_depth", "karmada_store_damaged"]);
        let shown: Vec<String> =
            found.iter().map(|it| format!("{} {:?} {}", it.name, it.label("name"), it.value)).collect();
        assert_eq!(
            shown,
            ["workqueue_depth \"binding\" 7", "karmada_store_damaged \"\" 0", "workqueue_depth \"\" 1000"]
        );
    }

    #[test]
    fn tunnels_are_counted_or_unknown() {
        let text = "karmada_build_info{git_version=\"v1\"} 1\nkarmada_tunnels{member_cluster=\"a\"} 1\n\
                    karmada_tunnels{member_cluster=\"b\"} 0\n";
        assert_eq!(tunnels(text), Some(BTreeSet::from(["a".to_owned()])));
        assert_eq!(tunnels("karmada_build_info 1\n"), Some(BTreeSet::new()));
        assert_eq!(tunnels("apiserver_request_total 1\n"), None);
    }

    #[test]
    fn the_certificate_of_an_agent_is_in_the_kubeconfig_of_its_secret() {
        let world = world::World::system();
        let (authority, _) = pki::Authority::generate("ca", &world).expect("an authority");
        let pair = authority.issue_client("system:karmada:agent:m1", &[], &world).expect("a certificate");
        let config = pki::Kubeconfig::new(
            "karmada",
            "https://karmada",
            "",
            "agent",
            pki::kubeconfig::User::with_certificate(&pair),
        );
        let text = STANDARD.encode(config.to_yaml().expect("a kubeconfig"));
        let found = agent_certificate(&serde_json::json!({"data": {"karmada-kubeconfig": text}}));
        let holder = Holder::from_pem(&pair.certificate).expect("a certificate");
        assert_eq!(found, Some(Validity { begins: holder.not_before, ends: holder.not_after }));
        assert_eq!(agent_certificate(&serde_json::json!({"data": {"karmada-kubeconfig": "####"}})), None);
        assert_eq!(agent_certificate(&serde_json::json!({})), None);
    }

    #[test]
    fn failed_checks_are_those_with_a_minus() {
        let text = "[+]ping ok\n[-]storage-integrity failed: reason withheld\nreadyz check failed\n";
        assert_eq!(failed_checks(text), ["storage-integrity failed: reason withheld"]);
    }

    #[test]
    fn skew_is_known_to_half_a_round_trip() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let found = skew("Sun, 01 Feb 2026 00:01:00 GMT", at("2026-02-01T00:00:00Z"), at("2026-02-01T00:00:01Z"));
        assert_eq!(found, Some(Skew { seconds: 60.0, tolerance: 1.0 }));
        assert_eq!(skew("yesterday", at("2026-02-01T00:00:00Z"), at("2026-02-01T00:00:01Z")), None);
    }
}
