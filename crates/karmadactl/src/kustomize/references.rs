//! References from object to object by name, which follow when names change.

use apimachinery::GroupVersionKind;
use serde_json::Value;

use super::fields::{Kinds, visit};
use super::resource::{Resource, is_cluster_scoped};

/// Objects of a kind that are named in pods, and elsewhere.
struct Row {
    named: Kinds,
    /// Below the specification of a pod, in objects of `pods`.
    in_pods: &'static [&'static str],
    pods: &'static [(Kinds, &'static str)],
    other_fields: &'static [(Kinds, &'static str)],
}

const POD: (Kinds, &str) = (Kinds("", "v1", "Pod"), "spec");
const DEPLOYMENT: (Kinds, &str) = (Kinds("", "", "Deployment"), "spec/template/spec");
const REPLICA_SET: (Kinds, &str) = (Kinds("", "", "ReplicaSet"), "spec/template/spec");
const DAEMON_SET: (Kinds, &str) = (Kinds("", "", "DaemonSet"), "spec/template/spec");
const STATEFUL_SET: (Kinds, &str) = (Kinds("", "", "StatefulSet"), "spec/template/spec");
const JOB: (Kinds, &str) = (Kinds("", "", "Job"), "spec/template/spec");
const CRON_JOB: (Kinds, &str) = (Kinds("", "", "CronJob"), "spec/jobTemplate/spec/template/spec");
const POD_TEMPLATE: (Kinds, &str) = (Kinds("", "v1", "PodTemplate"), "template/spec");
const CONTROLLER: (Kinds, &str) = (Kinds("", "", "ReplicationController"), "spec/template/spec");

/// For ConfigMaps and Secrets, kustomize updates references in other workloads than for other kinds.
const WITH_DATA: &[(Kinds, &str)] =
    &[POD, DEPLOYMENT, REPLICA_SET, DAEMON_SET, STATEFUL_SET, JOB, CRON_JOB, POD_TEMPLATE];
const WITH_ACCOUNTS: &[(Kinds, &str)] = &[POD, DEPLOYMENT, DAEMON_SET, STATEFUL_SET, JOB, CRON_JOB, CONTROLLER];

const SCALERS: &[(Kinds, &str)] = &[(Kinds("", "", "HorizontalPodAutoscaler"), "spec/scaleTargetRef/name")];
const INGRESS: Kinds = Kinds("", "", "Ingress");
const STORAGE_CLASS: Kinds = Kinds("", "", "StorageClass");

