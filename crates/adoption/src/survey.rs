//! The content of a store before a takeover: counts by resource, unreadable values, and required steps. A value that is
//! filled key by key and printed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kubernetes_api::protobuf::UnknownField;
use serde::Serialize;
use serde_json::Value;

use crate::form::Form;
use crate::places::{Place, SERVING};
use crate::value::{self, Read, Unreadable};

/// Values that are not understood, of which each is listed with its key up to this number.
const LISTED: usize = 100;

/// The content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Survey {
    /// The newest revision.
    pub revision: u64,
    /// By resource, as `kubectl api-resources -o name` prints it.
    pub resources: BTreeMap<String, Counted>,
    /// Keys that are not used here, by the first part of their names.
    pub ignored: BTreeMap<String, Ignored>,
    /// The number of values that are not understood.
    pub unreadable: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
    /// Custom resources without a definition: they are kept and not served.
    pub without_definition: BTreeSet<String>,
    /// The steps before the takeover.
    pub before: Vec<Step>,
    /// Objects that are kept, and need a file of the old installation.
    pub kept: BTreeMap<String, u64>,
    /// Fields of a newer version, with the number of objects that have them: the objects are served without.
    pub unknown_fields: BTreeMap<String, u64>,
    #[serde(skip)]
    definitions: BTreeMap<String, BTreeSet<String>>,
    #[serde(skip)]
    custom: BTreeSet<String>,
}

/// The objects of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// The number of objects.
    pub objects: u64,
    /// The size of keys and values.
    pub bytes: u64,
    /// By the version in which they are stored.
    pub versions: BTreeMap<String, u64>,
    /// Stored as protobuf.
    #[serde(skip_serializing_if = "is_zero")]
    pub protobuf: u64,
    /// Stored as JSON.
    #[serde(skip_serializing_if = "is_zero")]
    pub json: u64,
    /// Encrypted and not decrypted, by the provider and key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub encrypted: BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Keys that are not used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// The number of keys.
    pub keys: u64,
    /// The size of keys and values.
    pub bytes: u64,
    /// Why they are not used.
    pub reason: &'static str,
}

/// A value that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its key in the store.
    pub key: String,
    /// The reason.
    pub reason: String,
}

/// Something that must be done first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The object that it is about, as `kind/name`; empty for the store as a whole.
    pub object: String,
    /// Why.
    pub reason: String,
    /// The next step.
    pub next: String,
    /// The object's key in the engine's layout, if the object must not be taken over.
    #[serde(skip)]
    pub key: Option<Bytes>,
}

/// The Services of components that a control plane here replaces.
const REPLACED: &[&str] = &["karmada-aggregated-apiserver", "karmada-search"];
/// The Service, and the name in URLs, of the webhook server that is part of the API server here.
const WEBHOOK: &str = "karmada-webhook";
const WEBHOOK_CONFIGURATIONS: &[&str] = &["mutating-config", "validating-config"];
const REMOVE: &str = "karmada store adopt removes it, and writes it into a file for the way back";

impl Survey {
    /// Adds a key with its value. `shown` is the key as stored in etcd.
    pub fn add(&mut self, key: &Bytes, shown: &str, value: &Bytes) {
        let bytes = (shown.len() + value.len()) as u64;
        let place = match Place::of(key) {
            Place::Own => return,
            Place::Unused(name, reason) => {
                let ignored = self.ignored.entry(name.to_owned()).or_default();
                (ignored.keys, ignored.bytes, ignored.reason) = (ignored.keys + 1, ignored.bytes + bytes, reason);
                return;
            }
            Place::BuiltIn(place) => place,
            Place::Custom(place) => {
                if !self.custom.contains(place) {
                    self.custom.insert(place.to_owned());
                }
                place
            }
        };
        let read = value::read(value);
        let counted = self.resources.entry(resource_name(place)).or_default();
        (counted.objects, counted.bytes) = (counted.objects + 1, counted.bytes + bytes);
        match read {
            Ok(read) => {
                match read.form {
                    Form::Protobuf => counted.protobuf += 1,
                    _ => counted.json += 1,
                }
                let version = version_of(&read.api_version).to_owned();
                *counted.versions.entry(version).or_default() += 1;
                for UnknownField { message, number } in &read.unknown {
                    let field = format!("field {number} of {message} in {}", resource_name(place));
                    *self.unknown_fields.entry(field).or_default() += 1;
                }
                self.inspect(place, key, read, value);
            }
            Err(error) => {
                if let Unreadable::Encrypted(provider) = &error {
                    *counted.encrypted.entry(provider.clone()).or_default() += 1;
                }
                self.unreadable(shown, &error.to_string());
            }
        }
    }

    /// Notes a value that the engine could not read.
    pub fn unreadable(&mut self, shown: &str, reason: &str) {
        self.unreadable += 1;
        if self.findings.len() < LISTED {
            self.findings.push(Finding { key: shown.to_owned(), reason: reason.to_owned() });
        }
    }

