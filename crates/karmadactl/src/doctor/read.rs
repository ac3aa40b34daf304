//! Reads the input of `doctor`. Each part that cannot be read is reported; the others are still checked.

use std::collections::HashMap;
use std::time::Duration;

use apimachinery::ApiResource;
use client::{Client, ListOptions};
use futures::StreamExt;
use karmada_api::ApiType;
use karmada_api::autoscaling::v1alpha1::FederatedHPA;
use karmada_api::constants::{conditions, labels, namespaces};
use karmada_api::names;
use karmada_api::scope::{Binding, Policy, Scope};
use serde_json::Value;
use world::World;

use super::facts::{self, Facts, Member, Probe, Problem, Request, Stuck, Subject, Validity, seconds};
use super::failures;
use super::grants::{self, Present};
use crate::answers::text;
use crate::progress::Progress;
use crate::register::key_of;
use crate::register::member::SECRET;
use crate::{answers, resources, servers};

/// Members probed at a time: each costs a stream here and a connection of the control plane.
const CONCURRENT: usize = 128;
/// Objects of a page.
const PAGE: usize = 500;
/// Pages of a kind: 50,000 objects at most are read.
const PAGES: usize = 100;
/// The metrics of a large control plane are some hundred KiB.
const JSON: &str = "application/json";

const METRICS: [&str; 11] = [
    "karmada_certificate_expiration_timestamp_seconds",
    "karmada_store_damaged",
    "karmada_etcd_quota_exceeded",
    "karmada_store_backup_last_success_timestamp_seconds",
    "karmada_store_backups_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds_sum",
    "workqueue_queue_duration_seconds_count",
    "karmada_store_size_bytes",
    "karmada_store_free_bytes",
];

/// The facts about a control plane and its members; each member has `patience` to answer.
pub async fn facts(control: &Client, client_certificate_ends: Option<i64>, patience: Duration) -> Facts {
    let mut facts = Facts { now: World::system().now().as_second(), ..Facts::default() };
    facts.control.client_certificate_ends = client_certificate_ends;
    health(control, patience, &mut facts).await;
    if !members(control, patience, &mut facts).await {
        // Each further list would wait as long, for the same answer.
        let why = "the control plane cannot list its clusters either".to_owned();
        facts.unread.push(("members, bindings, works, policies and rights".into(), why));
        return facts;
    }
    objects(control, &mut facts).await;
    failures::read(control, &mut facts).await;
    rights(control, &mut facts).await;
    requests(control, &mut facts).await;
    facts
}

/// An answer as text, with the time that the server gives.
struct Answer {
    is_success: bool,
    text: String,
    skew: Option<facts::Skew>,
}

async fn fetch(client: &Client, path: &str, patience: Duration) -> Result<Answer, String> {
    let world = World::system();
    let request = http::Request::get(path).header(http::header::ACCEPT, "*/*").body(transport::empty());
    let request = request.map_err(|error| error.to_string())?;
    let before = world.now();
    let answered = tokio::time::timeout(patience, async {
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        let after = world.now();
        let (parts, body) = response.into_parts();
        let bytes = crate::requests::whole(body).await?;
        let date = parts.headers.get(http::header::DATE).and_then(|value| value.to_str().ok());
        let skew = date.and_then(|date| facts::skew(date, before, after));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { is_success: parts.status.is_success(), text, skew })
    });
    answered.await.unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs_f64())))
}

/// The first line of a refusal, a Status' message where it is one.
fn refusal(text: &str) -> String {
    let status = serde_json::from_str::<Value>(text).ok();
    let message = status.as_ref().and_then(|it| it["message"].as_str());
    message.unwrap_or_else(|| text.lines().next().unwrap_or("no reason given")).to_owned()
}

