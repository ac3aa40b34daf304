//! A plan in words, for `karmadactl why`.

use std::fmt;

use serde_json::{Value, json};

use crate::plan::Plan;
use crate::pods::Group;
use crate::proposal::{LeftOut, Report, Share, amount};

pub use crate::pods::Group as PodGroup;

/// Pods that are named; the others are counted.
const NAMED: usize = 5;

impl Plan {
    /// The decision in one sentence.
    pub fn answer(&self) -> String {
        match self.desired {
            None => format!("undecided: {}", self.error.as_deref().unwrap_or("no metric")),
            Some(desired) if desired == self.current => format!("stays at {desired}{}", self.because()),
            Some(desired) => format!("scales from {} to {desired}: {}", self.current, self.reason),
        }
    }

    fn because(&self) -> String {
        match self.limit() {
            Some(limit) => format!(": {limit}"),
            None => String::new(),
        }
    }

    /// The bound, the rate or the window that changed the recommendation; the last one.
    pub fn limit(&self) -> Option<&str> {
        let notable = |reason: &str| !matches!(reason, "ReadyForNewScale" | "DesiredWithinRange" | "ValidMetricFound");
        let limits = self.conditions.iter().rev();
        let mut limits = limits.filter(|it| notable(it.reason) && !it.reason.starts_with("Succeeded"));
        limits.next().map(|it| it.message.as_str())
    }

    /// The steps from the metrics to the decision: `recommended 9, after stabilization 9, desired 8`.
    pub fn steps(&self) -> Option<String> {
        let (recommended, stabilized) = (self.recommended?, self.stabilized?);
        let desired = self.desired?;
        Some(format!("recommended {recommended}, after stabilization {stabilized}, desired {desired}"))
    }

    /// For programs.
    pub fn to_value(&self) -> Value {
        let metrics: Vec<Value> = self.metrics.iter().map(Report::to_value).collect();
        json!({"currentReplicas": self.current, "desiredReplicas": self.desired,
            "recommendedReplicas": self.recommended, "stabilizedReplicas": self.stabilized,
            "memberReplicasPerReplica": self.calibration, "limit": self.limit(), "error": self.error,
            "unanswered": self.unanswered.iter().map(|(cluster, error)| json!({"cluster": cluster, "error": error}))
                .collect::<Vec<_>>(),
            "metrics": metrics})
    }
}

impl Report {
    /// One line for the metric: `cpu, target 80% of requests: 54% (13m), proposes 3`.
    pub fn line(&self) -> String {
        match &self.outcome {
            Err(failure) => format!("{}: {}", self.title, failure.error),
            Ok(it) => {
                let note = it.note.map(|note| format!(" ({note})")).unwrap_or_default();
                format!("{}: {}, proposes {}{note}", self.title, it.level, it.replicas)
            }
        }
    }

    /// The pods that do not count with a sample, a line for each kind of reason.
    pub fn left_out_lines(&self) -> Vec<String> {
        let mut groups: Vec<(Group, Vec<&LeftOut>)> = Vec::new();
        for it in &self.left_out {
            match groups.iter_mut().find(|(group, _)| *group == it.group) {
                Some((_, pods)) => pods.push(it),
                None => groups.push((it.group, vec![it])),
            }
        }
        groups.iter().map(|(group, pods)| format!("{}: {}", group_words(*group), names(pods))).collect()
    }

    fn to_value(&self) -> Value {
        let shares: Vec<Value> = self.shares.iter().map(Share::to_value).collect();
        let left_out: Vec<Value> = self
            .left_out
            .iter()
            .map(|it| json!({"cluster": it.cluster, "pod": it.pod, "why": group_words(it.group)}))
            .collect();
        let mut value = json!({"metric": self.title, "members": shares, "leftOut": left_out});
        match &self.outcome {
            Ok(it) => {
                value["proposedReplicas"] = json!(it.replicas);
                value["current"] = json!(it.level);
                value["note"] = json!(it.note);
            }
            Err(failure) => value["error"] = json!(failure.error),
        }
        value
    }
}

impl Share {
    /// The value in words: `27m`, or why it is unknown.
    pub fn words(&self) -> String {
        match (&self.error, self.value) {
            (Some(error), _) => error.clone(),
            (None, Some(value)) => amount(value).to_string(),
            (None, None) => "no value".to_owned(),
        }
    }

    fn to_value(&self) -> Value {
        json!({"cluster": self.cluster, "pods": self.pods.0, "counted": self.pods.1,
            "value": self.value.map(amount), "error": self.error})
    }
}

fn group_words(group: Group) -> String {
    match group {
        Group::Counted => "counted".to_owned(),
        Group::Missing => "without a sample".to_owned(),
        Group::Unready(why) | Group::Ignored(why) => why.to_owned(),
    }
}

fn names(pods: &[&LeftOut]) -> String {
    let shown: Vec<String> = pods.iter().take(NAMED).map(|it| format!("{}/{}", it.cluster, it.pod)).collect();
    match pods.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.answer())?;
        for report in &self.metrics {
            writeln!(f, "  {}", report.line())?;
            for share in &report.shares {
                let (pods, counted) = share.pods;
                writeln!(f, "    {}: {} of {counted} of {pods} pods", share.cluster, share.words())?;
            }
            for line in report.left_out_lines() {
                writeln!(f, "    {line}")?;
            }
        }
        for (cluster, error) in &self.unanswered {
            writeln!(f, "  {cluster}: no answer: {error}")?;
        }
        if let Some(steps) = self.steps() {
            writeln!(f, "  {steps}")?;
        }
        Ok(())
    }
}
