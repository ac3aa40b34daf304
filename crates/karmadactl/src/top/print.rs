//! Tables of usage, in kubectl's layout: every cell is padded, the last one, too.

use std::cmp::Reverse;

use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::answers::text;
use crate::error::Error;

const MEBIBYTE: i64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    Name,
    Cpu,
    Memory,
}

impl SortBy {
    /// # Errors
    /// As upstream refuses other values.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" => Ok(Self::Name),
            "cpu" => Ok(Self::Cpu),
            "memory" => Ok(Self::Memory),
            _ => Err(Error::message("--sort-by accepts only cpu or memory")),
        }
    }
}

/// Thousandths of a core, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    cpu: i64,
    memory: i64,
}

impl Usage {
    fn of(amounts: &Value) -> Self {
        let quantity = |name: &str| amounts[name].as_str().and_then(|text| text.parse::<Quantity>().ok());
        Self {
            cpu: quantity("cpu").map_or(0, Quantity::milli_value),
            memory: quantity("memory").map_or(0, Quantity::value),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    fn key(self, sort_by: SortBy) -> i64 {
        match sort_by {
            SortBy::Name => 0,
            SortBy::Cpu => self.cpu,
            SortBy::Memory => self.memory,
        }
    }

    fn cells(self) -> [String; 2] {
        [format!("{}m", self.cpu), format!("{}Mi", self.memory / MEBIBYTE)]
    }
}

#[derive(Clone, Debug)]
pub struct PodRow {
    cluster: String,
    namespace: String,
    name: String,
    containers: Vec<(String, Usage)>,
    total: Usage,
}

impl PodRow {
    pub fn new(cluster: &str, metrics: &Value) -> Self {
        let list = metrics["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let containers: Vec<(String, Usage)> =
            list.iter().map(|it| (text(&it["name"]), Usage::of(&it["usage"]))).collect();
        let total = containers.iter().fold(Usage::default(), |sum, (_, usage)| sum.plus(*usage));
        let metadata = &metrics["metadata"];
        Self {
            cluster: cluster.to_owned(),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            containers,
            total,
        }
    }
}

pub fn sort_pods(rows: &mut [PodRow], sort_by: SortBy) {
    rows.sort_by(|a, b| {
        let key = |row: &PodRow| {
            (Reverse(row.total.key(sort_by)), row.cluster.clone(), row.namespace.clone(), row.name.clone())
        };
        key(a).cmp(&key(b))
    });
}

#[derive(Clone, Copy, Debug)]
pub struct PodColumns {
    pub namespaces: bool,
    pub containers: bool,
    pub headers: bool,
    pub sum: bool,
}

pub fn pods(rows: &[PodRow], columns: PodColumns) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    if columns.headers {
        let namespace = columns.namespaces.then_some("NAMESPACE");
        let names: &[&str] = if columns.containers { &["POD", "NAME"] } else { &["NAME"] };
        let rest = ["CLUSTER", "CPU(cores)", "MEMORY(bytes)"];
        lines.push(namespace.into_iter().chain(names.iter().copied()).chain(rest).map(str::to_owned).collect());
    }
    for row in rows {
        let line = |container: Option<&str>, usage: Usage| {
            let namespace = columns.namespaces.then(|| row.namespace.clone());
            let names = [Some(row.name.clone()), container.map(str::to_owned)].into_iter().flatten();
            namespace.into_iter().chain(names).chain([row.cluster.clone()]).chain(usage.cells()).collect::<Vec<_>>()
        };
        if columns.containers {
            lines.extend(row.containers.iter().map(|(name, usage)| line(Some(name), *usage)));
        } else {
            lines.push(line(None, row.total));
        }
    }
    if columns.sum {
        let before = 2 + usize::from(columns.namespaces) + usize::from(columns.containers);
        let blank = || std::iter::repeat_n(String::new(), before);
        let sum = rows.iter().fold(Usage::default(), |sum, row| sum.plus(row.total));
        lines.push(blank().chain(["________".to_owned(), "________".to_owned()]).collect());
        lines.push(blank().chain(sum.cells()).collect());
    }
    padded(&lines)
}

#[derive(Clone, Debug)]
pub struct NodeRow {
    cluster: String,
    name: String,
    available: Usage,
    used: Option<Usage>,
}

impl NodeRow {
    /// `used` is absent for a node without metrics.
    pub fn new(cluster: &str, node: &Value, available: &Value, used: Option<&Value>) -> Self {
        Self {
            cluster: cluster.to_owned(),
            name: node["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            available: Usage::of(available),
            used: used.map(|metrics| Usage::of(&metrics["usage"])),
        }
    }
}

pub fn sort_nodes(rows: &mut [NodeRow], sort_by: SortBy) {
    rows.sort_by(|a, b| {
        let used = |row: &NodeRow| row.used.map_or(0, |usage| usage.key(sort_by));
        // Nodes without metrics are last.
        let key = |row: &NodeRow| (row.used.is_none(), Reverse(used(row)), row.cluster.clone(), row.name.clone());
        key(a).cmp(&key(b))
    });
}

pub fn nodes(rows: &[NodeRow], headers: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut lines: Vec<Vec<String>> = Vec::new();
    if headers {
        let names = ["NAME", "CLUSTER", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"];
        lines.push(names.iter().map(|name| (*name).to_owned()).collect());
    }
    for row in rows {
        let cells = match row.used {
            Some(used) => {
                let [cpu, memory] = used.cells();
                let share = |used: i64, of: i64| match of {
                    0 => "<unknown>".to_owned(),
                    of => format!("{}%", i128::from(used) * 100 / i128::from(of)),
                };
                [cpu, share(used.cpu, row.available.cpu), memory, share(used.memory, row.available.memory)]
            }
            None => std::array::from_fn(|_| "<unknown>".to_owned()),
        };
        lines.push([row.name.clone(), row.cluster.clone()].into_iter().chain(cells).collect());
    }
    padded(&lines)
}

/// Columns as wide as their widest cell and three blanks.
fn padded(lines: &[Vec<String>]) -> String {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        line.iter().zip(&widths).for_each(|(cell, width)| text.push_str(&format!("{cell:width$}   ")));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(cluster: &str, name: &str, cpu: &str, memory: &str) -> PodRow {
        PodRow::new(
            cluster,
            &json!({"metadata": {"name": name, "namespace": "default"},
            "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": memory}}]}),
        )
    }

    #[test]
    fn pods_are_summed_and_sorted() {
        let mut rows = [row("m2", "b", "40m", "20Mi"), row("m1", "a", "120m", "60Mi")];
        sort_pods(&mut rows, SortBy::Name);
        let columns = PodColumns { namespaces: false, containers: false, headers: true, sum: true };
        let expected = "NAME   CLUSTER   CPU(cores)   MEMORY(bytes)   \n\
                        a      m1        120m         60Mi            \n\
                        b      m2        40m          20Mi            \n\
                        \u{20}                ________     ________        \n\
                        \u{20}                160m         80Mi            \n";
        assert_eq!(pods(&rows, columns), expected);
        sort_pods(&mut rows, SortBy::Memory);
        assert_eq!(rows[0].name, "a");
    }

    #[test]
    fn shares_are_floored() {
        let node = json!({"metadata": {"name": "n"}});
        let available = json!({"cpu": "8", "memory": "16Gi"});
        let used = json!({"usage": {"cpu": "1500m", "memory": "2Gi"}});
        let rows = [NodeRow::new("m1", &node, &available, Some(&used)), NodeRow::new("m1", &node, &available, None)];
        let expected = "n   m1   1500m       18%         2048Mi      12%         \n\
                        n   m1   <unknown>   <unknown>   <unknown>   <unknown>   \n";
        assert_eq!(nodes(&rows, false), expected);
    }
}
