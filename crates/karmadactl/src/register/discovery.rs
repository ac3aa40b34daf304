//! How a cluster recognizes its control plane: `kube-public/cluster-info`, signed by the bootstrap token, and the pins
//! of the certificate that the user passes.

use apimachinery::{Object, ObjectKey, yaml};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Endpoint};
use serde_json::Value;

use crate::join::decoded;
use crate::{Context, resources};

/// The ConfigMap that anonymous clients read.
pub fn cluster_info() -> ObjectKey {
    ObjectKey::namespaced("kube-public", "cluster-info")
}

const SIGNATURE: &str = "jws-kubeconfig-";

/// The data of `cluster-info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    data: serde_json::Map<String, Value>,
    kubeconfig: String,
}

/// How the control plane is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// PEM; several certificates are possible.
    pub authority: String,
    pub server_name: Option<String>,
}

impl Published {
    /// # Errors
    /// The object does not describe a control plane.
    pub fn read(object: &Object) -> Result<Self, String> {
        let tree = decoded(object).map_err(|error| error.to_string())?;
        let Some(kubeconfig) = tree["data"]["kubeconfig"].as_str().filter(|text| !text.is_empty()) else {
            return Err(
                "there is no kubeconfig key in the cluster-info ConfigMap. This API Server isn't set up for token \
                        bootstrapping, can't connect"
                    .to_owned(),
            );
        };
        let data = tree["data"].as_object().cloned().unwrap_or_default();
        Ok(Self { kubeconfig: kubeconfig.to_owned(), data })
    }

    /// Whether the holder of the token signed it.
    ///
    /// # Errors
    /// There is no signature, or it is another's.
    pub fn verify(&self, token: &str) -> Result<(), String> {
        let (id, secret) = pki::bootstrap::split(token).unwrap_or_default();
        let Some(signature) = self.signature(token) else {
            return Err(format!("could not find a JWS signature in the cluster-info ConfigMap for token ID {id:?}"));
        };
        if pki::bootstrap::is_signed(id, secret, self.kubeconfig.as_bytes(), signature) {
            return Ok(());
        }
        Err("failed to verify JWS signature of received cluster info object, can't trust this API Server".to_owned())
    }

    fn signature(&self, token: &str) -> Option<&str> {
        let (id, _) = pki::bootstrap::split(token)?;
        self.data.get(&format!("{SIGNATURE}{id}"))?.as_str()
    }

    /// # Errors
    /// The kubeconfig in it names no cluster, or several.
    pub fn described(&self) -> Result<Described, String> {
        let malformed =
            |why: &dyn std::fmt::Display| format!("the kubeconfig of the cluster-info ConfigMap is malformed: {why}");
        let config = yaml::to_json_value(self.kubeconfig.as_bytes()).map_err(|error| malformed(&error))?;
        let clusters = config["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [cluster] = clusters else {
            return Err(format!(
                "expected the kubeconfig file in the cluster-info ConfigMap to have a single cluster, but it had {}",
                clusters.len()
            ));
        };
        let cluster = &cluster["cluster"];
        let authority = STANDARD.decode(cluster["certificate-authority-data"].as_str().unwrap_or_default());
        let authority = authority.map_err(|error| malformed(&error))?;
        let authority = String::from_utf8(authority).map_err(|error| malformed(&error))?;
        if authority.is_empty() {
            return Err(malformed(&"it has no certificate-authority-data"));
        }
        let server_name = cluster["tls-server-name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Described { authority, server_name })
    }
}

impl Described {
    /// The pins of the certificates, each once.
    ///
    /// # Errors
    /// A certificate cannot be parsed.
    pub fn pins(&self) -> Result<Vec<String>, String> {
        let mut pins = Vec::new();
        for certificate in pki::bootstrap::certificates(&self.authority) {
            let pin = pki::bootstrap::pin(&certificate).map_err(|error| error.to_string())?;
            if !pins.contains(&pin) {
                pins.push(pin);
            }
        }
        Ok(pins)
    }

    /// # Errors
    /// When no pin matches a certificate.
    pub fn check_pins(&self, pins: &[String]) -> Result<(), String> {
        let own = self.pins()?;
        if own.iter().any(|pin| pins.contains(pin)) {
            return Ok(());
        }
        Err(format!(
            "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys {own:?} are pinned"
        ))
    }

    /// A connection that is verified by it.
    pub fn endpoint(&self, server: &str) -> Endpoint {
        Endpoint {
            server: server.to_owned(),
            ca_bundle: Some(self.authority.clone().into_bytes()),
            server_name: self.server_name.clone(),
            ..Endpoint::default()
        }
    }
}

/// Checks the form of pins (`sha256:` and 64 hexadecimal digits) and returns them in lower case.
///
/// # Errors
/// The first that is malformed.
pub fn parse_pins(texts: &[String]) -> Result<Vec<String>, String> {
    let parse = |pin: &String| {
        let Some(hash) = pin.strip_prefix("sha256:") else {
            return Err(format!("invalid hash {pin:?}, expected the format \"sha256:<hex>\""));
        };
        if hash.len() % 2 == 1 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid hash {pin:?}, expected hexadecimal digits"));
        }
        match hash.len() / 2 {
            32 => Ok(pin.to_lowercase()),
            other => Err(format!("invalid hash {pin:?}, expected a 32 byte SHA-256 hash, found {other} bytes")),
        }
    };
    let pins: Result<Vec<String>, String> = texts.iter().map(parse).collect();
    pins.map_err(|why| format!("invalid discovery token CA certificate hash: {why}"))
}

