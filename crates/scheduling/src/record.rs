//! The last decision as an annotation of bounded size: why each cluster was chosen or not. It is an addition to
//! Karmada's API: only users and `karmadactl explain-placement` read it.

use std::collections::BTreeMap;

use apimachinery::meta::Time;
use serde::{Deserialize, Serialize};

use crate::decide::Decision;
use crate::explain::Verdict;

/// The annotation on the binding, in this project's own group.
pub const ANNOTATION: &str = "karmada-rs.io/last-decision";

/// The maximum size of the text. Kubernetes allows 256 KiB of annotations, which the applied placement and other
/// managers share; ten thousand bindings of this size take 40 MiB.
pub const MOST_BYTES: usize = 4096;

/// The initial length of each list of clusters; shorter when the text is too long.
const NAMED: usize = 16;
/// The maximum length of an error message.
const MESSAGE: usize = 512;

/// A decision and its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The time of the decision.
    pub time: Option<Time>,
    /// The generation of the binding with this decision.
    pub generation: i64,
    /// The number of clusters.
    pub clusters: usize,
    /// The applied term of `clusterAffinities`; empty without terms.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub affinity_name: String,
    /// The error; empty after success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The clusters in the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<Placed>,
    /// Clusters that passed every filter and were not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<Placed>,
    /// The rejected clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
    /// Some clusters or reasons are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A feasible cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The cluster's name.
    pub name: String,
    /// Its replicas in the result.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i64,
    /// Its score.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub score: i64,
    /// How many more replicas fit, by all estimators.
    #[serde(default)]
    pub free: i64,
}

/// Clusters that one filter rejected for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The plugin's name.
    pub plugin: String,
    /// The message of the condition.
    pub reason: String,
    /// The field that would have to change.
    pub field: String,
    /// The number of clusters, including those not named.
    pub count: usize,
    /// The names of the first clusters.
    pub clusters: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde requires")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Record {
    /// Builds the record of a decision.
    pub fn of(decision: &Decision, verdicts: &[Verdict], generation: i64, time: Time) -> Self {
        let placed = |verdict: &Verdict| {
            let numbers = verdict.numbers?;
            let (name, replicas) = (verdict.cluster.clone(), verdict.replicas);
            Some(Placed { name, replicas, score: numbers.score, free: numbers.allocatable })
        };
        let mut groups: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
        for verdict in verdicts {
            if let Some(it) = &verdict.rejected_by {
                groups.entry((it.plugin, &it.reason, &it.field)).or_default().push(&verdict.cluster);
            }
        }
        let rejected = groups.into_iter().map(|((plugin, reason, field), clusters)| Rejected {
            plugin: plugin.to_owned(),
            reason: reason.to_owned(),
            field: field.to_owned(),
            count: clusters.len(),
            clusters: clusters.into_iter().map(str::to_owned).collect(),
        });
        let mut rejected: Vec<Rejected> = rejected.collect();
        rejected.sort_by_key(|group| std::cmp::Reverse(group.count));
        Self {
            time: Some(time),
            generation,
            clusters: verdicts.len(),
            affinity_name: decision.affinity_term.clone().unwrap_or_default(),
            error: decision.error().map(ToString::to_string).unwrap_or_default(),
            chosen: verdicts.iter().filter(|it| it.chosen).filter_map(placed).collect(),
            passed: verdicts.iter().filter(|it| !it.chosen).filter_map(placed).collect(),
            rejected,
            cut: false,
        }
    }

    /// The record in at most [`MOST_BYTES`] bytes: lists are truncated first.
    pub fn to_text(&self) -> String {
        let mut named = NAMED;
        loop {
            let text = serde_json::to_string(&self.cut_to(named)).unwrap_or_default();
            if text.len() <= MOST_BYTES || named == 0 {
                return text;
            }
            named /= 2;
        }
    }

    /// With lists of `named` entries and messages of a bounded length. Without names the record takes at most 2 KiB: an
    /// error of 512 bytes, a term's name of 32.
    fn cut_to(&self, named: usize) -> Self {
        let mut short = self.clone();
        short.cut |= short.chosen.len() > named || short.passed.len() > named || short.rejected.len() > named;
        short.chosen.truncate(named);
        short.passed.truncate(named);
        short.rejected.truncate(named);
        for group in &mut short.rejected {
            short.cut |= group.clusters.len() > named;
            group.clusters.truncate(named);
            shorten(&mut group.reason);
        }
        shorten(&mut short.error);
        short
    }

    /// Parses the annotation; `None` for foreign content.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether the record already holds this error for this generation, ignoring numbers: the condition has the
    /// numbers, and a change in capacity is not worth a write.
    pub fn holds_error(&self, generation: i64, error: &str) -> bool {
        let words = |text: &str| text.chars().filter(|it| !it.is_ascii_digit()).take(MESSAGE / 2).collect::<String>();
        self.generation == generation && words(&self.error) == words(error)
    }
}

fn shorten(text: &mut String) {
    if text.len() > MESSAGE {
        let end = (0..=MESSAGE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Numbers, RejectedBy};

    fn verdict(index: usize, reason: Option<String>) -> Verdict {
        let rejected_by =
            reason.map(|reason| RejectedBy { plugin: "TaintToleration", reason, field: "spec.taints".into() });
        let numbers = Numbers { score: 100, allocatable: 7, available: 9, overflow_order: 0 };
        Verdict {
            cluster: format!("{}-{index}", "m".repeat(40)),
            chosen: false,
            replicas: 0,
            selected: false,
            numbers: rejected_by.is_none().then_some(numbers),
            rejected_by,
        }
    }

    #[test]
    fn the_text_is_bounded() {
        let decision = Decision { clusters: Ok(Vec::new()), affinity_term: Some("t".repeat(32)), failures: Vec::new() };
        let now = Time::new("2026-11-21T10:00:00Z".parse().expect("a time"));
        let passed = || (0..3000).map(|index| verdict(index, None));
        let alike = || (0..3000).map(|index| verdict(index, Some("the same".into())));
        let unlike = || (0..3000).map(|index| verdict(index, Some(format!("taint {index} {}", "ä".repeat(2000)))));
        for verdicts in
            [Vec::new(), passed().collect(), alike().collect(), unlike().collect(), passed().chain(unlike()).collect()]
        {
            let record = Record::of(&decision, &verdicts, 3, now);
            let text = record.to_text();
            assert!(text.len() <= MOST_BYTES, "{}", text.len());
            let read = Record::parse(&text).expect("it reads back");
            assert_eq!((read.clusters, read.cut), (verdicts.len(), !verdicts.is_empty()));
        }
        let few: Vec<Verdict> = passed().take(1).chain(alike().skip(1).take(2)).collect();
        let record = Record::of(&decision, &few, 3, now);
        assert_eq!(Record::parse(&record.to_text()), Some(record.clone()), "a short record is complete");
        assert_eq!((record.passed[0].free, record.rejected[0].count), (7, 2));
        assert_eq!(Record::parse("7"), None);
        let failed =
            Record { error: format!("room for 3, {}", "x".repeat(2 * MESSAGE)), generation: 3, ..Record::default() };
        assert!(failed.holds_error(3, &failed.error.replace('3', "14")) && !failed.holds_error(4, &failed.error));
        assert!(!failed.holds_error(3, "no room"));
    }
}
