//! What must hold: of every write the controllers send, and of everything once it is at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::{ApiResource, ObjectKey};
use client::{Client, ListOptions};
use http::Method;
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use parking_lot::Mutex;
use serde_json::Value;

use super::MEMBERS;
use super::history::{Kind, overrides, policies};
use crate::harness::{Plane, get};
use crate::network::{Asked, CONTROL};

const MANAGED: &str = "/metadata/labels/karmada.io~1managed";

pub async fn all(client: &Client, resource: &ApiResource, namespace: Option<&str>) -> Vec<Value> {
    let list = client.list(resource, namespace, &ListOptions::default()).await.expect("the server answers");
    list.items.iter().map(|object| object.to_value().expect("an object")).collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub fn lives(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_none()
}

pub fn is_ready(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

const CLAIMS: [&str; 2] = ["propagationpolicy.karmada.io", "clusterpropagationpolicy.karmada.io"];

/// The group and the id of the policy that claims an object; a namespaced one goes first.
fn claim(object: &Value) -> Option<(&'static str, &str)> {
    let claims = CLAIMS.map(|group| (group, text(object, &format!("/metadata/labels/{group}~1permanent-id"))));
    claims.into_iter().find(|(_, id)| !id.is_empty())
}

/// The policy that claims a template, if it still selects it. A template without keeps what was propagated, whatever
/// becomes of it, until a policy takes it (as upstream).
fn governor<'a>(kind: Kind, template: &Value, policies: &'a [Value]) -> Option<&'a Value> {
    let (group, id) = claim(template)?;
    let pointer = format!("/metadata/labels/{group}~1permanent-id");
    policies.iter().find(|policy| text(policy, &pointer) == id).filter(|policy| selects(policy, kind, template))
}

async fn all_policies(control: &Client) -> Vec<Value> {
    let mut policies_ = all(control, &policies(false), Some("demo")).await;
    policies_.extend(all(control, &policies(true), None).await);
    policies_
}

/// Names of templates without a policy that selects them, and whether a policy claims them still.
pub async fn ungoverned(plane: &Plane) -> BTreeSet<(String, bool)> {
    let policies = all_policies(&plane.client).await;
    let mut names = BTreeSet::new();
    for kind in Kind::ALL {
        let templates = all(&plane.client, &kind.resource(), Some("demo")).await;
        let left = templates.iter().filter(|template| governor(kind, template, &policies).is_none());
        names.extend(left.map(|template| (name(template).to_owned(), claim(template).is_some())));
    }
    names
}

fn is_managed(object: &Value) -> bool {
    text(object, MANAGED) == "true"
}

fn execution_space(member: &str) -> String {
    format!("karmada-es-{member}")
}

/// The parts of a path that names one object or a collection.
struct Path<'a> {
    namespace: &'a str,
    plural: &'a str,
    name: &'a str,
}

impl<'a> Path<'a> {
    fn of(path: &'a str) -> Self {
        let words: Vec<&str> = path.trim_matches('/').split('/').collect();
        let rest = &words[if words[0] == "api" { 2 } else { 3 }..];
        let at = |n: usize| rest.get(n).copied().unwrap_or_default();
        match rest.first() {
            Some(&"namespaces") if rest.len() > 2 => Self { namespace: at(1), plural: at(2), name: at(3) },
            _ => Self { namespace: "", plural: at(0), name: at(1) },
        }
    }
}