async fn health(control: &Client, patience: Duration, facts: &mut Facts) {
    match fetch(control, "/readyz?verbose", patience).await {
        Ok(answer) => {
            facts.control.skew = answer.skew;
            facts.control.failed_checks = facts::failed_checks(&answer.text);
            if !answer.is_success && facts.control.failed_checks.is_empty() {
                facts.unread.push(("health of the control plane".into(), refusal(&answer.text)));
            }
        }
        Err(why) => facts.unread.push(("health of the control plane".into(), why)),
    }
    match fetch(control, "/metrics", patience).await {
        Ok(answer) if answer.is_success => {
            facts.control.metrics = facts::samples(&answer.text, &METRICS);
            facts.control.tunnels = facts::tunnels(&answer.text);
            facts.control.no_evictions = crate::evictions::off(control).await;
        }
        Ok(answer) => facts.unread.push(("metrics of the control plane".into(), refusal(&answer.text))),
        Err(why) => facts.unread.push(("metrics of the control plane".into(), why)),
    }
}

/// False if the control plane serves no lists now.
async fn members(control: &Client, patience: Duration, facts: &mut Facts) -> bool {
    let mut clusters = Vec::new();
    if !each(control, &resources::CLUSTER, None, facts, &mut |cluster, _| clusters.push(cluster)).await {
        return false;
    }
    let renewed: HashMap<String, i64> = leases(control, namespaces::CLUSTER, facts).await.into_iter().collect();
    facts.control.leaders = leases(control, namespaces::SYSTEM, facts).await;
    let progress = Progress::new("Probing clusters", clusters.len());
    let probes: Vec<_> = clusters.iter().map(|cluster| probe(control, cluster, patience, &progress)).collect();
    let probes: Vec<_> = futures::stream::iter(probes).buffered(CONCURRENT).collect().await;
    drop(progress);
    let certificates: Vec<_> = clusters
        .iter()
        .zip(&probes)
        .map(|(cluster, probe)| agent_certificate(control, cluster, probe.is_ok(), patience))
        .collect();
    let certificates: Vec<_> = futures::stream::iter(certificates).buffered(CONCURRENT).collect().await;
    facts.counts.members = clusters.len();
    facts.members = clusters
        .into_iter()
        .zip(probes)
        .zip(certificates)
        .map(|((object, probe), certificate)| {
            let agent_certificate = certificate.unwrap_or_else(|why| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                facts.unread.push((format!("the certificate of the agent of cluster {name}"), why));
                None
            });
            // A cluster in Push mode may have an old Lease from a former life in Pull mode.
            let renewed = renewed.get(object["metadata"]["name"].as_str().unwrap_or_default()).copied();
            let renewed = renewed.filter(|_| object["spec"]["syncMode"] == "Pull");
            Member { renewed, agent_certificate, object, probe: Some(probe) }
        })
        .collect();
    true
}

/// The names of the Leases in a namespace, and when each was renewed last.
async fn leases(control: &Client, namespace: &str, facts: &mut Facts) -> Vec<(String, i64)> {
    let resource = ApiResource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let mut found = Vec::new();
    each(control, &resource, Some(namespace), facts, &mut |lease, _| {
        if let (Some(name), Some(at)) = (lease["metadata"]["name"].as_str(), seconds(&lease["spec"]["renewTime"])) {
            found.push((name.to_owned(), at));
        }
    })
    .await;
    found
}

async fn probe(control: &Client, cluster: &Value, patience: Duration, progress: &Progress) -> Result<Probe, String> {
    let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
    let answer = fetch(&servers::member(control, name), "/version", patience).await;
    progress.step();
    let answer = answer?;
    if !answer.is_success {
        return Err(refusal(&answer.text));
    }
    let version: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    Ok(Probe { version: version["gitVersion"].as_str().unwrap_or_default().to_owned(), skew: answer.skew })
}

/// The certificate of an agent, from its Secret in the member. Signing requests are deleted an hour after they are
/// answered, so the Secret is the only source.
async fn agent_certificate(
    control: &Client,
    cluster: &Value,
    is_reached: bool,
    patience: Duration,
) -> Result<Option<Validity>, String> {
    if !is_reached || cluster["spec"]["syncMode"] != "Pull" {
        return Ok(None);
    }
    let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
    let selecting = ListOptions { field_selector: Some(format!("metadata.name={SECRET}")), ..ListOptions::default() };
    // In any namespace in which the agent runs.
    let path = selecting.path(&resources::SECRET, None);
    let answer = fetch(&servers::member(control, name), &path, patience).await?;
    if !answer.is_success {
        return Err(refusal(&answer.text));
    }
    let list: Value = serde_json::from_str(&answer.text).map_err(|error| error.to_string())?;
    let secrets = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(secrets.iter().find_map(facts::agent_certificate))
}

