//! Validates CronFederatedHPAs.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names::{subdomain_rule, validate_object_meta};
use jiff::tz::TimeZoneDatabase;
use serde_json::Value;

use super::Denied;
use super::autoscaling::{list, reference, text};
use super::schedule;

const FEDERATED_HPA: (&str, &str) = ("autoscaling.karmada.io/v1alpha1", "FederatedHPA");

pub(super) fn validate(object: &Value) -> Result<(), Denied> {
    let mut errors = validate_object_meta(&object["metadata"], true, subdomain_rule, &Path::new("metadata"));
    errors.extend(spec(&object["spec"], &Path::new("spec")));
    Denied::unless_empty(errors)
}

fn spec(spec: &Value, path: &Path) -> ErrorList {
    let target = &spec["scaleTargetRef"];
    let kind = text(target, "kind");
    let of_hpa = text(target, "apiVersion") == FEDERATED_HPA.0;
    let target_path = path.child("scaleTargetRef");
    if of_hpa && kind != FEDERATED_HPA.1 {
        let detail = format!("invalid scaleTargetRef kind: {kind}, only support FederatedHPA");
        return vec![Error::invalid(&target_path.child("kind"), kind, detail)];
    }
    let mut errors = reference(target, &target_path);
    let mut names = BTreeSet::new();
    for (index, rule) in list(&spec["rules"]).iter().enumerate() {
        let path = path.child("rules").index(index);
        let name = text(rule, "name");
        if !names.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        let when = text(rule, "schedule");
        if !schedule::is_valid(when) {
            errors.push(Error::invalid(&path.child("schedule"), when, "invalid cron format"));
        }
        if let Some(zone) = rule["timeZone"].as_str()
            && let Some(why) = wrong_time_zone(zone)
        {
            errors.push(Error::invalid(&path.child("timeZone"), zone, why));
        }
        errors.extend(if of_hpa { bounds(rule, &path) } else { replicas(rule, kind, &path) });
    }
    errors
}

/// The time zone database is bundled, so that validation does not depend on the machine. Names are case-sensitive, and
/// never resolve to paths outside a database that is a directory.
fn wrong_time_zone(name: &str) -> Option<String> {
    if matches!(name, "" | "UTC" | "Local") {
        return None;
    }
    if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..") {
        return Some("time: invalid location name".to_owned());
    }
    let found = TimeZoneDatabase::bundled().get(name);
    let known = found.is_ok_and(|zone| zone.iana_name() == Some(name));
    (!known).then(|| format!("unknown time zone {name}"))
}

/// A rule for a FederatedHPA sets its bounds. As upstream, no error shows the value.
fn bounds(rule: &Value, path: &Path) -> ErrorList {
    let (least, most) = (rule["targetMinReplicas"].as_i64(), rule["targetMaxReplicas"].as_i64());
    let (least_path, most_path) = (path.child("targetMinReplicas"), path.child("targetMaxReplicas"));
    let mut errors = ErrorList::new();
    if least.is_none() && most.is_none() {
        let detail =
            "targetMinReplicas and targetMaxReplicas cannot be nil at the same time if you want to scale FederatedHPA";
        errors.push(Error::invalid(&most_path, "", detail));
    }
    if least.is_some_and(|least| least <= 0) {
        errors.push(Error::invalid(&least_path, "", "targetMinReplicas should be larger than 0"));
    }
    if most.is_some_and(|most| most <= 0) {
        errors.push(Error::invalid(&most_path, "", "targetMaxReplicas should be larger than 0"));
    }
    if least.unwrap_or(1) > most.unwrap_or(i64::from(i32::MAX)) {
        let detail = "targetMaxReplicas should be larger than or equal to targetMinReplicas";
        errors.push(Error::invalid(&least_path, "", detail));
    }
    errors
}

/// A rule for a workload sets its replicas.
fn replicas(rule: &Value, kind: &str, path: &Path) -> ErrorList {
    let path = path.child("targetReplicas");
    match rule["targetReplicas"].as_i64() {
        None => {
            let detail = format!("targetReplicas cannot be nil if you want to scale {kind}");
            vec![Error::invalid(&path, "", detail)]
        }
        Some(count) if count < 0 => {
            vec![Error::invalid(&path, "", "targetReplicas should be larger than or equal to 0")]
        }
        Some(_) => ErrorList::new(),
    }
}
