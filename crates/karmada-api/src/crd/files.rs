//! The schemas, as files.

use serde_json::Value;

use crate::ApiType;

macro_rules! files {
    ($($name:literal,)*) => {
        /// Group, version and plural name as in [`name_of`], and the schema.
        pub(crate) const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../schemas/", $name, ".json"))),)*];
    };
}

files! {
    "apps.karmada.io_v1alpha1_workloadrebalancers",
    "autoscaling.karmada.io_v1alpha1_cronfederatedhpas",
    "autoscaling.karmada.io_v1alpha1_federatedhpas",
    "cluster.karmada.io_v1alpha1_clusters",
    "config.karmada.io_v1alpha1_resourceinterpretercustomizations",
    "config.karmada.io_v1alpha1_resourceinterpreterwebhookconfigurations",
    "multicluster.x-k8s.io_v1alpha1_serviceexports",
    "multicluster.x-k8s.io_v1alpha1_serviceimports",
    "networking.karmada.io_v1alpha1_multiclusteringresses",
    "networking.karmada.io_v1alpha1_multiclusterservices",
    "policy.karmada.io_v1alpha1_clusteroverridepolicies",
    "policy.karmada.io_v1alpha1_clusterpropagationpolicies",
    "policy.karmada.io_v1alpha1_clustertaintpolicies",
    "policy.karmada.io_v1alpha1_federatedresourcequotas",
    "policy.karmada.io_v1alpha1_overridepolicies",
    "policy.karmada.io_v1alpha1_propagationpolicies",
    "remedy.karmada.io_v1alpha1_remedies",
    "search.karmada.io_v1alpha1_proxying",
    "search.karmada.io_v1alpha1_resourceregistries",
    "search.karmada.io_v1alpha1_search",
    "work.karmada.io_v1alpha1_clusterresourcebindings",
    "work.karmada.io_v1alpha1_resourcebindings",
    "work.karmada.io_v1alpha1_works",
    "work.karmada.io_v1alpha2_clusterresourcebindings",
    "work.karmada.io_v1alpha2_resourcebindings",
}

/// The name of the file of a type.
pub(crate) fn name_of<T: ApiType>() -> String {
    format!("{}_{}_{}", T::GROUP, T::VERSION, T::PLURAL)
}

/// The structural schema of a type.
pub(crate) fn schema_of<T: ApiType>() -> Value {
    schema_named(&name_of::<T>())
}

fn schema_named(name: &str) -> Value {
    let (_, schema) = FILES.iter().find(|(of, _)| *of == name).expect("a test reads the schema of every type");
    serde_json::from_str(schema).expect("a test reads every schema")
}