/// Passes every object of a kind, page by page. A kind that cannot be read to its end is named. False if the server
/// cannot read it now: its store may not answer.
pub(super) async fn each(
    control: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    facts: &mut Facts,
    take: &mut (dyn FnMut(Value, &mut Facts) + Send),
) -> bool {
    let mut options = ListOptions { limit: PAGE, ..ListOptions::default() };
    for _ in 0..PAGES {
        let path = options.path(resource, namespace);
        let read = control.document(&path, JSON).await;
        let mut page = match read.and_then(|bytes| answers::decode(&format!("GET {path}"), &bytes)) {
            Ok(page) => page,
            Err(error) => {
                facts.unread.push((resource.plural.clone(), servers::reason(&error)));
                return !error.is_unreachable() && error.status().is_none_or(|status| status.code < 500);
            }
        };
        let next = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        answers::take_items(&mut page).into_iter().flatten().for_each(|item| take(item, facts));
        if next.is_none() || next == options.continue_token {
            return true;
        }
        options.continue_token = next;
    }
    let why = format!("there are more than {}; the others were left out", PAGE * PAGES);
    facts.unread.push((resource.plural.clone(), why));
    true
}

async fn objects(control: &Client, facts: &mut Facts) {
    for scope in Scope::ALL {
        let kind = Binding::kind(scope).to_lowercase();
        each(control, &Binding::api_resource(scope), None, facts, &mut |binding, facts| {
            facts.counts.bindings += 1;
            facts.objects.extend(of_binding(&kind, &binding));
        })
        .await;
        let kind = Policy::kind(scope).to_lowercase();
        each(control, &Policy::api_resource(scope), None, facts, &mut |policy, facts| {
            facts.objects.extend(deleting(&kind, &policy));
        })
        .await;
    }
    each(control, &resources::WORK, None, facts, &mut |work, facts| {
        facts.counts.works += 1;
        facts.objects.extend(of_work(&work));
    })
    .await;
    each(control, &FederatedHPA::api_resource(), None, facts, &mut |hpa, facts| {
        facts.objects.extend(of_autoscaler(&hpa));
    })
    .await;
    for (resource, kind) in [(&*resources::NAMESPACE, "namespace"), (&*resources::CLUSTER, "cluster")] {
        each(control, resource, None, facts, &mut |object, facts| facts.objects.extend(deleting(kind, &object))).await;
    }
}

fn stuck(kind: &str, object: &Value, problem: Problem, since: Option<i64>) -> Option<Stuck> {
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    Some(Stuck { kind: kind.to_owned(), namespace, name, subject: None, problem, since: since? })
}

/// The rights that agents lack, if all roles and their bindings can be read.
async fn rights(control: &Client, facts: &mut Facts) {
    let is_pull = |cluster: &Value| cluster["spec"]["syncMode"] == "Pull";
    if !facts.members.iter().any(|member| is_pull(&member.object)) {
        return;
    }
    let unread = facts.unread.len();
    let mut present = Present::new();
    for kind in ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        let (group, plural) = ("rbac.authorization.k8s.io", format!("{}s", kind.to_lowercase()));
        let resource = match kind.starts_with("Cluster") {
            true => ApiResource::cluster(group, "v1", kind, &plural),
            false => ApiResource::namespaced(group, "v1", kind, &plural),
        };
        each(control, &resource, None, facts, &mut |object, _| {
            if object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(grants::PREFIX)) {
                present.insert((kind.to_owned(), key_of(&object)), object);
            }
        })
        .await;
    }
    if facts.unread.len() == unread {
        let members = facts.members.iter().map(|member| &member.object).filter(|cluster| is_pull(cluster));
        facts.missing = members.flat_map(|cluster| grants::missing(cluster, &present)).collect();
    }
}

