//! The dependencies of a template.

use std::collections::BTreeSet;

use apimachinery::meta::LabelSelector;
use apimachinery::selector::Selector;
use karmada_api::config::v1alpha1::DependentObjectReference;
use serde_json::Value;

use super::unsupported;
use crate::tree::{at, list, text};
use crate::{Error, Kind, Operation};

pub fn dependencies(template: &Value) -> Result<Vec<DependentObjectReference>, Error> {
    let kind = Kind::of(template).ok_or_else(|| unsupported(Operation::InterpretDependency, template))?;
    let namespace = text(template, &["metadata", "namespace"]);
    if let Some(path) = kind.pod_template() {
        let mut found = pod_dependencies(at(template, path), namespace);
        if kind == Kind::StatefulSet {
            // The StatefulSet creates the claims of its templates itself.
            let own: BTreeSet<&str> = list(template, &["spec", "volumeClaimTemplates"])
                .iter()
                .map(|claim| text(claim, &["metadata", "name"]))
                .collect();
            found.retain(|it| it.kind != "PersistentVolumeClaim" || !own.contains(it.name.as_str()));
        }
        return Ok(found);
    }
    match kind {
        Kind::Ingress => Ok(ingress(template, namespace)),
        Kind::ServiceImport => Ok(service_import(template, namespace)),
        _ => Err(unsupported(Operation::InterpretDependency, template)),
    }
}

/// Checks that references are complete.
///
/// # Errors
/// The first incomplete reference.
pub fn validated(
    template: &Value,
    references: Vec<DependentObjectReference>,
) -> Result<Vec<DependentObjectReference>, Error> {
    for reference in &references {
        let wrong = if reference.api_version.is_empty() {
            "dependency missing required apiVersion"
        } else if reference.kind.is_empty() {
            "dependency missing required kind"
        } else if reference.name.is_empty() && reference.label_selector.is_none() {
            "dependency can not leave name and labelSelector all empty"
        } else if reference.label_selector.as_ref().is_some_and(|it| Selector::from_label_selector(it).is_err()) {
            "dependency has a labelSelector that is not valid"
        } else {
            continue;
        };
        return Err(Error::malformed(Operation::InterpretDependency, template, wrong));
    }
    Ok(references)
}

fn reference(kind: &str, namespace: &str, name: &str) -> DependentObjectReference {
    DependentObjectReference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        label_selector: None,
    }
}

/// An entry without a Secret is routed by host name.
fn ingress(template: &Value, namespace: &str) -> Vec<DependentObjectReference> {
    let names = list(template, &["spec", "tls"]).iter().map(|tls| text(tls, &["secretName"]));
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    names.into_iter().map(|name| reference("Secret", namespace, name)).collect()
}

fn service_import(template: &Value, namespace: &str) -> Vec<DependentObjectReference> {
    let derived = format!("derived-{}", text(template, &["metadata", "name"]));
    let mut selector = LabelSelector::default();
    selector.match_labels.insert("kubernetes.io/service-name".to_owned(), derived.clone());
    vec![
        reference("Service", namespace, &derived),
        DependentObjectReference {
            api_version: "discovery.k8s.io/v1".to_owned(),
            kind: "EndpointSlice".to_owned(),
            namespace: namespace.to_owned(),
            name: String::new(),
            label_selector: Some(selector),
        },
    ]
}

/// The paths of a Secret's name in a volume.
const SECRET_IN_VOLUME: &[&[&str]] = &[
    &["secret", "secretName"],
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
];

