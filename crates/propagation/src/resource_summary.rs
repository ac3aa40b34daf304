//! What the nodes of a cluster have, what is used of it, and how many nodes of each grade are left.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use interpreter::{Limits, amounts, pod_request, printed};
use karmada_api::cluster::v1alpha1::{AllocatableModeling, ResourceModel, ResourceSummary};
use serde_json::Value;

type Amounts = BTreeMap<String, Quantity>;

/// Sums up nodes and pods. The error says what is malformed; then the last summary should stand.
pub fn summarize(nodes: &[Value], pods: &[Value], models: &[ResourceModel]) -> Result<ResourceSummary, String> {
    let mut allocatable = Amounts::new();
    let mut left: BTreeMap<&str, Amounts> = BTreeMap::new();
    for node in nodes {
        let has = amounts(&node["status"]["allocatable"])?;
        add(&mut allocatable, &has);
        left.insert(node["metadata"]["name"].as_str().unwrap_or_default(), has);
    }
    let (mut allocating, mut allocated) = (Amounts::new(), Amounts::new());
    for pod in pods {
        let mut request = pod_request(&pod["spec"], Limits::Ignored)?;
        request.insert("pods".to_owned(), one());
        match pod["spec"]["nodeName"].as_str().unwrap_or_default() {
            "" => add(&mut allocating, &request),
            _ if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) => {}
            node => {
                add(&mut allocated, &request);
                if let Some(left) = left.get_mut(node) {
                    subtract(left, &request);
                }
            }
        }
    }
    Ok(ResourceSummary {
        allocatable: allocatable
            .into_iter()
            .map(|(name, amount)| (name, karmada_api::kubernetes::Quantity(amount.to_string())))
            .collect(),
        allocating: printed(allocating),
        allocated: printed(allocated),
        allocatable_modelings: if models.is_empty() { Vec::new() } else { modelings(left.values(), models)? },
    })
}

fn one() -> Quantity {
    Quantity::new(1, apimachinery::quantity::Format::DecimalSi)
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = *sum + *amount;
    }
}

fn subtract(left: &mut Amounts, used: &Amounts) {
    for (name, amount) in used {
        if let Some(rest) = left.get_mut(name) {
            *rest = *rest - *amount;
        }
    }
}

/// Counts nodes by grade. A node that takes no more pods is left out (and only that node).
fn modelings<'a>(
    nodes: impl Iterator<Item = &'a Amounts>,
    models: &[ResourceModel],
) -> Result<Vec<AllocatableModeling>, String> {
    let mut sorted: Vec<&ResourceModel> = models.iter().collect();
    sorted.sort_by_key(|model| model.grade);
    let mut counts: Vec<AllocatableModeling> =
        sorted.iter().map(|model| AllocatableModeling { grade: model.grade, count: 0 }).collect();
    // For each resource, where each grade begins.
    let mut bounds: BTreeMap<&str, Vec<Quantity>> = BTreeMap::new();
    for range in sorted.iter().flat_map(|model| &model.ranges) {
        let min = range.min.as_str().parse().map_err(|error| format!("resource model of {}: {error}", range.name))?;
        bounds.entry(range.name.as_str()).or_default().push(min);
    }
    for left in nodes {
        if left.get("pods").is_some_and(|pods| *pods <= Quantity::ZERO) {
            continue;
        }
        let grade = bounds.iter().map(|(name, mins)| {
            let amount = left.get(*name).copied().unwrap_or_default();
            mins.partition_point(|min| *min <= amount)
        });
        // One more than the index; 0 is below the lowest grade.
        if let Some(place) = grade.min().and_then(|above| above.checked_sub(1))
            && let Some(count) = counts.get_mut(place)
        {
            count.count += 1;
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sums_and_grades() {
        let node = |name: &str, cpu: &str, pods: &str| json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}}});
        let pod = |node: &str, cpu: &str, phase: &str| {
            json!({
                "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}}}]},
                "status": {"phase": phase},
            })
        };
        let models: Vec<ResourceModel> = serde_json::from_value(karmada_api::cluster::default_models()).unwrap();
        let summary = summarize(
            &[node("a", "4", "110"), node("b", "2", "110"), node("full", "64", "1")],
            &[
                pod("a", "500m", "Running"),
                pod("a", "1", "Succeeded"),
                pod("", "250m", "Pending"),
                pod("full", "1", "Running"),
            ],
            &models,
        )
        .unwrap();
        let text = |list: &karmada_api::kubernetes::ResourceList| {
            list.iter().map(|(name, q)| format!("{name}={}", q.as_str())).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(&summary.allocatable), "cpu=70 memory=24Gi pods=221");
        assert_eq!(text(&summary.allocated), "cpu=1500m pods=2");
        assert_eq!(text(&summary.allocating), "cpu=250m pods=1");
        // a has 3.5 cpu and 8Gi (grade 1 by memory), b 2 cpu and 8Gi (grade 1 by memory), full takes no more pods.
        let counts: Vec<i64> = summary.allocatable_modelings.iter().map(|it| it.count).collect();
        assert_eq!(counts, [0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert!(summarize(&[node("a", "much", "1")], &[], &models).is_err());
    }
}
