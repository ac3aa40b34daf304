//! `cordon` and `uncordon`: exclude a cluster from scheduling, or include it again.

use apimachinery::ObjectKey;
use serde_json::{Value, json};

use crate::Context;
use crate::error::Error;
use crate::resources;

/// Key of the taint; its effect is NoSchedule.
const UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desired {
    Cordoned,
    Uncordoned,
}

impl Desired {
    fn word(self) -> &'static str {
        match self {
            Self::Cordoned => "cordoned",
            Self::Uncordoned => "uncordoned",
        }
    }
}

/// The taints to write, or `None` when the cluster is already as desired.
fn plan(taints: &[Value], desired: Desired) -> Option<Vec<Value>> {
    let is_cordon_taint = |taint: &Value| taint["key"] == UNSCHEDULABLE && taint["effect"] == "NoSchedule";
    match (desired, taints.iter().any(is_cordon_taint)) {
        (Desired::Cordoned, true) | (Desired::Uncordoned, false) => None,
        (Desired::Cordoned, false) => {
            let mut taints = taints.to_vec();
            taints.push(json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"}));
            Some(taints)
        }
        (Desired::Uncordoned, true) => Some(taints.iter().filter(|taint| !is_cordon_taint(taint)).cloned().collect()),
    }
}

/// Runs either command for the cluster named by `args`.
pub async fn run(context: &Context, args: &[String], desired: Desired, dry_run: bool) -> Result<(), Error> {
    let name = match args {
        [] => return Err(Error::arguments("cluster name is required")),
        [name] => name,
        _ => return Err(Error::arguments("more than one cluster name is not supported")),
    };
    let client = context.control_plane().await?;
    let key = ObjectKey::cluster(name.as_str());
    let cluster = client.get(&resources::CLUSTER, &key).await.map_err(Error::client(format!("get cluster {name}")))?;
    let tree = cluster.to_value().map_err(|e| Error::message(format!("cluster {name} cannot be decoded: {e}")))?;
    let taints = tree["spec"]["taints"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(taints) = plan(taints, desired) else {
        context.print(&format!("{name} cluster already {}\n", desired.word()));
        return Ok(());
    };
    if !dry_run {
        // The resourceVersion makes a concurrent change of the taints a conflict instead of a lost update.
        let patch = json!({"metadata": {"resourceVersion": cluster.resource_version()}, "spec": {"taints": taints}});
        client
            .patch(&resources::CLUSTER, &key, &client::Patch::Merge(patch), &client::PatchOptions::default())
            .await
            .map_err(Error::client(format!("patch cluster {name}")))?;
    }
    context.print(&format!("{name} cluster {}\n", desired.word()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_taints_stay() {
        let other = json!({"key": "dedicated", "effect": "NoSchedule"});
        let cordoned = plan(std::slice::from_ref(&other), Desired::Cordoned).expect("a change");
        assert_eq!(cordoned.len(), 2);
        assert_eq!(plan(&cordoned, Desired::Cordoned), None);
        assert_eq!(plan(&cordoned, Desired::Uncordoned), Some(vec![other.clone()]));
        assert_eq!(plan(&[other], Desired::Uncordoned), None);
    }
}
