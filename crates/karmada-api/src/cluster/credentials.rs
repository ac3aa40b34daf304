//! Decides where the token of a cluster is sent, and which rights a change of the destination needs.
//!
//! A Cluster names an endpoint and the Secrets whose tokens are sent there. The right to write Clusters must not
//! include the right to receive these tokens, so a change of the destination requires the right to read them.

use apimachinery::addresses::forbidden_host;
use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::url::parse;
use serde_json::Value;

use super::types::ClusterSpec;

/// The fields that determine the destination or the token.
const FIELDS: [&str; 6] =
    ["apiEndpoint", "insecureSkipTLSVerification", "secretRef", "impersonatorSecretRef", "proxyURL", "proxyHeader"];

/// A Secret that the author of a change must be allowed to `get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRead {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The changed fields of the spec that require it.
    pub fields: Vec<&'static str>,
    /// What of the Secret is sent, for messages.
    pub sent: &'static str,
}

impl SecretRead {
    /// Why `user` may not make the change.
    pub fn refusal(&self, user: &str) -> String {
        let fields: Vec<String> = self.fields.iter().map(|field| format!("spec.{field}")).collect();
        let Self { namespace, name, sent, .. } = self;
        format!(
            "User {user:?} cannot get resource \"secrets\" in API group \"\" in the namespace {namespace:?}: a change of \
             {} decides where the {sent} of Secret {namespace}/{name} is sent, so it needs the verb get on that Secret; \
             grant it with a Role and a RoleBinding in namespace {namespace}",
            fields.join(", ")
        )
    }
}

/// The Secrets that the author of a Cluster's write must be allowed to read; empty if no token gets a new destination.
/// `old` is the stored object, `None` on create.
pub fn reads(old: Option<&Value>, new: &Value) -> Vec<SecretRead> {
    let mut reads = Vec::new();
    for field in FIELDS {
        let (before, after) = (old.and_then(|old| set(old, field)), set(new, field));
        if before == after {
            continue;
        }
        let mut concerned = match field {
            "impersonatorSecretRef" => vec![before, after],
            // Its CA bundle also determines which server receives the impersonator's token.
            "secretRef" => vec![before, after, set(new, "impersonatorSecretRef")],
            _ => vec![set(new, "secretRef"), set(new, "impersonatorSecretRef")],
        };
        // Without an endpoint no token is sent, and a reference without a name is invalid.
        for reference in concerned.drain(..).flatten() {
            add(&mut reads, reference, field);
        }
    }
    reads
}

fn add(reads: &mut Vec<SecretRead>, reference: &Value, field: &'static str) {
    let text = |part: &str| reference[part].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    if namespace.is_empty() || name.is_empty() {
        return;
    }
    match reads.iter_mut().find(|read| read.namespace == namespace && read.name == name) {
        Some(read) if read.fields.contains(&field) => {}
        Some(read) => read.fields.push(field),
        None => reads.push(SecretRead { namespace, name, fields: vec![field], sent: "token" }),
    }
}

/// A field of the spec; `None` if it is absent, null, or has its default.
fn set<'a>(cluster: &'a Value, field: &str) -> Option<&'a Value> {
    let value = &cluster["spec"][field];
    let is_default = match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    (!is_default).then_some(value)
}

/// The destinations of a Cluster that are rejected for every user. Stored destinations are rejected when the control
/// plane connects, so that old objects can still be changed and deleted.
pub fn refused_destinations(old: Option<&Value>, new: &Value, allow_http: bool) -> ErrorList {
    let changed = |field: &str| {
        let text = new["spec"][field].as_str()?;
        (old.and_then(|old| old["spec"][field].as_str()) != Some(text)).then_some(text)
    };
    let (endpoint, proxy) = (changed("apiEndpoint"), changed("proxyURL"));
    let path = Path::new("spec");
    let complaints = [
        ("apiEndpoint", endpoint, endpoint.and_then(|endpoint| plain_http(endpoint, allow_http))),
        ("apiEndpoint", endpoint, endpoint.and_then(forbidden)),
        ("proxyURL", proxy, proxy.and_then(forbidden)),
    ];
    let errors =
        complaints.into_iter().filter_map(|(field, text, why)| Some(Error::invalid(&path.child(field), text?, why?)));
    errors.collect()
}

/// As [`refused_destinations`], for a stored Cluster: the field, its value and the reason of the first error.
pub fn refused_destination(spec: &ClusterSpec, allow_http: bool) -> Option<(&'static str, String, String)> {
    let endpoint = plain_http(&spec.api_endpoint, allow_http).or_else(|| forbidden(&spec.api_endpoint));
    let refused = |field, text: &str, why| Some((field, text.to_owned(), why));
    match (endpoint, forbidden(&spec.proxy_url)) {
        (Some(why), _) => refused("apiEndpoint", &spec.api_endpoint, why),
        (None, Some(why)) => refused("proxyURL", &spec.proxy_url, why),
        (None, None) => None,
    }
}

