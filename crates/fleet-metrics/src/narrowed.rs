//! The pseudo label [`groups::CLUSTER`] in the selector of a metric: it selects members, and members do not receive it.
//!
//! [`groups::CLUSTER`]: crate::groups::CLUSTER

use apimachinery::selector::{ParseError, Requirement, Selector};

use crate::groups::CLUSTER;

/// A selector of metrics, split into the part about clusters and the part for the members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrowed {
    clusters: Vec<Requirement>,
    /// For the members; `None` selects everything.
    pub rest: Option<String>,
}

impl Narrowed {
    /// From a query parameter.
    ///
    /// # Errors
    /// The text is not a label selector.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let selector = Selector::parse(text)?;
        let (clusters, rest): (Vec<Requirement>, Vec<Requirement>) =
            selector.requirements().iter().cloned().partition(|it| it.key() == CLUSTER);
        let rest = (!rest.is_empty()).then(|| Selector::new(rest).to_string());
        Ok(Self { clusters, rest })
    }

    /// Whether a cluster is selected.
    pub fn selects(&self, cluster: &str) -> bool {
        self.clusters.iter().all(|it| it.matches(Some(cluster)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_split_into_clusters_and_the_rest() {
        for (text, rest, selected) in [
            ("", None, "a b"),
            ("queue=jobs", Some("queue=jobs"), "a b"),
            ("resource.karmada.io/query-from-cluster=a", None, "a"),
            ("resource.karmada.io/query-from-cluster notin (a),queue=jobs", Some("queue=jobs"), "b"),
            ("resource.karmada.io/query-from-cluster in (a,b),!x", Some("!x"), "a b"),
        ] {
            let narrowed = Narrowed::parse(text).expect("a selector");
            let found: Vec<&str> = ["a", "b"].into_iter().filter(|it| narrowed.selects(it)).collect();
            assert_eq!((narrowed.rest.as_deref(), found.join(" ").as_str()), (rest, selected), "{text}");
        }
        assert!(Narrowed::parse("a in").is_err());
    }
}
