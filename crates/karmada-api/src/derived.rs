//! Derives the schemas from the types, and compares the files.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::crd::files::{FILES, name_of, schema_of};
use crate::crd::structural::structural;
use crate::kubernetes::Quantity;
use crate::raw::RawJson;
use crate::{ApiType, apps, autoscaling, cluster, config, multicluster, networking, policy, remedy, search, work};

impl JsonSchema for Quantity {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        const NUMBER: &str = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))";
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": format!(r"^(\+|-)?{NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{NUMBER}))?$"),
            "x-kubernetes-int-or-string": true,
        })
    }
}

impl JsonSchema for RawJson {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawJson".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

/// The file of a type: its name and text.
fn file_of<T: ApiType + JsonSchema>() -> (String, String) {
    let settings = schemars::generate::SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let schema = structural(settings.into_generator().into_root_schema_for::<T>());
    let mut text = Vec::new();
    schema
        .serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" ")))
        .expect("a tree has JSON");
    text.push(b'\n');
    (name_of::<T>(), String::from_utf8(text).expect("JSON is UTF-8"))
}

fn derived() -> Vec<(String, String)> {
    vec![
        file_of::<apps::v1alpha1::WorkloadRebalancer>(),
        file_of::<autoscaling::v1alpha1::CronFederatedHPA>(),
        file_of::<autoscaling::v1alpha1::FederatedHPA>(),
        file_of::<cluster::v1alpha1::Cluster>(),
        file_of::<config::v1alpha1::ResourceInterpreterCustomization>(),
        file_of::<config::v1alpha1::ResourceInterpreterWebhookConfiguration>(),
        file_of::<multicluster::v1alpha1::ServiceExport>(),
        file_of::<multicluster::v1alpha1::ServiceImport>(),
        file_of::<networking::v1alpha1::MultiClusterIngress>(),
        file_of::<networking::v1alpha1::MultiClusterService>(),
        file_of::<policy::v1alpha1::ClusterOverridePolicy>(),
        file_of::<policy::v1alpha1::ClusterPropagationPolicy>(),
        file_of::<policy::v1alpha1::ClusterTaintPolicy>(),
        file_of::<policy::v1alpha1::FederatedResourceQuota>(),
        file_of::<policy::v1alpha1::OverridePolicy>(),
        file_of::<policy::v1alpha1::PropagationPolicy>(),
        file_of::<remedy::v1alpha1::Remedy>(),
        file_of::<search::v1alpha1::Proxying>(),
        file_of::<search::v1alpha1::ResourceRegistry>(),
        file_of::<search::v1alpha1::Search>(),
        file_of::<work::v1alpha1::ClusterResourceBinding>(),
        file_of::<work::v1alpha1::ResourceBinding>(),
        file_of::<work::v1alpha1::Work>(),
        file_of::<work::v1alpha2::ClusterResourceBinding>(),
        file_of::<work::v1alpha2::ResourceBinding>(),
    ]
}

/// `UPDATE_EXPECT=1` writes them.
#[test]
fn files_are_the_schemas_of_the_types() {
    let derived = derived();
    let files: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    assert_eq!(files, derived.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    for (name, text) in derived {
        expect_test::expect_file![format!("../schemas/{name}.json")].assert_eq(&text);
    }
}

#[test]
fn served_types_have_a_schema() {
    let served = crate::resources(None).len();
    let versions = |crd: &Value| crd["spec"]["versions"].as_array().map_or(0, Vec::len);
    assert_eq!(served + crate::crds().iter().map(versions).sum::<usize>(), FILES.len());
    assert_eq!(schema_of::<work::v1alpha1::Work>()["properties"]["spec"]["type"], "object");
}