fn plain_http(endpoint: &str, allow_http: bool) -> Option<String> {
    let is_plain = parse(endpoint).is_ok_and(|url| url.scheme.eq_ignore_ascii_case("http"));
    let why = "the token of the cluster would be sent unencrypted; use https://, or start the control plane with \
               --allow-http-member-endpoints";
    (is_plain && !allow_http).then(|| why.to_owned())
}

fn forbidden(url: &str) -> Option<String> {
    let host = parse(url).ok()?.host;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    forbidden_host(name).map(|what| format!("the host belongs to {what}, where no cluster is"))
}

/// The destination of a cluster's requests, as recorded on its Secrets: the endpoint, and the proxy without its
/// credentials.
pub fn destination(spec: &ClusterSpec) -> String {
    let endpoint = spec.api_endpoint.trim_end_matches('/');
    let proxy = match spec.proxy_url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host)),
        None => spec.proxy_url.clone(),
    };
    if proxy.is_empty() { endpoint.to_owned() } else { format!("{endpoint} via {proxy}") }
}

/// Whether a token may be sent to the destination of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The CA bundle of the Secret verifies the server's certificate, or the destination is the recorded one.
    Allowed,
    /// The Secret has no record yet: the first destination is recorded.
    First,
    /// The token belongs to this other destination.
    For(String),
}

/// `recorded` is the value of the Secret's annotation
/// [`CREDENTIAL_ENDPOINT`](crate::constants::annotations::CREDENTIAL_ENDPOINT).
pub fn sending(spec: &ClusterSpec, recorded: Option<&str>) -> Sending {
    let is_verified = !spec.insecure_skip_tls_verification
        && parse(&spec.api_endpoint).is_ok_and(|url| url.scheme.eq_ignore_ascii_case("https"));
    match recorded.filter(|recorded| !recorded.is_empty()) {
        None => Sending::First,
        Some(recorded) if is_verified || recorded == destination(spec) => Sending::Allowed,
        Some(recorded) => Sending::For(recorded.to_owned()),
    }
}

