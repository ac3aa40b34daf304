//! Merging the tables of several servers into one.

use serde_json::Value;

/// The name of the control plane in the CLUSTER column.
pub const KARMADA: &str = "Karmada";
const MANAGED_LABEL: &str = "karmada.io/managed";

/// What the user asked to see of a row.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub wide: bool,
    pub with_namespace: bool,
    pub show_labels: bool,
    pub label_columns: Vec<String>,
    /// `deployment.apps/` before names, when several types are shown together.
    pub name_prefix: Option<String>,
    /// Watches show real ADOPTION values for the control plane too, as upstream does.
    pub watching: bool,
}

/// Headings of one server's table, with ours inserted.
pub fn headings(table: &Value, kind: &str, view: &View) -> Vec<String> {
    let mut names: Vec<String> = visible(table, view)
        .map(|(_, definition)| definition["name"].as_str().unwrap_or_default().to_uppercase())
        .collect();
    names.insert(1.min(names.len()), "CLUSTER".into());
    if view.with_namespace {
        names.insert(0, "NAMESPACE".into());
    }
    names.extend(view.label_columns.iter().map(|key| key.rsplit('/').next().unwrap_or(key).to_uppercase()));
    if shows_adoption(kind, view) {
        names.push("ADOPTION".into());
    }
    if view.show_labels {
        names.push("LABELS".into());
    }
    names
}

/// The rows of one server's table.
pub fn rows(table: &Value, kind: &str, cluster: &str, view: &View) -> Vec<Vec<String>> {
    let empty = Vec::new();
    let rows = table["rows"].as_array().unwrap_or(&empty);
    rows.iter().map(|row| one_row(table, row, kind, cluster, view)).collect()
}

fn one_row(table: &Value, row: &Value, kind: &str, cluster: &str, view: &View) -> Vec<String> {
    let metadata = &row["object"]["metadata"];
    let mut cells: Vec<String> = visible(table, view).map(|(index, _)| cell(&row["cells"][index])).collect();
    if let (Some(prefix), Some(first)) = (&view.name_prefix, cells.first_mut()) {
        first.insert_str(0, prefix);
    }
    cells.insert(1.min(cells.len()), cluster.to_owned());
    if view.with_namespace {
        cells.insert(0, metadata["namespace"].as_str().unwrap_or_default().to_owned());
    }
    for key in &view.label_columns {
        cells.push(metadata["labels"][key].as_str().unwrap_or_default().to_owned());
    }
    if shows_adoption(kind, view) {
        cells.push(adoption(metadata, cluster, view).to_owned());
    }
    if view.show_labels {
        cells.push(labels(&metadata["labels"]));
    }
    cells
}

/// For Pods the column has priority 1.
fn shows_adoption(kind: &str, view: &View) -> bool {
    kind != "Pod" || view.wide
}

fn adoption(metadata: &Value, cluster: &str, view: &View) -> &'static str {
    if cluster == KARMADA && !view.watching {
        "-"
    } else if metadata["labels"][MANAGED_LABEL] == "true" {
        "Y"
    } else {
        "N"
    }
}

fn visible<'a>(table: &'a Value, view: &View) -> impl Iterator<Item = (usize, &'a Value)> {
    let wide = view.wide;
    let definitions = table["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
    definitions.iter().enumerate().filter(move |(_, d)| wide || d["priority"].as_i64().unwrap_or(0) == 0)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn labels(labels: &Value) -> String {
    match labels.as_object() {
        Some(map) if !map.is_empty() => {
            let pairs: Vec<String> = map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
            pairs.join(",")
        }
        _ => "<none>".into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn table() -> Value {
        json!({"columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Images", "priority": 1}],
            "rows": [{"cells": ["nginx", "1/1", "nginx:1"],
                      "object": {"metadata": {"name": "nginx", "namespace": "default",
                                              "labels": {"karmada.io/managed": "true", "app": "nginx"}}}}]})
    }

    fn shown(kind: &str, cluster: &str, view: &View) -> String {
        crate::table::render(Some(&headings(&table(), kind, view)), &rows(&table(), kind, cluster, view))
    }

    #[test]
    fn cluster_and_adoption_frame_the_servers_own_columns() {
        expect![[r#"
            NAME    CLUSTER   READY   ADOPTION
            nginx   member1   1/1     Y
        "#]]
        .assert_eq(&shown("Deployment", "member1", &View::default()));
        expect![[r#"
            NAMESPACE   NAME    CLUSTER   READY   IMAGES    ADOPTION   LABELS
            default     nginx   Karmada   1/1     nginx:1   -          app=nginx,karmada.io/managed=true
        "#]]
        .assert_eq(&shown(
            "Deployment",
            KARMADA,
            &View { wide: true, with_namespace: true, show_labels: true, ..View::default() },
        ));
        expect![[r#"
            NAME        CLUSTER   READY
            pod/nginx   member1   1/1
        "#]]
        .assert_eq(&shown("Pod", "member1", &View { name_prefix: Some("pod/".into()), ..View::default() }));
    }
}