const ROWS: &[Row] = &[
    Row { named: Kinds("", "", "Deployment"), in_pods: &[], pods: &[], other_fields: SCALERS },
    Row { named: Kinds("", "", "ReplicationController"), in_pods: &[], pods: &[], other_fields: SCALERS },
    Row { named: Kinds("", "", "ReplicaSet"), in_pods: &[], pods: &[], other_fields: SCALERS },
    Row { named: Kinds("", "", "StatefulSet"), in_pods: &[], pods: &[], other_fields: SCALERS },
    Row {
        named: Kinds("", "v1", "ConfigMap"),
        in_pods: &[
            "volumes/configMap/name",
            "volumes/projected/sources/configMap/name",
            "containers/env/valueFrom/configMapKeyRef/name",
            "initContainers/env/valueFrom/configMapKeyRef/name",
            "containers/envFrom/configMapRef/name",
            "initContainers/envFrom/configMapRef/name",
        ],
        pods: WITH_DATA,
        other_fields: &[
            (Kinds("", "", "Node"), "spec/configSource/configMap"),
            (Kinds("", "", "Role"), "rules/resourceNames"),
            (Kinds("", "", "ClusterRole"), "rules/resourceNames"),
            (INGRESS, "metadata/annotations/nginx.ingress.kubernetes.io~fastcgi-params-configmap"),
        ],
    },
    Row {
        named: Kinds("", "v1", "Secret"),
        in_pods: &[
            "volumes/secret/secretName",
            "volumes/projected/sources/secret/name",
            "containers/env/valueFrom/secretKeyRef/name",
            "initContainers/env/valueFrom/secretKeyRef/name",
            "containers/envFrom/secretRef/name",
            "initContainers/envFrom/secretRef/name",
            "imagePullSecrets/name",
        ],
        pods: WITH_DATA,
        other_fields: &[
            (INGRESS, "spec/tls/secretName"),
            (INGRESS, "metadata/annotations/ingress.kubernetes.io~auth-secret"),
            (INGRESS, "metadata/annotations/nginx.ingress.kubernetes.io~auth-secret"),
            (INGRESS, "metadata/annotations/nginx.ingress.kubernetes.io~auth-tls-secret"),
            (Kinds("", "", "ServiceAccount"), "imagePullSecrets/name"),
            (STORAGE_CLASS, "parameters/secretName"),
            (STORAGE_CLASS, "parameters/adminSecretName"),
            (STORAGE_CLASS, "parameters/userSecretName"),
            (STORAGE_CLASS, "parameters/secretRef"),
            (Kinds("", "", "PersistentVolume"), "spec/azureFile/secretName"),
            (Kinds("", "", "Role"), "rules/resourceNames"),
            (Kinds("", "", "ClusterRole"), "rules/resourceNames"),
            (
                Kinds("serving.knative.dev", "v1", "Service"),
                "spec/template/spec/containers/env/valueFrom/secretKeyRef/name",
            ),
        ],
    },
    Row {
        named: Kinds("", "v1", "Service"),
        in_pods: &[],
        pods: &[],
        other_fields: &[
            (Kinds("apps", "", "StatefulSet"), "spec/serviceName"),
            (INGRESS, "spec/rules/http/paths/backend/serviceName"),
            (INGRESS, "spec/backend/serviceName"),
            (INGRESS, "spec/rules/http/paths/backend/service/name"),
            (INGRESS, "spec/defaultBackend/service/name"),
            (Kinds("apiregistration.k8s.io", "", "APIService"), "spec/service/name"),
            (
                Kinds("admissionregistration.k8s.io", "", "ValidatingWebhookConfiguration"),
                "webhooks/clientConfig/service",
            ),
            (
                Kinds("admissionregistration.k8s.io", "", "MutatingWebhookConfiguration"),
                "webhooks/clientConfig/service",
            ),
        ],
    },
    Row {
        named: Kinds("rbac.authorization.k8s.io", "", "Role"),
        in_pods: &[],
        pods: &[],
        other_fields: &[(Kinds("rbac.authorization.k8s.io", "", "RoleBinding"), "roleRef/name")],
    },
    Row {
        named: Kinds("rbac.authorization.k8s.io", "", "ClusterRole"),
        in_pods: &[],
        pods: &[],
        other_fields: &[
            (Kinds("rbac.authorization.k8s.io", "", "RoleBinding"), "roleRef/name"),
            (Kinds("rbac.authorization.k8s.io", "", "ClusterRoleBinding"), "roleRef/name"),
        ],
    },
    Row {
        named: Kinds("", "v1", "ServiceAccount"),
        in_pods: &["serviceAccountName"],
        pods: WITH_ACCOUNTS,
        other_fields: &[
            (Kinds("rbac.authorization.k8s.io", "", "RoleBinding"), "subjects"),
            (Kinds("rbac.authorization.k8s.io", "", "ClusterRoleBinding"), "subjects"),
        ],
    },
    Row {
        named: Kinds("", "v1", "PersistentVolumeClaim"),
        in_pods: &["volumes/persistentVolumeClaim/claimName"],
        pods: WITH_ACCOUNTS,
        other_fields: &[],
    },
    Row {
        named: Kinds("", "v1", "PersistentVolume"),
        in_pods: &[],
        pods: &[],
        other_fields: &[
            (Kinds("", "v1", "PersistentVolumeClaim"), "spec/volumeName"),
            (Kinds("", "", "ClusterRole"), "rules/resourceNames"),
        ],
    },
    Row {
        named: Kinds("storage.k8s.io", "", "StorageClass"),
        in_pods: &[],
        pods: &[],
        other_fields: &[
            (Kinds("", "", "PersistentVolume"), "spec/storageClassName"),
            (Kinds("", "", "PersistentVolumeClaim"), "spec/storageClassName"),
            (Kinds("apps", "", "StatefulSet"), "spec/volumeClaimTemplates/spec/storageClassName"),
        ],
    },
    Row {
        named: Kinds("scheduling.k8s.io", "", "PriorityClass"),
        in_pods: &["priorityClassName"],
        pods: WITH_ACCOUNTS,
        other_fields: &[],
    },
    Row {
        named: Kinds("admissionregistration.k8s.io", "", "ValidatingAdmissionPolicy"),
        in_pods: &[],
        pods: &[],
        other_fields: &[(
            Kinds("admissionregistration.k8s.io", "", "ValidatingAdmissionPolicyBinding"),
            "spec/policyName",
        )],
    },
];

