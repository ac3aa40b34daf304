//! Tables of `metrics.k8s.io`, with the columns of metrics-server and one for the cluster.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::groups::CLUSTER;

/// The usage of an object: of a node, or of all containers of a pod.
fn usage(object: &Value) -> BTreeMap<String, Quantity> {
    let containers = object["containers"].as_array().into_iter().flatten().map(|it| &it["usage"]);
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    for (name, amount) in containers.chain([&object["usage"]]).filter_map(Value::as_object).flatten() {
        let Ok(amount) = serde_json::from_value::<Quantity>(amount.clone()) else { continue };
        let sum = sums.entry(name.clone()).or_insert(Quantity::new(0, amount.format()));
        *sum = *sum + amount;
    }
    sums
}

/// The table of decoded objects.
pub fn table(objects: &[Value]) -> Value {
    let usages: Vec<BTreeMap<String, Quantity>> = objects.iter().map(usage).collect();
    let names: BTreeSet<&String> = usages.iter().flat_map(BTreeMap::keys).collect();
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let mut columns = vec![column("Name", "name", "Name of the resource")];
    columns.extend(names.iter().map(|name| column(name, "quantity", &format!("Usage of {name}"))));
    columns.push(column("Window", "", "Time over which the usage was measured"));
    columns.push(column("Cluster", "", "Cluster of the object"));
    let rows: Vec<Value> = objects
        .iter()
        .zip(&usages)
        .map(|(object, usage)| {
            let metadata = &object["metadata"];
            let mut cells = vec![metadata["name"].clone()];
            cells.extend(names.iter().map(|name| usage.get(*name).map_or(Value::Null, |it| json!(it))));
            cells.push(object["window"].clone());
            cells.push(metadata["annotations"][CLUSTER].clone());
            let partial =
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
            json!({"cells": cells, "object": partial})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": rows})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_summed() {
        let pod = json!({"metadata": {"name": "web", "annotations": {CLUSTER: "m1"}}, "window": "15s", "containers": [
            {"usage": {"cpu": "10m", "memory": "1Mi"}}, {"usage": {"cpu": "5m", "memory": "1Mi", "bad": "x"}}]});
        let node = json!({"metadata": {"name": "n"}, "window": "10s", "usage": {"cpu": "1"}});
        let table = table(&[pod, node]);
        let columns: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .expect("columns")
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        assert_eq!(columns, ["Name", "cpu", "memory", "Window", "Cluster"]);
        assert_eq!(table["rows"][0]["cells"], json!(["web", "15m", "2Mi", "15s", "m1"]));
        assert_eq!(table["rows"][1]["cells"], json!(["n", "1", null, "10s", null]));
    }
}
