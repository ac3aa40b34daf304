use super::*;

fn tagged(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128, "one length byte");
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [tagged(1, api_version.as_bytes()), tagged(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), tagged(1, &meta), tagged(2, raw), tagged(3, b""), tagged(4, b"")].concat()
}

#[test]
fn a_config_map_as_client_go_sends_it() {
    // name, then the zero values that Go writes; creationTimestamp is an empty message.
    let meta = [tagged(1, b"a"), tagged(2, b""), tagged(3, b"ns"), vec![7 << 3, 0], tagged(8, b"")].concat();
    let data = [tagged(1, b"k"), tagged(2, b"v")].concat();
    let binary = [tagged(1, b"b"), tagged(2, &[0xff, 0, 1, 2])].concat();
    let raw = [tagged(1, &meta), tagged(2, &data), tagged(3, &binary)].concat();
    let decoded = decode(&envelope("v1", "ConfigMap", &raw)).expect("a ConfigMap");
    assert_eq!(
        decoded,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"},
               "data": {"k": "v"}, "binaryData": {"b": "/wABAg=="}})
    );
}

#[test]
fn pointers_keep_their_zero_and_values_do_not() {
    // spec.replicas (1) and spec.minReadySeconds (5), both 0; strategy (4) is a struct and stays as {}.
    let spec = [vec![1 << 3, 0], tagged(4, b""), vec![5 << 3, 0]].concat();
    let decoded = decode(&envelope("apps/v1", "Deployment", &tagged(2, &spec))).expect("a Deployment");
    assert_eq!(decoded["spec"], json!({"replicas": 0, "strategy": {}}));
    // A pod's priority (25) is a pointer, a column's (5) is not.
    let pod = decode(&envelope("v1", "Pod", &tagged(2, &[25 << 3 | 0x80, 1, 0]))).expect("a Pod");
    assert_eq!(pod["spec"], json!({"priority": 0}));
    let version = tagged(2, &tagged(7, &tagged(6, &[5 << 3, 0])));
    let definition = decode(&envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &version));
    let column = &definition.expect("a definition")["spec"]["versions"][0]["additionalPrinterColumns"][0];
    assert_eq!(*column, json!({}));
}

#[test]
fn whole_numbers_have_no_fraction() {
    // spec.versions[0].schema.openAPIV3Schema: minimum (11) and maximum (9).
    let double = |field: u8, value: f64| [&[field << 3 | 1][..], &value.to_le_bytes()].concat();
    let schema = [double(11, 0.0), double(9, 1.5)].concat();
    let version = tagged(7, &tagged(4, &tagged(1, &schema)));
    let decoded = decode(&envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &tagged(2, &version)));
    let schema = &decoded.expect("a definition")["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema.to_string(), r#"{"maximum":1.5,"minimum":0}"#);
}

#[test]
fn options_are_known_in_every_group_and_bad_bytes_are_refused() {
    let raw = tagged(4, b"Foreground");
    let decoded = decode(&envelope("apps/v1", "DeleteOptions", &raw)).expect("options");
    assert_eq!(decoded["propagationPolicy"], "Foreground");
    assert_eq!(decode(b"{}"), Err(ProtobufError::NoMagic));
    let whole = envelope("v1", "ConfigMap", &tagged(1, &tagged(1, b"a")));
    for end in MAGIC.len() + 1..whole.len() - 4 {
        // Cut anywhere, it is an error or a smaller object, never a panic.
        let _ = decode(&whole[..end]);
    }
    assert!(matches!(decode(&envelope("v1", "Nothing", b"")), Err(ProtobufError::UnknownKind(_))));
}

#[test]
fn fields_with_significant_zeros_are_sorted() {
    assert!(scalar::sorted());
}

