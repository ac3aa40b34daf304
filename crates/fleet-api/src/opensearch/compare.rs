//! The comparison of an index with the cache of a member: which documents are out of date.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::{GroupVersion, Object, ObjectKey};
use karmada_api::constants::annotations::CACHED_FROM_CLUSTER;
use serde::Deserialize;
use serde_json::{Value, json};

use super::document::MAX_ID;
use super::pending::Mark;
use super::source::{Place, Source};

/// Documents in one response, 0.5 MiB.
const PAGE: usize = 1000;
/// Pages of one comparison: as many objects as an informer accepts.
pub(super) const MOST_PAGES: usize = 1000;

/// The search for the documents of a member. The second term is for indexes without our mapping, such as those that
/// upstream has created.
pub(super) fn query(place: &Place) -> Value {
    let field = format!("metadata.annotations.{CACHED_FROM_CLUSTER}");
    json!({
        "size": PAGE,
        "sort": ["_doc"],
        "_source": ["apiVersion", "metadata.name", "metadata.namespace", "metadata.resourceVersion", field],
        "query": { "bool": { "minimum_should_match": 1, "should": [
            { "term": { &field: place.cluster } },
            { "term": { format!("{field}.keyword"): place.cluster } },
        ] } },
    })
}

/// A page of documents.
#[derive(Deserialize)]
pub(super) struct Page {
    #[serde(rename = "_scroll_id", default)]
    pub scroll_id: Option<String>,
    #[serde(default)]
    pub timed_out: bool,
    hits: Hits,
}

#[derive(Deserialize)]
struct Hits {
    hits: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(rename = "_id")]
    id: String,
    #[serde(rename = "_source", default)]
    source: Value,
}

impl Page {
    pub fn is_empty(&self) -> bool {
        self.hits.hits.is_empty()
    }
}

/// A comparison in progress.
pub(super) struct Comparison {
    source: Arc<Source>,
    /// Objects without an up-to-date document so far, by UID.
    missing: HashMap<Box<str>, Arc<Object>>,
    /// Documents without an object.
    surplus: Vec<Mark>,
}

impl Comparison {
    pub fn new(source: Arc<Source>) -> Self {
        let objects = source.known.all().into_iter();
        let objects = objects.filter(|it| !it.uid().is_empty() && it.uid().len() <= MAX_ID && source.selects(it));
        let missing = objects.map(|object| (object.uid().into(), object)).collect();
        Self { source, missing, surplus: Vec::new() }
    }

    /// Only documents of the same member and group are considered: kinds of several groups share an index.
    pub fn see(&mut self, page: Page) {
        for Hit { id, source } in page.hits.hits {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (version, metadata) = (text(&source["apiVersion"]), &source["metadata"]);
            let group = version.parse::<GroupVersion>().map(|it| it.group);
            let is_own = metadata["annotations"][CACHED_FROM_CLUSTER] == self.source.place.cluster.as_str()
                && group.is_ok_and(|group| group == self.source.place.resource.group);
            if !is_own {
                continue;
            }
            let (uid, name, namespace) = (id.into_boxed_str(), text(&metadata["name"]), text(&metadata["namespace"]));
            match self.missing.get(&uid) {
                Some(object) => {
                    if version == self.source.place.resource.api_version()
                        && metadata["resourceVersion"] == object.resource_version()
                    {
                        self.missing.remove(&uid);
                    }
                }
                None => {
                    let key = match namespace.as_str() {
                        "" => ObjectKey::cluster(name),
                        _ => ObjectKey::namespaced(namespace, name),
                    };
                    self.surplus.push(Mark { source: self.source.clone(), uid, key });
                }
            }
        }
    }

    /// The documents to write or to delete. Nothing is deleted on the evidence of a cache that may lack objects.
    pub fn end(self) -> Vec<Mark> {
        let Self { source, missing, surplus } = self;
        let known = &source.known;
        let is_gone = |mark: &Mark| known.get(&mark.key).is_none_or(|object| object.uid() != &*mark.uid);
        let is_complete = known.is_complete();
        let deleted = surplus.into_iter().filter(|mark| is_complete && is_gone(mark));
        let written = missing.into_iter().map(|(uid, object)| (uid, object.key()));
        written.map(|(uid, key)| Mark { source: source.clone(), uid, key }).chain(deleted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Member, object, source};
    use super::*;

    fn hit(id: &str, cluster: &str, api_version: &str, version: &str) -> Value {
        json!({"_id": id, "_source": {"apiVersion": api_version, "metadata": {
            "name": id, "namespace": "default", "resourceVersion": version,
            "annotations": {CACHED_FROM_CLUSTER: cluster}}}})
    }

    fn compare(member: &Member, hits: &[Value]) -> Vec<String> {
        let mut comparison = Comparison::new(Arc::new(source("m1", member)));
        comparison.see(serde_json::from_value(json!({"hits": {"hits": hits}})).unwrap());
        let mut found: Vec<String> = comparison.end().iter().map(|mark| mark.uid.to_string()).collect();
        found.sort();
        found
    }

    #[test]
    fn only_differences_are_sent() {
        let member = Member::default();
        for (name, version) in [("current", 5), ("old", 5), ("new", 5), ("upstreams", 5)] {
            member.put(object(name, version));
        }
        let hits = [
            hit("current", "m1", "v1", "5"),
            hit("old", "m1", "v1", "4"),
            hit("deleted", "m1", "v1", "4"),
            hit("of-another-cluster", "m2", "v1", "4"),
            hit("of-another-group", "m1", "example.io/v1", "4"),
            json!({"_id": "upstreams", "_source": {"apiVersion": "v1", "metadata": {"name": "upstreams",
                "namespace": "default", "annotations": {CACHED_FROM_CLUSTER: "m1"}}}}),
            json!({"_id": "foreign", "_source": {"anything": [1]}}),
            json!({"_id": "empty"}),
        ];
        assert_eq!(compare(&member, &hits), ["deleted", "new", "old", "upstreams"]);
        // A member that does not respond proves nothing.
        member.lose();
        assert_eq!(compare(&member, &hits), ["new", "old", "upstreams"]);
    }
}
