//! The tables of several servers as one: CLUSTER after the name, ADOPTION at the end.

use apimachinery::jsonpath::JsonPath;
use serde_json::Value;

use super::order;
use crate::servers::KARMADA;
use crate::table::printable;

const MANAGED_LABEL: &str = "karmada.io/managed";
/// kubectl's text for an absent cell.
const NONE: &str = "<none>";

/// The columns and labels to print of a row.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub wide: bool,
    pub with_namespace: bool,
    pub show_labels: bool,
    pub label_columns: Vec<String>,
    /// The order of the rows of all servers; without it each server's rows stay in its order.
    pub sort_by: Option<JsonPath>,
    /// Watches show real ADOPTION values for the control plane too, as upstream does.
    pub watching: bool,
    /// Adds the type of a watch event as first column.
    pub with_event: bool,
}

/// The rows of one resource from any number of servers, which may differ in their columns.
#[derive(Clone, Debug)]
pub struct Block {
    /// `deployment.apps/` before names, when several types are shown together.
    prefix: Option<String>,
    /// For Pods the column ADOPTION has priority 1.
    adoption: bool,
    /// The columns of the servers, in order of appearance.
    columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    sort_key: Option<Value>,
    event: String,
    namespace: String,
    cluster: String,
    /// By position in `columns`.
    cells: Vec<String>,
    labels: Vec<String>,
    adoption: &'static str,
    all_labels: String,
}

impl Block {
    pub fn new(kind: &str, prefix: Option<String>, view: &View) -> Self {
        Self { prefix, adoption: kind != "Pod" || view.wide, columns: Vec::new(), rows: Vec::new() }
    }

    /// Takes in a `meta.k8s.io` Table.
    pub fn add(&mut self, table: &Value, cluster: &str, event: &str, view: &View) {
        let definitions = table["columnDefinitions"].as_array().map_or(&[][..], Vec::as_slice);
        let visible = |definition: &Value| view.wide || definition["priority"].as_i64().unwrap_or(0) == 0;
        let mut places = Vec::new();
        for (index, definition) in definitions.iter().enumerate().filter(|(_, definition)| visible(definition)) {
            let name = definition["name"].as_str().unwrap_or_default().to_uppercase();
            let place = self.columns.iter().position(|column| *column == name).unwrap_or_else(|| {
                self.columns.push(name);
                self.columns.len() - 1
            });
            places.push((index, place));
        }
        for row in table["rows"].as_array().into_iter().flatten() {
            let mut cells = vec![NONE.to_owned(); self.columns.len()];
            for (index, place) in &places {
                cells[*place] = cell(&row["cells"][index]);
            }
            self.rows.push(self.row(cells, &row["object"], cluster, event, view));
        }
    }

    fn row(&self, mut cells: Vec<String>, object: &Value, cluster: &str, event: &str, view: &View) -> Row {
        let metadata = &object["metadata"];
        if let (Some(prefix), Some(first)) = (&self.prefix, cells.first_mut()) {
            first.insert_str(0, prefix);
        }
        let label = |key: &String| metadata["labels"][key].as_str().unwrap_or_default().to_owned();
        Row {
            sort_key: view.sort_by.as_ref().and_then(|path| order::key(path, object)).cloned(),
            event: event.to_owned(),
            namespace: metadata["namespace"].as_str().unwrap_or_default().to_owned(),
            cluster: cluster.to_owned(),
            cells,
            labels: view.label_columns.iter().map(label).collect(),
            adoption: adoption(metadata, cluster, view),
            all_labels: labels(&metadata["labels"]),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn headings(&self, view: &View) -> Vec<String> {
        let mut line = Vec::new();
        line.extend(view.with_event.then(|| "EVENT".to_owned()));
        line.extend(view.with_namespace.then(|| "NAMESPACE".to_owned()));
        line.extend(self.columns.first().cloned());
        line.push("CLUSTER".into());
        line.extend(self.columns.iter().skip(1).cloned());
        line.extend(self.adoption.then(|| "ADOPTION".to_owned()));
        line.extend(view.label_columns.iter().map(|key| key.rsplit('/').next().unwrap_or(key).to_uppercase()));
        line.extend(view.show_labels.then(|| "LABELS".to_owned()));
        line
    }

    /// Takes the rows so far; the columns stay.
    pub fn take_lines(&mut self, view: &View) -> Vec<Vec<String>> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|a, b| order::compare(a.sort_key.as_ref(), b.sort_key.as_ref()));
        rows.into_iter().map(|row| self.line(row, view)).collect()
    }

