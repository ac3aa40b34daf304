//! The client certificate in an agent's kubeconfig: its validity, the time of its rotation, and the kubeconfig with its
//! successor. Pure.

use std::time::Duration;

use apimachinery::names::is_dns1123_subdomain;
use apimachinery::yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The user of the current context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credential {
    /// As the kubeconfig names it.
    pub name: String,
    /// The subject of its certificate.
    pub user: String,
    pub groups: Vec<String>,
    /// The validity common to all certificates of its chain, in seconds since the epoch.
    pub not_before: i64,
    pub not_after: i64,
}

impl Credential {
    /// Of the current context.
    ///
    /// # Errors
    /// The message names the missing part of the kubeconfig.
    pub fn of(kubeconfig: &str) -> Result<Self, String> {
        Self::in_context(&parsed(kubeconfig)?, None)
    }

    fn in_context(document: &Value, context: Option<&str>) -> Result<Self, String> {
        let name = context_of(document, context, "user")?;
        let data = &entry(document, &name)?["client-certificate-data"];
        let chain = data.as_str().ok_or_else(|| format!("its user {name:?} has no client-certificate-data"))?;
        let chain = STANDARD.decode(chain).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let chain = chain.ok_or_else(|| format!("the certificate of its user {name:?} is not base64 of PEM"))?;
        let unreadable = |error: pki::Error| format!("the certificate of its user {name:?}: {error}");
        let chain = pki::holder::certificates(&chain).map_err(unreadable)?;
        let chain = chain.iter().map(|one| pki::Holder::from_pem(one)).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(unreadable)?;
        let Some(own) = chain.first() else { return Err(format!("its user {name:?} has no certificate")) };
        let not_before = chain.iter().map(|it| it.not_before).max().unwrap_or(own.not_before);
        let not_after = chain.iter().map(|it| it.not_after).min().unwrap_or(own.not_after);
        Ok(Self { user: own.user.clone(), groups: own.groups.clone(), name, not_before, not_after })
    }

    fn lifetime(&self) -> i64 {
        self.not_after.saturating_sub(self.not_before)
    }

    /// Whether at most this share of its lifetime remains.
    pub fn is_due(&self, threshold: f64, now: i64) -> bool {
        self.not_after.saturating_sub(now) as f64 <= self.lifetime() as f64 * threshold
    }

    /// The seconds that were requested. Signers add the time by which they backdate the start of a certificate, unless
    /// they backdate the end, too: [`pki::request::SHORT`].
    fn requested(&self) -> i64 {
        let lifetime = self.lifetime();
        let added = lifetime.saturating_sub(seconds(pki::authority::BACKDATE));
        let requested = if added < seconds(pki::request::SHORT) { added } else { lifetime };
        requested.clamp(600, i64::from(i32::MAX))
    }

    /// The object that requests a successor with the same subject and lifetime.
    pub fn request(&self, cluster: &str, suffix: &str, csr: &str) -> Value {
        let name = format!("{}-{suffix}", self.name);
        // Users of other kubeconfigs may have names that objects cannot have.
        let name = if is_dns1123_subdomain(&name).is_empty() { name } else { format!("{cluster}-{suffix}") };
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {
                "request": STANDARD.encode(csr),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "expirationSeconds": self.requested(),
                "usages": ["digital signature", "key encipherment", "client auth"],
            },
        })
    }
}

/// The kubeconfig whose current user has another certificate and key (PEM), and whose server is verified by the
/// authorities in the `published` kubeconfig.
///
/// # Errors
/// The message names the missing part of the kubeconfig.
pub(super) fn renewed(
    kubeconfig: &str,
    published: Option<&str>,
    certificate: &str,
    key: &str,
) -> Result<String, String> {
    let mut document = parsed(kubeconfig)?;
    if let Some(published) = published.and_then(|published| parsed(published).ok()) {
        take_trust(&mut document, &published["clusters"][0]);
    }
    let name = context_of(&document, None, "user")?;
    entry(&document, &name)?;
    put(&mut document, &name, STANDARD.encode(certificate), STANDARD.encode(key));
    Ok(yaml::to_string(&document))
}

