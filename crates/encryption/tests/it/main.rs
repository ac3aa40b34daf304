//! Configurations, and values sealed and opened by the providers.

use std::cell::Cell;
use std::collections::BTreeMap;

use encryption::{Configuration, Envelope, NoRandomness, OpenError, Random, Seed, Seeds};

/// Counts, so that no two fills are equal.
struct Counting(Cell<u8>);

impl Random for Counting {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        for byte in buffer {
            self.0.set(self.0.get().wrapping_add(1));
            *byte = self.0.get();
        }
        Ok(())
    }
}

/// The seeds of a service with two keys.
#[derive(Default)]
struct Service {
    current: Option<(Seed, Envelope)>,
    known: Vec<(Vec<u8>, Seed)>,
}

impl Service {
    fn rotate(&mut self, key_id: &str, random: &dyn Random) {
        let seed = Seed::generate(random).expect("a seed");
        let mut encrypted = key_id.as_bytes().to_vec();
        encrypted.extend(seed.expose().iter().rev());
        let annotations = BTreeMap::from([("version.kms.example".to_owned(), b"1".to_vec())]);
        let envelope = Envelope::of_seed(key_id.to_owned(), encrypted.clone(), annotations);
        self.known.push((encrypted, seed.clone()));
        self.current = Some((seed, envelope));
    }
}

impl Seeds for Service {
    fn current(&self, _: &str) -> Option<(Seed, Envelope)> {
        self.current.clone()
    }

    fn known(&self, _: &str, envelope: &Envelope) -> Option<Seed> {
        self.known.iter().find(|(encrypted, _)| *encrypted == envelope.seed).map(|(_, seed)| seed.clone())
    }

    fn is_current(&self, _: &str, key_id: &str) -> bool {
        self.current.as_ref().is_some_and(|(_, envelope)| envelope.key_id == key_id)
    }
}

/// 32 and 16 bytes.
const LONG: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const SHORT: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";
const KEY: &[u8] = b"/registry/core/secrets/ns/a";

fn file(resources: &str, providers: &str) -> String {
    with_rules(&format!("[{{resources: [{resources}], providers: [{providers}]}}]"))
}

fn with_rules(rules: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {rules}")
}

fn of(providers: &str) -> Configuration {
    Configuration::parse(file("secrets", providers).as_bytes()).expect("a configuration")
}

fn keyed(kind: &str, keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}")).collect();
    format!("{{{kind}: {{keys: [{}]}}}}", keys.join(", "))
}

const KMS: &str = "{kms: {apiVersion: v2, name: vault, endpoint: 'unix:///run/kms.sock'}}";

