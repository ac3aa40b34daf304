//! Single values: what they become, and why they are refused.

use adoption::form::Form;
use adoption::value::{Envelope, EnvelopeKind, Unreadable, envelope, read, readable};
use bytes::Bytes;
use prost::Message as _;
use serde_json::{Value, json};

use crate::upstream::{json as encoded, namespace, plain, protobuf};

fn tree(value: &Bytes) -> Value {
    serde_json::from_slice(&read(value).unwrap().value.unwrap_or_else(|| value.clone())).unwrap()
}

/// The same message in an envelope of another version.
fn relabelled(value: &Bytes, api_version: &str) -> Bytes {
    let whole = envelope(value).unwrap();
    let kind = whole.kind.clone().unwrap().kind;
    let kind = Some(EnvelopeKind { api_version: api_version.to_owned(), kind });
    [&b"k8s\0"[..], &Envelope { kind, ..whole }.encode_to_vec()].concat().into()
}

#[test]
fn a_protobuf_value_becomes_the_stored_json() {
    let read = read(&namespace("default")).unwrap();
    assert_eq!((read.form, &*read.api_version, &*read.kind), (Form::Protobuf, "v1", "Namespace"));
    assert_eq!(
        read.value.unwrap(),
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"default"},"name":"default","uid":"uid-1"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#
    );
}

#[test]
fn every_value_is_an_object_of_this_program_afterwards() {
    for (key, value) in plain() {
        let own = readable(&value).unwrap().unwrap_or_else(|| panic!("{key} is stored in a form of its own"));
        assert_eq!(readable(&own), Ok(None), "{key} is not converted twice");
        let object = apiserver::cache::keys::with_revision(&own, 7).unwrap();
        assert_eq!(object.resource_version(), "7", "{key}");
        assert!(key.ends_with(object.name()), "{key}");
    }
}

#[test]
fn defaults_are_filled_in_and_zeros_stay() {
    let (_, deployment) = plain().remove(1);
    let deployment = tree(&deployment);
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["spec"]["revisionHistoryLimit"], 10);
    assert_eq!(deployment["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"], "p");
}

#[test]
fn older_versions_become_the_stored_one() {
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "l"},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}},
    });
    for version in ["v1beta2", "v1beta3"] {
        let read = tree(&relabelled(&protobuf(&level), &format!("flowcontrol.apiserver.k8s.io/{version}")));
        assert_eq!(read["apiVersion"], "flowcontrol.apiserver.k8s.io/v1");
        assert_eq!(read["spec"]["limited"]["nominalConcurrencyShares"], 7, "{version}");
    }
    let mut shares = level.clone();
    shares["apiVersion"] = "flowcontrol.apiserver.k8s.io/v1beta2".into();
    let limited = shares["spec"]["limited"].as_object_mut().unwrap();
    let number = limited.remove("nominalConcurrencyShares").unwrap();
    limited.insert("assuredConcurrencyShares".into(), number);
    assert_eq!(tree(&encoded(&shares))["spec"]["limited"]["nominalConcurrencyShares"], 7);
    let scaler = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "d"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "targetCPUUtilizationPercentage": 50},
    });
    for value in [protobuf(&scaler), encoded(&scaler)] {
        let read = tree(&value);
        assert_eq!(read["apiVersion"], "autoscaling/v2");
        assert_eq!(read["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    }
    let address = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.0.0.1"},
        "spec": {"parentRef": {"resource": "services", "namespace": "d", "name": "s"}},
    });
    let read = read(&relabelled(&protobuf(&address), "networking.k8s.io/v1beta1")).unwrap();
    assert_eq!((&*read.api_version, &*read.kind), ("networking.k8s.io/v1beta1", "IPAddress"));
    assert!(read.value.unwrap().starts_with(br#"{"apiVersion":"networking.k8s.io/v1","#));
}

#[test]
fn values_that_are_not_understood_are_refused_with_the_reason() {
    let claim = relabelled(&namespace("a"), "resource.k8s.io/v1beta1");
    let with = |encoding: &str| {
        let whole = Envelope { encoding: encoding.to_owned(), ..envelope(&namespace("a")).unwrap() };
        Bytes::from([&b"k8s\0"[..], &whole.encode_to_vec()].concat())
    };
    for (value, expected) in [
        (Bytes::from_static(crate::SECRET), "it is encrypted with \"aescbc:v1:key1\": give"),
        (claim, "resource.k8s.io/v1beta1 Namespace: no protobuf form of resource.k8s.io/v1beta1"),
        (namespace("a").slice(..20), "envelope is malformed"),
        (with("gzip"), "the encoding \"gzip\""),
        (Bytes::from_static(b"{\"kind\":\"X\"}"), "apiVersion or kind is missing"),
        (Bytes::from_static(b"{\"kind\":\"X\",\"apiVersion\":\"v\\n1\",\"metadata\":{}}"), "missing or invalid"),
        (Bytes::from_static(b"{\"kind\":\"X\",\"apiVersion\":\"v1\"}"), "metadata is missing"),
        (Bytes::from_static(b"{\"kind\""), "it is not an object"),
        (Bytes::from_static(b"1"), "neither JSON nor protobuf"),
        (Bytes::new(), "neither JSON nor protobuf"),
    ] {
        let error: Unreadable = readable(&value).unwrap_err();
        assert!(error.to_string().contains(expected), "{error} is not {expected}");
    }
}
