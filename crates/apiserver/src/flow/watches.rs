//! The watches of clients, counted by what they may receive: a write costs by the watches that its event reaches, and not by
//! those of other namespaces and names.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::selector::FieldSelector;
use parking_lot::Mutex;

use crate::request::RequestInfo;

/// Open watches by resource. Each is counted in one place, so that their number bounds this.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<HashMap<Box<str>, Groups>>);

/// The watches of the resources of one name, by group.
type Groups = HashMap<Box<str>, Scopes>;

/// The watches of one resource by namespace; those of all namespaces, and of resources without, are at the empty one.
type Scopes = HashMap<Box<str>, Scope>;

/// The watches of one namespace.
#[derive(Debug, Default)]
struct Scope {
    all: u64,
    /// Watches of one name.
    named: HashMap<Box<str>, u64>,
}

/// An open watch: counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watches: Arc<Watches>,
    place: Place,
}

#[derive(Debug)]
struct Place {
    group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    /// Empty for all.
    name: Box<str>,
}

impl Watches {
    /// Counts a watch until the guard is dropped.
    pub fn begin(self: &Arc<Self>, info: &RequestInfo) -> Watching {
        let place = Place {
            group: info.group.as_str().into(),
            resource: info.resource.as_str().into(),
            namespace: info.scope().into(),
            name: name(info).into(),
        };
        let mut watches = self.0.lock();
        let groups = watches.entry(place.resource.clone()).or_default();
        let scope = groups.entry(place.group.clone()).or_default().entry(place.namespace.clone()).or_default();
        match &*place.name {
            "" => scope.all += 1,
            name => *scope.named.entry(name.into()).or_default() += 1,
        }
        drop(watches);
        Watching { watches: Arc::clone(self), place }
    }

    /// The watches that the event of a write reaches. The name of an object that is created is not known yet.
    pub fn reached(&self, info: &RequestInfo) -> u64 {
        let watches = self.0.lock();
        let Some(scopes) = watches.get(&*info.resource).and_then(|groups| groups.get(&*info.group)) else { return 0 };
        let of = |namespace: &str| {
            scopes.get(namespace).map_or(0, |scope| scope.all + scope.named.get(&*info.name).copied().unwrap_or(0))
        };
        match info.scope() {
            "" => of(""),
            namespace => of("") + of(namespace),
        }
    }

    fn end(&self, place: &Place) {
        let mut watches = self.0.lock();
        let Some(groups) = watches.get_mut(&place.resource) else { return };
        let Some(scopes) = groups.get_mut(&place.group) else { return };
        let Some(scope) = scopes.get_mut(&place.namespace) else { return };
        match &*place.name {
            "" => scope.all = scope.all.saturating_sub(1),
            name => {
                if let Some(count) = scope.named.get_mut(name) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        scope.named.remove(name);
                    }
                }
            }
        }
        if scope.all == 0 && scope.named.is_empty() {
            scopes.remove(&place.namespace);
        }
        if scopes.is_empty() {
            groups.remove(&place.group);
        }
        if groups.is_empty() {
            watches.remove(&place.resource);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watches.end(&self.place);
    }
}

/// The only name that a watch receives events of; empty if it has more.
fn name(info: &RequestInfo) -> String {
    if !info.name.is_empty() {
        return info.name.clone();
    }
    let selector = FieldSelector::parse(info.query.get("fieldSelector").unwrap_or_default()).ok();
    selector.and_then(|selector| selector.exact("metadata.name").map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn info(method: &Method, url: &str) -> RequestInfo {
        RequestInfo::parse(method, &url.parse().expect("a URL"))
    }

    #[test]
    fn a_write_counts_the_watches_that_receive_its_event() {
        let watches = Arc::new(Watches::default());
        let begin = |url: &str| watches.begin(&info(&Method::GET, url));
        let open: Vec<Watching> = [
            "/api/v1/configmaps?watch=1",
            "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Done",
            "/api/v1/namespaces/a/configmaps?watch=1",
            "/api/v1/namespaces/a/configmaps?watch=1&fieldSelector=metadata.name%3Dtwo,metadata.namespace%3Da",
            "/api/v1/watch/namespaces/a/configmaps/two",
            "/api/v1/namespaces/b/configmaps?watch=1&labelSelector=x",
            "/api/v1/namespaces?watch=1",
            "/apis/example.com/v1/namespaces/a/configmaps?watch=1",
        ]
        .map(begin)
        .into();
        let reached = |method: &Method, url: &str| watches.reached(&info(method, url));
        for (method, url, expected) in [
            (Method::PUT, "/api/v1/namespaces/a/configmaps/one", 3),
            (Method::PATCH, "/api/v1/namespaces/a/configmaps/two", 4),
            (Method::DELETE, "/api/v1/namespaces/b/configmaps/three", 2),
            (Method::POST, "/api/v1/namespaces/c/configmaps", 1),
            (Method::PUT, "/api/v1/namespaces/a", 1),
            (Method::PUT, "/api/v1/namespaces/a/status", 1),
            (Method::PUT, "/apis/example.com/v2/namespaces/a/configmaps/one", 1),
            (Method::PUT, "/api/v1/namespaces/a/secrets/one", 0),
        ] {
            assert_eq!(reached(&method, url), expected, "{method} {url}");
        }
        drop(open);
        assert!(watches.0.lock().is_empty(), "nothing is kept of watches that have ended");
    }
}