fn deleting(kind: &str, object: &Value) -> Option<Stuck> {
    let metadata = &object["metadata"];
    let since = seconds(&metadata["deletionTimestamp"])?;
    let lists = [&metadata["finalizers"], &object["spec"]["finalizers"]];
    let finalizers = lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten());
    let finalizers = finalizers.filter_map(Value::as_str).map(str::to_owned).collect();
    stuck(kind, object, Problem::Deleting(finalizers), Some(since))
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == type_)
}

fn message(condition: &Value) -> String {
    crate::table::printable(condition["message"].as_str().unwrap_or_default())
}

/// The problem of a binding; failures to apply are found at the Works.
fn of_binding(kind: &str, binding: &Value) -> Option<Stuck> {
    if let Some(found) = deleting(kind, binding) {
        return Some(found);
    }
    if is_orphaned(binding) {
        let subject = subject_of(&binding["spec"]["resource"], "");
        let since = seconds(&binding["metadata"]["creationTimestamp"]);
        return stuck(kind, binding, Problem::Orphaned, since).map(|it| Stuck { subject, ..it });
    }
    if binding["spec"]["suspension"]["scheduling"] == true || !is_claimed(binding) {
        return None;
    }
    match condition(binding, conditions::SCHEDULED) {
        None => stuck(kind, binding, Problem::Unseen, seconds(&binding["metadata"]["creationTimestamp"])),
        Some(it) if it["status"] != "True" => {
            let reason = it["reason"].as_str().unwrap_or("no reason given").to_owned();
            let problem = Problem::Unscheduled { reason, message: message(it) };
            let subject = subject_of(&binding["spec"]["resource"], "");
            stuck(kind, binding, problem, seconds(&it["lastTransitionTime"])).map(|it| Stuck { subject, ..it })
        }
        Some(_) => None,
    }
}

