//! FederatedResourceQuotas: the ResourceQuotas of single clusters, and the reports of those clusters.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use karmada_api::constants::labels;
use karmada_api::identity::ClusterName;
use karmada_api::kubernetes::ResourceList;
use karmada_api::names;
use karmada_api::policy::v1alpha1::{ClusterQuotaStatus, FederatedResourceQuota};
use karmada_api::work::v1alpha1::Work;
use serde::Deserialize;
use serde_json::json;

use crate::overrides::AppliedOverrides;
use crate::status::is_applied;
use crate::works::{self, WorkMetadata};

const KIND: &str = "ResourceQuota";

/// The Works of a quota: one for each assigned cluster that `exists`. Of several assignments to one cluster the first
/// is used.
///
/// # Errors
/// The cluster whose manifest cannot be encoded.
pub fn works(
    quota: &FederatedResourceQuota,
    exists: impl Fn(&str) -> bool,
) -> Result<BTreeMap<ClusterName, Work>, works::Error> {
    let (mut works, applied) = (BTreeMap::new(), AppliedOverrides::new());
    for assignment in &quota.spec.static_assignments {
        let name = assignment.cluster_name.as_str();
        if works.contains_key(name) || !exists(name) {
            continue;
        }
        let cluster = ClusterName::from(name);
        let manifest = json!({"apiVersion": "v1", "kind": KIND,
            "metadata": {"name": quota.metadata.name, "namespace": quota.metadata.namespace, "uid": quota.metadata.uid},
            "spec": {"hard": assignment.hard}});
        let metadata = WorkMetadata {
            labels: work_labels(quota),
            annotations: BTreeMap::new(),
            conflict_resolution: None,
            applied: &applied,
        };
        let work = works::work(&cluster, manifest, metadata)
            .map_err(|source| works::Error::Encode { cluster: cluster.clone(), source })?;
        works.insert(cluster, work);
    }
    Ok(works)
}

fn work_labels(quota: &FederatedResourceQuota) -> BTreeMap<String, String> {
    let metadata = &quota.metadata;
    [(labels::QUOTA_NAMESPACE, &metadata.namespace), (labels::QUOTA_NAME, &metadata.name)]
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value.clone()))
        .collect()
}

/// The status of a ResourceQuota.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reported {
    hard: ResourceList,
    used: ResourceList,
}

/// A report that cannot be decoded: its cluster's usage is unknown, not zero.
#[derive(Debug, thiserror::Error)]
#[error("the status of the {KIND} in cluster {cluster} cannot be read: {source}")]
pub struct Unreadable {
    cluster: String,
    source: serde_json::Error,
}

/// The reports of the clusters of a quota, by name: of each Work that is applied and has a status.
///
/// # Errors
/// The first report that cannot be read.
pub fn aggregated<'a>(works: impl IntoIterator<Item = &'a Work>) -> Result<Vec<ClusterQuotaStatus>, Unreadable> {
    let report = |work: &Work| {
        let cluster = names::cluster_of_namespace(&work.metadata.namespace)?.to_owned();
        let status = work.status.manifest_statuses.iter().find(|it| it.identifier.kind == KIND)?.status.as_ref()?;
        Some(match status.decode() {
            Ok(Reported { hard, used }) => Ok(ClusterQuotaStatus { cluster_name: cluster, hard, used }),
            Err(source) => Err(Unreadable { cluster, source }),
        })
    };
    let reports: Result<Vec<_>, _> = works.into_iter().filter(|it| is_applied(it)).filter_map(report).collect();
    let mut reports = reports?;
    reports.sort_by(|one, other| one.cluster_name.cmp(&other.cluster_name));
    Ok(reports)
}

