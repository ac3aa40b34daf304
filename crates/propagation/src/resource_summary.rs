//! The resource summary of a cluster: allocatable and allocated resources, and the free nodes of each grade.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::Object;
use apimachinery::quantity::Quantity;
use interpreter::{add_amounts, amounts, pod_request, printed};
use karmada_api::cluster::v1alpha1::{AllocatableModeling, ResourceModel, ResourceSummary};
use serde::Deserialize;
use serde_json::Value;

type Amounts = BTreeMap<String, Quantity>;

/// The resources of a pod, and its node: all that the sums need.
struct Share {
    version: Box<str>,
    node: Box<str>,
    /// The pod has finished, and uses nothing.
    ended: bool,
    request: Amounts,
}

/// The parts of a pod that its share is read from.
#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Option<PodStatus>,
}

#[derive(Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: Option<String>,
}

impl Share {
    fn read(pod: &Object) -> Result<Self, String> {
        let Pod { spec, status } =
            serde_json::from_slice(&pod.json()).map_err(|error| format!("pod {}: {error}", pod.key()))?;
        let mut request = pod_request(&spec).map_err(|error| format!("pod {}: {error}", pod.key()))?;
        request.insert("pods".to_owned(), one());
        let phase = status.and_then(|status| status.phase);
        Ok(Self {
            version: pod.resource_version().into(),
            node: spec["nodeName"].as_str().unwrap_or_default().into(),
            ended: matches!(phase.as_deref(), Some("Succeeded" | "Failed")),
            request,
        })
    }
}

/// The pods of a cluster as far as sums need them, by uid. A version of a pod is read once.
#[derive(Default)]
pub struct Pods(HashMap<Box<str>, Share>);

impl Pods {
    /// Replaces the known pods by the given ones. The error names the malformed pod.
    ///
    /// # Errors
    /// The message names the malformed pod.
    pub fn update(&mut self, pods: &[Arc<Object>]) -> Result<(), String> {
        let mut known = std::mem::take(&mut self.0);
        for pod in pods {
            let (uid, share) = match known.remove_entry(pod.uid()) {
                Some((uid, share)) if *share.version == *pod.resource_version() => (uid, share),
                _ => (pod.uid().into(), Share::read(pod)?),
            };
            self.0.insert(uid, share);
        }
        Ok(())
    }
}

