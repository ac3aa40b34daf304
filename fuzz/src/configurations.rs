//! Files of flags: configurations of authentication, authorization, encryption, admission, auditing and tracing.

use std::path::Path;

use encryption::{Envelope, NoRandomness, Random, Seed, Seeds};

use crate::json_documents;

/// Reading does not depend on anything else, and an unusable file has a reason.
pub(crate) fn authentication(input: &[u8]) {
    if let Err(why) = authentication::Configuration::parse(input, &["https://own.example".to_owned()]) {
        assert!(!why.to_string().is_empty());
    }
}

/// As [`authentication`].
pub(crate) fn authorization(input: &[u8]) {
    match identity::authorization::Configuration::parse(input) {
        Ok(read) => assert!(!read.authorizers.is_empty(), "nothing would be authorized"),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// The same content is the file, the kubeconfig and everything that it names.
pub(crate) fn admission(input: &[u8]) {
    let read = |_: &Path| Ok(input.to_vec());
    let wrapped =
        b"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ValidatingAdmissionWebhook\n  \
          configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: k}\n";
    admission::Configuration::read(Path::new("f"), &read).ok();
    let outer = |path: &Path| Ok(if path == Path::new("f") { wrapped.to_vec() } else { input.to_vec() });
    admission::Configuration::read(Path::new("f"), &outer).ok();
}

/// A TracingConfiguration, or the header of a span. What is written is read as the same.
pub(crate) fn tracing(input: &[u8]) {
    match otlp::Configuration::parse(input) {
        Ok(read) => {
            assert!(read.sampling_rate_per_million <= 1_000_000);
            if let endpoint @ otlp::Endpoint::Tcp(..) = &read.endpoint {
                let again = serde_json::json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration",
                    "endpoint": endpoint.to_string()});
                let again =
                    otlp::Configuration::parse(again.to_string().as_bytes()).expect("an endpoint is an endpoint");
                assert_eq!(again.endpoint, *endpoint);
            }
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    if let Some(context) = std::str::from_utf8(input).ok().and_then(trace::SpanContext::parse) {
        assert_eq!(trace::SpanContext::parse(&context.header()), Some(context));
    }
}

/// An audit policy, or an object of an event. What is secret is removed at once.
pub(crate) fn audit(input: &[u8]) {
    match audit::Policy::parse(input) {
        Ok(parsed) => {
            let attributes =
                audit::Attributes { verb: "get", is_resource: true, resource: "pods", ..Default::default() };
            parsed.policy.decide(&attributes);
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    for (group, resource) in [("", "secrets"), ("", "configmaps"), ("authentication.k8s.io", "tokenreviews")] {
        let (api_group, resource) = (group.to_owned(), resource.to_owned());
        let about = audit::ObjectReference { api_group, resource, ..Default::default() };
        for mut object in json_documents(input) {
            audit::redact(&mut object, &about);
            let once = object.clone();
            audit::redact(&mut object, &about);
            assert_eq!(object, once);
        }
    }
}

/// No randomness: nothing is sealed with it but in this target.
struct Zeros;

impl Random for Zeros {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        buffer.fill(0);
        Ok(())
    }
}

/// A key management service without seeds.
struct Unknown;

impl Seeds for Unknown {
    fn current(&self, _: &str) -> Option<(Seed, Envelope)> {
        None
    }

    fn known(&self, _: &str, _: &Envelope) -> Option<Seed> {
        None
    }

    fn is_current(&self, _: &str, _: &str) -> bool {
        false
    }
}

/// An EncryptionConfiguration, a zero byte, and a stored value. An encrypted value can be decrypted, only at its own
/// key.
pub(crate) fn encryption(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (file, value) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    let Ok(configuration) = encryption::Configuration::parse(file) else { return };
    let Some(providers) = configuration.providers("", "secrets") else { return };
    providers.open(value, b"/registry/core/secrets/ns/a", &Unknown).ok();
    let Ok(Some(sealed)) = providers.seal(value, b"/a", &Zeros, &Unknown) else { return };
    let opened = providers.open(&sealed, b"/a", &Unknown).expect("what was sealed can be opened");
    assert_eq!((opened.plaintext.as_deref(), opened.is_current), (Some(value), true));
}