/// The usage over clusters, of the resources that the quota limits.
pub fn used_in_clusters(quota: &FederatedResourceQuota, reports: &[ClusterQuotaStatus]) -> ResourceList {
    let mut sum: BTreeMap<&String, Quantity> = BTreeMap::new();
    for (name, amount) in reports.iter().flat_map(|it| &it.used) {
        let Ok(amount) = amount.as_str().parse::<Quantity>() else { continue };
        if quota.spec.overall.contains_key(name) {
            sum.entry(name).and_modify(|sum| *sum = *sum + amount).or_insert(amount);
        }
    }
    sum.into_iter().map(|(name, amount)| (name.clone(), amount.to_string().as_str().into())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn quota(assignments: &Value) -> FederatedResourceQuota {
        let value = json!({"metadata": {"name": "q", "namespace": "test", "uid": "u"},
            "spec": {"overall": {"cpu": "100", "memory": "1Gi"}, "staticAssignments": assignments}});
        serde_json::from_value(value).expect("a quota")
    }

    #[test]
    fn a_work_for_each_assigned_cluster() {
        let of = |cluster: &str, cpu: &str| json!({"clusterName": cluster, "hard": {"cpu": cpu}});
        for (assignments, expected) in [
            (json!([]), ""),
            (json!([of("m1", "20"), of("m2", "50")]), "m1=20 m2=50"),
            (json!([of("m2", "50"), of("gone", "1")]), "m2=50"),
            (json!([of("m1", "20"), of("m1", "30")]), "m1=20"),
        ] {
            let works = works(&quota(&assignments), |cluster| cluster != "gone").expect("works");
            let shown = works.iter().map(|(cluster, work)| {
                assert_eq!(work.metadata.namespace, format!("karmada-es-{cluster}"));
                assert_eq!(work.metadata.labels["federatedresourcequota.karmada.io/name"], "q");
                assert_eq!(work.metadata.labels["federatedresourcequota.karmada.io/namespace"], "test");
                let manifest = work.spec.workload.manifests[0].to_value().expect("JSON");
                assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&json!("ResourceQuota"), &json!("q")));
                format!("{cluster}={}", manifest["spec"]["hard"]["cpu"].as_str().expect("an amount"))
            });
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected);
        }
        let named = json!({"metadata": {"name": "test", "namespace": "test"}, "spec": {"overall": {"cpu": "1"},
            "staticAssignments": [of("m1", "1")]}});
        let works = works(&serde_json::from_value(named).expect("a quota"), |_| true).expect("works");
        assert_eq!(works["m1"].metadata.name, "test-6dfb794785", "as upstream names it");
    }

    #[test]
    fn reports_of_clusters() {
        let work = |cluster: &str, applied: &str, status: Value| -> Work {
            let conditions = json!([{"type": "Applied", "status": applied, "reason": "", "message": "", "lastTransitionTime": null}]);
            let manifest = json!({"identifier": {"kind": "ResourceQuota", "name": "q"}, "status": status});
            serde_json::from_value(json!({"metadata": {"namespace": format!("karmada-es-{cluster}"), "name": "w"},
                "status": {"conditions": conditions, "manifestStatuses": [manifest]}}))
            .expect("a work")
        };
        let used = |cpu: &str| json!({"hard": {"cpu": "20"}, "used": {"cpu": cpu, "pods": "1"}});
        let works = [
            work("m2", "True", used("1500m")),
            work("m1", "True", used("2")),
            work("m3", "False", used("7")),
            work("m4", "True", Value::Null),
        ];
        let reports = aggregated(&works).expect("reports");
        let clusters: Vec<&str> = reports.iter().map(|it| it.cluster_name.as_str()).collect();
        assert_eq!(clusters, ["m1", "m2"]);
        assert_eq!(reports[0].hard["cpu"].as_str(), "20");
        let sum = used_in_clusters(&quota(&json!([])), &reports);
        assert_eq!(serde_json::to_value(sum).expect("JSON"), json!({"cpu": "3500m"}));
        let unknown = aggregated(&[work("m1", "True", used("2")), work("m2", "True", json!({"used": []}))]);
        let unknown = unknown.expect_err("unreadable").to_string();
        assert!(unknown.starts_with("the status of the ResourceQuota in cluster m2 cannot be read: "), "{unknown}");
    }
}