/// Sees the writes of the controllers; each broken rule is a line.
#[derive(Clone)]
pub struct Witness {
    control: Client,
    members: Arc<BTreeMap<&'static str, Client>>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl Witness {
    pub fn new(plane: &Plane) -> Self {
        let members = MEMBERS.into_iter().map(|name| (name, plane.member(name))).collect();
        Self { control: plane.client.clone(), members: Arc::new(members), broken: Arc::default() }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.broken.lock())
    }

    pub async fn see(&self, asked: Asked) {
        let path = Path::of(&asked.path);
        let broken = match (asked.server.as_str(), &asked.method) {
            (CONTROL, &Method::DELETE) => self.deletion(&path).await,
            (CONTROL, _) | (_, &Method::POST) => None,
            (member, &Method::DELETE) => self.deletion_in(member, &path).await,
            (member, _) => self.change_in(member, &path).await,
        };
        if let Some(broken) = broken {
            self.broken.lock().push(format!("{} {} {}: {broken}", asked.server, asked.method, asked.path));
        }
    }

    async fn stays(&self, member: &str) -> bool {
        get(&self.control, &Cluster::api_resource(), &ObjectKey::cluster(member)).await.is_some_and(|it| lives(&it))
    }

    /// The Work in force that says what an object of a member is.
    async fn work_for(&self, member: &str, path: &Path<'_>) -> Option<Value> {
        let works = all(&self.control, &Work::api_resource(), Some(&execution_space(member))).await;
        works.into_iter().filter(lives).find(|work| {
            let manifest = &work["spec"]["workload"]["manifests"][0];
            let plural = format!("{}s", text(manifest, "/kind").to_lowercase());
            plural == path.plural
                && name(manifest) == path.name
                && text(manifest, "/metadata/namespace") == path.namespace
        })
    }

    /// Nothing leaves a member while a Work in force holds it, and nothing that is not ours.
    async fn deletion_in(&self, member: &str, path: &Path<'_>) -> Option<String> {
        if self.stays(member).await
            && let Some(work) = self.work_for(member, path).await
        {
            return Some(format!("Work {} holds it", name(&work)));
        }
        let kind = Kind::ALL.into_iter().find(|kind| kind.resource().plural == path.plural)?;
        let key = ObjectKey::namespaced(path.namespace, path.name);
        let object = get(&self.members[member], &kind.resource(), &key).await?;
        (!is_managed(&object)).then(|| "it is not ours".to_owned())
    }

    /// Nothing of others is changed unless the Work says so.
    async fn change_in(&self, member: &str, path: &Path<'_>) -> Option<String> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.resource().plural == path.plural)?;
        let key = ObjectKey::namespaced(path.namespace, path.name);
        let object = get(&self.members[member], &kind.resource(), &key).await?;
        let work = self.work_for(member, path).await;
        let overwrites = work.is_some_and(|work| overwrites(&work));
        (!is_managed(&object) && !overwrites).then(|| "it is not ours, and nobody said to overwrite it".to_owned())
    }

    /// Works and bindings go when what asked for them is gone; nothing of the users' goes at all.
    async fn deletion(&self, path: &Path<'_>) -> Option<String> {
        if let Some(member) = path.namespace.strip_prefix("karmada-es-") {
            if !self.stays(member).await || path.name.is_empty() {
                return None;
            }
            let key = ObjectKey::namespaced(path.namespace, path.name);
            let work = get(&self.control, &Work::api_resource(), &key).await?;
            let binding = text(&work, "/metadata/annotations/resourcebinding.karmada.io~1name");
            let key = ObjectKey::namespaced("demo", binding);
            let binding = get(&self.control, &Binding::api_resource(Scope::Namespaced), &key).await.filter(lives)?;
            return clusters(&binding).contains_key(member).then(|| format!("binding {} wants it", name(&binding)));
        }
        match path.plural {
            "resourcebindings" => {
                let key = ObjectKey::namespaced(path.namespace, path.name);
                let binding = get(&self.control, &Binding::api_resource(Scope::Namespaced), &key).await?;
                let template = template_of(&self.control, &binding).await?;
                Some(format!("its template {} is there", name(&template)))
            }
            "namespaces" => {
                let member = path.name.strip_prefix("karmada-es-")?;
                self.stays(member).await.then(|| format!("cluster {member} is there"))
            }
            _ => Some("it is the user's".to_owned()),
        }
    }
}

fn overwrites(work: &Value) -> bool {
    text(&work["spec"]["workload"]["manifests"][0], "/metadata/annotations/work.karmada.io~1conflict-resolution")
        == "overwrite"
}

/// The template a binding was made for, unless it is gone or going.
async fn template_of(control: &Client, binding: &Value) -> Option<Value> {
    let reference = &binding["spec"]["resource"];
    let kind = Kind::of(reference)?;
    let template = get(control, &kind.resource(), &ObjectKey::namespaced("demo", name_of(reference))).await?;
    (lives(&template) && template["metadata"]["uid"] == reference["uid"]).then_some(template)
}

