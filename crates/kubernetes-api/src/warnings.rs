//! Warnings of kube-apiserver for accepted objects: fields without effect, deprecated fields, likely mistakes.

use apimachinery::field::Path;
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

mod addresses;
mod network;
mod nodes;
mod pods;
mod volumes;

/// Texts of one write. A reply has room for no more, see the API server.
const MAX_TEXTS: usize = 256;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The texts so far.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    fn push(&mut self, text: impl Into<String>) {
        if !self.is_full() {
            self.0.push(text.into());
        }
    }

    /// `FIELD: WHY`.
    fn at(&mut self, at: &Path, why: impl std::fmt::Display) {
        self.push(format!("{at}: {why}"));
    }

    fn is_full(&self) -> bool {
        self.0.len() >= MAX_TEXTS
    }
}

/// An accepted write.
pub(crate) struct Written<'o> {
    /// The group of the kind.
    pub group: &'o str,
    pub kind: &'o str,
    pub subresource: &'o str,
    /// `None` on create.
    pub old: Option<&'o Value>,
    pub object: &'o Value,
}

impl Written<'_> {
    /// Whether the object is new, or its spec was changed.
    fn is_of_spec(&self) -> bool {
        let generation = |object: &Value| object["metadata"]["generation"].clone();
        self.old.is_none_or(|old| generation(old) != generation(self.object))
    }

    fn has_annotation(object: &Value, annotation: &str) -> bool {
        object["metadata"]["annotations"].get(annotation).is_some()
    }
}

/// The texts for one write, in upstream's words.
pub(crate) fn of(written: &Written<'_>) -> Vec<String> {
    let mut texts = Texts::default();
    match (written.group, written.kind, written.subresource) {
        ("", "Pod", "status") => network::pod_status(written.object, &mut texts),
        ("", "Service", "status") => network::service_status(written.object, &mut texts),
        (_, _, "" | "scale") => {
            surprising_name(written, &mut texts);
            of_object(written, &mut texts);
        }
        _ => {}
    }
    texts.0
}

fn of_object(written: &Written<'_>, texts: &mut Texts) {
    let object = written.object;
    match (written.group, written.kind) {
        // Pods are changed by programs, often.
        ("", "Pod") if written.old.is_none() => pods::pod(object, texts),
        ("", "PodTemplate") | ("apps", _) | ("batch", _) | ("", "ReplicationController") => workload(written, texts),
        ("", "Service") => network::service(object, texts),
        ("", "Endpoints") => network::endpoints(object, texts),
        ("", "Node") => nodes::node(object, texts),
        ("", "PersistentVolume") => volumes::volume(object, texts),
        ("", "PersistentVolumeClaim") => volumes::claim(object, texts),
        ("", "ServiceAccount") => service_account(written, texts),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(written, texts),
        ("networking.k8s.io", "Ingress") if written.old.is_none() => network::ingress(object, texts),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(object, texts),
        ("node.k8s.io", "RuntimeClass") => nodes::runtime_class(object, texts),
        ("storage.k8s.io", "StorageClass") => nodes::storage_class(object, texts),
        ("storage.k8s.io", "CSIStorageCapacity") => {
            nodes::selector(&object["nodeTopology"], &Path::new("nodeTopology"), texts);
        }
        _ => {}
    }
}

/// Where the template of a workload's pods is.
fn template_path(kind: &str) -> &'static [&'static str] {
    match kind {
        "PodTemplate" => &["template"],
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        _ => &["spec", "template"],
    }
}

fn workload(written: &Written<'_>, texts: &mut Texts) {
    let (kind, object) = (written.kind, written.object);
    let path = template_path(kind);
    let (mut template, mut at) = (object, Path::root());
    for field in path {
        (template, at) = (&template[*field], at.child(field));
    }
    if written.is_of_spec() {
        if let ("Job", spec, at) | ("CronJob", spec, at) = (kind, &object["spec"], Path::new("spec")) {
            let is_cron = kind == "CronJob";
            let spec = if is_cron { &spec["jobTemplate"]["spec"] } else { spec };
            let at = if is_cron { at.child("jobTemplate").child("spec") } else { at };
            large_job(spec, &at, texts);
        }
        pods::template(template, &at, texts);
    }
    match kind {
        "StatefulSet" => stateful_set(written, texts),
        "CronJob" if written.old.is_some() && text(&object["spec"], "schedule").contains("TZ") => {
            let why = "use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
            texts.push(format!("cannot use TZ or CRON_TZ in spec.spec.schedule, {why} for more details"));
        }
        _ => {}
    }
}

fn large_job(spec: &Value, at: &Path, texts: &mut Texts) {
    let exceeds = |field: &str, limit: i64| spec[field].as_i64().is_some_and(|value| value > limit);
    if spec["completionMode"] == "Indexed" && exceeds("completions", 100_000) && exceeds("parallelism", 10_000) {
        texts.at(
            at,
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
             might not be able to track completedIndexes when a big number of indexes fail",
        );
    }
}

fn stateful_set(written: &Written<'_>, texts: &mut Texts) {
    let spec = &written.object["spec"];
    let at = Path::new("spec").child("volumeClaimTemplates");
    for (index, claim) in list(&spec["volumeClaimTemplates"]).enumerate() {
        // Upstream's paths.
        let at = at.index(index);
        let at = if written.old.is_some() { at.child("Spec") } else { at };
        volumes::claim_spec(&claim["spec"], &at, texts);
    }
    if spec["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        texts.at(&Path::new("spec").child("revisionHistoryLimit"), why);
    }
}

fn service_account(written: &Written<'_>, texts: &mut Texts) {
    const ENFORCES: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |object: &Value| Written::has_annotation(object, ENFORCES);
    if has(written.object) && !written.old.is_some_and(has) {
        let at = Path::new("metadata").child("annotations").key(ENFORCES);
        texts.at(&at, "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets");
    }
}

/// Names of new objects that become host names are better without dots.
fn surprising_name(written: &Written<'_>, texts: &mut Texts) {
    let used = match (written.group, written.kind) {
        _ if written.old.is_some() => return,
        ("", "Pod") => "in the Pod's hostname",
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") | ("batch", "Job" | "CronJob") => {
            "in Pod names and hostnames"
        }
        _ => return,
    };
    let complaints = names::is_dns1123_label(text(&written.object["metadata"], "name"));
    if !complaints.is_empty() {
        let complaints = complaints.join(" ");
        texts.push(format!(
            "metadata.name: this is used {used}, which can result in surprising behavior; a DNS label is recommended: \
             [{complaints}]"
        ));
    }
}

/// Amounts of bytes that are no integers.
fn fractions(amounts: &Value, names: &[&str], at: &Path, texts: &mut Texts) {
    for name in names {
        let Some(amount) = amounts[*name].as_str().and_then(|text| text.parse::<Quantity>().ok()) else { continue };
        if amount.milli_value() % 1000 != 0 {
            let why = format!("fractional byte value \"{amount}\" is invalid, must be an integer");
            texts.at(&at.key(name), why);
        }
    }
}

#[cfg(test)]
mod tests;
