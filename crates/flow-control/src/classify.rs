//! Classification: the first FlowSchema, by precedence and then by name, that matches a request.
//!
//! The subjects of a user change rarely, and paths and verbs with each request. So the rules that match a user are
//! selected once ([`Classifier::candidates`]), and a request is compared with these only.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::objects::{Distinguisher, FlowSchema, PathRule, ResourceRule, Rule, Subject};

/// The attributes of a request that FlowSchemas match.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `get`, `list`, `create` and so on; the lower-case method for other paths than those of resources.
    pub verb: &'a str,
    pub target: Target<'a>,
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A resource. `namespace` is empty for requests of the cluster; `subresource` for the object itself.
    Resource { group: &'a str, resource: &'a str, subresource: &'a str, namespace: &'a str },
    /// Another path.
    Path(&'a str),
}

impl Target<'_> {
    fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path(_) => "",
        }
    }
}

/// The FlowSchemas of a server in the order in which they are tried.
#[derive(Debug, Default)]
pub struct Classifier {
    schemas: Vec<(String, FlowSchema)>,
}

/// The rules whose subjects include one user: indexes of schemas and of their rules.
pub type Candidates = Box<[(u16, u16)]>;

impl Classifier {
    /// Sorts the schemas, which are passed by name.
    pub fn new(schemas: impl IntoIterator<Item = (String, FlowSchema)>) -> Self {
        let mut schemas: Vec<_> = schemas.into_iter().collect();
        schemas.sort_by(|(a, left), (b, right)| (left.precedence(), a).cmp(&(right.precedence(), b)));
        schemas.truncate(usize::from(u16::MAX));
        Self { schemas }
    }

    /// The schemas in their order.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &FlowSchema)> {
        self.schemas.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    /// The rules that a request of this user can match.
    pub fn candidates<S: AsRef<str>>(&self, user: &str, groups: &[S]) -> Candidates {
        let mut found = Vec::new();
        for (at, (_, schema)) in self.schemas.iter().enumerate() {
            for (index, rule) in schema.rules.iter().enumerate() {
                if rule.subjects.iter().any(|subject| is_of(subject, user, groups))
                    && let (Ok(at), Ok(index)) = (u16::try_from(at), u16::try_from(index))
                {
                    found.push((at, index));
                }
            }
        }
        found.into()
    }

    /// The index of the schema that the request matches, for a user with these candidates.
    pub fn classify(&self, candidates: &Candidates, request: &Request<'_>) -> Option<usize> {
        let matched = candidates.iter().find(|(schema, rule)| {
            let schema = self.schemas.get(usize::from(*schema));
            let rule = schema.and_then(|(_, schema)| schema.rules.get(usize::from(*rule)));
            rule.is_some_and(|rule| matches(rule, request))
        });
        matched.map(|(schema, _)| usize::from(*schema))
    }

    /// The distinguisher of the request's flow within its schema; empty for schemas with a single flow.
    pub fn distinguisher<'r>(&self, schema: usize, user: &'r str, target: &'r Target<'_>) -> &'r str {
        let method = self.schemas.get(schema).and_then(|(_, schema)| schema.distinguisher_method);
        match method {
            None => "",
            Some(Distinguisher::ByUser) => user,
            Some(Distinguisher::ByNamespace) => target.namespace(),
        }
    }
}

/// The hash that chooses the queues of a flow. With the server's own `seed` no client can predict them.
pub fn flow_hash(seed: u64, schema: &str, distinguisher: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, schema, distinguisher).hash(&mut hasher);
    hasher.finish()
}

fn is_of<S: AsRef<str>>(subject: &Subject, user: &str, groups: &[S]) -> bool {
    match subject {
        Subject::User { user: selected } => selected.name == "*" || selected.name == user,
        Subject::Group { group } => group.name == "*" || groups.iter().any(|it| it.as_ref() == group.name),
        Subject::ServiceAccount { service_account: selected } => {
            let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            account.is_some_and(|(namespace, name)| {
                namespace == selected.namespace && (selected.name == "*" || selected.name == name)
            })
        }
    }
}

fn matches(rule: &Rule, request: &Request<'_>) -> bool {
    match &request.target {
        Target::Resource { group, resource, subresource, namespace } => rule.resource_rules.iter().any(|rule| {
            has(&rule.verbs, request.verb)
                && has(&rule.api_groups, group)
                && names(&rule.resources, resource, subresource)
                && is_in_scope(rule, namespace)
        }),
        Target::Path(path) => {
            rule.non_resource_rules.iter().any(|rule| has(&rule.verbs, request.verb) && has_path(rule, path))
        }
    }
}

fn has(listed: &[String], selected: &str) -> bool {
    listed.iter().any(|it| it == "*" || it == selected)
}

/// A resource does not include its subresources.
fn names(listed: &[String], resource: &str, subresource: &str) -> bool {
    listed.iter().any(|it| match it.split_once('/') {
        None => it == "*" || (subresource.is_empty() && it == resource),
        Some((of, sub)) => !subresource.is_empty() && of == resource && sub == subresource,
    })
}

fn is_in_scope(rule: &ResourceRule, namespace: &str) -> bool {
    if namespace.is_empty() { rule.cluster_scope } else { has(&rule.namespaces, namespace) }
}

fn has_path(rule: &PathRule, path: &str) -> bool {
    rule.urls.iter().any(|url| match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    })
}

#[cfg(test)]
mod tests;
