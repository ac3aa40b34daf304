//! `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`: decoding, validation, and the providers of a resource.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use apimachinery::configuration::ConfigurationError;
use apimachinery::configuration::FileKind;
use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::keyed::{Key, Kind};
use crate::kms::Kms;
use crate::providers::{Provider, Providers, keyed_prefix, kms_prefix};
use crate::resources::{self, Pattern};

/// The default timeout of a call to a key management service, as in kube-apiserver.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

const KIND: FileKind = FileKind { api_versions: &["apiserver.config.k8s.io/v1"], kind: "EncryptionConfiguration" };

/// A valid configuration.
#[derive(Debug, Default)]
pub struct Configuration {
    rules: Vec<(Vec<Pattern>, Providers)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    resources: Vec<RuleDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RuleDocument {
    resources: Vec<String>,
    providers: Vec<ProviderDocument>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ProviderDocument {
    aesgcm: Option<KeysDocument>,
    aescbc: Option<KeysDocument>,
    secretbox: Option<KeysDocument>,
    identity: Option<IdentityDocument>,
    kms: Option<KmsDocument>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct KeysDocument {
    keys: Vec<KeyDocument>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct KeyDocument {
    name: String,
    secret: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct IdentityDocument {}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct KmsDocument {
    #[serde(rename = "apiVersion")]
    api_version: String,
    name: String,
    cachesize: Option<i64>,
    endpoint: String,
    timeout: Option<String>,
}

impl Configuration {
    /// Reads a configuration file, YAML or JSON.
    ///
    /// # Errors
    /// If it is not an EncryptionConfiguration or has invalid fields. No secret is in the error.
    pub fn parse(file: &[u8]) -> Result<Self, ConfigurationError> {
        // The parser's texts quote the file, which has keys.
        let yaml = yaml::to_json_value_warned(file);
        let (mut tree, repeated) = yaml.map_err(|_| ConfigurationError::undecodable("it is not YAML"))?;
        KIND.check(&tree)?;
        if !repeated.is_empty() {
            return Err(ConfigurationError::undecodable("a field is repeated"));
        }
        identity_as_object(&mut tree);
        let document: Document = serde_json::from_value(tree).map_err(|error| {
            let text = error.to_string();
            let is_safe = text.starts_with("unknown field") || text.starts_with("missing field");
            ConfigurationError::Undecodable(if is_safe { text } else { "a field has the wrong type".to_owned() })
        })?;
        let mut errors = ErrorList::new();
        let rules = compile(document, &mut errors);
        if errors.is_empty() { Ok(Self { rules }) } else { Err(ConfigurationError::invalid(&errors)) }
    }

    /// The providers of the first rule that names the resource; `None` if it is stored unencrypted.
    pub fn providers(&self, group: &str, resource: &str) -> Option<&Providers> {
        let rule = self.rules.iter().find(|(patterns, _)| patterns.iter().any(|it| it.matches(group, resource)));
        rule.map(|(_, providers)| providers)
    }

    /// The names in the rules that are misspelled: `known` has resources of their group, and not these. Such a rule
    /// encrypts nothing. Resources of other groups may be defined later.
    pub fn misspelled(&self, known: &[(&str, &str)]) -> Vec<String> {
        self.rules.iter().flat_map(|(patterns, _)| patterns).filter_map(|it| it.misspelled(known)).collect()
    }

    /// The key management services of all rules, each once.
    pub fn services(&self) -> Vec<Arc<Kms>> {
        let mut found: Vec<Arc<Kms>> = Vec::new();
        for kms in self.rules.iter().flat_map(|(_, providers)| providers.services()) {
            if !found.contains(kms) {
                found.push(Arc::clone(kms));
            }
        }
        found
    }
}

/// `identity: {}` is usual, and `identity:` without a value means the same.
fn identity_as_object(tree: &mut Value) {
    let rules = tree.get_mut("resources").and_then(Value::as_array_mut).into_iter().flatten();
    let providers = rules.filter_map(|rule| rule.get_mut("providers")).filter_map(Value::as_array_mut).flatten();
    for provider in providers {
        if let Some(identity) = provider.get_mut("identity")
            && identity.is_null()
        {
            *identity = Value::Object(serde_json::Map::new());
        }
    }
}

fn compile(document: Document, errors: &mut ErrorList) -> Vec<(Vec<Pattern>, Providers)> {
    let root = Path::new("resources");
    if document.resources.is_empty() {
        errors.push(Error::required(&root, "at least one resources is required"));
    }
    let mut services: Vec<Arc<Kms>> = Vec::new();
    let mut rules = Vec::new();
    for (at, rule) in document.resources.into_iter().enumerate() {
        let path = root.index(at);
        let (of_resources, of_providers) = (path.child("resources"), path.child("providers"));
        if rule.resources.is_empty() {
            errors.push(Error::required(&of_resources, format!("at least one {of_resources} is required")));
        }
        if rule.providers.is_empty() {
            errors.push(Error::required(&of_providers, format!("at least one {of_providers} is required")));
        }
        let patterns = resources::read(&rule.resources, &of_resources, errors);
        let providers = rule.providers.into_iter().enumerate();
        let providers = providers.filter_map(|(at, it)| provider(it, &of_providers.index(at), &mut services, errors));
        rules.push((patterns, Providers(providers.collect())));
    }
    rules
}

/// `None` only with an error.
fn provider(
    document: ProviderDocument,
    path: &Path,
    services: &mut Vec<Arc<Kms>>,
    errors: &mut ErrorList,
) -> Option<Provider> {
    let mut found = Vec::new();
    for (kind, keys) in
        [(Kind::AesGcm, document.aesgcm), (Kind::AesCbc, document.aescbc), (Kind::Secretbox, document.secretbox)]
    {
        found.extend(keys.map(|keys| keyed(kind, keys, &path.child(kind.name()), errors)));
    }
    found.extend(document.identity.map(|_| Some(Provider::Identity)));
    found.extend(document.kms.map(|it| kms(it, &path.child("kms"), services, errors)));
    match found.len() {
        0 => {
            let why =
                "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
            errors.push(Error::required(path, why));
            None
        }
        1 => found.pop().flatten(),
        _ => {
            let why = "more than one provider specified in a single element, should split into different list elements";
            errors.push(Error::without_value(path, why));
            None
        }
    }
}

fn keyed(kind: Kind, document: KeysDocument, path: &Path, errors: &mut ErrorList) -> Option<Provider> {
    let path = path.child("keys");
    if document.keys.is_empty() {
        errors.push(Error::required(&path, format!("at least one {path} is required")));
    }
    let mut names = BTreeSet::new();
    let mut keys = Vec::new();
    for (at, document) in document.keys.into_iter().enumerate() {
        let (of_name, of_secret) = (path.index(at).child("name"), path.index(at).child("secret"));
        if document.name.is_empty() {
            errors.push(Error::required(&of_name, "name is a mandatory field for a key"));
        } else if document.name.contains(':') || !names.insert(document.name.clone()) {
            errors.push(Error::invalid(
                &of_name,
                document.name.clone(),
                "the name of a key must be unique and have no ':'",
            ));
        }
        if document.secret.is_empty() {
            errors.push(Error::required(&of_secret, "secret is a mandatory field for a key"));
            continue;
        }
        let Ok(secret) = STANDARD.decode(document.secret.trim()) else {
            errors.push(Error::invalid(&of_secret, "REDACTED", "secrets must be base64 encoded"));
            continue;
        };
        match Key::new(kind, &secret) {
            Some(key) => keys.push((keyed_prefix(kind, &document.name), key)),
            None => {
                let sizes: Vec<String> = kind.sizes().iter().map(ToString::to_string).collect();
                let (found, sizes) = (secret.len(), sizes.join(" "));
                let why = format!("secret is not of the expected length, got {found}, expected one of [{sizes}]");
                errors.push(Error::invalid(&of_secret, "REDACTED", why));
            }
        }
    }
    Some(Provider::Keyed(kind, keys))
}

fn kms(document: KmsDocument, path: &Path, services: &mut Vec<Arc<Kms>>, errors: &mut ErrorList) -> Option<Provider> {
    let before = errors.len();
    match document.api_version.as_str() {
        "v2" => {}
        "" | "v1" => {
            let why = "KMS v1 is disabled in Kubernetes since 1.29 and is not supported; use a KMS v2 plugin with apiVersion v2";
            errors.push(Error::invalid(&path.child("apiVersion"), document.api_version.clone(), why));
        }
        other => {
            let why = format!("unsupported apiVersion {other} for KMS provider, only v1 and v2 are supported");
            errors.push(Error::invalid(&path.child("apiVersion"), other, why));
        }
    }
    let name = document.name;
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name is a mandatory field for a provider"));
    } else if name.contains(':') {
        let why = format!("KMS provider names should not contain ':', {name} is not valid");
        errors.push(Error::invalid(&path.child("name"), name.clone(), why));
    }
    if document.cachesize.is_some() {
        errors.push(Error::invalid(&path.child("cachesize"), document.cachesize, "cachesize is not supported in v2"));
    }
    let endpoint = path.child("endpoint");
    let socket = match document.endpoint.split_once("://") {
        _ if document.endpoint.is_empty() => {
            errors.push(Error::required(&endpoint, "endpoint is a mandatory field for a provider"));
            String::new()
        }
        Some(("unix", path)) if !path.is_empty() => path.to_owned(),
        Some((scheme, _)) => {
            let why = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
            errors.push(Error::invalid(&endpoint, document.endpoint.clone(), why));
            String::new()
        }
        None => {
            let why = "invalid endpoint for kms provider, error: it is not a URL such as unix:///var/run/kms.sock";
            errors.push(Error::invalid(&endpoint, document.endpoint.clone(), why));
            String::new()
        }
    };
    let timeout = match document.timeout.as_deref() {
        None => Some(DEFAULT_TIMEOUT),
        Some(text) => text.parse().ok().and_then(apimachinery::duration::Duration::to_std),
    };
    let Some(timeout) = timeout.filter(|timeout| !timeout.is_zero()) else {
        errors.push(Error::invalid(&path.child("timeout"), document.timeout, "timeout should be a positive value"));
        return None;
    };
    let kms = Arc::new(Kms { name, socket, timeout });
    if services.iter().any(|known| known.name == kms.name) {
        let why = format!("duplicate KMS provider name {}, names must be unique", kms.name);
        errors.push(Error::invalid(&path.child("name"), kms.name.clone(), why));
    }
    services.push(Arc::clone(&kms));
    (errors.len() == before).then(|| {
        let prefix = kms_prefix(&kms.name);
        Provider::Kms(kms, prefix)
    })
}
