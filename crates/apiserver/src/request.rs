//! The attributes of a request, parsed from its method and URL alone, before authorization.

use http::Method;
use percent_encoding::percent_decode_str;

use attributes::{Attributes, ResourceAttributes, Selectors};

pub mod attributes;
pub(crate) mod log;
pub mod options;
pub mod peer;
mod query;
pub(crate) mod spans;

pub use query::Query;

/// A parsed URL. For paths outside `/api` and `/apis` only `verb` and `path` mean anything.
#[derive(Clone, Debug, Default)]
pub struct RequestInfo {
    /// Whether the path is inside `/api` or `/apis` and names a resource.
    pub is_resource: bool,
    /// Whether the path has the legacy prefix `/watch/`, which makes the request a watch, whatever its method.
    pub is_legacy_watch: bool,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-case method for
    /// other paths.
    pub verb: &'static str,
    /// The path.
    pub path: String,
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// Empty for cluster-scoped resources and across namespaces.
    pub namespace: String,
    /// The plural.
    pub resource: String,
    /// The object's name; empty for requests on collections.
    pub name: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The path after the subresource, without a leading slash; proxies forward it.
    pub subpath: String,
    /// The query parameters.
    pub query: Query,
}

/// Text with its `%XX` decoded. Invalid escapes are not decoded, and invalid UTF-8 is replaced.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl RequestInfo {
    /// Parses a method and a URL.
    pub fn parse(method: &Method, uri: &http::Uri) -> Self {
        let path = uri.path();
        let mut info =
            Self { path: path.to_owned(), query: Query::parse(uri.query().unwrap_or_default()), ..Self::default() };
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        info.is_legacy_watch = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => info.resource_path("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => info.resource_path(group, version, rest),
            _ => false,
        };
        info.verb = info.verb_of(method);
        info
    }

    /// The namespace that contains the objects. A namespace itself is in none, although its URL names it.
    pub fn scope(&self) -> &str {
        if self.resource == "namespaces" { "" } else { &self.namespace }
    }

    /// Whether the answer may last as long as it lasts: watches, logs and proxied connections.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch" || matches!(self.subresource.as_str(), "proxy" | "log" | "exec" | "attach" | "portforward")
    }

    /// Answers whether the path has the legacy `/watch/` prefix.
    fn resource_path(&mut self, group: &str, version: &str, rest: &[&str]) -> bool {
        self.is_resource = true;
        self.group = decode(group);
        self.version = decode(version);
        // The legacy `/watch/` prefix turns any request into a watch.
        let (watched, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => {
                self.query.set("watch", "true");
                (true, rest)
            }
            rest => (false, rest),
        };
        let rest = match rest {
            // `namespaces/NAME` and its own subresources are the resource `namespaces`.
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                self.namespace = decode(name);
                &["namespaces", name, sub][..]
            }
            // No resource is called so within a namespace.
            ["namespaces", _, "namespaces", ..] => &[][..],
            ["namespaces", ns, rest @ ..] if !rest.is_empty() => {
                self.namespace = decode(ns);
                rest
            }
            rest => rest,
        };
        let mut parts = rest.iter();
        self.resource = parts.next().map(|part| decode(part)).unwrap_or_default();
        self.name = parts.next().map(|part| decode(part)).unwrap_or_default();
        self.subresource = parts.next().map(|part| decode(part)).unwrap_or_default();
        self.subpath = parts.copied().collect::<Vec<_>>().join("/");
        if self.resource == "namespaces" && !self.name.is_empty() {
            self.namespace.clone_from(&self.name);
        }
        watched
    }

    fn verb_of(&self, method: &Method) -> &'static str {
        let named = !self.name.is_empty();
        match (method, self.is_resource) {
            (_, true) if self.is_legacy_watch => "watch",
            // On a named object the parameter is ignored; behind a proxy it is the member's.
            (&Method::GET | &Method::HEAD, true) if !named && self.query.flag("watch") => "watch",
            (&Method::GET | &Method::HEAD, true) => {
                if named {
                    "get"
                } else {
                    "list"
                }
            }
            (&Method::POST, true) => "create",
            (&Method::PUT, true) => "update",
            (&Method::PATCH, true) => "patch",
            (&Method::DELETE, true) => {
                if named {
                    "delete"
                } else {
                    "deletecollection"
                }
            }
            (&Method::GET, false) => "get",
            (&Method::HEAD, false) => "head",
            (&Method::POST, false) => "post",
            (&Method::PUT, false) => "put",
            (&Method::PATCH, false) => "patch",
            (&Method::DELETE, false) => "delete",
            (&Method::OPTIONS, false) => "options",
            (&Method::TRACE, false) => "trace",
            (&Method::CONNECT, false) => "connect",
            _ => "",
        }
    }

    /// The attributes for the authorizer. A list or watch of one name is authorized with that name.
    pub fn attributes(&self) -> Attributes {
        if !self.is_resource {
            return Attributes::Path { verb: self.verb.into(), path: self.path.clone() };
        }
        let name = if self.name.is_empty() && matches!(self.verb, "list" | "watch") {
            let selector = self.query.get("fieldSelector").unwrap_or_default();
            apimachinery::selector::FieldSelector::parse(selector)
                .ok()
                .and_then(|selector| selector.exact("metadata.name").map(str::to_owned))
                .unwrap_or_default()
        } else {
            self.name.clone()
        };
        let selectors = if matches!(self.verb, "list" | "watch" | "deletecollection") {
            let text = |name| self.query.get(name).unwrap_or_default();
            Selectors::of(text("fieldSelector"), text("labelSelector"))
        } else {
            None
        };
        Attributes::Resource(ResourceAttributes {
            verb: self.verb.into(),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name,
            selectors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, url: &str, expected: &str) {
        let info = RequestInfo::parse(&method, &url.parse().expect("a URL"));
        let shown = format!(
            "{} {}/{} ns={} {} name={} sub={} rest={}",
            info.verb,
            info.group,
            info.version,
            info.namespace,
            info.resource,
            info.name,
            info.subresource,
            info.subpath
        );
        assert_eq!(shown, expected, "{url}");
    }

    #[test]
    fn urls_are_read_as_kube_apiserver_reads_them() {
        check(Method::GET, "/api/v1/pods", "list /v1 ns= pods name= sub= rest=");
        check(Method::GET, "/api/v1/namespaces/a", "get /v1 ns=a namespaces name=a sub= rest=");
        check(Method::PUT, "/api/v1/namespaces/a/finalize", "update /v1 ns=a namespaces name=a sub=finalize rest=");
        check(Method::GET, "/api/v1/watch/pods", "watch /v1 ns= pods name= sub= rest=");
        check(
            Method::GET,
            "/apis/apps/v1/namespaces/a/deployments/d/scale?watch=0",
            "get apps/v1 ns=a deployments name=d sub=scale rest=",
        );
        check(
            Method::GET,
            "/apis/cluster.karmada.io/v1alpha1/clusters/m/proxy/api/v1/pods",
            "get cluster.karmada.io/v1alpha1 ns= clusters name=m sub=proxy rest=api/v1/pods",
        );
        check(
            Method::GET,
            "/apis/cluster.karmada.io/v1alpha1/clusters/m/proxy/api/v1/pods?watch=true",
            "get cluster.karmada.io/v1alpha1 ns= clusters name=m sub=proxy rest=api/v1/pods",
        );
        check(Method::GET, "/api/v1/watch/namespaces/a/pods/p", "watch /v1 ns=a pods name=p sub= rest=");
        check(Method::DELETE, "/api/v1/watch/namespaces/a/pods/p", "watch /v1 ns=a pods name=p sub= rest=");
        check(Method::OPTIONS, "/api/v1/namespaces/a/pods", " /v1 ns=a pods name= sub= rest=");
        check(Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection /v1 ns=a pods name= sub= rest=");
        check(Method::GET, "/api/v1/namespaces/a/pods?watch", "watch /v1 ns=a pods name= sub= rest=");
    }
}