/// The config maps, secrets, service account and claims of a pod template, without duplicates, sorted by kind and name.
pub fn pod_dependencies(template: &Value, namespace: &str) -> Vec<DependentObjectReference> {
    let spec = &template["spec"];
    let mut found: BTreeSet<(&str, &str)> = BTreeSet::new();
    for volume in list(spec, &["volumes"]) {
        found.insert(("ConfigMap", text(volume, &["configMap", "name"])));
        found.insert(("PersistentVolumeClaim", text(volume, &["persistentVolumeClaim", "claimName"])));
        found.extend(SECRET_IN_VOLUME.iter().map(|path| ("Secret", text(volume, path))));
        for source in list(volume, &["projected", "sources"]) {
            found.insert(("ConfigMap", text(source, &["configMap", "name"])));
            found.insert(("Secret", text(source, &["secret", "name"])));
        }
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in list(spec, &[field]) {
            for source in list(container, &["envFrom"]) {
                found.insert(("ConfigMap", text(source, &["configMapRef", "name"])));
                found.insert(("Secret", text(source, &["secretRef", "name"])));
            }
            for variable in list(container, &["env"]) {
                found.insert(("ConfigMap", text(variable, &["valueFrom", "configMapKeyRef", "name"])));
                found.insert(("Secret", text(variable, &["valueFrom", "secretKeyRef", "name"])));
            }
        }
    }
    found.extend(list(spec, &["imagePullSecrets"]).iter().map(|secret| ("Secret", text(secret, &["name"]))));
    let account = text(spec, &["serviceAccountName"]);
    if account != "default" {
        found.insert(("ServiceAccount", account));
    }
    found
        .into_iter()
        .filter(|(_, name)| !name.is_empty())
        .map(|(kind, name)| reference(kind, namespace, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(object: Value) -> String {
        let found = dependencies(&object).unwrap();
        found.iter().map(|it| format!("{}/{}", it.kind, it.name)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn dependencies_of_pods_and_pod_templates() {
        let spec = json!({
            "serviceAccountName": "sa",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"configMap": {"name": "c"}}, {"secret": {"secretName": "s"}}, {"persistentVolumeClaim": {"claimName": "data"}},
                {"projected": {"sources": [{"configMap": {"name": "p"}}, {"secret": {"name": "s"}}]}},
            ],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "e"}}}], "envFrom": [{"configMapRef": {"name": "c"}}]}],
        });
        let all = "ConfigMap/c ConfigMap/p PersistentVolumeClaim/data Secret/e Secret/pull Secret/s ServiceAccount/sa";
        assert_eq!(found(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec.clone()})), all);
        assert_eq!(
            found(
                json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": spec.clone()}}}}})
            ),
            all
        );
        assert_eq!(
            found(
                json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": {"spec": spec}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}})
            ),
            all.replace("PersistentVolumeClaim/data ", "")
        );
        let named_alike =
            json!({"volumes": [{"secret": {"secretName": "data"}}, {"persistentVolumeClaim": {"claimName": "data"}}]});
        assert_eq!(
            found(
                json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": {"spec": named_alike}, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}})
            ),
            "Secret/data"
        );
    }

    #[test]
    fn every_field_with_a_reference() {
        let of = |spec: Value| {
            found(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns"}, "spec": spec}))
        };
        let secret = |volume: Value| of(json!({"volumes": [volume]}));
        for volume in [
            json!({"secret": {"secretName": "s"}}),
            json!({"azureFile": {"secretName": "s"}}),
            json!({"cephfs": {"secretRef": {"name": "s"}}}),
            json!({"cinder": {"secretRef": {"name": "s"}}}),
            json!({"flexVolume": {"secretRef": {"name": "s"}}}),
            json!({"rbd": {"secretRef": {"name": "s"}}}),
            json!({"scaleIO": {"secretRef": {"name": "s"}}}),
            json!({"iscsi": {"secretRef": {"name": "s"}}}),
            json!({"storageos": {"secretRef": {"name": "s"}}}),
            json!({"csi": {"nodePublishSecretRef": {"name": "s"}}}),
            json!({"projected": {"sources": [{"secret": {"name": "s"}}]}}),
        ] {
            assert_eq!(secret(volume.clone()), "Secret/s", "{volume}");
        }
        for containers in ["containers", "initContainers", "ephemeralContainers"] {
            let container = json!({"envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
                "env": [{"valueFrom": {"configMapKeyRef": {"name": "c"}}}, {"valueFrom": {"secretKeyRef": {"name": "d"}}}]});
            assert_eq!(
                of(json!({containers: [container]})),
                "ConfigMap/a ConfigMap/c Secret/b Secret/d",
                "{containers}"
            );
        }
        for account in ["", "default"] {
            assert_eq!(
                of(json!({"serviceAccountName": account, "volumes": [{"configMap": {"name": ""}}]})),
                "",
                "{account}"
            );
        }
    }

    #[test]
    fn dependencies_of_other_kinds() {
        let ingress =
            |tls: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"tls": tls}});
        assert_eq!(found(ingress(json!([{"secretName": "b"}, {"secretName": "a"}]))), "Secret/a Secret/b");
        assert_eq!(found(ingress(json!([{"hosts": ["h"]}, {"secretName": "a"}]))), "Secret/a");
        let import =
            json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"name": "x"}});
        assert_eq!(found(import), "Service/derived-x EndpointSlice/");
    }
}