    fn line(&self, mut row: Row, view: &View) -> Vec<String> {
        // Rows of earlier servers lack the columns that a later one added.
        row.cells.resize(self.columns.len(), NONE.to_owned());
        let mut line = Vec::new();
        line.extend(view.with_event.then_some(row.event));
        line.extend(view.with_namespace.then_some(row.namespace));
        let mut cells = row.cells.into_iter();
        line.extend(cells.next());
        line.push(row.cluster);
        line.extend(cells);
        line.extend(self.adoption.then(|| row.adoption.to_owned()));
        line.extend(row.labels);
        line.extend(view.show_labels.then_some(row.all_labels));
        line
    }
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

fn cell(value: &Value) -> String {
    match value {
        Value::Null => NONE.into(),
        Value::String(text) => printable(text),
        other => other.to_string(),
    }
}

fn labels(labels: &Value) -> String {
    match labels.as_object() {
        Some(map) if !map.is_empty() => {
            let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
            map.iter().map(pair).collect::<Vec<_>>().join(",")
        }
        _ => NONE.into(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::table::Layout;

    fn table(third: &str) -> Value {
        json!({"columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": third, "priority": 1}],
            "rows": [{"cells": ["nginx", "1/1", "x"],
                      "object": {"metadata": {"name": "nginx", "namespace": "default",
                                              "labels": {"karmada.io/managed": "true", "app": "nginx"}}}}]})
    }

    fn check(kind: &str, prefix: Option<&str>, view: &View, expected: &Expect) {
        let mut block = Block::new(kind, prefix.map(str::to_owned), view);
        block.add(&table("Images"), KARMADA, "ADDED", view);
        block.add(&table("Hosts"), "member1", "DELETED", view);
        let mut lines = block.take_lines(view);
        lines.insert(0, block.headings(view));
        expected.assert_eq(&Layout::default().render(&lines));
        assert!(block.is_empty());
    }

    #[test]
    fn cluster_and_adoption_frame_the_servers_own_columns() {
        check(
            "Deployment",
            None,
            &View::default(),
            &expect![[r#"
            NAME    CLUSTER   READY   ADOPTION
            nginx   Karmada   1/1     -
            nginx   member1   1/1     Y
        "#]],
        );
        let everything = View { wide: true, with_namespace: true, show_labels: true, ..View::default() };
        check(
            "Deployment",
            None,
            &everything,
            &expect![[r#"
            NAMESPACE   NAME    CLUSTER   READY   IMAGES   HOSTS    ADOPTION   LABELS
            default     nginx   Karmada   1/1     x        <none>   -          app=nginx,karmada.io/managed=true
            default     nginx   member1   1/1     <none>   x        Y          app=nginx,karmada.io/managed=true
        "#]],
        );
        check(
            "Pod",
            Some("pod/"),
            &View::default(),
            &expect![[r#"
            NAME        CLUSTER   READY
            pod/nginx   Karmada   1/1
            pod/nginx   member1   1/1
        "#]],
        );
        let view = View {
            watching: true,
            with_event: true,
            label_columns: vec!["a/app".into(), "app".into()],
            ..View::default()
        };
        check(
            "Deployment",
            None,
            &view,
            &expect![[r#"
            EVENT     NAME    CLUSTER   READY   ADOPTION   APP   APP
            ADDED     nginx   Karmada   1/1     Y                nginx
            DELETED   nginx   member1   1/1     Y                nginx
        "#]],
        );
    }
}