/// The kubeconfig `file` with the certificate, key and authorities of `newest`, for the user of a context (`None`: the
/// current one). `None` if the certificate in `newest` was not issued later.
///
/// # Errors
/// The message is the reason why the certificate cannot replace that of the file.
pub(super) fn succeeded(file: &str, context: Option<&str>, newest: &str) -> Result<Option<String>, String> {
    let (mut document, newest) = (parsed(file)?, parsed(newest)?);
    let (own, next) = (Credential::in_context(&document, context)?, Credential::in_context(&newest, None)?);
    if (next.not_before, next.not_after) <= (own.not_before, own.not_after) {
        return Ok(None);
    }
    if own.user != next.user {
        return Err(format!("its certificate is of user {:?}, the newest one of {:?}", own.user, next.user));
    }
    let published = cluster_of(&newest, None)?;
    let trusted = (bundle(cluster_of(&document, context)?), bundle(published));
    if let (Some(present), Some(next)) = trusted
        && !present.iter().any(|authority| next.contains(authority))
    {
        return Err("it trusts other authorities, so it is of another control plane".to_owned());
    }
    let user = entry(&newest, &next.name)?;
    let text = |field: &str| user[field].as_str().map(str::to_owned);
    let (Some(certificate), Some(key)) = (text("client-certificate-data"), text("client-key-data")) else {
        return Err("the newest one has no client-key-data".to_owned());
    };
    take_trust(&mut document, published);
    put(&mut document, &own.name, certificate, key);
    Ok(Some(yaml::to_string(&document)))
}

/// Gives a user another certificate and key, in base64.
fn put(document: &mut Value, name: &str, certificate: String, key: String) {
    for user in items(document, "users").filter(|user| user["name"] == *name) {
        let Some(user) = user.get_mut("user").and_then(Value::as_object_mut) else { continue };
        user.insert("client-certificate-data".to_owned(), certificate.clone().into());
        user.insert("client-key-data".to_owned(), key.clone().into());
    }
}

/// The kubeconfig without credentials.
///
/// # Errors
/// It is not YAML.
pub(super) fn anonymous(kubeconfig: &str) -> Result<String, String> {
    let mut document = parsed(kubeconfig)?;
    for user in items(&mut document, "users").filter_map(|user| user.get_mut("user")) {
        *user = json!({});
    }
    Ok(yaml::to_string(&document))
}

/// The authorities of a cluster.
fn bundle(cluster: &Value) -> Option<Vec<String>> {
    let text = STANDARD.decode(cluster["cluster"]["certificate-authority-data"].as_str()?).ok()?;
    pki::holder::certificates(&String::from_utf8(text).ok()?).ok()
}

/// The bundle of a cluster is taken that has an authority of the present one: the successor of that authority is in it.
fn take_trust(document: &mut Value, published: &Value) {
    let Some(next) = bundle(published) else { return };
    for cluster in items(document, "clusters") {
        if bundle(cluster).is_some_and(|present| present.iter().any(|it| next.contains(it))) {
            cluster["cluster"]["certificate-authority-data"] = STANDARD.encode(next.concat()).into();
        }
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// The elements of a list; empty if the document has no such list.
fn items<'d>(document: &'d mut Value, list: &str) -> impl Iterator<Item = &'d mut Value> {
    document.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn parsed(kubeconfig: &str) -> Result<Value, String> {
    yaml::to_json_value(kubeconfig.as_bytes()).map_err(|error| format!("it is not YAML: {error}"))
}

/// The `user` or `cluster` of a context; `None` is the current one.
fn context_of(document: &Value, context: Option<&str>, what: &str) -> Result<String, String> {
    let current = &document["current-context"];
    let is_meant = |name: &Value| context.map_or(name == current, |context| name == context);
    let contexts = document["contexts"].as_array().into_iter().flatten();
    let found = contexts.filter(|it| is_meant(&it["name"])).find_map(|it| it["context"][what].as_str());
    found.map(str::to_owned).ok_or_else(|| match context {
        Some(context) => format!("its context {context:?} names no {what}"),
        None => format!("its current context {current} names no {what}"),
    })
}

fn cluster_of<'d>(document: &'d Value, context: Option<&str>) -> Result<&'d Value, String> {
    let name = context_of(document, context, "cluster")?;
    let mut clusters = document["clusters"].as_array().into_iter().flatten();
    clusters.find(|cluster| cluster["name"] == *name).ok_or_else(|| format!("it has no cluster {name:?}"))
}