/// Writes the present names of resources into the references to them.
pub fn rename(resources: &mut [Resource]) -> Result<(), String> {
    for at in 0..resources.len() {
        let mut object = resources[at].object.take();
        let referrer = Referrer { at, gvk: super::resource::gvk(&object), resources };
        let renamed = ROWS.iter().try_for_each(|row| referrer.row(row, &mut object));
        resources[at].object = object;
        renamed?;
    }
    Ok(())
}

/// One resource with the others. Its own object is taken out while it changes.
struct Referrer<'a> {
    at: usize,
    gvk: GroupVersionKind,
    resources: &'a [Resource],
}

impl Referrer<'_> {
    fn row(&self, row: &Row, object: &mut Value) -> Result<(), String> {
        let pods = row.pods.iter().filter(|(kinds, _)| kinds.includes(&self.gvk));
        let in_pods = pods.flat_map(|(_, spec)| row.in_pods.iter().map(move |path| format!("{spec}/{path}")));
        let other_fields = row.other_fields.iter().filter(|(kinds, _)| kinds.includes(&self.gvk));
        let mut result = Ok(());
        for path in in_pods.chain(other_fields.map(|(_, path)| (*path).to_owned())) {
            let own = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            let role_kind =
                (path == "roleRef/name").then(|| object["roleRef"]["kind"].as_str().unwrap_or_default().to_owned());
            if role_kind.is_some_and(|kind| kind != row.named.2) {
                continue;
            }
            visit(object, &path, false, &mut |found| {
                let changed = match found {
                    Value::Object(_) => self.with_namespace(row.named, found),
                    _ => self.name(row.named, found, &own),
                };
                if let Err(why) = changed {
                    result = Err(why);
                }
            });
        }
        result
    }

    /// A reference that is a name.
    fn name(&self, named: Kinds, found: &mut Value, namespace: &str) -> Result<(), String> {
        let Some(name) = found.as_str() else { return Ok(()) };
        let is_near = |other: &Resource| {
            let effective =
                |namespace: &str| if namespace.is_empty() { "default".to_owned() } else { namespace.to_owned() };
            is_cluster_scoped(&self.gvk)
                || is_cluster_scoped(&other.gvk())
                || effective(other.namespace()) == effective(namespace)
        };
        if let Some(other) = self.referred(named, name, &is_near, &|other| other.name().to_owned())? {
            *found = Value::from(other.name());
        }
        Ok(())
    }

    /// A reference that is a map of a name and a namespace.
    fn with_namespace(&self, named: Kinds, found: &mut Value) -> Result<(), String> {
        let Some(name) = found["name"].as_str().map(str::to_owned) else { return Ok(()) };
        let namespace = found["namespace"].as_str().map(str::to_owned);
        let was_there = |other: &Resource| {
            let is = |at: &str| namespace.as_deref().is_none_or(|required| required == at);
            is(other.id().effective_namespace()) || other.previous.iter().any(|id| is(id.effective_namespace()))
        };
        let shown = |other: &Resource| format!("{}/{}", other.namespace(), other.name());
        if let Some(other) = self.referred(named, &name, &was_there, &shown)? {
            found["name"] = Value::from(other.name());
            if !other.namespace().is_empty() {
                found["namespace"] = Value::from(other.namespace());
            }
        }
        Ok(())
    }

    /// The resource that originally had this name. Of several, those that were renamed in the same layers as the
    /// referrer are used.
    fn referred(
        &self,
        named: Kinds,
        name: &str,
        is_near: &dyn Fn(&Resource) -> bool,
        shown: &dyn Fn(&Resource) -> String,
    ) -> Result<Option<&Resource>, String> {
        let others = self.resources.iter().enumerate().filter(|(at, _)| *at != self.at).map(|(_, other)| other);
        let was_named = |other: &&Resource| other.previous.iter().any(|id| id.name == name && named.includes(&id.gvk));
        let mut found: Vec<&Resource> = others.filter(was_named).filter(|other| is_near(other)).collect();
        if found.len() > 1 {
            let own = &self.resources[self.at];
            found.retain(|other| {
                are_of_one_layer(&own.prefixes, &other.prefixes) && are_of_one_layer(&own.suffixes, &other.suffixes)
            });
        }
        let Some(first) = found.first() else { return Ok(None) };
        if found.iter().any(|other| shown(other) != shown(first)) {
            let ids: Vec<String> = found.iter().map(|other| other.id().to_string()).collect();
            return Err(format!("found multiple possible referrals of {:?}: {}", name, ids.join(", ")));
        }
        Ok(Some(first))
    }
}

/// Whether one list ends with the other: the outer layers are the same.
fn are_of_one_layer(one: &[String], other: &[String]) -> bool {
    one.ends_with(other) || other.ends_with(one)
}