    /// The steps for single objects.
    fn inspect(&mut self, place: &str, key: &Bytes, read: Read, value: &Bytes) {
        const LOOKED_INTO: &[&str] = &[
            "admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "admissionregistration.k8s.io/validatingwebhookconfigurations",
            "apiregistration.k8s.io/apiservices",
            "apiextensions.k8s.io/customresourcedefinitions",
            "core/secrets",
            "core/services",
        ];
        if !LOOKED_INTO.contains(&place) {
            return;
        }
        // The decoded value is JSON.
        let Ok(object) = serde_json::from_slice::<Value>(read.value.as_ref().unwrap_or(value)) else { return };
        match place {
            "apiextensions.k8s.io/customresourcedefinitions" => self.define(&object),
            "core/secrets" => {
                if object["type"] == "kubernetes.io/service-account-token" {
                    *self.kept.entry("tokens of service accounts in Secrets".to_owned()).or_default() += 1;
                }
            }
            "core/services" => {
                let address = object["spec"]["clusterIP"].as_str().unwrap_or_default();
                if !matches!(address, "" | "None") {
                    *self.kept.entry("addresses of Services".to_owned()).or_default() += 1;
                }
            }
            _ => {
                if let Some(reason) = must_go(&object) {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    let object = format!("{}/{name}", read.kind.to_lowercase());
                    self.before.push(Step { object, reason, next: REMOVE.to_owned(), key: Some(key.clone()) });
                }
            }
        }
    }

    fn define(&mut self, definition: &Value) {
        let spec = &definition["spec"];
        let (Some(group), Some(plural)) = (spec["group"].as_str(), spec["names"]["plural"].as_str()) else { return };
        let versions = spec["versions"].as_array().into_iter().flatten();
        let versions = versions.filter_map(|version| version["name"].as_str()).map(str::to_owned).collect();
        self.definitions.insert(format!("{group}/{plural}"), versions);
    }

    /// Completes the survey once all keys are added.
    pub fn finish(&mut self, revision: u64) {
        self.revision = revision;
        // The definitions of this version replace stored ones of the same name.
        karmada_api::crds().iter().for_each(|definition| self.define(definition));
        for place in &self.custom {
            let name = resource_name(place);
            let Some(versions) = self.definitions.get(place) else {
                if place != "cluster.karmada.io/clusters" {
                    self.without_definition.insert(name);
                }
                continue;
            };
            let Some(counted) = self.resources.get(&name) else { continue };
            for (version, objects) in counted.versions.iter().filter(|(version, _)| !versions.contains(*version)) {
                let reason =
                    format!("{objects} of its objects are stored in {version}, which the definition does not have");
                let next = "update the objects in the old control plane, so that it stores them in a newer version";
                let object = format!("customresourcedefinition/{name}");
                self.before.push(Step { object, reason, next: next.to_owned(), key: None });
            }
        }
        if let Some(serving) = self.ignored.get(SERVING) {
            let reason = format!("{} kube-apiserver(s) serve this etcd now", serving.keys);
            let next = "stop the old control plane, then repeat after 15 s; its leases in etcd expire".to_owned();
            self.before.push(Step { object: String::new(), reason, next, key: None });
        }
        if self.unreadable > 0 {
            let reason = format!("{} value(s) are not understood", self.unreadable);
            let next = "see the list of values, and remove or convert them in the old control plane".to_owned();
            self.before.push(Step { object: String::new(), reason, next, key: None });
        }
    }

    /// Objects in all resources.
    pub fn objects(&self) -> u64 {
        self.resources.values().map(|counted| counted.objects).sum()
    }

    /// Whether the only obstacles are objects that will be removed.
    pub fn can_be_adopted(&self) -> bool {
        self.before.iter().all(|step| step.key.is_some())
    }
}

/// Why an object of the old installation must not be taken over; `None` if it may stay.
pub fn must_go(object: &Value) -> Option<String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["kind"].as_str()? {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            let webhooks = object["webhooks"].as_array().into_iter().flatten();
            let is_old = |webhook: &Value| {
                let config = &webhook["clientConfig"];
                let url = config["url"].as_str().unwrap_or_default();
                config["service"]["name"] == WEBHOOK || host(url).split('.').next() == Some(WEBHOOK)
            };
            (WEBHOOK_CONFIGURATIONS.contains(&name) || webhooks.clone().any(is_old))
                .then(|| format!("it calls {WEBHOOK}, whose rules are part of the API server here"))
        }
        "APIService" => {
            let service = object["spec"]["service"]["name"].as_str()?;
            REPLACED
                .contains(&service)
                .then(|| format!("it passes requests to {service}, which is part of the API server here"))
        }
        _ => None,
    }
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or(api_version)
}

/// `deployments.apps` of `apps/deployments`.
fn resource_name(place: &str) -> String {
    match place.split_once('/') {
        Some(("core", plural)) => plural.to_owned(),
        Some((group, plural)) => format!("{plural}.{group}"),
        None => place.to_owned(),
    }
}
