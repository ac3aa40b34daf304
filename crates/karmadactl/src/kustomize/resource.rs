//! A resource with the names that it had: patches and references of every layer find it by any of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use apimachinery::GroupVersionKind;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    pub gvk: GroupVersionKind,
    pub namespace: String,
    pub name: String,
}

impl Id {
    /// Objects without a namespace are those of `default`.
    pub fn effective_namespace(&self) -> &str {
        match self.namespace.as_str() {
            _ if is_cluster_scoped(&self.gvk) => "",
            "" => "default",
            other => other,
        }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.gvk == other.gvk && self.name == other.name && self.effective_namespace() == other.effective_namespace()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupVersionKind { group, version, kind } = &self.gvk;
        let group = if group.is_empty() { "[noGrp]" } else { group };
        let namespace = if self.namespace.is_empty() { "[noNs]" } else { &self.namespace };
        write!(f, "{kind}.{version}.{group}/{}.{namespace}", self.name)
    }
}

/// Kinds that are not built in count as namespaced, as in kustomize.
pub fn is_cluster_scoped(gvk: &GroupVersionKind) -> bool {
    static SCOPES: OnceLock<BTreeMap<GroupVersionKind, bool>> = OnceLock::new();
    let scopes = SCOPES.get_or_init(|| {
        let built_in = kubernetes_api::resources().into_iter();
        built_in.map(|it| (it.info.resource.gvk(), it.info.resource.namespaced)).collect()
    });
    scopes.get(gvk) == Some(&false)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub object: Value,
    /// The first is the one in the file.
    pub previous: Vec<Id>,
    /// Innermost first.
    pub prefixes: Vec<String>,
    pub suffixes: Vec<String>,
    /// The name ends with a hash of the content.
    pub hashed: bool,
}

impl Resource {
    pub fn new(object: Value) -> Self {
        Self { object, previous: Vec::new(), prefixes: Vec::new(), suffixes: Vec::new(), hashed: false }
    }

    pub fn gvk(&self) -> GroupVersionKind {
        gvk(&self.object)
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    pub fn id(&self) -> Id {
        id(&self.object)
    }

    pub fn original(&self) -> Id {
        self.previous.first().cloned().unwrap_or_else(|| self.id())
    }

    /// Whether one of its names, past or present, is this one.
    pub fn is_or_was(&self, id: &Id) -> bool {
        self.id().is_same(id) || self.previous.iter().any(|before| before.is_same(id))
    }

    /// Changes the name or the namespace and remembers the old one.
    pub fn rename(&mut self, field: &str, value: &str) {
        self.previous.push(self.id());
        self.object["metadata"][field] = Value::from(value);
    }
}

pub fn gvk(object: &Value) -> GroupVersionKind {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let api_version = text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind { group: group.to_owned(), version: version.to_owned(), kind: text("kind").to_owned() }
}

pub fn id(object: &Value) -> Id {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    Id { gvk: gvk(object), namespace: text("namespace"), name: text("name") }
}
