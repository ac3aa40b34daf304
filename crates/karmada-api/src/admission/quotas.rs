//! Validates FederatedResourceQuotas.

use std::collections::BTreeMap;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::is_qualified_name;
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value};

use super::Denied;
use super::autoscaling::{is_extended, list, quantity, text};
use crate::cluster::name_complaints;

/// The resources that a quota may limit; the first nine are counted in whole objects.
const STANDARD: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];
const COUNTED: usize = 9;
const PREFIXES: &[&str] = &["hugepages-", "requests.hugepages-"];

pub(super) fn validate(object: &Value) -> Result<(), Denied> {
    let mut errors = ErrorList::new();
    let name = text(&object["metadata"], "name");
    if name.len() > 63 {
        let path = Path::new("metadata").child("name");
        errors.push(Error::invalid(&path, name, "must be no more than 63 characters"));
    }
    let (spec, path) = (&object["spec"], Path::new("spec"));
    errors.extend(resources(&spec["overall"], &path.child("overall")));
    let assignments_path = path.child("staticAssignments");
    for (index, assignment) in list(&spec["staticAssignments"]).iter().enumerate() {
        let path = assignments_path.index(index);
        errors.extend(cluster_name(assignment, &path));
        errors.extend(resources(&assignment["hard"], &path.child("hard")));
    }
    errors.extend(sums(spec, &path));
    let (status, path) = (&object["status"], Path::new("status"));
    for field in ["overall", "overallUsed"] {
        errors.extend(resources(&status[field], &path.child(field)));
    }
    for (index, cluster) in list(&status["aggregatedStatus"]).iter().enumerate() {
        let path = path.child("aggregatedStatus").index(index);
        errors.extend(cluster_name(cluster, &path));
        for field in ["hard", "used"] {
            errors.extend(resources(&cluster[field], &path.child(field)));
        }
    }
    Denied::unless_empty(errors)
}

fn cluster_name(holder: &Value, path: &Path) -> Option<Error> {
    let name = text(holder, "clusterName");
    let complaints = name_complaints(name);
    (!complaints.is_empty()).then(|| Error::invalid(&path.child("clusterName"), name, complaints.join(",")))
}

fn entries(list: &Value) -> impl Iterator<Item = (&String, &Value)> {
    list.as_object().into_iter().flat_map(Map::iter)
}

/// Names and quantities of one list.
fn resources(amounts: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (name, amount) in entries(amounts) {
        let path = path.key(name);
        errors.extend(resource_name(name, &path));
        let Some(quantity) = quantity(amount) else {
            errors.push(Error::invalid(&path, amount.clone(), "must be a quantity"));
            continue;
        };
        let shown = quantity.to_string();
        if quantity.is_negative() {
            errors.push(Error::invalid(&path, shown.as_str(), "must be greater than or equal to 0"));
        }
        let is_fraction = quantity.milli_value() % 1000 != 0;
        if is_fraction && (STANDARD[..COUNTED].contains(&name.as_str()) || is_extended(name)) {
            errors.push(Error::invalid(&path, shown, "must be an integer"));
        }
    }
    errors
}

fn for_quota(name: &str) -> bool {
    STANDARD.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A name that is standard, or has a domain.
pub(super) fn resource_type(name: &str, path: &Path) -> ErrorList {
    let mut errors: ErrorList =
        is_qualified_name(name).into_iter().map(|detail| Error::invalid(path, name, detail)).collect();
    if errors.is_empty() && !name.contains('/') && !for_quota(name) && name != "storage" {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    errors
}

fn resource_name(name: &str, path: &Path) -> ErrorList {
    let mut errors = resource_type(name, path);
    if !name.contains('/') && !for_quota(name) {
        errors.push(Error::invalid(path, name, "must be a standard resource for quota"));
    }
    errors
}

/// The assignments to clusters must not exceed the total.
fn sums(spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut assigned: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (name, amount) in list(&spec["staticAssignments"]).iter().flat_map(|it| entries(&it["hard"])) {
        let sum = assigned.entry(name).or_insert(Quantity::ZERO);
        *sum = *sum + quantity(amount).unwrap_or(Quantity::ZERO);
    }
    for (name, limit) in entries(&spec["overall"]) {
        let limit = quantity(limit).unwrap_or(Quantity::ZERO);
        // A resource without assignments has the sum zero.
        if limit < assigned.get(name.as_str()).copied().unwrap_or(Quantity::ZERO) {
            let path = path.child("overall").key(name);
            errors.push(Error::invalid(&path, limit.to_string(), "overall is less than assignments"));
        }
    }
    for (index, assignment) in list(&spec["staticAssignments"]).iter().enumerate() {
        let path = path.child("staticAssignments").index(index).child("hard");
        for (name, _) in entries(&assignment["hard"]).filter(|(name, _)| spec["overall"][name.as_str()].is_null()) {
            let detail = "assignment resourceName is not exist in overall";
            errors.push(Error::invalid(&path.key(name), name.as_str(), detail));
        }
    }
    errors
}