#[test]
fn values_are_sealed_and_opened() {
    let random = Counting(Cell::new(0));
    let mut service = Service::default();
    service.rotate("k1", &random);
    let providers = |configuration: &Configuration| configuration.providers("", "secrets").is_some();
    for (text, prefix) in [
        (keyed("aesgcm", &[("a", LONG)]), "k8s:enc:aesgcm:v1:a:"),
        (keyed("aesgcm", &[("a", SHORT)]), "k8s:enc:aesgcm:v1:a:"),
        (keyed("aescbc", &[("a", LONG)]), "k8s:enc:aescbc:v1:a:"),
        (keyed("aescbc", &[("a", SHORT)]), "k8s:enc:aescbc:v1:a:"),
        (keyed("secretbox", &[("a", LONG)]), "k8s:enc:secretbox:v1:a:"),
        (KMS.to_owned(), "k8s:enc:kms:v2:vault:"),
    ] {
        let configuration = of(&text);
        assert!(providers(&configuration));
        let list = configuration.providers("", "secrets").expect("providers");
        for plaintext in [&b"{}"[..], &[b'x'; 16], &[0; 5000]] {
            let sealed = list.seal(plaintext, KEY, &random, &service).expect("sealed").expect("encrypted");
            assert!(sealed.starts_with(prefix.as_bytes()), "{prefix}");
            assert!(plaintext.len() < 16 || !sealed.windows(16).any(|part| part == &plaintext[..16]), "{prefix}");
            let again = list.seal(plaintext, KEY, &random, &service).expect("sealed").expect("encrypted");
            assert_ne!(sealed, again, "each value has a nonce of its own");
            let opened = list.open(&sealed, KEY, &service).expect("opened");
            assert!(opened.plaintext.as_deref() == Some(plaintext) && opened.is_current, "{prefix}");
            assert!(list.is_current(&sealed, &service));
            // A value that is moved to another object is refused by ciphers that authenticate the key.
            let moved = list.open(&sealed, b"/registry/core/secrets/ns/b", &service);
            assert_eq!(moved.is_err(), prefix.contains("aesgcm") || prefix.contains("kms"), "{prefix}");
            // Every change of a value is detected, without a panic.
            for at in prefix.len()..sealed.len().min(prefix.len() + 300) {
                let mut changed = sealed.clone();
                changed[at] ^= 0x80;
                let opened = list.open(&changed, KEY, &service);
                let is_noticed = opened.is_err() || opened.is_ok_and(|it| it.plaintext.as_deref() != Some(plaintext));
                // Fields of the message besides the value, such as annotations, are the service's to check.
                assert!(is_noticed || prefix.contains("kms"), "{prefix} {at}");
            }
            for end in [0, prefix.len(), prefix.len() + 5, sealed.len() - 1] {
                let cut = list.open(&sealed[..end], KEY, &service);
                assert!(cut.is_err(), "{prefix} {end}");
            }
        }
    }
}

