//! Collects the descriptions of the built-in types and their fields from `k8s-openapi`, which carries Kubernetes' own, into
//! sorted lines `definition<unit separator>field<unit separator>description` for `src/openapi/descriptions.rs`.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut generator = SchemaGenerator::default();
    add_kinds(&mut generator);
    let mut rows = BTreeMap::new();
    for (definition, schema) in generator.take_definitions(true) {
        add(&definition, "", &schema, &mut rows);
        let properties = schema.get("properties").and_then(Value::as_object);
        for (field, property) in properties.into_iter().flatten() {
            add(&definition, field, property, &mut rows);
        }
    }
    let lines: String = rows.iter().map(|(key, text)| format!("{key}\u{1f}{text}\n")).collect();
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(std::path::Path::new(&out).join("descriptions"), lines).expect("OUT_DIR is writable");
}

fn add(definition: &str, field: &str, schema: &Value, rows: &mut BTreeMap<String, String>) {
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        // A line is a row; the reader turns the separator back.
        rows.insert(format!("{definition}\u{1f}{field}"), text.replace('\n', "\u{1e}"));
    }
}

fn add_kinds(generator: &mut SchemaGenerator) {
    macro_rules! kinds {
        ($($($module:ident)::+ { $($kind:ident)+ })+) => {$({
            use k8s_openapi::$($module)::+::{$($kind),+};
            $( of::<$kind>(generator); )+
        })+};
    }
    kinds! {
        api::admissionregistration::v1 {
            MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
            ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
        }
        api::admissionregistration::v1alpha1 { MutatingAdmissionPolicy MutatingAdmissionPolicyBinding }
        api::admissionregistration::v1beta1 { MutatingAdmissionPolicy MutatingAdmissionPolicyBinding }
        api::apiserverinternal::v1alpha1 { StorageVersion }
        api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
        api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview }
        api::authorization::v1 { LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview }
        api::autoscaling::v1 { HorizontalPodAutoscaler Scale }
        api::autoscaling::v2 { HorizontalPodAutoscaler }
        api::batch::v1 { CronJob Job }
        api::certificates::v1 { CertificateSigningRequest }
        api::certificates::v1alpha1 { ClusterTrustBundle }
        api::certificates::v1beta1 { ClusterTrustBundle PodCertificateRequest }
        api::coordination::v1 { Lease }
        api::coordination::v1alpha2 { LeaseCandidate }
        api::coordination::v1beta1 { LeaseCandidate }
        api::core::v1 {
            Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
        }
        api::discovery::v1 { EndpointSlice }
        api::events::v1 { Event }
        api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
        api::networking::v1 { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR }
        api::networking::v1beta1 { IPAddress ServiceCIDR }
        api::node::v1 { RuntimeClass }
        api::policy::v1 { Eviction PodDisruptionBudget }
        api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
        api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
        api::resource::v1alpha3 { DeviceTaintRule ResourcePoolStatusRequest }
        api::resource::v1beta1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
        api::resource::v1beta2 { DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice }
        api::scheduling::v1 { PriorityClass }
        api::scheduling::v1alpha2 { PodGroup Workload }
        api::storage::v1 {
            CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
        }
        api::storage::v1beta1 { VolumeAttributesClass }
        api::storagemigration::v1beta1 { StorageVersionMigration }
        apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition }
        apimachinery::pkg::apis::meta::v1 {
            APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta ObjectMeta Status
        }
        apimachinery::pkg::version { Info }
        kube_aggregator::pkg::apis::apiregistration::v1 { APIService }
    }
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _ = generator.subschema_for::<T>();
}
