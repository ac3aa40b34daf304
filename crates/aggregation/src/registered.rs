//! APIServices as the aggregator uses them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::Object;
use apiserver::bootstrap::objects::AUTOMANAGED;
use base64::Engine as _;
use serde::Deserialize;

/// The port of a service reference without one.
const DEFAULT_PORT: u16 = 443;

/// The service of an APIService.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    pub port: Option<u16>,
}

impl ServiceReference {
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    /// The name that the server's certificate must have.
    pub fn dns_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// `spec` of an APIService.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub group: String,
    pub version: String,
    pub service: Option<ServiceReference>,
    #[serde(rename = "insecureSkipTLSVerify")]
    pub insecure: bool,
    /// PEM in base64.
    pub ca_bundle: Option<String>,
    pub group_priority_minimum: u32,
    pub version_priority: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    spec: Spec,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

/// Whether the server reconciles a local APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// By users only.
    No,
    /// When the server starts.
    OnStart,
    Always,
}

/// A stored APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiService {
    pub name: String,
    pub uid: String,
    pub managed: Managed,
    pub spec: Spec,
    /// The condition `Available`.
    pub available: Option<Condition>,
}

impl ApiService {
    /// `None` if the object cannot be decoded.
    pub fn of(object: &Object) -> Option<Self> {
        let document: Document = object.decode().ok()?;
        let managed = match object.labels().get(AUTOMANAGED) {
            Some("onstart") => Managed::OnStart,
            Some("true") => Managed::Always,
            _ => Managed::No,
        };
        let conditions = document.status.and_then(|status| status.conditions).unwrap_or_default();
        Some(Self {
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            managed,
            spec: document.spec,
            available: conditions.into_iter().find(|condition| condition.kind == "Available"),
        })
    }
}

/// A group version that another server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The name of the APIService.
    pub name: String,
    pub uid: String,
    pub group: String,
    pub version: String,
    pub service: ServiceReference,
    pub insecure: bool,
    /// PEM; `None` trusts the machine's authorities.
    pub ca_bundle: Option<Vec<u8>>,
}

impl Remote {
    fn of(service: &ApiService) -> Option<Self> {
        let spec = &service.spec;
        let ca_bundle = spec.ca_bundle.as_deref().filter(|text| !text.is_empty());
        Some(Self {
            name: service.name.clone(),
            uid: service.uid.clone(),
            group: spec.group.clone(),
            version: spec.version.clone(),
            service: spec.service.clone()?,
            insecure: spec.insecure,
            // The API validates it. An unreadable one trusts no server.
            ca_bundle: ca_bundle.map(|text| base64::prelude::BASE64_STANDARD.decode(text).unwrap_or_default()),
        })
    }
}

/// A group version of another server, and whether that server passed its last check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub remote: Arc<Remote>,
    pub is_available: bool,
}

/// The group versions of other servers, indexed for lookups.
#[derive(Clone, Debug, Default)]
pub struct Table {
    by_group: HashMap<String, Vec<Target>>,
}

impl Table {
    /// `is_own` returns whether this server itself has a group version built in: it is never passed on.
    pub fn of(services: &BTreeMap<String, ApiService>, is_own: impl Fn(&str, &str) -> bool) -> Self {
        let mut by_group: HashMap<String, Vec<Target>> = HashMap::new();
        for service in services.values() {
            let Some(remote) = Remote::of(service) else { continue };
            if is_own(&remote.group, &remote.version) {
                continue;
            }
            // The condition of a local APIService is no result of a check.
            let checked = service.available.as_ref().filter(|condition| condition.reason != "Local");
            let is_available = checked.is_some_and(|condition| condition.status == "True");
            let targets = by_group.entry(remote.group.clone()).or_default();
            targets.push(Target { remote: Arc::new(remote), is_available });
        }
        Self { by_group }
    }

    pub fn is_empty(&self) -> bool {
        self.by_group.is_empty()
    }

    pub fn find(&self, group: &str, version: &str) -> Option<&Target> {
        self.by_group.get(group)?.iter().find(|target| target.remote.version == version)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        self.by_group.values().flatten()
    }
}

/// Group and version of a path that belongs to a group version, or of its OpenAPI document.
pub fn group_version(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
    let mut segments = path.strip_prefix("/apis/")?.split('/');
    match (segments.next()?, segments.next()?) {
        ("", _) | (_, "") => None,
        found => Some(found),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn services(specs: &[Value]) -> BTreeMap<String, ApiService> {
        let parsed = specs.iter().map(|spec| {
            let name = format!("{}.{}", spec["version"].as_str().unwrap_or(""), spec["group"].as_str().unwrap_or(""));
            let mut object = json!({"metadata": {"name": name}, "spec": spec});
            object["status"] = object["spec"].as_object_mut().and_then(|it| it.remove("status")).unwrap_or_default();
            let object = Object::from_value(&object).expect("an object");
            (name, ApiService::of(&object).expect("an APIService"))
        });
        parsed.collect()
    }

    #[test]
    fn only_checked_external_group_versions_are_available() {
        let with = |group: &str, status: &str, reason: &str| {
            json!({"group": group, "version": "v1", "service": {"namespace": "n", "name": "s"},
                "status": {"conditions": [{"type": "Available", "status": status, "reason": reason}]}})
        };
        let all = services(&[
            with("passed", "True", "Passed"),
            with("failed", "False", "FailedDiscoveryCheck"),
            with("was-local", "True", "Local"),
            with("built-in", "True", "Passed"),
            json!({"group": "new", "version": "v1", "service": {"namespace": "n", "name": "s"}, "status": {}}),
            json!({"group": "local", "version": "v1"}),
        ]);
        let table = Table::of(&all, |group, _| group == "built-in");
        for (group, expected) in [
            ("passed", Some(true)),
            ("failed", Some(false)),
            ("was-local", Some(false)),
            ("new", Some(false)),
            ("local", None),
            ("built-in", None),
        ] {
            assert_eq!(table.find(group, "v1").map(|target| target.is_available), expected, "{group}");
        }
        assert_eq!(table.find("passed", "v2"), None);
        assert_eq!(table.iter().count(), 4);
    }

    #[test]
    fn paths_belong_to_group_versions() {
        for (path, expected) in [
            ("/apis/g/v1", Some(("g", "v1"))),
            ("/apis/g/v1/", Some(("g", "v1"))),
            ("/apis/g/v1/namespaces/a/xs/x", Some(("g", "v1"))),
            ("/openapi/v3/apis/g/v1", Some(("g", "v1"))),
            ("/apis/g", None),
            ("/apis/g/", None),
            ("/apis", None),
            ("//apis/g/v1", None),
            ("/apis//v1", None),
            ("/api/v1", None),
        ] {
            assert_eq!(group_version(path), expected, "{path}");
        }
    }
}
