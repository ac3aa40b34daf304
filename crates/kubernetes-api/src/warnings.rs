//! Warnings of kube-apiserver for accepted objects: fields without effect, deprecated fields, likely mistakes.

use std::collections::{HashMap, HashSet};

use apimachinery::field::Path;
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The texts for one object, in upstream's words.
pub(crate) fn of(group: &str, kind: &str, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(why) = surprising_name(group, kind, text(&object["metadata"], "name")) {
        warnings.push(why);
    }
    match (group, kind) {
        ("", "Pod") => pod(&object["spec"], &Path::new("spec"), &mut warnings),
        ("", "Service") => service(&object["spec"], &mut warnings),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => volume(object, &mut warnings),
        ("networking.k8s.io", "Ingress") => ingress(object, &mut warnings),
        ("batch", "CronJob") => {
            let at = Path::new("spec").child("jobTemplate").child("spec").child("template").child("spec");
            pod(&object["spec"]["jobTemplate"]["spec"]["template"]["spec"], &at, &mut warnings);
        }
        ("", "PodTemplate") => {
            pod(&object["template"]["spec"], &Path::new("template").child("spec"), &mut warnings);
        }
        ("apps", _) | ("batch", "Job") | ("", "ReplicationController") => {
            let at = Path::new("spec").child("template").child("spec");
            pod(&object["spec"]["template"]["spec"], &at, &mut warnings);
            if kind == "StatefulSet" && object["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
                let what = "a negative value retains all historical revisions; a value >= 0 is recommended";
                warnings.push(format!("spec.revisionHistoryLimit: {what}"));
            }
        }
        _ => {}
    }
    warnings
}

/// Names that become host names are better without dots.
fn surprising_name(group: &str, kind: &str, name: &str) -> Option<String> {
    let used = match (group, kind) {
        ("", "Pod") => "in the Pod's hostname",
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") | ("batch", "Job") => {
            "in Pod names and hostnames"
        }
        _ => return None,
    };
    let complaints = names::is_dns1123_label(name);
    (!complaints.is_empty()).then(|| {
        let complaints = complaints.join(" ");
        format!(
            "metadata.name: this is used {used}, which can result in surprising behavior; a DNS label is recommended: \
             [{complaints}]"
        )
    })
}

/// Labels of nodes that have other names now.
const OLD_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

fn pod(spec: &Value, at: &Path, warnings: &mut Vec<String>) {
    for (old, since, new) in OLD_LABELS {
        if spec["nodeSelector"].get(old).is_some() {
            let at = at.child("nodeSelector").key(old);
            warnings.push(format!("{at}: deprecated since {since}; use {new:?} instead"));
        }
    }
    absent_selectors(spec, at, warnings);
    for (index, secret) in list(&spec["imagePullSecrets"]).enumerate() {
        if text(secret, "name").is_empty() {
            let at = at.child("imagePullSecrets").index(index);
            warnings.push(format!("{at}: invalid empty name \"\""));
        }
    }
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let at = at.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for field in ["initContainers", "containers"] {
        for (index, item) in list(&spec[field]).enumerate() {
            container(item, &at.child(field).index(index), warnings);
        }
    }
    duplicate_ports(spec, at, warnings);
}

/// Terms without a selector match no pod; an empty selector matches all.
fn absent_selectors(spec: &Value, at: &Path, warnings: &mut Vec<String>) {
    const MODES: [&str; 2] =
        ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"];
    let mut warn = |term: &Value, at: Path| {
        if term["labelSelector"].is_null() {
            warnings.push(format!("{}: a null labelSelector results in matching no pod", at.child("labelSelector")));
        }
    };
    for (index, constraint) in list(&spec["topologySpreadConstraints"]).enumerate() {
        warn(constraint, at.child("topologySpreadConstraints").index(index));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = at.child("affinity").child(kind);
        for (index, term) in list(&spec["affinity"][kind][MODES[0]]).enumerate() {
            warn(term, at.child(MODES[0]).index(index));
        }
        for (index, weighted) in list(&spec["affinity"][kind][MODES[1]]).enumerate() {
            warn(&weighted["podAffinityTerm"], at.child(MODES[1]).index(index).child("podAffinityTerm"));
        }
    }
}

