//! Kinds of the API machinery: API services, flow schemas, admission policies, certificate requests, volumes and their
//! attachments, endpoints.

use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::at::At;
use super::table::Function;
use super::{Object, forbidden, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("api_service", api_service),
    ("certificate_request", certificate_request),
    ("class_parameters", class_parameters),
    ("namespace_finalizers", namespace_finalizers),
    ("cron_job_name", cron_job_name),
    ("endpoints", endpoints),
    ("quota_scopes", quota_scopes),
    ("lease", lease),
];

fn name(map: &Object) -> &str {
    map.get("metadata").map_or("", |metadata| metadata["name"].as_str().unwrap_or_default())
}

/// The names of its jobs and pods are derived from it, and have at most 63 characters.
const CRON_JOB_NAME: usize = 52;

fn cron_job_name(job: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if name(job).len() > CRON_JOB_NAME {
        let at = at.child("metadata");
        let detail = format!("must be no more than {CRON_JOB_NAME} characters");
        invalid(errors, &at.child("name"), &name(job).into(), &detail);
    }
}

fn api_service(service: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(spec) = object(service, "spec") else { return };
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    if name(service) != format!("{version}.{group}") {
        let at = at.child("metadata");
        let detail = format!("must be `spec.version+\".\"+spec.group`: \"{version}.{group}\"");
        invalid(errors, &at.child("name"), &name(service).into(), &detail);
    }
    let at = at.child("spec");
    for complaint in
        Some(group).filter(|group| !group.is_empty()).map(names::is_dns1123_subdomain).into_iter().flatten()
    {
        invalid(errors, &at.child("group"), &group.into(), &complaint);
    }
    for complaint in names::is_dns1035_label(version) {
        invalid(errors, &at.child("version"), &version.into(), &complaint);
    }
    for (field, most, detail) in [
        ("groupPriorityMinimum", 20_000, "must be positive and less than 20000"),
        ("versionPriority", 1_000, "must be positive and less than 1000"),
    ] {
        let value = spec.get(field).cloned().unwrap_or_else(|| 0.into());
        if !value.as_i64().is_some_and(|number| (1..=most).contains(&number)) {
            invalid(errors, &at.child(field), &value, detail);
        }
    }
    let insecure = spec.get("insecureSkipTLSVerify") == Some(&Value::Bool(true));
    let Some(target) = object(spec, "service") else {
        if spec.contains_key("caBundle") {
            let at = at.child("caBundle");
            invalid(errors, &at, &spec["caBundle"], "local APIServices may not have a caBundle");
        }
        if insecure {
            let at = at.child("insecureSkipTLSVerify");
            invalid(errors, &at, &true.into(), "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    };
    let at_service = at.child("service");
    for field in ["namespace", "name"] {
        if text(target, field).is_empty() {
            required(errors, &at_service.child(field), "");
        }
    }
    if insecure && spec.contains_key("caBundle") {
        let at = at.child("insecureSkipTLSVerify");
        invalid(errors, &at, &true.into(), "may not be true if caBundle is present");
    }
}

/// `preferredHolder` requires a strategy, and the strategy is a known one or has a domain prefix.
fn lease(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(strategy) = spec.get("strategy").and_then(Value::as_str) {
        let at = at.child("strategy");
        if !strategy.contains('/') {
            super::checks::supported(&strategy.into(), &["OldestEmulationVersion"], &at, errors);
        } else {
            for complaint in names::is_qualified_name(strategy) {
                invalid(errors, &at, &strategy.into(), &complaint);
            }
        }
    }
    if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
        let detail = "may only be specified when `strategy` is defined";
        forbidden(errors, &at.child("preferredHolder"), detail);
    }
}

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The minimum lifetime in seconds: a shorter certificate would expire before it is used.
const SHORTEST_LIFE: i64 = 600;

fn certificate_request(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let request = text(spec, "request");
    let pem = STANDARD.decode(request).unwrap_or_default();
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        invalid(errors, &at.child("request"), &request.into(), "PEM block type must be CERTIFICATE REQUEST");
    }
    let at_usages = at.child("usages");
    let mut seen = Vec::new();
    for (index, usage) in list(spec, "usages").iter().enumerate() {
        let at = at_usages.index(index);
        if usage.as_str().is_none_or(|usage| !USAGES.contains(&usage)) {
            errors.push(Error::not_supported(&at.path(), usage.clone(), &USAGES));
        } else if seen.contains(&usage) {
            errors.push(Error::duplicate(&at.path(), usage.clone()));
        }
        seen.push(usage);
    }
    let signer = text(spec, "signerName");
    let at_signer = at.child("signerName");
    match signer.split_once('/') {
        _ if signer == "kubernetes.io/legacy-unknown" => {
            let detail = "the legacy signerName is not allowed via this API version";
            invalid(errors, &at_signer, &signer.into(), detail);
        }
        None if signer.is_empty() => required(errors, &at_signer, ""),
        None => invalid(
            errors,
            &at_signer,
            &signer.into(),
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        Some((_, path)) if path.contains('/') => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            invalid(errors, &at_signer, &signer.into(), detail);
        }
        Some((domain, path)) => {
            signer_part(domain, names::is_dns1123_label, &at_signer, errors);
            if domain.split('.').count() < 2 {
                let detail = "should be a domain with at least two segments separated by dots";
                invalid(errors, &at_signer, &domain.into(), detail);
            }
            signer_part(path, names::is_dns1123_subdomain, &at_signer, errors);
        }
    }
    if let Some(seconds) =
        spec.get("expirationSeconds").filter(|seconds| seconds.as_i64().is_some_and(|s| s < SHORTEST_LIFE))
    {
        let at = at.child("expirationSeconds");
        invalid(errors, &at, seconds, "may not specify a duration less than 600 seconds (10 minutes)");
    }
}

/// Only the first invalid label is reported.
fn signer_part(part: &str, complaints: fn(&str) -> Vec<String>, at: &At<'_>, errors: &mut ErrorList) {
    let wrong = part.split('.').map(|label| (label, complaints(label))).find(|(_, wrong)| !wrong.is_empty());
    for (label, complaint) in wrong.iter().flat_map(|(label, wrong)| wrong.iter().map(move |text| (label, text))) {
        invalid(errors, at, &part.into(), &format!("validating label {label:?}: {complaint}"));
    }
}

fn class_parameters(parameters: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let specified = parameters.contains_key("namespace");
    match text(parameters, "scope") {
        "Namespace" if specified => {
            let namespace = text(parameters, "namespace");
            for complaint in names::is_dns1123_label(namespace) {
                invalid(errors, &at.child("namespace"), &namespace.into(), &complaint);
            }
        }
        "Namespace" if !specified => {
            required(errors, &at.child("namespace"), "`parameters.scope` is set to 'Namespace'")
        }
        "Cluster" if specified => forbidden(errors, &at.child("namespace"), "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}

/// Addresses that an endpoint must not have, because other nodes cannot reach them.
pub(super) fn callable_address(address: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let text = address.as_str().unwrap_or_default();
    let Ok(ip) = text.parse::<IpAddr>() else {
        return invalid(errors, at, &text.into(), "must be a valid IP address");
    };
    let (link_local, local_multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({text})");
    for (wrong, detail) in [
        (ip.is_unspecified(), unspecified.as_str()),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (local_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        if wrong {
            invalid(errors, at, &text.into(), detail);
        }
    }
}

fn endpoints(endpoints: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at_list = at.child("subsets");
    for (index, subset) in list(endpoints, "subsets").iter().enumerate() {
        let (at, Some(subset)) = (at_list.index(index), subset.as_object()) else { continue };
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            required(errors, &at, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            let at_list = at.child(field);
            for (index, address) in list(subset, field).iter().enumerate() {
                let at = at_list.index(index);
                let at = at.child("ip");
                super::network::address(&address["ip"], &at, errors);
                callable_address(&address["ip"], &at, errors);
            }
        }
        let ports = list(subset, "ports");
        let at_list = at.child("ports");
        for (index, port) in ports.iter().enumerate() {
            if ports.len() > 1 && port["name"].as_str().unwrap_or_default().is_empty() {
                let at = at_list.index(index);
                required(errors, &at.child("name"), "");
            }
        }
    }
}

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Whether a quota's scope applies to a resource.
fn scope_fits(scope: &str, resource: &str) -> bool {
    let computed = |name: &str| {
        let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
        name == "pods" || matches!(bare, "cpu" | "memory" | "ephemeral-storage")
    };
    match scope {
        "BestEffort" => resource == "pods",
        "NotBestEffort" | "Terminating" | "NotTerminating" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            computed(resource)
        }
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn quota_scopes(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let scopes = list(spec, "scopes");
    let at_scopes = at.child("scopes");
    let all = Value::from(scopes.to_vec());
    let nothing = Object::new();
    let hard = object(spec, "hard").unwrap_or(&nothing);
    let names = || hard.keys().filter(|name| !name.contains('/'));
    for scope in scopes.iter().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            invalid(errors, &at_scopes, &all, "unsupported scope");
        }
        for _ in names().filter(|name| !scope_fits(scope, name)) {
            invalid(errors, &at_scopes, &all, "unsupported scope applied to resource");
        }
    }
    let specified: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
    conflicting(&specified, &all, &at_scopes, errors);
    let Some(selector) = object(spec, "scopeSelector") else { return };
    let at = at.child("scopeSelector");
    let at = at.child("matchExpressions");
    let mut selected = Vec::new();
    for expression in list(selector, "matchExpressions") {
        let part = |name: &str| expression[name].as_str().unwrap_or_default();
        let (scope, operator) = (part("scopeName"), part("operator"));
        selected.push(scope);
        if !SCOPES.contains(&scope) {
            invalid(errors, &at.child("scopeName"), &scope.into(), "unsupported scope");
        }
        for _ in names().filter(|name| !scope_fits(scope, name)) {
            let detail = "unsupported scope applied to resource";
            invalid(errors, &at, &Value::Object(selector.clone()), detail);
        }
        scope_operator(scope, operator, &expression["values"], &at, errors);
    }
    conflicting(&selected, &all, &at, errors);
}

fn conflicting(specified: &[&str], all: &Value, at: &At<'_>, errors: &mut ErrorList) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| specified.contains(scope)) {
            invalid(errors, at, all, "conflicting scopes");
        }
    }
}

fn scope_operator(scope: &str, operator: &str, values: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let count = values.as_array().map_or(0, Vec::len);
    let at_operator = at.child("operator");
    if SCOPES.contains(&scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                      ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                      ResourceQuotaScopeCrossNamespacePodAffinity";
        invalid(errors, &at_operator, &operator.into(), detail);
    }
    match operator {
        "In" | "NotIn" if count == 0 => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            required(errors, &at.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            invalid(errors, &at.child("values"), values, detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => invalid(errors, &at_operator, &other.into(), "not a valid selector operator"),
    }
}

/// Finalizers of a namespace: a name known to every server, or one with a domain.
fn namespace_finalizers(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("finalizers");
    list(spec, "finalizers").iter().for_each(|name| namespace_finalizer(name, &at, errors));
}

fn namespace_finalizer(name: &Value, at: &At<'_>, errors: &mut ErrorList) {
    let name = name.as_str().unwrap_or_default();
    for complaint in names::is_qualified_name(name) {
        invalid(errors, at, &name.into(), &complaint);
    }
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        invalid(errors, at, &name.into(), detail);
    }
}

/// The same for `namespaces/NAME/finalize`, whose errors name the field's path.
pub(super) fn finalize(new: &Value, errors: &mut ErrorList) {
    let root = At::root();
    let spec = root.child("spec");
    let at = spec.child("finalizers");
    for (index, name) in new["spec"]["finalizers"].as_array().into_iter().flatten().enumerate() {
        namespace_finalizer(name, &at.index(index), errors);
    }
}
