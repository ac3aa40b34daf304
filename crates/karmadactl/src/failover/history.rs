//! `failover history [CLUSTER | KIND/NAME]`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use apimachinery::Object;
use client::{Client, ListOptions};
use karmada_api::constants::{labels, namespaces};
use propagation::failover::history::{Move, of_task, read};
use serde::Deserialize;
use serde_json::json;

use super::FailoverArgs;
use crate::Context;
use crate::error::Error;
use crate::placement::source::each_binding;
use crate::resources;
use crate::resume::Form;
use crate::table::{Layout, printable};

/// The moves to show.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    All,
    /// From the cluster, or to it.
    Cluster(String),
    Workload {
        kind: String,
        name: String,
        namespace: String,
    },
}

impl Filter {
    fn parse(word: Option<&str>, namespace: &str) -> Self {
        match word.map(|word| word.split_once('/').ok_or(word)) {
            None => Self::All,
            Some(Err(cluster)) => Self::Cluster(cluster.to_owned()),
            Some(Ok((kind, name))) => {
                let (kind, name) = (kind.to_lowercase(), name.to_owned());
                Self::Workload { kind, name, namespace: namespace.to_owned() }
            }
        }
    }

    fn shows(&self, it: &Move) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(cluster) => it.from == *cluster || it.to.contains(cluster),
            Self::Workload { kind, name, namespace } => {
                let singular = it.kind.to_lowercase();
                let is_kind = *kind == singular || *kind == format!("{singular}s");
                is_kind && it.name == *name && (it.namespace.is_empty() || it.namespace == *namespace)
            }
        }
    }
}

pub async fn run(context: &Context, args: &FailoverArgs, word: Option<&str>) -> Result<(), Error> {
    let form = Form::parse(args.output.as_deref())?;
    let namespace = args.namespace.clone().unwrap_or_else(|| context.namespace());
    let filter = Filter::parse(word, &namespace);
    let client = context.control_plane().await?;
    let mut moves = stored(&client).await?;
    in_progress(&client, &mut moves).await?;
    moves.retain(|it| filter.shows(it));
    moves.sort_by(|a, b| (a.started, a.ended, &a.name).cmp(&(b.started, b.ended, &b.name)));
    match form {
        Form::Text => context.print(&text(&moves, args.limit, context.columns())),
        _ => context.print(&form.encode(&json!({ "items": moves }))?),
    }
    Ok(())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    data: BTreeMap<String, String>,
}

async fn stored(client: &Client) -> Result<Vec<Move>, Error> {
    let options = ListOptions::labels(format!("{}=true", labels::FAILOVER_HISTORY));
    let listed = client.list(&resources::CONFIG_MAP, Some(namespaces::SYSTEM), &options).await;
    let listed = listed.map_err(Error::client("list the ConfigMaps of the failover history"))?;
    let data = |object: &Arc<Object>| {
        let decoded = object.decode::<Document>();
        decoded.map_err(|error| Error::message(format!("ConfigMap {}: {error}", object.key())))
    };
    let mut moves = Vec::new();
    for object in &listed.items {
        moves.extend(data(object)?.data.values().flat_map(|text| read(text)));
    }
    Ok(moves)
}

/// The eviction tasks of all bindings.
async fn in_progress(client: &Client, moves: &mut Vec<Move>) -> Result<(), Error> {
    each_binding(client, |binding| {
        moves.extend(binding.spec.graceful_eviction_tasks.iter().map(|task| of_task(&binding, task)));
    })
    .await
}

/// The newest at the end, as the last lines of a terminal.
fn text(moves: &[Move], limit: usize, columns: Option<usize>) -> String {
    if moves.is_empty() {
        return "No move is recorded.\n".to_owned();
    }
    let most = if limit == 0 { usize::MAX } else { limit };
    let (mut text, left_out) = (String::new(), moves.len().saturating_sub(most));
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} older moves are left out; print all with --limit 0 or -o json\n");
    }
    let heading =
        ["STARTED", "ENDED", "WORKLOAD", "FROM", "TO", "ENDING", "STATE", "REASON"].map(str::to_owned).to_vec();
    let mut layout = Layout::fitting(columns, &heading);
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(moves[left_out..].iter().map(row)).collect();
    text.push_str(&layout.render(&lines));
    text
}

fn row(it: &Move) -> Vec<String> {
    let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
    let time = |time: Option<apimachinery::meta::Time>| or(time.map(|it| it.to_string()).unwrap_or_default(), "-");
    let workload = match it.namespace.as_str() {
        "" => format!("{} {}", it.kind, it.name),
        namespace => format!("{} {namespace}/{}", it.kind, it.name),
    };
    let state: Vec<String> = it.state.iter().map(|(label, value)| format!("{label}={value}")).collect();
    let why = if it.message.is_empty() { it.reason.clone() } else { format!("{}: {}", it.reason, it.message) };
    let row = [
        time(it.started),
        time(it.ended),
        workload,
        it.from.clone(),
        or(it.to.join(","), "-"),
        or(it.ending.clone(), "in progress"),
        or(state.join(","), "-"),
        why,
    ];
    row.map(|cell| printable(&cell)).to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn moves() -> Vec<Move> {
        let one = |kind: &str, namespace: &str, name: &str, from: &str, ended: Value| {
            let value = json!({"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name, "from": from, "to": ["m2"],
                "reason": "TaintUntolerated", "message": "why", "started": "2026-01-01T00:00:00Z", "ended": ended,
                "ending": if ended.is_null() { "" } else { "Replaced" }, "state": {"kept": "3"}});
            serde_json::from_value::<Move>(value).expect("a move")
        };
        vec![
            one("Deployment", "shop", "web", "m1", json!("2026-01-01T00:00:09Z")),
            one("ClusterRole", "", "web", "m3", Value::Null),
        ]
    }

    #[test]
    fn moves_are_filtered_by_cluster_and_workload() {
        for (word, expected) in [
            (None, 2),
            (Some("m1"), 1),
            (Some("m2"), 2),
            (Some("m4"), 0),
            (Some("deployment/web"), 1),
            (Some("Deployments/web"), 1),
            (Some("clusterrole/web"), 1),
            (Some("deployment/other"), 0),
        ] {
            let filter = Filter::parse(word, "shop");
            assert_eq!(moves().iter().filter(|it| filter.shows(it)).count(), expected, "{word:?}");
        }
        assert!(!moves().iter().any(|it| Filter::parse(Some("deployment/web"), "other").shows(it)));
    }

    #[test]
    fn moves_are_printed_as_a_table() {
        let expected = "\
STARTED                ENDED                  WORKLOAD              FROM   TO   ENDING        STATE    REASON
2026-01-01T00:00:00Z   2026-01-01T00:00:09Z   Deployment shop/web   m1     m2   Replaced      kept=3   TaintUntolerated: why
2026-01-01T00:00:00Z   -                      ClusterRole web       m3     m2   in progress   kept=3   TaintUntolerated: why
";
        assert_eq!(text(&moves(), 50, None), expected);
        assert!(text(&moves(), 1, None).starts_with("1 older moves are left out"));
        assert_eq!(text(&[], 50, None), "No move is recorded.\n");
    }
}