/// Whether no template owns a binding: bindings are created with their owner, which the garbage collector removes when
/// the template is deleted with `propagationPolicy=Orphan`.
fn is_orphaned(binding: &Value) -> bool {
    let owners = binding["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let template = &binding["spec"]["resource"];
    !owners.iter().any(|owner| owner["kind"] == template["kind"] && owner["name"] == template["name"])
}

/// The template named by a reference, or by the metadata of a manifest.
fn subject_of(named: &Value, cluster: &str) -> Option<Subject> {
    let kind = named["kind"].as_str()?.to_lowercase();
    let named = named.get("metadata").unwrap_or(named);
    let (namespace, name) = (text(&named["namespace"]), named["name"].as_str()?.to_owned());
    Some(Subject { kind, namespace, name, cluster: cluster.to_owned() })
}

/// Whether a scheduler is to decide about a binding. Those of dependencies follow the bindings that require them, and those
/// without a policy keep their clusters.
fn is_claimed(binding: &Value) -> bool {
    let by = [Scope::Namespaced.policy_id_label(), Scope::Cluster.policy_id_label(), labels::BINDING_MANAGED_BY];
    by.iter().any(|label| binding["metadata"]["labels"][*label].as_str().is_some_and(|value| !value.is_empty()))
}

fn of_work(work: &Value) -> Option<Stuck> {
    if let Some(found) = deleting("work", work) {
        return Some(found);
    }
    if work["spec"]["suspendDispatching"] == true {
        return None;
    }
    let (problem, since) = match condition(work, conditions::APPLIED) {
        None => (Problem::NotAttempted, &work["metadata"]["creationTimestamp"]),
        Some(it) if it["status"] != "True" => (Problem::NotApplied(message(it)), &it["lastTransitionTime"]),
        Some(_) => return None,
    };
    let namespace = work["metadata"]["namespace"].as_str().unwrap_or_default();
    let cluster = names::cluster_of_namespace(namespace).unwrap_or_default();
    let subject = subject_of(&work["spec"]["workload"]["manifests"][0], cluster);
    stuck("work", work, problem, seconds(since)).map(|it| Stuck { subject, ..it })
}

/// The problem of a FederatedHPA, unless its target is scaled to zero, which disables it.
fn of_autoscaler(hpa: &Value) -> Option<Stuck> {
    let false_ = |type_: &str| condition(hpa, type_).filter(|it| it["status"] == "False");
    let found = false_("AbleToScale").or_else(|| false_("ScalingActive"))?;
    let reason = found["reason"].as_str().unwrap_or("no reason given").to_owned();
    if reason == "ScalingDisabled" {
        return None;
    }
    let problem = Problem::Unscalable { reason, message: message(found) };
    stuck("federatedhpa", hpa, problem, seconds(&found["lastTransitionTime"]))
}

async fn requests(control: &Client, facts: &mut Facts) {
    let resource =
        ApiResource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests");
    each(control, &resource, None, facts, &mut |request, facts| facts.requests.extend(pending(&request))).await;
}

fn pending(request: &Value) -> Option<Request> {
    let conditions = request["status"]["conditions"].as_array().map_or(0, Vec::len);
    let since = seconds(&request["metadata"]["creationTimestamp"])?;
    (conditions == 0).then(|| Request {
        name: text(&request["metadata"]["name"]),
        user: text(&request["spec"]["username"]),
        since,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(found: Option<Stuck>, expected: &str) {
        let shown = found.map_or_else(|| "-".to_owned(), |it| format!("{} {:?} {}", it.kind, it.problem, it.since));
        assert_eq!(shown, expected);
    }

    #[test]
    fn objects_with_something_wrong() {
        let metadata = json!({"name": "x", "namespace": "n", "creationTimestamp": "1970-01-01T00:00:10Z",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}, "ownerReferences": [{"kind": "K", "name": "x"}]});
        let spec = json!({"resource": {"kind": "K", "namespace": "n", "name": "x"}});
        let of = |conditions: Value| json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}});
        let with = |type_: &str, status: &str| {
            of(
                json!([{"type": type_, "status": status, "reason": "R", "message": "why", "lastTransitionTime": "1970-01-01T00:00:20Z"}]),
            )
        };
        check(of_binding("b", &with("Scheduled", "True")), "-");
        check(of_binding("b", &with("Scheduled", "False")), "b Unscheduled { reason: \"R\", message: \"why\" } 20");
        check(of_binding("b", &of(json!([]))), "b Unseen 10");
        for owners in [json!(null), json!([{"kind": "K", "name": "y"}])] {
            let mut orphaned = with("Scheduled", "True");
            orphaned["metadata"]["ownerReferences"] = owners;
            check(of_binding("b", &orphaned), "b Orphaned 10");
        }
        for unclaimed in [of(json!([])), with("Scheduled", "False")] {
            let mut unclaimed = unclaimed;
            unclaimed["metadata"]["labels"] = json!({"resourcebinding.karmada.io/depended-by-x": "p"});
            check(of_binding("b", &unclaimed), "-");
        }
        check(of_work(&with("Applied", "True")), "-");
        check(of_work(&with("Applied", "False")), "work NotApplied(\"why\") 20");
        check(of_work(&of(json!([]))), "work NotAttempted 10");
        let mut gone = with("Applied", "True");
        gone["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:30Z");
        gone["metadata"]["finalizers"] = json!(["a/b"]);
        check(of_work(&gone), "work Deleting([\"a/b\"]) 30");
        let mut held = with("Applied", "False");
        held["spec"] = json!({"suspendDispatching": true});
        check(of_work(&held), "-");
        check(of_autoscaler(&with("ScalingActive", "True")), "-");
        check(of_autoscaler(&with("ScalingLimited", "False")), "-");
        for type_ in ["ScalingActive", "AbleToScale"] {
            let expected = "federatedhpa Unscalable { reason: \"R\", message: \"why\" } 20";
            check(of_autoscaler(&with(type_, "False")), expected);
        }
        let mut disabled = with("ScalingActive", "False");
        disabled["status"]["conditions"][0]["reason"] = json!("ScalingDisabled");
        check(of_autoscaler(&disabled), "-");
        let request = json!({"metadata": metadata, "spec": {"username": "u"}});
        assert_eq!(pending(&request).map(|it| it.user), Some("u".to_owned()));
        assert!(pending(&json!({"metadata": metadata, "status": {"conditions": [{"type": "Approved"}]}})).is_none());
    }
}
