//! Single values: their decoded form, and their errors.

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
fn a_protobuf_value_is_converted_to_stored_json() {
    let read = read(&namespace("default")).unwrap();
    assert_eq!((read.form, &*read.api_version, &*read.kind), (Form::Protobuf, "v1", "Namespace"));
    assert_eq!(
        read.value.unwrap(),
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"default"},"name":"default","uid":"uid-1"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#
    );
}

#[test]
fn every_converted_value_is_readable() {
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
fn older_versions_are_converted_to_the_storage_version() {
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

/// The same claims, templates, classes and slices in each version that was ever stored.
#[test]
fn device_claims_are_converted_to_the_storage_version() {
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "adminAccess": false});
    let claim = |request: Value| {
        json!({"devices": {"requests": [request, {"name": "b", "firstAvailable": [
        {"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}]}]}})
    };
    let attributes = json!({"model": {"string": "x"}, "index": {"int": 0}, "fast": {"bool": false}});
    let capacity = json!({"memory": {"value": "80Gi"}});
    let slice = |devices: Value| {
        json!({"driver": "d.example", "nodeName": "n",
        "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1}, "devices": devices})
    };
    let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let mut flat = exactly.clone();
    flat["name"] = "a".into();
    let (nested, request) = (claim(json!({"name": "a", "exactly": exactly})), claim(flat));
    let device = json!([{"name": "d0", "attributes": attributes, "capacity": capacity, "allNodes": false}]);
    let basic = json!([{"name": "d0", "basic": {"attributes": attributes, "capacity": capacity, "allNodes": false}}]);
    let class = json!({"selectors": [{"cel": {"expression": "true"}}],
        "config": [{"opaque": {"driver": "d.example", "parameters": {"kind": "P", "apiVersion": "d.example/v1"}}}]});
    for (kind, stored, beta) in [
        ("ResourceClaim", nested.clone(), request.clone()),
        ("ResourceClaimTemplate", json!({"spec": nested}), json!({"spec": request})),
        ("ResourceSlice", slice(device), slice(basic)),
        ("DeviceClass", class.clone(), class),
    ] {
        let expected = tree(&encoded(&object("v1", kind, stored.clone())));
        let of_v1 = protobuf(&object("v1", kind, stored.clone()));
        let of_beta = protobuf(&object("v1beta1", kind, beta.clone()));
        for (what, value) in [
            ("v1", of_v1.clone()),
            ("v1beta2", relabelled(&of_v1, "resource.k8s.io/v1beta2")),
            ("v1beta2 as JSON", encoded(&object("v1beta2", kind, stored))),
            ("v1beta1", of_beta),
            ("v1beta1 as JSON", encoded(&object("v1beta1", kind, beta))),
        ] {
            assert_eq!(tree(&value), expected, "{kind} {what}");
            assert!(read(&value).unwrap().unknown.is_empty(), "{kind} {what}");
        }
    }
}

/// Every stored built-in kind of Kubernetes 1.36 is read.
#[test]
fn every_stored_kind_has_a_protobuf_form() {
    let resources = kubernetes_api::resources();
    let mut stored: Vec<_> = resources
        .iter()
        .filter(|it| it.info.verbs.iter().any(|verb| verb == "list"))
        .map(|it| it.info.resource.gvk())
        .collect();
    stored.sort_by_key(ToString::to_string);
    stored.dedup();
    assert!(stored.len() > 50, "{}", stored.len());
    let mut without = Vec::new();
    for gvk in stored {
        let kind = EnvelopeKind { api_version: gvk.api_version(), kind: gvk.kind.clone() };
        // An object with a name alone.
        let raw = crate::upstream::field(1, &crate::upstream::field(1, b"x"));
        let whole = Envelope { kind: Some(kind), raw, encoding: String::new(), content_type: String::new() };
        let value = Bytes::from([&b"k8s\0"[..], &whole.encode_to_vec()].concat());
        match read(&value) {
            Ok(read) => assert_eq!(tree(&value)["metadata"]["name"], "x", "{read:?}"),
            Err(error) => without.push(format!("{gvk}: {error}")),
        }
    }
    assert_eq!(without, Vec::<String>::new());
}

#[test]
fn fields_of_a_newer_version_are_named() {
    let whole = envelope(&namespace("a")).unwrap();
    // Field 90 of the Namespace, field 91 of its status, and zeros, which Go writes for every field.
    let extra = [&[0xd2, 0x05, 1, b'x'][..], &[0x1a, 3, 0xd8, 0x05, 7], &[0xe0, 0x05, 0], &[0xea, 0x05, 0]].concat();
    let newer = Envelope { raw: [whole.raw.clone(), extra].concat(), ..whole };
    let newer = Bytes::from([&b"k8s\0"[..], &newer.encode_to_vec()].concat());
    let unknown = read(&newer).unwrap().unknown;
    let shown: Vec<String> = unknown.iter().map(|it| format!("{} {}", it.message, it.number)).collect();
    assert_eq!(shown, ["core.v1.Namespace 90", "core.v1.NamespaceStatus 91"]);
    let mut survey = adoption::survey::Survey::default();
    for key in ["/registry/core/namespaces/a", "/registry/core/namespaces/b"] {
        survey.add(&key.into(), key, &newer);
    }
    survey.finish(1);
    assert_eq!(survey.unknown_fields["field 90 of core.v1.Namespace in namespaces"], 2);
    assert!(survey.can_be_adopted(), "{survey:?}");
}

#[test]
fn unreadable_values_are_rejected_with_the_reason() {
    let claim = relabelled(&namespace("a"), "resource.k8s.io/v1beta1");
    let review = relabelled(&namespace("a"), "imagepolicy.k8s.io/v1alpha1");
    let with = |encoding: &str| {
        let whole = Envelope { encoding: encoding.to_owned(), ..envelope(&namespace("a")).unwrap() };
        Bytes::from([&b"k8s\0"[..], &whole.encode_to_vec()].concat())
    };
    for (value, expected) in [
        (Bytes::from_static(crate::SECRET), "it is encrypted with \"aescbc:v1:key1\": give"),
        (claim, "resource.k8s.io/v1beta1 Namespace: no protobuf form of resource.k8s.io/v1beta1"),
        (review, "no protobuf form of imagepolicy.k8s.io/v1alpha1"),
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