/// Whether requests must wait for the record when it cannot be written.
pub fn needs_record(spec: &ClusterSpec) -> bool {
    sending(spec, Some("-")) != Sending::Allowed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> Value {
        json!({"spec": {"syncMode": "Push", "apiEndpoint": "https://m1:6443",
            "secretRef": {"namespace": "n", "name": "m1"}, "impersonatorSecretRef": {"namespace": "n", "name": "imp"}}})
    }

    fn shown(old: Option<&Value>, new: &Value) -> String {
        let reads = reads(old, new).into_iter();
        let reads = reads.map(|read| format!("{}/{}={}", read.namespace, read.name, read.fields.join("+")));
        reads.collect::<Vec<_>>().join(" ")
    }

    /// A change of the Cluster above, and the Secrets that it requires, each with the fields.
    #[test]
    fn changes_and_their_rights() {
        let old = cluster();
        let other = json!({"namespace": "n", "name": "other"});
        for (change, expected) in [
            (json!({}), ""),
            (
                json!({"provider": "p", "taints": [], "syncMode": "Pull", "id": "i", "proxyURL": "", "proxyHeader": {}}),
                "",
            ),
            (json!({"insecureSkipTLSVerification": false}), ""),
            (json!({"apiEndpoint": "https://evil"}), "n/m1=apiEndpoint n/imp=apiEndpoint"),
            (
                json!({"insecureSkipTLSVerification": true}),
                "n/m1=insecureSkipTLSVerification n/imp=insecureSkipTLSVerification",
            ),
            (json!({"proxyURL": "http://evil"}), "n/m1=proxyURL n/imp=proxyURL"),
            (json!({"proxyHeader": {"a": "b"}}), "n/m1=proxyHeader n/imp=proxyHeader"),
            (json!({"secretRef": other}), "n/m1=secretRef n/other=secretRef n/imp=secretRef"),
            (json!({"secretRef": null}), "n/m1=secretRef n/imp=secretRef"),
            (json!({"impersonatorSecretRef": other}), "n/imp=impersonatorSecretRef n/other=impersonatorSecretRef"),
            (
                json!({"apiEndpoint": "https://evil", "secretRef": other, "impersonatorSecretRef": null}),
                "n/other=apiEndpoint+secretRef n/m1=secretRef n/imp=impersonatorSecretRef",
            ),
            (
                json!({"apiEndpoint": "https://evil", "secretRef": {"name": ""}, "impersonatorSecretRef": {}}),
                "n/m1=secretRef n/imp=impersonatorSecretRef",
            ),
        ] {
            let mut new = old.clone();
            for (field, value) in change.as_object().unwrap() {
                new["spec"][field] = value.clone();
            }
            assert_eq!(shown(Some(&old), &new), expected, "{change}");
        }
        let created = "n/m1=apiEndpoint+secretRef n/imp=apiEndpoint+secretRef+impersonatorSecretRef";
        assert_eq!(shown(None, &old), created);
        assert_eq!(shown(None, &json!({"spec": {"syncMode": "Pull", "apiEndpoint": "https://m1"}})), "", "an agent's");
    }

    #[test]
    fn refusals_name_the_secret_the_fields_and_the_verb() {
        let mut new = cluster();
        new["spec"]["apiEndpoint"] = json!("https://evil");
        let refusal = reads(Some(&cluster()), &new)[0].refusal("eve");
        for text in ["\"eve\"", "spec.apiEndpoint", "Secret n/m1", "verb get"] {
            assert!(refusal.contains(text), "{text} in {refusal}");
        }
    }

    #[test]
    fn destinations() {
        for (field, value, expected) in [
            ("apiEndpoint", "https://m1:6443", ""),
            ("apiEndpoint", "https://127.0.0.1:6443", ""),
            ("apiEndpoint", "https://localhost", ""),
            ("apiEndpoint", "http://m1:6443", "unencrypted"),
            ("apiEndpoint", "HTTP://m1", "unencrypted"),
            ("apiEndpoint", "https://169.254.169.254", "link-local"),
            ("apiEndpoint", "https://169.254.169.254:443/latest", "link-local"),
            ("apiEndpoint", "https://[fe80::1]:6443", "link-local"),
            ("apiEndpoint", "https://[::ffff:169.254.169.254]", "link-local"),
            ("apiEndpoint", "https://[fd00:ec2::254]", "metadata"),
            ("apiEndpoint", "https://2852039166", "link-local"),
            ("apiEndpoint", "https://0xA9FEA9FE:6443", "link-local"),
            ("apiEndpoint", "https://0251.0376.0251.0376", "link-local"),
            ("apiEndpoint", "https://Metadata.Google.Internal.:443", "metadata"),
            ("apiEndpoint", "https://0.0.0.0:6443", "unspecified"),
            ("apiEndpoint", "https://[::]:6443", "unspecified"),
            ("apiEndpoint", "https://224.0.0.1", "multicast"),
            ("apiEndpoint", "https://255.255.255.255", "broadcast"),
            ("proxyURL", "http://proxy:3128", ""),
            ("proxyURL", "http://u:p@169.254.169.254:3128", "link-local"),
            ("proxyURL", "socks5://[fe80::1]:1080", "link-local"),
        ] {
            let mut new = cluster();
            new["spec"][field] = json!(value);
            let errors: Vec<String> =
                refused_destinations(Some(&cluster()), &new, false).iter().map(ToString::to_string).collect();
            assert_eq!(errors.is_empty(), expected.is_empty(), "{value}: {errors:?}");
            let starts =
                |error: &String| error.starts_with(&format!("spec.{field}: Invalid value")) && error.contains(expected);
            assert!(errors.iter().all(starts), "{value}: {errors:?}");
            assert!(refused_destinations(Some(&new), &new, false).is_empty(), "{value} was stored before");
            let stored: ClusterSpec = serde_json::from_value(new["spec"].clone()).unwrap();
            assert_eq!(refused_destination(&stored, false).is_some(), !expected.is_empty(), "{value}");
        }
        let plain = json!({"spec": {"apiEndpoint": "http://m1"}});
        assert!(refused_destinations(None, &plain, true).is_empty());
        assert_eq!(refused_destinations(None, &plain, false).len(), 1);
    }

    /// The Cluster, the record on its Secret, and whether the token is sent.
    #[test]
    fn tokens() {
        let of = |endpoint: &str, insecure: bool, proxy: &str| ClusterSpec {
            api_endpoint: endpoint.into(),
            insecure_skip_tls_verification: insecure,
            proxy_url: proxy.into(),
            ..ClusterSpec::default()
        };
        let elsewhere = |recorded: &str| Sending::For(recorded.to_owned());
        for (spec, recorded, expected) in [
            (of("https://m1", false, ""), None, Sending::First),
            (of("https://m1", false, ""), Some("https://m0"), Sending::Allowed),
            (of("https://m1", true, ""), None, Sending::First),
            (of("https://m1", true, ""), Some(""), Sending::First),
            (of("https://m1", true, ""), Some("https://m1"), Sending::Allowed),
            (of("https://m1/", true, ""), Some("https://m1"), Sending::Allowed),
            (of("https://evil", true, ""), Some("https://m1"), elsewhere("https://m1")),
            (of("http://m1", false, ""), Some("https://m1"), elsewhere("https://m1")),
            (of("http://m1", false, ""), Some("http://m1"), Sending::Allowed),
            (of("https://m1", true, "http://evil"), Some("https://m1"), elsewhere("https://m1")),
            (of("https://m1", true, "http://u:p@proxy:1"), Some("https://m1 via http://proxy:1"), Sending::Allowed),
            (
                of("https://m1", true, ""),
                Some("https://m1 via http://proxy:1"),
                elsewhere("https://m1 via http://proxy:1"),
            ),
        ] {
            assert_eq!(sending(&spec, recorded), expected, "{} {recorded:?}", destination(&spec));
        }
        let needs = [of("https://m1", false, ""), of("https://m1", true, ""), of("http://m1", false, "")];
        assert_eq!(needs.map(|spec| needs_record(&spec)), [false, true, true]);
    }
}