fn name_of(reference: &Value) -> &str {
    text(reference, "/name")
}

/// Clusters and replicas of a binding.
fn clusters(binding: &Value) -> BTreeMap<String, i64> {
    let list = binding["spec"]["clusters"].as_array().into_iter().flatten();
    list.map(|target| (name_of(target).to_owned(), target["replicas"].as_i64().unwrap_or_default())).collect()
}

/// What is not as the control plane's state says it should be.
pub async fn discrepancies(plane: &Plane) -> Vec<String> {
    let mut wrong = Vec::new();
    let control = &plane.client;
    let bindings = all(control, &Binding::api_resource(Scope::Namespaced), Some("demo")).await;
    let rules = all(control, &overrides(), Some("demo")).await;
    let policies = all_policies(control).await;
    for kind in Kind::ALL {
        for template in all(control, &kind.resource(), Some("demo")).await {
            if name(&template).starts_with('t') {
                wrong.extend(of_template(kind, &template, &policies, &bindings));
            }
        }
    }
    let mut expected: BTreeMap<&str, BTreeSet<String>> = MEMBERS.map(|member| (member, BTreeSet::new())).into();
    for binding in &bindings {
        wrong.extend(of_binding(control, binding, &policies).await);
        for (cluster, _) in clusters(binding) {
            let works = expected.entry(MEMBERS.into_iter().find(|member| *member == cluster).unwrap_or("nowhere"));
            works.or_default().insert(name(binding).to_owned());
        }
    }
    for member in MEMBERS {
        wrong.extend(of_member(plane, member, &expected[member], &bindings, (&rules, &policies)).await);
    }
    wrong
}

fn selects(policy: &Value, kind: Kind, template: &Value) -> bool {
    let selectors = policy["spec"]["resourceSelectors"].as_array().into_iter().flatten();
    selectors.into_iter().any(|selector| {
        let labels = selector["labelSelector"]["matchLabels"].as_object().into_iter().flatten();
        let named = selector["name"].as_str().filter(|name| !name.is_empty());
        text(selector, "/kind") == kind.resource().kind
            && named.is_none_or(|wanted| wanted == name(template))
            && labels.into_iter().all(|(key, value)| template["metadata"]["labels"][key] == *value)
    })
}

fn of_template(kind: Kind, template: &Value, policies: &[Value], bindings: &[Value]) -> Option<String> {
    let what = format!("{kind:?} {}", name(template));
    if !lives(template) {
        return Some(format!("{what} does not go"));
    }
    let Some((group, id)) = claim(template) else {
        let policy = policies.iter().find(|policy| selects(policy, kind, template))?;
        return Some(format!("{what} is not claimed, though {} {} selects it", text(policy, "/kind"), name(policy)));
    };
    let pointer = format!("/metadata/labels/{group}~1permanent-id");
    let Some(policy) = policies.iter().find(|policy| text(policy, &pointer) == id) else {
        return Some(format!("{what} is claimed by a policy that is not there: {id}"));
    };
    let Some(binding) =
        bindings.iter().find(|binding| binding["spec"]["resource"]["uid"] == template["metadata"]["uid"])
    else {
        return Some(format!("{what} is claimed by {} and has no binding", name(policy)));
    };
    if !selects(policy, kind, template) {
        return None;
    }
    let claims = text(binding, &pointer) == id;
    let placed = binding["spec"]["placement"] == policy["spec"]["placement"];
    (!claims || !placed).then(|| {
        format!(
            "{what}: policy {} says {}, the binding {}",
            name(policy),
            policy["spec"]["placement"],
            binding["spec"]["placement"]
        )
    })
}

