//! The rules of an `AuthorizationConfiguration`.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;

use super::{Authorizer, Condition, Configuration, Document, FailurePolicy, Webhook, WebhookDocument};
use crate::reviews::Version;

const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
const DEFAULT_AUTHORIZED: Duration = Duration::from_secs(300);
const DEFAULT_UNAUTHORIZED: Duration = Duration::from_secs(30);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);
/// As in kube-apiserver.
const MAX_CONDITIONS: usize = 64;

pub(super) fn compile(document: Document) -> Result<Configuration, ErrorList> {
    let mut errors = ErrorList::new();
    let root = Path::new("authorizers");
    if document.authorizers.is_empty() {
        errors.push(Error::required(&root, "at least one authorization mode must be defined"));
    }
    let (mut types, mut names_seen) = (BTreeSet::new(), BTreeSet::new());
    let mut authorizers = Vec::new();
    for (at, item) in document.authorizers.into_iter().enumerate() {
        let path = root.index(at);
        let (type_, name) = (item.type_.as_str(), item.name.as_str());
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else if !names_seen.insert(name.to_owned()) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        let wrong = names::is_dns1123_subdomain(name).into_iter().filter(|_| !name.is_empty());
        errors.extend(wrong.map(|why| Error::invalid(&path.child("name"), name, why)));
        if type_ != "Webhook" {
            if !types.insert(type_.to_owned()) {
                errors.push(Error::duplicate(&path.child("type"), type_));
            }
            if item.webhook.is_some() {
                let why = "may only be specified when type=Webhook";
                errors.push(Error::invalid(&path.child("webhook"), "non-null", why));
            }
        }
        authorizers.extend(match (type_, item.webhook) {
            ("RBAC", _) => Some(Authorizer::Rbac),
            ("Node", _) => Some(Authorizer::Node),
            ("AlwaysAllow", _) => Some(Authorizer::AlwaysAllow),
            ("AlwaysDeny", _) => Some(Authorizer::AlwaysDeny),
            ("Webhook", Some(webhook)) => {
                self::webhook(item.name, &webhook, &path.child("webhook"), &mut errors).map(Authorizer::Webhook)
            }
            ("Webhook", None) => {
                errors.push(Error::required(&path.child("webhook"), "required when type=Webhook"));
                None
            }
            ("ABAC", _) => {
                let why = "ABAC policies cannot be changed through the API and are not supported here: write roles and bindings";
                errors.push(Error::invalid(&path.child("type"), type_, why));
                None
            }
            ("", _) => {
                errors.push(Error::required(&path.child("type"), ""));
                None
            }
            _ => {
                errors.push(Error::not_supported(&path.child("type"), type_, &TYPES));
                None
            }
        });
    }
    if errors.is_empty() { Ok(Configuration { authorizers }) } else { Err(errors) }
}

/// `None` only with an error.
fn webhook(name: String, document: &WebhookDocument, path: &Path, errors: &mut ErrorList) -> Option<Webhook> {
    let ttl = |text: &Option<String>, remember: Option<bool>, default, field, errors: &mut ErrorList| {
        let lifetime = duration(text.as_deref(), Some(default), &path.child(field), errors);
        if remember == Some(false) { Duration::ZERO } else { lifetime }
    };
    let authorized = (&document.authorized_ttl, document.cache_authorized_requests);
    let authorized_ttl = ttl(authorized.0, authorized.1, DEFAULT_AUTHORIZED, "authorizedTTL", errors);
    let unauthorized = (&document.unauthorized_ttl, document.cache_unauthorized_requests);
    let unauthorized_ttl = ttl(unauthorized.0, unauthorized.1, DEFAULT_UNAUTHORIZED, "unauthorizedTTL", errors);
    let timeout = duration(document.timeout.as_deref(), None, &path.child("timeout"), errors);
    if timeout > LONGEST_TIMEOUT {
        errors.push(Error::invalid(&path.child("timeout"), document.timeout.clone(), "must be <= 30s"));
    }
    let of_version = path.child("subjectAccessReviewVersion");
    let version = match document.subject_access_review_version.as_str() {
        "v1" => Version::V1,
        "v1beta1" => Version::V1Beta1,
        found => {
            missing_or_unsupported(found, &["v1", "v1beta1"], &of_version, errors);
            Version::V1
        }
    };
    let of_conditions = path.child("matchConditionSubjectAccessReviewVersion");
    match document.match_condition_subject_access_review_version.as_str() {
        "v1" => {}
        found => missing_or_unsupported(found, &["v1"], &of_conditions, errors),
    }
    let failure_policy = match document.failure_policy.as_str() {
        "NoOpinion" => FailurePolicy::NoOpinion,
        "Deny" => FailurePolicy::Deny,
        found => {
            missing_or_unsupported(found, &["Deny", "NoOpinion"], &path.child("failurePolicy"), errors);
            FailurePolicy::Deny
        }
    };
    let kubeconfig = connection(document, &path.child("connectionInfo"), errors);
    let conditions = conditions(document, &path.child("matchConditions"), errors);
    Some(Webhook { name, authorized_ttl, unauthorized_ttl, timeout, version, failure_policy, kubeconfig, conditions })
}

fn missing_or_unsupported(found: &str, supported: &[&str], path: &Path, errors: &mut ErrorList) {
    errors.push(match found {
        "" => Error::required(path, ""),
        found => Error::not_supported(path, found, supported),
    });
}

/// A positive duration; the default if it is absent.
fn duration(text: Option<&str>, default: Option<Duration>, path: &Path, errors: &mut ErrorList) -> Duration {
    let Some(text) = text else {
        if default.is_none() {
            errors.push(Error::required(path, ""));
        }
        return default.unwrap_or_default();
    };
    let parsed: Option<Duration> = text.parse().ok().and_then(apimachinery::duration::Duration::to_std);
    match parsed.filter(|duration| !duration.is_zero()) {
        Some(duration) => duration,
        None => {
            errors.push(Error::invalid(path, text, "must be > 0s"));
            Duration::ZERO
        }
    }
}

fn connection(document: &WebhookDocument, path: &Path, errors: &mut ErrorList) -> Option<String> {
    let (file, of_file) = (&document.connection_info.kube_config_file, path.child("kubeConfigFile"));
    match document.connection_info.type_.as_str() {
        "KubeConfigFile" => match file.as_deref() {
            None | Some("") => errors.push(Error::required(&of_file, "")),
            Some(text) if !text.starts_with('/') => {
                errors.push(Error::invalid(&of_file, text, "must be an absolute path"));
            }
            Some(_) => {}
        },
        "InClusterConfig" => {
            if let Some(file) = file {
                let why = "can only be set when type=KubeConfigFile";
                errors.push(Error::invalid(&of_file, file.as_str(), why));
            }
        }
        found => missing_or_unsupported(found, &["InClusterConfig", "KubeConfigFile"], &path.child("type"), errors),
    }
    file.clone()
}

fn conditions(document: &WebhookDocument, path: &Path, errors: &mut ErrorList) -> Vec<Condition> {
    if document.match_conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(path, document.match_conditions.len(), MAX_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (at, condition) in document.match_conditions.iter().enumerate() {
        let place = path.index(at).child("expression");
        let source = condition.expression.as_str();
        if source.is_empty() {
            errors.push(Error::required(&place, ""));
            continue;
        }
        if !seen.insert(source) {
            errors.push(Error::duplicate(&place, source));
        }
        match Condition::compile(source) {
            Ok(condition) => found.push(condition),
            Err(why) => errors.push(Error::invalid(&place, source, why)),
        }
    }
    found
}