fn entry<'d>(document: &'d Value, name: &str) -> Result<&'d Value, String> {
    let mut users = document["users"].as_array().into_iter().flatten();
    let found = users.find(|user| user["name"] == *name).map(|user| &user["user"]);
    found.ok_or_else(|| format!("it has no user {name:?}"))
}

#[cfg(test)]
mod tests {
    use pki::kubeconfig::User;
    use pki::{Authority, Kubeconfig};
    use world::World;

    use super::*;

    #[tokio::test]
    async fn every_successor_is_requested_for_the_same_time() {
        let world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7);
        let (authority, _) = Authority::generate("ca", &world).expect("an authority");
        for first in [600_i64, 3600, 8 * 3600 - 1, 8 * 3600 + 300, 24 * 3600, 31_536_000] {
            let mut requested = first;
            for _ in 0..3 {
                let (csr, key) = pki::request::create("system:karmada:agent:m1", &[]).expect("a request");
                let lifetime = Duration::from_secs(requested as u64);
                let signed = pki::request::sign(&authority, &csr, &["client auth"], lifetime, &world).expect("signed");
                let pair = pki::KeyPairPem { certificate: signed, key };
                let config = Kubeconfig::new("a", "https://a", "ca", "m1", User::with_certificate(&pair));
                let credential = Credential::of(&config.to_yaml().expect("YAML")).expect("a credential");
                let request = credential.request("m1", "x7k2p", "CSR");
                requested = request["spec"]["expirationSeconds"].as_i64().expect("a number");
                assert_eq!(requested, first);
            }
        }
    }

    #[tokio::test]
    async fn a_certificate_is_due_in_the_last_fifth_of_its_life() {
        let world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7);
        let now = world.now().as_second();
        let (authority, _) = Authority::generate("ca", &world).expect("an authority");
        let groups = ["system:karmada:agents".to_owned()];
        // Certificates are valid from five minutes before: ten hours in all.
        let lifetime = Duration::from_secs(10 * 3600 - 300);
        let pair = authority.issue_client_for("system:karmada:agent:m1", &groups, lifetime, &world).expect("issued");
        let config = Kubeconfig::new("karmada-apiserver", "https://a", "ca", "m1", User::with_certificate(&pair));
        let config = config.to_yaml().expect("YAML");
        let credential = Credential::of(&config).expect("a credential");
        assert_eq!((credential.name.as_str(), credential.user.as_str()), ("m1", "system:karmada:agent:m1"));
        assert_eq!(credential.groups, groups);
        let end = now + 10 * 3600 - 300;
        for (seconds_left, threshold, expected) in [
            (7201, 0.2, false),
            (7200, 0.2, true),
            (-5, 0.2, true),
            (7200, 0.1, false),
            (36_000, 1.0, true),
            (1, 0.0, false),
        ] {
            assert_eq!(credential.is_due(threshold, end - seconds_left), expected, "{seconds_left} {threshold}");
        }
        let request = credential.request("m1", "x7k2p", "CSR");
        assert_eq!(
            (&request["metadata"]["name"], &request["spec"]["expirationSeconds"]),
            (&json!("m1-x7k2p"), &json!(36_000))
        );
        let prefixed = Credential { name: "User:A".into(), ..credential.clone() };
        assert_eq!(prefixed.request("m1", "x7k2p", "CSR")["metadata"]["name"], "m1-x7k2p");

        let next =
            authority.issue_client_for("system:karmada:agent:m1", &groups, 2 * lifetime, &world).expect("issued");
        let changed = renewed(&config, None, &next.certificate, &next.key).expect("a kubeconfig");
        assert!(Credential::of(&changed).expect("a credential").not_after > credential.not_after);
        let mut expected = parsed(&config).expect("YAML");
        expected["users"][0]["user"] = json!({
            "client-certificate-data": STANDARD.encode(&next.certificate), "client-key-data": STANDARD.encode(&next.key),
        });
        assert_eq!(parsed(&changed).expect("YAML"), expected, "nothing else changes");

        let anonymous_config = parsed(&anonymous(&config).expect("a kubeconfig")).expect("YAML");
        assert_eq!(
            (&anonymous_config["users"], &anonymous_config["clusters"]),
            (&json!([{"name": "m1", "user": {}}]), &expected["clusters"])
        );

        let (other, _) = Authority::generate("other", &world).expect("an authority");
        let (one, both) =
            (authority.certificate().to_owned(), format!("{}{}", authority.certificate(), other.certificate()));
        let config = |bundle: &str| {
            let config = Kubeconfig::new("karmada-apiserver", "https://a", bundle, "m1", User::with_certificate(&pair));
            config.to_yaml().expect("YAML")
        };
        for (present, published, expected) in [
            (&one, Some(&both), &both),
            (&both, Some(&one), &one),
            (&one, None, &one),
            (&one, Some(&other.certificate().to_owned()), &one),
        ] {
            let published = published.map(|bundle| config(bundle));
            let changed = renewed(&config(present), published.as_deref(), "", "").expect("a kubeconfig");
            let changed = parsed(&changed).expect("YAML");
            assert_eq!(changed["clusters"][0]["cluster"]["certificate-authority-data"], STANDARD.encode(expected));
        }
    }

    #[tokio::test]
    async fn a_file_takes_the_credential_that_was_issued_later() {
        let mut world = World::simulated("2026-11-23T00:00:00Z".parse().expect("a time"), 7);
        let (authority, _) = Authority::generate("ca", &world).expect("an authority");
        let (other, _) = Authority::generate("other", &world).expect("an authority");
        let hour = Duration::from_secs(3600);
        let config = |user: &str, authority: &Authority, world: &World| {
            let pair = authority.issue_client_for(user, &[], hour, world).expect("issued");
            let user = User::with_certificate(&pair);
            let config = Kubeconfig::new("karmada-apiserver", "https://a", authority.certificate(), "m1", user);
            config.to_yaml().expect("YAML")
        };
        let old = config("agent", &authority, &world);
        world = World::simulated("2026-11-23T00:10:00Z".parse().expect("a time"), 7);
        let new = config("agent", &authority, &world);
        let mut file = parsed(&old).expect("YAML");
        let context = file["contexts"][0]["context"].clone();
        file["contexts"] = json!([{"name": "other", "context": {}}, {"name": "mine", "context": context}]);
        let text = yaml::to_string(&file);
        let unnamed = format!("its current context {} names no user", file["current-context"]);
        let changed = succeeded(&text, Some("mine"), &new).expect("it fits").expect("it is newer");
        file["users"][0]["user"] = parsed(&new).expect("YAML")["users"][0]["user"].clone();
        assert_eq!(parsed(&changed).expect("YAML"), file, "nothing else changes");
        for (present, newest, expected) in [
            (&new, &new, Ok(None)),
            (&new, &old, Ok(None)),
            (&text, &new, Err(unnamed.as_str())),
            (
                &old,
                &config("b", &authority, &world),
                Err("its certificate is of user \"agent\", the newest one of \"b\""),
            ),
            (
                &old,
                &config("agent", &other, &world),
                Err("it trusts other authorities, so it is of another control plane"),
            ),
            (&old, &"users: []".to_owned(), Err("its current context null names no user")),
        ] {
            assert_eq!(succeeded(present, None, newest), expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn missing_parts_of_a_kubeconfig_are_named() {
        let user = |data: &str| {
            format!(
                "current-context: c\ncontexts: [{{name: c, context: {{user: u}}}}]\nusers: [{{name: u, user: {{{data}}}}}]\n"
            )
        };
        for (config, expected) in [
            ("current-context: c\n".to_owned(), "its current context \"c\" names no user"),
            ("current-context: c\ncontexts: [{name: c, context: {user: u}}]\n".to_owned(), "it has no user \"u\""),
            (user("token: t"), "its user \"u\" has no client-certificate-data"),
            (user("client-certificate-data: '%'"), "the certificate of its user \"u\" is not base64 of PEM"),
            (user("client-certificate-data: YQ=="), "its user \"u\" has no certificate"),
        ] {
            assert_eq!(Credential::of(&config), Err(expected.to_owned()));
        }
        // Documents of any shape are refused or not changed.
        for invalid in ["text", "[]", "1", "users: text", "users: [text, {name: u, user: text}]", "clusters: [text]"] {
            renewed(invalid, Some(invalid), "", "").expect_err("no user");
            let same = anonymous(invalid).expect("YAML");
            renewed(&user("client-certificate-data: a"), Some(&same), "", "").expect("a kubeconfig");
        }
    }
}