fn container(container: &Value, at: &Path, warnings: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, variable) in list(&container["env"]).enumerate() {
        let name = text(variable, "name");
        // A variable that refers to its previous value is meant to replace it.
        let builds_on = text(variable, "value").contains(&format!("$({name})"));
        if !seen.insert(name) && !builds_on {
            let at = at.child("env").index(index);
            warnings
                .push(format!("{at}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
    for part in ["limits", "requests"] {
        for resource in ["memory", "ephemeral-storage"] {
            let Some(specified) = container["resources"][part][resource].as_str() else { continue };
            let whole = specified.parse::<Quantity>().ok().is_none_or(|amount| amount.milli_value() % 1000 == 0);
            if !whole {
                let at = at.child("resources").child(part).key(resource);
                warnings.push(format!("{at}: fractional byte value {specified:?} is invalid, must be an integer"));
            }
        }
    }
}

fn duplicate_ports(spec: &Value, at: &Path, warnings: &mut Vec<String>) {
    let mut seen: HashMap<String, Path> = HashMap::new();
    for (index, container) in list(&spec["containers"]).enumerate() {
        for (place, port) in list(&container["ports"]).enumerate() {
            let at = at.child("containers").index(index).child("ports").index(place);
            let key = format!("{}/{}/{}/{}", port["containerPort"], port["protocol"], port["hostPort"], port["hostIP"]);
            match seen.get(&key) {
                Some(other) => warnings.push(format!("{at}: duplicate port definition with {other}")),
                None => drop(seen.insert(key, at)),
            }
        }
    }
}

fn service(spec: &Value, warnings: &mut Vec<String>) {
    if spec["clusterIP"] != "None" {
        return;
    }
    if !text(spec, "loadBalancerIP").is_empty() {
        warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
    }
    if list(&spec["externalIPs"]).next().is_some() {
        warnings.push("spec.externalIPs is ignored for headless services".to_owned());
    }
    if spec["sessionAffinity"] == "ClientIP" {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
}

fn volume(object: &Value, warnings: &mut Vec<String>) {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    if object["metadata"]["annotations"].get(CLASS).is_some() {
        warnings.push(format!(
            "metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    if object["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning."
                .to_owned(),
        );
    }
}

fn ingress(ingress: &Value, warnings: &mut Vec<String>) {
    const CLASS: &str = "kubernetes.io/ingress.class";
    if ingress["metadata"]["annotations"].get(CLASS).is_some() && ingress["spec"]["ingressClassName"].is_null() {
        warnings.push(format!("annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_without_effect_yield_warnings() {
        let containers = json!([{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
            "ports": [{"containerPort": 80}, {"containerPort": 80}], "resources": {"requests": {"memory": "100m"}}}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": containers, "nodeSelector": {"beta.kubernetes.io/arch": "arm64"}, "terminationGracePeriodSeconds": -1,
        }});
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"imagePullSecrets": [{}]}}}});
        let headless = json!({"spec": {"clusterIP": "None", "sessionAffinity": "ClientIP"}});
        let endless = json!({"spec": {"revisionHistoryLimit": -1}});
        let old_class = json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "nginx"}}});
        for (group, kind, object, expected) in [
            (
                "apps",
                "StatefulSet",
                endless,
                &[
                    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
                ][..],
            ),
            (
                "",
                "Pod",
                pod,
                &[
                    "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                    "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                    "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                    "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                ][..],
            ),
            ("apps", "Deployment", deployment, &["spec.template.spec.imagePullSecrets[0]: invalid empty name \"\""]),
            (
                "",
                "Pod",
                json!({"metadata": {"name": "p"}, "spec": {
                    "topologySpreadConstraints": [{"topologyKey": "z"}, {"topologyKey": "z", "labelSelector": {}}],
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                        [{"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}]}},
                }}),
                &[
                    "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: \
                     a null labelSelector results in matching no pod",
                ],
            ),
            ("", "Service", headless, &["spec.SessionAffinity is ignored for headless services"]),
            (
                "networking.k8s.io",
                "Ingress",
                old_class,
                &[
                    "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
                ],
            ),
            ("", "ConfigMap", json!({"metadata": {"name": "a.b"}}), &[]),
        ] {
            assert_eq!(of(group, kind, &object), expected, "{kind}");
        }
        let dotted = of("", "Pod", &json!({"metadata": {"name": "a.b"}}));
        assert!(
            dotted[0].starts_with("metadata.name: this is used in the Pod's hostname, which can result in"),
            "{dotted:?}"
        );
    }
}
