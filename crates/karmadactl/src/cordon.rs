//! `cordon` and `uncordon`: exclude a cluster from scheduling, or include it again.

use serde_json::{Value, json};

use crate::error::Error;
use crate::{Context, cluster_taints};

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
    let planned = |taints: &[Value]| Ok((plan(taints, desired), ()));
    let (changed, ()) = cluster_taints::change(context, &client, name, dry_run, planned).await?;
    let already = if changed.is_none() { "already " } else { "" };
    context.print(&format!("{name} cluster {already}{}\n", desired.word()));
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