#[test]
fn all_providers_read_and_the_first_writes() {
    let random = Counting(Cell::new(0));
    let service = Service::default();
    let (old, new) = (("old", LONG), ("new", "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="));
    let write = |configuration: &Configuration| {
        let list = configuration.providers("", "secrets").expect("providers");
        list.seal(b"{}", KEY, &random, &service).expect("sealed").unwrap_or_else(|| b"{}".to_vec())
    };
    let read = |configuration: &Configuration, value: &[u8]| {
        let list = configuration.providers("", "secrets").expect("providers");
        match list.open(value, KEY, &service) {
            Ok(opened) => {
                assert_eq!(opened.is_current, list.is_current(value, &service));
                assert_eq!(opened.plaintext.as_deref().unwrap_or(value), b"{}");
                if opened.is_current { "current".to_owned() } else { "stale".to_owned() }
            }
            Err(error) => error.to_string(),
        }
    };
    let plain = of("{identity: {}}");
    let first = of(&format!("{}, {{identity: {{}}}}", keyed("aesgcm", &[old])));
    let both = of(&keyed("aesgcm", &[new, old]));
    let last = of(&keyed("aesgcm", &[new]));
    let decrypting = of(&format!("{{identity: }}, {}", keyed("aesgcm", &[new])));
    let (a, b, c) = (write(&plain), write(&first), write(&both));
    assert_eq!((read(&plain, &a), read(&first, &a)), ("current".into(), "stale".into()));
    assert_eq!(
        (read(&first, &b), read(&both, &b), read(&both, &c)),
        ("current".into(), "stale".into(), "current".into())
    );
    assert_eq!(read(&last, &b), r#"no provider of the configuration matches its prefix "k8s:enc:aesgcm:v1:old:""#);
    assert_eq!(read(&plain, &b), r#"no provider of the configuration matches its prefix "k8s:enc:aesgcm:v1:old:""#);
    assert_eq!(read(&last, &a), "it is not encrypted, and the configuration has no identity provider for it");
    assert_eq!(read(&decrypting, &c), "stale");
    let other = of(&keyed("aesgcm", &[("old", "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=")]));
    assert_eq!(
        read(&other, &b),
        r#"provider aesgcm with key "old" cannot decrypt it: the value was changed, or is of another key or object"#
    );
}

#[test]
fn seeds_of_a_service_rotate() {
    let random = Counting(Cell::new(0));
    let mut service = Service::default();
    let configuration = of(KMS);
    let list = configuration.providers("", "secrets").expect("providers");
    let error = list.seal(b"{}", KEY, &random, &service).expect_err("no seed");
    assert_eq!(
        error.to_string(),
        r#"the key management service "vault" is not available: there is no data encryption key"#
    );
    service.rotate("k1", &random);
    let old = list.seal(b"{}", KEY, &random, &service).expect("sealed").expect("encrypted");
    service.rotate("k2", &random);
    assert!(!list.is_current(&old, &service) && !list.open(&old, KEY, &service).expect("opened").is_current);
    service.known.clear();
    match list.open(&old, KEY, &service) {
        Err(OpenError::NeedsSeed { kms, envelope }) => assert_eq!((&*kms.name, &*envelope.key_id), ("vault", "k1")),
        other => panic!("{other:?}"),
    }
    let garbage = [b"k8s:enc:kms:v2:vault:".as_slice(), &[0xff; 40]].concat();
    let error = list.open(&garbage, KEY, &service).expect_err("garbage").to_string();
    assert_eq!(error, r#"provider kms "vault" cannot decrypt it: the stored message cannot be decoded"#);
}

#[test]
fn resources_are_matched_by_the_first_rule() {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - {{resources: [secrets], providers: [{{identity: {{}}}}]}}\n\
         - {{resources: ['*.apps', '*.'], providers: [{}]}}\n",
        keyed("secretbox", &[("a", LONG)])
    );
    let configuration = Configuration::parse(text.as_bytes()).expect("a configuration");
    let found = |group: &str, resource: &str| {
        configuration.providers(group, resource).map(encryption::Providers::writes_plaintext)
    };
    assert_eq!(found("", "secrets"), Some(true));
    assert_eq!(found("", "configmaps"), Some(false));
    assert_eq!(found("apps", "deployments"), Some(false));
    assert_eq!(found("batch", "jobs"), None);
    let all = Configuration::parse(file("'*.*'", "{identity: {}}").as_bytes()).expect("a configuration");
    assert!(all.providers("batch", "jobs").is_some());
}

#[test]
fn configurations_are_validated() {
    let identity = "{identity: {}}";
    let check = |resources: &str, providers: &str, expected: &str| {
        let parsed = Configuration::parse(file(resources, providers).as_bytes());
        let found = parsed.map_or_else(|error| error.to_string(), |_| "valid".to_owned());
        assert_eq!(found, expected, "{resources} {providers}");
    };
    check("secrets, widgets.example.com, '*.apps'", identity, "valid");
    check("", identity, "resources[0].resources: Required value: at least one resources[0].resources is required");
    check("secrets", "", "resources[0].providers: Required value: at least one resources[0].providers is required");
    for (resource, why) in [
        ("*", "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"),
        ("secrets.*", "encrypting the same resource across groups is not supported"),
        ("Secrets", "resource name should not contain capital letters"),
    ] {
        let expected = format!("resources[0].resources[0]: Invalid value: \"{resource}\": {why}");
        check(&format!("'{resource}'"), identity, &expected);
    }
    check(
        "secrets, '*.'",
        identity,
        "resources[0].resources[1]: Invalid value: \"*.\": using overlapping resources such as 'secrets' and '*.' in the same \
         resource list is not allowed as they will be masked",
    );
    check(
        "secrets, secrets",
        identity,
        "resources[0].resources[1]: Invalid value: \"secrets\": the same resource cannot be specified multiple times",
    );
    let provider = "resources[0].providers[0]";
    for (text, expected) in [
        (
            "{}".to_owned(),
            ": Required value: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, \
             Identity",
        ),
        (
            "{identity: {}, kms: {apiVersion: v2, name: a, endpoint: 'unix:///s'}}".to_owned(),
            ": Invalid value: more than one provider specified in a single element, should split into different list elements",
        ),
        (
            keyed("secretbox", &[("a", SHORT)]),
            ".secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 16, expected one \
             of [32]",
        ),
        (
            keyed("aesgcm", &[("a", "'?'")]),
            ".aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded",
        ),
        (
            "{aescbc: {keys: [{name: a}]}}".to_owned(),
            ".aescbc.keys[0].secret: Required value: secret is a mandatory field for a key",
        ),
        (
            "{kms: {name: a, endpoint: 'unix:///s'}}".to_owned(),
            ".kms.apiVersion: Invalid value: \"\": KMS v1 is disabled in Kubernetes since 1.29 and is not supported; use a KMS \
             v2 plugin with apiVersion v2",
        ),
        (
            "{kms: {apiVersion: v2, name: a, endpoint: 'tcp://h'}}".to_owned(),
            ".kms.endpoint: Invalid value: \"tcp://h\": unsupported scheme \"tcp\" for KMS provider, only unix is supported",
        ),
        (
            "{kms: {apiVersion: v2, name: 'a:b', endpoint: 'unix:///s'}}".to_owned(),
            ".kms.name: Invalid value: \"a:b\": KMS provider names should not contain ':', a:b is not valid",
        ),
        (
            "{kms: {apiVersion: v2, name: a, endpoint: 'unix:///s', timeout: 0s}}".to_owned(),
            ".kms.timeout: Invalid value: \"0s\": timeout should be a positive value",
        ),
    ] {
        check("secrets", &text, &format!("{provider}{expected}"));
    }
    check(
        "secrets",
        &format!("{KMS}, {KMS}"),
        "resources[0].providers[1].kms.name: Invalid value: \"vault\": duplicate KMS provider name vault, names must be unique",
    );
}

#[test]
fn errors_quote_no_secret() {
    for text in [
        file("secrets", "{aesgcm: {keys: [{name: a, secret: [TOPSECRET]}]}}"),
        file("secrets", "{aesgcm: {keys: [{name: a, secret: TOPSECRET}]}}"),
        file("secrets", "{aesgcm: {keys: TOPSECRET}}"),
        "a: 'TOPSECRET\n".to_owned(),
        file("secrets", "TOPSECRET"),
        with_rules("TOPSECRET"),
        with_rules("[TOPSECRET, 1, [TOPSECRET]]"),
        with_rules("[{resources: [secrets], providers: TOPSECRET}]"),
        with_rules("[{resources: [secrets], providers: {identity: TOPSECRET}}]"),
    ] {
        let error = Configuration::parse(text.as_bytes()).expect_err("invalid").to_string();
        assert!(!error.contains("TOPSECRET"), "{error}");
    }
    let error = Configuration::parse(b"apiVersion: v1\nkind: Pod\n").expect_err("a pod").to_string();
    assert_eq!(error, "it is v1 Pod, not an apiserver.config.k8s.io/v1 EncryptionConfiguration");
    let twice =
        b"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: []\nresources: []\n";
    let error = Configuration::parse(twice).expect_err("two lists of resources").to_string();
    assert_eq!(error, "it cannot be decoded: a field is repeated");
}

#[test]
fn values_that_cannot_be_decrypted_name_their_remedy() {
    let no_provider = |prefix: &str| OpenError::NoProvider(prefix.to_owned());
    let file = "the file of --encryption-provider-config";
    for (error, expected) in [
        (
            no_provider("k8s:enc:aescbc:v1:key2:"),
            format!("add key \"key2\" of provider aescbc, which wrote the value, to {file}"),
        ),
        (
            no_provider("k8s:enc:kms:v2:vault:"),
            format!("add the provider kms \"vault\" (v2), which wrote the value, to {file}"),
        ),
        (no_provider("k8s:enc:other"), format!("add the provider that wrote the value to {file}")),
        (no_provider("k8s:enc:aescbc:v1::"), format!("add the provider that wrote the value to {file}")),
        (OpenError::Plaintext, format!("add the provider identity for the resource to {file}")),
        (
            OpenError::Failed("aesgcm with key \"a\"".into()),
            format!(
                "put back the secret of aesgcm with key \"a\" in {file} if it has changed; otherwise restore the store from a backup"
            ),
        ),
    ] {
        assert_eq!(error.remedy(), expected);
    }
}
