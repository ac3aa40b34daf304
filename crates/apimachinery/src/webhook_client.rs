//! Validates the `clientConfig` of webhooks: of admission, of conversion and of resource interpreters. Kubernetes and
//! Karmada have the same rules and messages apart from [`Rules`].

use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::names;
use crate::url;

/// The port of a service without `port`.
const DEFAULT_PORT: i64 = 443;
const FORM: &str = "; desired format: https://host[/path]";

/// The differences between the kinds that have a client configuration.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// For `name` and `namespace` of a service: the field in the error about a missing one, and its detail.
    pub required: [(&'static str, &'static str); 2],
}

impl Rules {
    /// kube-apiserver's, which reports a missing name at `namespace` and a missing namespace at `name`.
    pub const KUBERNETES: Self = Self { required: [("namespace", ""), ("name", "")] };
    /// Those of Karmada's ResourceInterpreterWebhookConfiguration.
    pub const KARMADA: Self =
        Self { required: [("name", "service name is required"), ("namespace", "service namespace is required")] };
}

/// Adds the errors of a client configuration at `path`.
pub fn validate(config: &Value, path: &Path, rules: Rules, errors: &mut ErrorList) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(text), false) => validate_url(text, &path.child("url"), errors),
        (None, true) => validate_service(&config["service"], &path.child("service"), rules, errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
}

fn validate_url(text: &str, path: &Path, errors: &mut ErrorList) {
    let parsed = match url::parse(text) {
        Ok(parsed) => parsed,
        Err(why) => return errors.push(Error::required(path, format!("url must be a valid URL: {why}{FORM}"))),
    };
    let mut invalid = |value: &str, detail: String| errors.push(Error::invalid(path, value, detail));
    if parsed.scheme != "https" {
        invalid(parsed.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parsed.host.is_empty() {
        invalid("", format!("host must be specified{FORM}"));
    }
    for (part, message) in parsed.beyond_server() {
        invalid(part, message.to_owned());
    }
}

fn validate_service(service: &Value, path: &Path, rules: Rules, errors: &mut ErrorList) {
    // Kubernetes checks the namespace first, as it reports it at `name`.
    let mut missing: Vec<(&str, &str)> = Vec::new();
    for (field, (blamed, detail)) in ["name", "namespace"].into_iter().zip(rules.required) {
        if service[field].as_str().unwrap_or_default().is_empty() {
            missing.push((blamed, detail));
        }
    }
    missing.sort_unstable();
    errors.extend(missing.into_iter().map(|(blamed, detail)| Error::required(&path.child(blamed), detail)));
    let port = service["port"].as_i64().unwrap_or(DEFAULT_PORT);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(&path.child("port"), port, detail));
    }
    if let Some(text) = service["path"].as_str() {
        validate_path(text, &path.child("path"), errors);
    }
}

fn validate_path(text: &str, path: &Path, errors: &mut ErrorList) {
    let mut invalid = |detail: String| errors.push(Error::invalid(path, text, detail));
    match text {
        "" | "/" => return,
        "//" => return invalid("segment[0] may not be empty".to_owned()),
        _ => {}
    }
    if !text.starts_with('/') {
        invalid("must start with a '/'".to_owned());
    }
    // As upstream, the first character counts as the slash.
    let mut rest = text.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            invalid(format!("segment[{index}] may not be empty"));
            continue;
        }
        for detail in names::is_dns1123_subdomain(segment) {
            invalid(format!("segment[{index}]: {detail}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(config: &Value, rules: Rules, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate(config, &Path::new("c"), rules, &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{config}");
    }

    #[test]
    fn urls() {
        const SCHEME: &str = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        let one = "c: Required value: exactly one of url or service is required";
        check(&json!({}), Rules::KUBERNETES, &[one]);
        check(&json!({"url": "https://a", "service": {}}), Rules::KUBERNETES, &[one]);
        check(&json!({"url": "https://a.b:8443/c"}), Rules::KUBERNETES, &[]);
        check(
            &json!({"url": "http://u@h/?q=1#f"}),
            Rules::KARMADA,
            &[
                &format!("c.url: Invalid value: \"http\": {SCHEME}"),
                "c.url: Invalid value: \"u\": user information is not permitted in the URL",
                "c.url: Invalid value: \"f\": fragments are not permitted in the URL",
                "c.url: Invalid value: \"q=1\": query parameters are not permitted in the URL",
            ],
        );
        check(
            &json!({"url": "https://h:port/"}),
            Rules::KUBERNETES,
            &[
                "c.url: Required value: url must be a valid URL: parse \"https://h:port/\": invalid port \":port\" after \
               host; desired format: https://host[/path]",
            ],
        );
    }

    #[test]
    fn services() {
        check(
            &json!({"service": {"port": 0}}),
            Rules::KUBERNETES,
            &[
                "c.service.name: Required value",
                "c.service.namespace: Required value",
                "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ],
        );
        check(&json!({"service": {"name": "n", "port": 443}}), Rules::KUBERNETES, &["c.service.name: Required value"]);
        check(
            &json!({"service": {"namespace": "n"}}),
            Rules::KARMADA,
            &["c.service.name: Required value: service name is required"],
        );
        let service = |path: &str| json!({"service": {"name": "n", "namespace": "n", "path": path}});
        for good in ["", "/", "/a", "/a/", "/a/b"] {
            check(&service(good), Rules::KARMADA, &[]);
        }
        check(&service("//"), Rules::KARMADA, &["c.service.path: Invalid value: \"//\": segment[0] may not be empty"]);
        check(&service("xa"), Rules::KARMADA, &["c.service.path: Invalid value: \"xa\": must start with a '/'"]);
        check(
            &service("/a//b"),
            Rules::KARMADA,
            &["c.service.path: Invalid value: \"/a//b\": segment[1] may not be empty"],
        );
    }
}