#[test]
fn encoding_round_trips() {
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "labels": {"x": "y"},
               "creationTimestamp": "2024-02-29T12:00:00Z", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}]},
               "data": {"k": "v"}, "binaryData": {"b": "/wABAg=="}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0,
               "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}, "selector": {"matchLabels": {"a": "b"}},
               "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "100m"}},
               "livenessProbe": {"httpGet": {"port": 80}}}], "volumes": [{"name": "v", "emptyDir": {}}]}}}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"template": {"metadata": {}},
               "updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}}}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
               "spec": {"renewTime": "2024-02-29T12:00:00.123456Z", "leaseDurationSeconds": 15}}),
        json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404,
               "details": {"name": "x", "causes": [{"reason": "r"}]}}),
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"},
               "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"},
               "spec": {"group": "g", "names": {"kind": "X", "plural": "xs"}, "scope": "Cluster", "versions": [{"name": "v1",
               "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "default": {"a": [1]},
               "items": {"type": "string"}, "additionalProperties": true, "properties": {"p": {"type": "integer", "maximum": 2.5,
               "additionalProperties": {"type": "string"}}, "q": {"type": "boolean", "default": false,
               "additionalProperties": false}, "r": {"type": "string", "default": ""}}}}}]}}),
    ];
    let encode = |object: &Value| encode(object.to_string().as_bytes());
    for object in objects {
        let bytes = encode(&object).expect("it has a protobuf form");
        assert_eq!(decode(&bytes).expect("what was encoded decodes"), object);
    }
    let event = encode_event("ADDED", br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#);
    let event = event.expect("an event");
    assert_eq!(event[..4], u32::try_from(event.len() - 4).expect("short").to_be_bytes());
    let misfit = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": 5}});
    assert!(matches!(encode(&misfit), Err(ProtobufError::Malformed(_))));
    assert!(matches!(encode(&json!({"apiVersion": "a.b/v1", "kind": "Widget"})), Err(ProtobufError::UnknownKind(_))));
}

#[test]
fn items_given_one_by_one_make_the_list() {
    let item = |n: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("a{n}"), "managedFields":
               [{"manager": "m", "fieldsV1": {"f:data": {"f:fieldsV1": {}}}}]}, "data": {"fieldsV1": "x".repeat(n * 50)}})
    };
    for count in [0, 1, 7, 400] {
        let items: Vec<Value> = (0..count).map(item).collect();
        let mut list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}});
        let texts: Vec<String> = items.iter().map(Value::to_string).collect();
        let streamed = encode_list(list.to_string().as_bytes(), texts.iter().map(String::as_bytes)).expect("a list");
        list["items"] = items.into();
        assert_eq!(streamed, encode(list.to_string().as_bytes()).expect("a list"));
        let mut decoded = decode(&streamed).expect("what was encoded decodes");
        for (n, item) in decoded["items"].as_array_mut().into_iter().flatten().enumerate() {
            assert_eq!(
                item["data"]["fieldsV1"].as_str().map(str::len),
                Some(n * 50).filter(|size| *size > 0 || n == 0)
            );
            assert_eq!(item["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:fieldsV1": {}}}));
        }
    }
}

#[test]
fn encoding_ignores_spaces_order_and_escapes() {
    let stored = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"name":"pA"},
        "spec":{"containers":[{"image":"i","name":"c"}],"nodeName":"n\n"}}"#;
    let other = r#" {"spec" : {"nodeName":"x", "nodeName":"n\u000a","containers": [ {"\u006eame":"c","image":"i"} ]},
        "metadata":{"name":"p\u0041","namespace":null,"labels":{"a":"b"}},"kind":"Pod","more":[1,{}],"apiVersion":"\u00761"}"#;
    let bytes = encode(stored.as_bytes()).expect("a Pod");
    assert_eq!(encode(other.as_bytes()).expect("a Pod"), bytes);
    assert_eq!(decode(&bytes).expect("a Pod")["spec"]["nodeName"], "n\n");
}

#[test]
fn lengths_take_as_many_bytes_as_they_need() {
    for length in [1, 100, 127, 128, 300, 16_383, 16_384, 70_000, 3_000_000] {
        let text = "x".repeat(length);
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": text}});
        let decoded = decode(&encode(object.to_string().as_bytes()).expect("a ConfigMap")).expect("what was encoded");
        assert_eq!(decoded, object, "{length}");
    }
}

#[test]
fn nulls_that_an_older_binary_stored_are_zero_values() {
    let zeros = |object: Value| {
        let object =
            decode(&encode(object.to_string().as_bytes()).expect("nulls are zero values")).expect("what was encoded");
        object["data"].as_object().or_else(|| object["spec"].as_object()).cloned()
    };
    let read = |object: Value| object.as_object().cloned();
    assert_eq!(
        zeros(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": null, "b": "c"}})),
        read(json!({"a": "", "b": "c"}))
    );
    assert_eq!(
        zeros(
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "args": [null, "a"]}, null]}})
        ),
        // Absent fields stay absent: the codec fills in no defaults.
        read(json!({"containers": [{"name": "c", "args": ["", "a"]}, {}]}))
    );
}
