//! All objects of users and of the control plane, read at one time.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Scope};
use karmada_api::work::v1alpha1::Work;
use serde_json::Value;

use super::MEMBERS;
use super::kinds::Kind;
use super::policies::{overrides, policies};
use super::read::{all, execution_space, is_present, is_template, name, text};
use crate::harness::Plane;

const CLAIMS: [&str; 2] = ["propagationpolicy.karmada.io", "clusterpropagationpolicy.karmada.io"];

pub struct State {
    pub templates: Vec<(Kind, Value)>,
    pub policies: Vec<Value>,
    /// In the order of application.
    pub overrides: Vec<Value>,
    pub bindings: Vec<Value>,
    pub works: BTreeMap<&'static str, Vec<Value>>,
    /// Works of namespaces, which have no binding.
    pub spaces: Vec<Value>,
    /// Members that reject new workloads.
    pub tainted: BTreeSet<String>,
    /// The zones of members.
    pub zones: BTreeMap<String, String>,
    /// Members that the control plane has tainted.
    pub repelling: Vec<String>,
}

/// The group and the id of the policy that claims an object; a namespaced one takes precedence.
pub fn claim(object: &Value) -> Option<(&'static str, &str)> {
    let claims = CLAIMS.map(|group| (group, text(object, &format!("/metadata/labels/{group}~1permanent-id"))));
    claims.into_iter().find(|(_, id)| !id.is_empty())
}

fn by_name(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by(|a, b| name(a).cmp(name(b)));
    objects
}

impl State {
    pub async fn read(plane: &Plane) -> Self {
        let control = &plane.client;
        let mut found = Self {
            templates: Vec::new(),
            policies: all(control, &policies(false), Some("demo")).await,
            overrides: by_name(all(control, &overrides(true), None).await),
            bindings: all(control, &Binding::api_resource(Scope::Namespaced), Some("demo")).await,
            works: BTreeMap::new(),
            spaces: Vec::new(),
            tainted: BTreeSet::new(),
            zones: BTreeMap::new(),
            repelling: Vec::new(),
        };
        found.policies.extend(all(control, &policies(true), None).await);
        found.overrides.extend(by_name(all(control, &overrides(false), Some("demo")).await));
        found.bindings.extend(all(control, &Binding::api_resource(Scope::Cluster), None).await);
        for kind in Kind::ALL {
            let objects = all(control, &kind.resource(), kind.namespace()).await;
            found.templates.extend(objects.into_iter().filter(is_template).map(|object| (kind, object)));
        }
        for member in MEMBERS {
            let works = all(control, &Work::api_resource(), Some(&execution_space(member))).await;
            let is_space = |work: &Value| work["spec"]["workload"]["manifests"][0]["kind"] == "Namespace";
            let (spaces, of_bindings) = works.into_iter().partition(is_space);
            found.works.insert(member, of_bindings);
            found.spaces.extend::<Vec<Value>>(spaces);
        }
        for cluster in all(control, &Cluster::api_resource(), None).await {
            found.zones.insert(name(&cluster).to_owned(), text(&cluster, "/metadata/labels/zone").to_owned());
            if cluster["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty()) {
                found.tainted.insert(name(&cluster).to_owned());
            }
            let taints = cluster["spec"]["taints"].as_array().into_iter().flatten();
            if taints.into_iter().any(|taint| text(taint, "/key").starts_with("cluster.karmada.io/")) {
                found.repelling.push(name(&cluster).to_owned());
            }
        }
        found
    }

    /// The policy that claims a template, if it still selects it. A template without one keeps its propagated copies
    /// until another policy claims it (as upstream).
    pub fn governor(&self, kind: Kind, template: &Value) -> Option<&Value> {
        self.claimant(template).filter(|policy| selects(policy, kind, template))
    }

    /// The policy whose claim a template has.
    pub fn claimant(&self, template: &Value) -> Option<&Value> {
        let (group, id) = claim(template)?;
        let pointer = format!("/metadata/labels/{group}~1permanent-id");
        self.policies.iter().find(|policy| text(policy, &pointer) == id)
    }

    /// The template of a binding, unless it is deleted or terminating.
    pub fn template_of(&self, binding: &Value) -> Option<(Kind, &Value)> {
        let uid = &binding["spec"]["resource"]["uid"];
        let found = self.templates.iter().find(|(_, template)| template["metadata"]["uid"] == *uid);
        found.filter(|(_, template)| is_present(template)).map(|(kind, template)| (*kind, template))
    }

    pub fn binding_of(&self, template: &Value) -> Option<&Value> {
        let uid = &template["metadata"]["uid"];
        self.bindings.iter().find(|binding| binding["spec"]["resource"]["uid"] == *uid)
    }

    /// Templates that no policy selects, and whether one still claims them.
    pub fn ungoverned(&self) -> impl Iterator<Item = (Kind, &Value, bool)> {
        let left = self.templates.iter().filter(|(kind, template)| self.governor(*kind, template).is_none());
        left.map(|(kind, template)| (*kind, template, claim(template).is_some()))
    }

    /// The ConfigMap that a Deployment mounts, if it exists.
    pub fn needed_by(&self, template: &Value) -> Option<&Value> {
        let desired = text(template, "/spec/template/spec/volumes/0/configMap/name");
        let mut maps = self.templates.iter().filter(|(kind, _)| *kind == Kind::ConfigMap);
        maps.find(|(_, map)| name(map) == desired).map(|(_, map)| map).filter(|map| is_present(map))
    }
}

pub fn selects(policy: &Value, kind: Kind, template: &Value) -> bool {
    if text(policy, "/kind") == "PropagationPolicy" && !kind.is_namespaced() {
        return false;
    }
    let selectors = policy["spec"]["resourceSelectors"].as_array().into_iter().flatten();
    selectors.into_iter().any(|selector| {
        let labels = selector["labelSelector"]["matchLabels"].as_object().into_iter().flatten();
        let named = selector["name"].as_str().filter(|name| !name.is_empty());
        text(selector, "/kind") == kind.resource().kind
            && named.is_none_or(|desired| desired == name(template))
            && labels.into_iter().all(|(key, value)| template["metadata"]["labels"][key] == *value)
    })
}