/// Sums up nodes and pods. The error names the malformed object; the previous summary should then be kept.
///
/// # Errors
/// The message names the malformed node.
pub fn summarize(nodes: &[Value], pods: &Pods, models: &[ResourceModel]) -> Result<ResourceSummary, String> {
    let mut allocatable = Amounts::new();
    let mut left: BTreeMap<&str, Amounts> = BTreeMap::new();
    for node in nodes {
        let has = amounts(&node["status"]["allocatable"])?;
        add_amounts(&mut allocatable, &has);
        left.insert(node["metadata"]["name"].as_str().unwrap_or_default(), has);
    }
    let (mut allocating, mut allocated) = (Amounts::new(), Amounts::new());
    for pod in pods.0.values() {
        match &*pod.node {
            "" => add_amounts(&mut allocating, &pod.request),
            _ if pod.ended => {}
            node => {
                add_amounts(&mut allocated, &pod.request);
                if let Some(left) = left.get_mut(node) {
                    subtract(left, &pod.request);
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

fn subtract(left: &mut Amounts, used: &Amounts) {
    for (name, amount) in used {
        if let Some(rest) = left.get_mut(name) {
            *rest = *rest - *amount;
        }
    }
}

/// Counts nodes by grade. Nodes that accept no more pods are skipped.
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
    // Models with differing resources, or without any, count no node.
    if bounds.is_empty() || bounds.values().any(|mins| mins.len() != sorted.len()) {
        return Ok(Vec::new());
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

    fn pods(trees: &[Value]) -> Pods {
        let objects: Vec<Arc<Object>> = trees
            .iter()
            .enumerate()
            .map(|(index, tree)| {
                let mut tree = tree.clone();
                tree["metadata"] =
                    json!({"name": format!("p{index}"), "uid": format!("u{index}"), "resourceVersion": "1"});
                Object::from_value(&tree).unwrap().shared()
            })
            .collect();
        let mut pods = Pods::default();
        pods.update(&objects).unwrap();
        pods
    }

    #[test]
    fn a_version_of_a_pod_is_read_once() {
        let pod = |uid: &str, version: &str, cpu: &str| {
            let containers = json!([{"resources": {"requests": {"cpu": cpu}}}]);
            let metadata = json!({"name": "p", "uid": uid, "resourceVersion": version});
            let tree = json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": containers}});
            Object::from_value(&tree).unwrap().shared()
        };
        let allocated = |pods: &Pods| summarize(&[], pods, &[]).unwrap().allocated;
        let cpu = |pods: &Pods| allocated(pods).get("cpu").map(|amount| amount.as_str().to_owned());
        let mut pods = Pods::default();
        pods.update(&[pod("a", "1", "1"), pod("b", "1", "2")]).unwrap();
        assert_eq!(cpu(&pods).as_deref(), Some("3"));
        // Pods of the same version are not parsed again; a newer version and another object of the same name are.
        pods.update(&[pod("a", "1", "8"), pod("b", "2", "4")]).unwrap();
        assert_eq!(cpu(&pods).as_deref(), Some("5"));
        pods.update(&[pod("c", "1", "7")]).unwrap();
        assert_eq!(cpu(&pods).as_deref(), Some("7"));
        let error = pods.update(&[pod("d", "1", "much")]).unwrap_err();
        assert!(error.starts_with("pod p: cpu"), "{error}");
        pods.update(&[]).unwrap();
        assert_eq!(cpu(&pods), None);
    }

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
            &pods(&[
                pod("a", "500m", "Running"),
                pod("a", "1", "Succeeded"),
                pod("", "250m", "Pending"),
                pod("full", "1", "Running"),
            ]),
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
        assert!(summarize(&[node("a", "much", "1")], &Pods::default(), &models).is_err());
    }

    /// Cpu, memory and slots of a node, and its pods as cpu and phase.
    type Node<'a> = (&'a str, &'a str, u32, &'a [(&'a str, &'a str)]);

    fn counts(models: Value, nodes: &[Node<'_>]) -> Vec<i64> {
        let models: Vec<ResourceModel> = serde_json::from_value(models).unwrap();
        let node = |(index, (cpu, memory, slots, _)): (usize, &Node<'_>)| {
            json!({"metadata": {"name": format!("n{index}")},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": slots.to_string()}}})
        };
        let trees: Vec<Value> = nodes.iter().enumerate().map(node).collect();
        let running: Vec<Value> = nodes
            .iter()
            .enumerate()
            .flat_map(|(index, (.., pods))| {
                pods.iter().map(move |(cpu, phase)| {
                    json!({"spec": {"nodeName": format!("n{index}"),
                "containers": [{"resources": {"requests": {"cpu": cpu}}}]}, "status": {"phase": phase}})
                })
            })
            .collect();
        let summary = summarize(&trees, &pods(&running), &models).unwrap();
        summary.allocatable_modelings.iter().map(|it| it.count).collect()
    }

    #[test]
    fn grades_as_in_the_tables() {
        let range = |name: &str, min: &str| json!({"name": name, "min": min, "max": "1Ei"});
        let grade = |grade: u32, cpu: &str, memory: &str| json!({"grade": grade, "ranges": [range("cpu", cpu), range("memory", memory)]});
        let three = json!([grade(0, "0", "0"), grade(1, "1", "4Gi"), grade(2, "2", "16Gi")]);
        let gpu = json!([{"grade": 0, "ranges": [range("cpu", "0"), range("gpu", "0")]}, {"grade": 1, "ranges": [range("cpu", "1"), range("gpu", "1")]}]);
        let mut swapped = three.clone();
        swapped[1]["ranges"] = json!([range("memory", "4Gi"), range("cpu", "1")]);
        let free: &[(&str, &str)] = &[];
        let full: &[(&str, &str)] = &[("0", "Running")];
        let roomy = ("4", "32Gi", 110, free);
        for (id, models, nodes, expected) in [
            ("MD1", &three, vec![("500m", "2Gi", 110, free), ("1500m", "10Gi", 110, free)], vec![1, 1, 0]),
            (
                "MD2",
                &three,
                vec![("1", "4Gi", 110, free), ("2", "16Gi", 110, free), ("2", "15Gi", 110, free)],
                vec![0, 2, 1],
            ),
            ("MD3", &three, vec![("4", "32Gi", 1, full), roomy, roomy], vec![0, 0, 2]),
            ("MD4", &three, vec![roomy, roomy, ("4", "32Gi", 1, full)], vec![0, 0, 2]),
            ("MD5", &three, vec![("4", "32Gi", 110, &[("5", "Running")][..]), roomy], vec![0, 0, 1]),
            ("MD6", &three, vec![("4", "32Gi", 110, &[("3500m", "Succeeded")][..])], vec![0, 0, 1]),
            ("MD7", &three, vec![("4", "32Gi", 110, &[("2500m", "Running")][..])], vec![0, 1, 0]),
            ("MD8", &json!([]), vec![roomy], vec![]),
            ("MD9, without GPUs", &gpu, vec![roomy], vec![1, 0]),
            ("MD10, a grade of nothing", &json!([{"grade": 0, "ranges": []}]), vec![roomy], vec![]),
            ("MD11", &swapped, vec![("500m", "2Gi", 110, free), ("1500m", "10Gi", 110, free)], vec![1, 1, 0]),
            ("MD12", &json!([grade(0, "0", "0"), {"grade": 1, "ranges": [range("cpu", "1")]}]), vec![roomy], vec![]),
            ("MD13", &three, (0..20).map(|_| ("2060m", "32Gi", 110, free)).collect(), vec![0, 0, 20]),
        ] {
            assert_eq!(counts(models.clone(), &nodes), expected, "{id}");
        }
    }

    #[test]
    fn sums_as_in_the_tables() {
        let node =
            json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}});
        let pod = |node: &str, cpu: &str, memory: &str, phase: &str| {
            json!({"spec": {"nodeName": node,
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}]}, "status": {"phase": phase}})
        };
        let running = [
            pod("n", "1", "0", "Running"),
            pod("", "2", "1Gi", "Pending"),
            pod("n", "1", "0", "Failed"),
            pod("n", "0", "1Gi", "Pending"),
        ];
        let summary = summarize(&[node], &pods(&running), &[]).unwrap();
        let text = |list: &karmada_api::kubernetes::ResourceList| {
            list.iter().map(|(name, q)| format!("{name}={}", q.as_str())).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(&summary.allocatable), "cpu=4 memory=8Gi pods=10");
        assert_eq!(text(&summary.allocated), "cpu=1 memory=1Gi pods=2");
        assert_eq!(text(&summary.allocating), "cpu=2 memory=1Gi pods=1");
    }
}
