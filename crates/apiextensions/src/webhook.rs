//! Where a conversion webhook is called.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::Value;

/// Judges a `clientConfig`.
pub(crate) fn validate(config: &Value, path: &Path, errors: &mut ErrorList) {
    let (url, service) = (&config["url"], &config["service"]);
    if url.is_null() == service.is_null() {
        errors.push(Error::required(path, "exactly one of url or service is required"));
    } else if let Some(url) = url.as_str() {
        validate_url(url, &path.child("url"), errors);
    } else {
        validate_service(service, &path.child("service"), errors);
    }
}

fn validate_url(url: &str, path: &Path, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        errors.push(Error::invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = host.rsplit_once('@').map_or((None, host), |(user, host)| (Some(user), host));
    if host.is_empty() || scheme.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() {
        errors.push(Error::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    if !query.is_empty() {
        errors.push(Error::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

fn validate_service(service: &Value, path: &Path, errors: &mut ErrorList) {
    // Upstream blames the one for the other.
    for (field, blamed) in [("namespace", "name"), ("name", "namespace")] {
        if service[field].as_str().unwrap_or_default().is_empty() {
            errors.push(Error::required(&path.child(blamed), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(&path.child("port"), port, why));
    }
    if let Some(text) = service["path"].as_str() {
        validate_path(text, &path.child("path"), errors);
    }
}

fn validate_path(text: &str, path: &Path, errors: &mut ErrorList) {
    match text {
        "" | "/" => return,
        "//" => return errors.push(Error::invalid(path, text, "segment[0] may not be empty")),
        _ => {}
    }
    if !text.starts_with('/') {
        errors.push(Error::invalid(path, text, "must start with a '/'"));
    }
    // Whatever comes first is taken for the slash.
    let mut rest = text.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(Error::invalid(path, text, format!("segment[{index}] may not be empty")));
            continue;
        }
        for why in names::is_dns1123_subdomain(segment) {
            errors.push(Error::invalid(path, text, format!("segment[{index}]: {why}")));
        }
    }
}
