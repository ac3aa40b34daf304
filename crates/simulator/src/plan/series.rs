//! Custom and external metrics of simulated members: values in annotations.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;

/// Custom metrics of an object, on the object: `http_requests=700m,latency=3`. On a workload, they are those of each of
/// its pods too.
pub(crate) const METRICS: &str = "simulator.karmada.io/metrics";
/// External metrics, on any ConfigMap of the namespace: `jobs=5`. The labels of the ConfigMap are those of the series.
pub(crate) const EXTERNAL: &str = "simulator.karmada.io/external-metrics";

/// The values of an annotation by metric. Malformed parts count as absent.
pub(crate) fn parse(text: &str) -> BTreeMap<String, Quantity> {
    let value = |part: &str| {
        let (name, amount) = part.split_once('=')?;
        Some((name.trim().to_owned(), amount.trim().parse().ok()?))
    };
    text.split(',').filter_map(value).collect()
}

/// The value of a metric in the first of these annotations that has it.
pub(crate) fn value<'a>(
    annotations: impl IntoIterator<Item = &'a BTreeMap<String, String>>,
    metric: &str,
) -> Option<Quantity> {
    let texts = annotations.into_iter().filter_map(|it| it.get(METRICS));
    texts.filter_map(|text| parse(text).remove(metric)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let of = |text: &str| BTreeMap::from([(METRICS.to_owned(), text.to_owned())]);
        let (pod, workload) = (of("hits=1"), of("hits=9, jobs = 700m,bad,worse=x"));
        let found = |metric| value([&pod, &workload], metric).map(|it| it.to_string());
        assert_eq!(found("hits").as_deref(), Some("1"));
        assert_eq!(found("jobs").as_deref(), Some("700m"));
        assert_eq!((found("bad"), found("worse")), (None, None));
    }
}