async fn of_binding(control: &Client, binding: &Value, policies: &[Value]) -> Option<String> {
    let what = format!("binding {}", name(binding));
    let Some(template) = template_of(control, binding).await else {
        return Some(format!("{what} outlives its template"));
    };
    let kind = Kind::of(&template)?;
    governor(kind, &template, policies)?;
    let replicas = template["spec"]["replicas"].as_i64();
    let (placement, targets) = (&binding["spec"]["placement"], clusters(binding));
    let allowed = placement["clusterAffinity"]["clusterNames"].as_array();
    let fits = |member: &&str| allowed.is_none_or(|names| names.iter().any(|name| name == member));
    let allowed: BTreeSet<String> = MEMBERS.iter().filter(|member| fits(member)).map(|it| (*it).to_owned()).collect();
    let chosen: BTreeSet<String> = targets.keys().cloned().collect();
    let is_divided = placement["replicaScheduling"]["replicaSchedulingType"] == "Divided";
    match replicas {
        Some(replicas) if is_divided => {
            let sum: i64 = targets.values().sum();
            (sum != replicas || !chosen.is_subset(&allowed))
                .then(|| format!("{what}: {replicas} replicas over {allowed:?}: {targets:?}"))
        }
        _ => {
            let each = targets.values().all(|given| replicas.is_none_or(|replicas| *given == replicas));
            (chosen != allowed || !each)
                .then(|| format!("{what}: {replicas:?} replicas in each of {allowed:?}: {targets:?}"))
        }
    }
}

async fn of_member(
    plane: &Plane,
    member: &str,
    expected: &BTreeSet<String>,
    bindings: &[Value],
    said: (&[Value], &[Value]),
) -> Vec<String> {
    let mut wrong = Vec::new();
    let works = all(&plane.client, &Work::api_resource(), Some(&execution_space(member))).await;
    let of_bindings: Vec<&Value> =
        works.iter().filter(|work| work["spec"]["workload"]["manifests"][0]["kind"] != "Namespace").collect();
    let mut found = BTreeSet::new();
    for work in &of_bindings {
        let binding = text(work, "/metadata/annotations/resourcebinding.karmada.io~1name");
        if !lives(work) || !expected.contains(binding) {
            wrong.push(format!("Work {} of binding {binding} in {member} should be gone", name(work)));
        }
        found.insert(binding.to_owned());
    }
    wrong.extend(expected.difference(&found).map(|binding| format!("binding {binding} has no Work in {member}")));
    let client = plane.member(member);
    for kind in Kind::ALL {
        for object in all(&client, &kind.resource(), Some("demo")).await.iter().filter(|object| is_managed(object)) {
            let held = of_bindings.iter().any(|work| {
                let manifest = &work["spec"]["workload"]["manifests"][0];
                manifest["kind"] == *kind.resource().kind && name(manifest) == name(object)
            });
            if !held {
                wrong.push(format!("{kind:?} {} was left in {member}", name(object)));
            }
        }
    }
    for binding in bindings.iter().filter(|binding| clusters(binding).contains_key(member)) {
        wrong.extend(rendered(plane, member, binding, said, &of_bindings).await);
    }
    wrong
}

/// The member's object against what template, division and overrides say, worked out here once more.
async fn rendered(
    plane: &Plane,
    member: &str,
    binding: &Value,
    (rules, policies): (&[Value], &[Value]),
    works: &[&Value],
) -> Option<String> {
    let template = template_of(&plane.client, binding).await?;
    let kind = Kind::of(&template)?;
    let what = format!("{kind:?} {} in {member}", name(&template));
    let key = ObjectKey::namespaced("demo", name(&template));
    let Some(object) = get(&plane.member(member), &kind.resource(), &key).await else {
        return Some(format!("{what} is missing"));
    };
    if !is_managed(&object) {
        let work = works
            .iter()
            .find(|work| text(work, "/metadata/annotations/resourcebinding.karmada.io~1name") == name(binding))?;
        return overwrites(work).then(|| format!("{what} was not taken over"));
    }
    governor(kind, &template, policies)?;
    let mut value = text(&template, kind.pointer());
    for rule in rules.iter().filter(|rule| rule["spec"]["resourceSelectors"][0]["kind"] == *kind.resource().kind) {
        let rule = &rule["spec"]["overrideRules"][0];
        if rule["targetCluster"]["clusterNames"][0] == member {
            value = text(rule, "/overriders/plaintext/0/value");
        }
    }
    let is = text(&object, kind.pointer());
    if is != value {
        return Some(format!("{what} has {is}, not {value}"));
    }
    let wanted = template["spec"]["replicas"].as_i64().map(|_| clusters(binding)[member]);
    (object["spec"]["replicas"].as_i64() != wanted)
        .then(|| format!("{what} has {} replicas, not {wanted:?}", object["spec"]["replicas"]))
}
