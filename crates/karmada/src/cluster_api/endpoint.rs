//! The kubeconfig in a Secret of a management cluster, as an endpoint.
//!
//! It is data of another cluster: commands, files and other environment of this process are never used.

use std::sync::Arc;

use apimachinery::yaml;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::{ClientIdentity, Endpoint};
use serde_json::Value;

fn named<'v>(document: &'v Value, list: &str, name: &str, field: &str) -> Result<&'v Value, String> {
    let items = document[list].as_array().map_or(&[][..], Vec::as_slice);
    let found = items.iter().find(|it| it["name"] == name).map(|it| &it[field]);
    found.ok_or_else(|| format!("it has no entry {name:?} in {list}"))
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value[key].as_str().filter(|text| !text.is_empty())
}

fn data(value: &Value, key: &str) -> Result<Option<Vec<u8>>, String> {
    let decoded = text(value, key).map(|it| BASE64_STANDARD.decode(it.trim()));
    decoded.transpose().map_err(|error| format!("{key}: {error}"))
}

/// The endpoint of the current context.
///
/// # Errors
/// What is missing, invalid, or refers to files and commands.
pub fn endpoint(kubeconfig: &str) -> Result<Endpoint, String> {
    let document: Value = yaml::to_json_value(kubeconfig.as_bytes()).map_err(|error| error.to_string())?;
    let current = text(&document, "current-context").ok_or("it has no current-context")?;
    let context = named(&document, "contexts", current, "context")?;
    let cluster = named(&document, "clusters", text(context, "cluster").unwrap_or_default(), "cluster")?;
    let user = named(&document, "users", text(context, "user").unwrap_or_default(), "user")?;
    for (part, key) in [
        (cluster, "certificate-authority"),
        (user, "client-certificate"),
        (user, "client-key"),
        (user, "tokenFile"),
        (user, "exec"),
        (user, "auth-provider"),
        (user, "username"),
    ] {
        if !part[key].is_null() {
            return Err(format!("it has {key}; only certificates, keys and tokens in the kubeconfig itself are used"));
        }
    }
    let pem = |key: &str| {
        let pem = data(user, key)?.map(String::from_utf8).transpose();
        pem.map_err(|_| format!("{key} is not PEM"))
    };
    let identity = match (pem("client-certificate-data")?, pem("client-key-data")?) {
        (Some(certificate), Some(key)) => Some(Arc::new(ClientIdentity { certificate, key })),
        _ => None,
    };
    Ok(Endpoint {
        server: text(cluster, "server").ok_or("it has no server")?.to_owned(),
        ca_bundle: data(cluster, "certificate-authority-data")?,
        token: text(user, "token").map(str::to_owned),
        identity,
        insecure: cluster["insecure-skip-tls-verify"] == true,
        proxy_url: text(cluster, "proxy-url").map(str::to_owned),
        server_name: text(cluster, "tls-server-name").map(str::to_owned),
        guarded: true,
        ..Endpoint::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig(cluster: &Value, user: &Value) -> String {
        json!({"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
            "clusters": [{"name": "b", "cluster": cluster}], "users": [{"name": "c", "user": user}]})
        .to_string()
    }

    #[test]
    fn only_inline_data_is_used() {
        let server = json!({"server": "https://m:6443", "certificate-authority-data": "cGVt"});
        let found = endpoint(&kubeconfig(&server, &json!({"token": "t"}))).unwrap();
        assert_eq!((found.server.as_str(), found.ca_bundle.as_deref()), ("https://m:6443", Some(&b"pem"[..])));
        assert!(found.guarded && !found.insecure && found.token.as_deref() == Some("t") && found.identity.is_none());
        for (cluster, user, expected) in [
            (json!({}), json!({}), "it has no server"),
            (server.clone(), json!({"exec": {"command": "sh"}}), "it has exec; "),
            (server.clone(), json!({"tokenFile": "/etc/shadow"}), "it has tokenFile; "),
            (server.clone(), json!({"client-key": "/etc/key"}), "it has client-key; "),
            (json!({"server": "x", "certificate-authority": "/a"}), json!({}), "it has certificate-authority; "),
            (server.clone(), json!({"client-key-data": "!"}), "client-key-data: "),
            (server, json!({"client-key-data": "/w=="}), "client-key-data is not PEM"),
        ] {
            let error = endpoint(&kubeconfig(&cluster, &user)).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        for text in ["", "[]", "a: [", "current-context: x", "{\"current-context\": 7}"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }
}