/// Reads `cluster-info` without verifying the server, then verifies its content. With pins it is read again over a
/// verified connection, and must be identical.
///
/// # Errors
/// Why the server cannot be trusted, and whether a retry may help.
pub async fn discover(context: &Context, server: &str, token: &str, pins: &[String]) -> Result<Described, Failed> {
    let insecure = Endpoint { server: server.to_owned(), insecure: true, ..Endpoint::default() };
    let first = fetch(context, &insecure).await?;
    // The signature of a token that was just created follows in a moment; a wrong one stays wrong.
    first
        .verify(token)
        .map_err(|why| if first.signature(token).is_some() { Failed::Final(why) } else { Failed::Retry(why) })?;
    let described = first.described().map_err(Failed::Final)?;
    if pins.is_empty() {
        return Ok(described);
    }
    described.check_pins(pins).map_err(Failed::Final)?;
    let second = fetch(context, &described.endpoint(server)).await?;
    if second.kubeconfig != first.kubeconfig {
        return Err(Failed::Final(format!(
            "the second kubeconfig from the {} ConfigMap (using validated TLS) was different from the first",
            cluster_info()
        )));
    }
    Ok(described)
}

#[derive(Debug)]
pub enum Failed {
    /// The server does not answer, or is not ready.
    Retry(String),
    Final(String),
}

async fn fetch(context: &Context, endpoint: &Endpoint) -> Result<Published, Failed> {
    let client = Client::from_endpoint(endpoint).map_err(|error| Failed::Final(error.to_string()))?;
    let read = context.shown(client).get(&resources::CONFIG_MAP, &cluster_info()).await;
    let object =
        read.map_err(|error| Failed::Retry(format!("failed to request the cluster-info ConfigMap: {error}")))?;
    Published::read(&object).map_err(Failed::Final)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    fn authority() -> String {
        let world = world::World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 1);
        pki::Authority::generate("karmada", &world).expect("an authority").0.certificate().to_owned()
    }

    fn published(kubeconfig: &str, data: &[(&str, &str)]) -> Result<Published, String> {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-public",
            "name": "cluster-info"}, "data": {}});
        if !kubeconfig.is_empty() {
            object["data"]["kubeconfig"] = json!(kubeconfig);
        }
        data.iter().for_each(|(key, value)| object["data"][*key] = json!(value));
        Published::read(&Object::from_value(&object).expect("an object"))
    }

    #[test]
    fn only_the_holder_of_the_token_is_trusted() {
        let sign = |secret: &str| pki::bootstrap::detached_signature("abcdef", secret, b"config");
        let (own, other) = (sign("0123456789abcdef"), sign("0000000000000000"));
        let missing = "could not find a JWS signature in the cluster-info ConfigMap for token ID \"abcdef\"";
        let forged = "failed to verify JWS signature of received cluster info object, can't trust this API Server";
        for (data, expected) in [
            (vec![("jws-kubeconfig-abcdef", own.as_str())], Ok(())),
            (vec![], Err(missing)),
            (vec![("jws-kubeconfig-ghijkl", own.as_str())], Err(missing)),
            (vec![("jws-kubeconfig-abcdef", other.as_str())], Err(forged)),
            (vec![("jws-kubeconfig-abcdef", "a..b")], Err(forged)),
        ] {
            let found = published("config", &data).expect("a kubeconfig").verify(TOKEN);
            assert_eq!(found, expected.map_err(str::to_owned), "{data:?}");
        }
        assert!(published("", &[]).is_err_and(|why| why.starts_with("there is no kubeconfig key in the cluster-info")));
    }

    #[test]
    fn one_cluster_is_described() {
        let authority = authority();
        let encoded = STANDARD.encode(&authority);
        let cluster =
            format!("- name: ''\n  cluster:\n    server: https://k:1\n    certificate-authority-data: {encoded}\n");
        let described =
            |clusters: &str| published(&format!("clusters:\n{clusters}"), &[]).and_then(|it| it.described());
        let one = described(&cluster).expect("one cluster");
        assert_eq!((one.authority.as_str(), one.server_name.as_deref()), (authority.as_str(), None));
        let two = described(&format!("{cluster}{cluster}")).expect_err("two clusters");
        assert!(two.ends_with("to have a single cluster, but it had 2"), "{two}");
        assert!(
            described("- name: ''\n  cluster: {server: x}\n")
                .is_err_and(|why| why.ends_with("certificate-authority-data"))
        );

        let pins = one.pins().expect("a pin");
        assert_eq!(one.check_pins(&pins), Ok(()));
        assert!(one.check_pins(&[format!("sha256:{}", "0".repeat(64))]).is_err());
    }

    #[test]
    fn pins_have_a_form() {
        let hash = "0aB".repeat(21) + "1";
        let check = |pin: &str| parse_pins(&[pin.to_owned()]).map(|pins| pins.concat());
        assert_eq!(check(&format!("sha256:{hash}")), Ok(format!("sha256:{}", hash.to_lowercase())));
        let short = "invalid discovery token CA certificate hash: invalid hash \"sha256:0000\", expected a 32 byte SHA-256 hash, found 2 bytes";
        assert_eq!(check("sha256:0000"), Err(short.to_owned()));
        assert!(check("md5:00").is_err() && check("sha256:zz").is_err());
    }
}
