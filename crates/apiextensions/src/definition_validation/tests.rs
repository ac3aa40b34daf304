use super::*;
use serde_json::json;

fn widgets() -> Value {
    json!({"metadata": {"name": "widgets.g.example"}, "spec": {"group": "g.example", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

fn errors_of(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut crd = widgets();
    change(&mut crd);
    crate::definition::default_definition(&mut crd);
    let crd = CustomResourceDefinition::from_value(&crd).expect("well typed");
    validate(&crd).iter().map(ToString::to_string).collect()
}

#[test]
fn messages_match_upstreams() {
    assert_eq!(errors_of(|_| {}), Vec::<String>::new());
    for (change, expected) in [
        (
            (|crd| crd["metadata"]["name"] = json!("x")) as fn(&mut Value),
            r#"metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group"#,
        ),
        (
            |crd| crd["spec"]["scope"] = json!("Galaxy"),
            r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#,
        ),
        (
            |crd| crd["spec"]["preserveUnknownFields"] = json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
        (
            |crd| crd["spec"]["versions"][0]["schema"] = json!({}),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            |crd| crd["spec"]["names"]["listKind"] = json!("Widget"),
            r#"spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same"#,
        ),
        (
            |crd| {
                crd["spec"]["group"] = json!("a.k8s.io");
                crd["metadata"]["name"] = json!("widgets.a.k8s.io");
            },
            r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#,
        ),
        (
            |crd| {
                crd["spec"]["versions"][0]["subresources"] =
                    json!({"scale": {"specReplicasPath": ".x.replicas", "statusReplicasPath": ".status.replicas"}});
            },
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".x.replicas": should be a json path under .spec"#,
        ),
    ] {
        assert_eq!(errors_of(change), [expected]);
    }
    let generated = errors_of(|crd| crd["metadata"] = json!({"generateName": "x"}));
    assert_eq!(
        generated,
        [r#"metadata.generateName: Invalid value: "x": must be spec.names.plural+"."+spec.group"#],
        "a missing name is reported with the other metadata"
    );
    let named = errors_of(|crd| crd["spec"]["versions"][0]["name"] = json!("V1"));
    let fields: Vec<&str> = named.iter().filter_map(|text| Some(text.split_once(':')?.0)).collect();
    assert_eq!(fields, ["spec.versions[0].name", "spec.version"], "{named:?}");
    let stored_twice = errors_of(|crd| {
        let mut second = crd["spec"]["versions"][0].clone();
        second["name"] = json!("v2");
        crd["spec"]["versions"].as_array_mut().expect("a list").push(second);
    });
    assert_eq!(
        stored_twice.last().map(String::as_str),
        Some(r#"status.storedVersions: Invalid value: ["v1"]: must have the storage version v2"#)
    );
    let empty = errors_of(|crd| crd["spec"]["versions"] = json!([]));
    assert!(empty[0].starts_with("spec.versions: Invalid value: null: must have exactly one"), "{empty:?}");
    let none = errors_of(|crd| crd["spec"]["versions"][0]["storage"] = json!(false));
    assert!(none[0].ends_with("must have exactly one version marked as storage version"), "{none:?}");
    assert_eq!(none[1..], ["status.storedVersions: Invalid value: null: must have at least one stored version"]);
}

#[test]
fn parts_of_versions() {
    let version = |field: &str, value: Value| errors_of(|crd| crd["spec"]["versions"][0][field] = value);
    let columns = json!([{"name": "", "type": "text", "format": "x", "jsonPath": "spec.a"},
        {"name": "n", "type": "", "jsonPath": ""}, {"name": "odd", "type": "string", "jsonPath": ".spec["}]);
    assert_eq!(
        version("additionalPrinterColumns", columns),
        [
            "spec.additionalPrinterColumns[0].name: Required value",
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.a": must be a simple json path starting with ."#,
            "spec.additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[1].JSONPath: Required value",
        ]
    );
    let scale = json!({"scale": {"specReplicasPath": "spec.a", "labelSelectorPath": ".metadata.x"}});
    assert_eq!(
        version("subresources", scale),
        [
            r#"spec.subresources.scale.specReplicasPath: Invalid value: "spec.a": must be a simple json path starting with ."#,
            "spec.subresources.scale.statusReplicasPath: Required value",
            r#"spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.x": should be a json path under either .spec or .status"#,
        ]
    );
}

#[test]
fn errors_shared_by_versions_are_reported_once() {
    let errors = errors_of(|crd| {
        let mut second = crd["spec"]["versions"][0].clone();
        second["name"] = json!("V2");
        second["storage"] = json!(false);
        second["subresources"] = json!({"status": {}});
        crd["spec"]["versions"].as_array_mut().expect("versions").push(second);
        for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
            version["schema"]["openAPIV3Schema"] = json!({"type": "object", "nullable": true});
        }
        crd["spec"]["names"]["shortNames"] = json!(["-"]);
    });
    let places: Vec<&str> = errors.iter().filter_map(|text| Some(text.split_once(": ")?.0)).collect();
    let schema = "spec.validation.openAPIV3Schema";
    let nullable = format!("{schema}.nullable");
    assert_eq!(places, ["spec.versions[1].name", "spec.names.shortNames[0]", schema, &nullable]);
}

#[test]
fn webhook_addresses_are_validated() {
    let with = |config: Value, versions: Value| {
        errors_of(|crd| {
            crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": versions}});
        })
    };
    let at = "spec.conversion.webhookClientConfig";
    for (config, expected) in [
        (json!({"url": "https://a.b/c"}), vec![]),
        (json!({}), vec![format!("{at}: Required value: exactly one of url or service is required")]),
        (
            json!({"url": "http://u@h/?q=1#f"}),
            vec![
                format!(
                    r#"{at}.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#
                ),
                format!(r#"{at}.url: Invalid value: "u": user information is not permitted in the URL"#),
                format!(r#"{at}.url: Invalid value: "f": fragments are not permitted in the URL"#),
                format!(r#"{at}.url: Invalid value: "q=1": query parameters are not permitted in the URL"#),
            ],
        ),
        (
            json!({"url": "https://h:port/"}),
            vec![format!(
                r#"{at}.url: Required value: url must be a valid URL: parse "https://h:port/": invalid port ":port" after host; desired format: https://host[/path]"#
            )],
        ),
        (
            json!({"service": {"name": "n", "port": 70000, "path": "/a//B/"}}),
            vec![
                format!("{at}.service.name: Required value"),
                format!(
                    "{at}.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"
                ),
                format!(r#"{at}.service.path: Invalid value: "/a//B/": segment[1] may not be empty"#),
                format!(
                    r#"{at}.service.path: Invalid value: "/a//B/": segment[2]: {}"#,
                    names::is_dns1123_subdomain("B")[0]
                ),
            ],
        ),
    ] {
        assert_eq!(with(config.clone(), json!(["v1"])), expected, "{config}");
    }
    let versions = with(json!({"url": "https://a"}), json!(["v2", "v2"]));
    let at = "spec.conversion.conversionReviewVersions";
    assert_eq!(
        versions,
        [
            format!(r#"{at}[1]: Invalid value: "v2": duplicate version"#),
            format!(r#"{at}: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1"#),
        ]
    );
}

#[test]
fn established_names_are_immutable() {
    let read = |change: fn(&mut Value)| {
        let mut crd = widgets();
        crate::definition::default_definition(&mut crd);
        change(&mut crd);
        CustomResourceDefinition::from_value(&crd).expect("well typed")
    };
    let old = read(|crd| crd["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]));
    for (change, expected) in [
        (
            (|crd| crd["spec"]["names"]["plural"] = json!("things")) as fn(&mut Value),
            r#"spec.names.plural: Invalid value: "things": field is immutable"#,
        ),
        (
            |crd| crd["spec"]["group"] = json!("h.example"),
            r#"spec.group: Invalid value: "h.example": field is immutable"#,
        ),
        (|crd| crd["spec"]["scope"] = json!("Cluster"), r#"spec.scope: Invalid value: "Cluster": field is immutable"#),
        (
            |crd| crd["status"]["storedVersions"] = json!(["v0"]),
            r#"status.storedVersions: Invalid value: ["v0"]: must have the storage version v1"#,
        ),
        (
            |crd| {
                let config = json!({"url": "https://h", "caBundle": "Cg=="});
                crd["spec"]["conversion"] = json!({"strategy": "Webhook",
                    "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}});
            },
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"Cg==\": unable to load root certificates: \
             unable to parse bytes as PEM block",
        ),
    ] {
        let errors = validate_update(&old, &read(change));
        assert_eq!(errors[0].to_string(), expected);
        assert_eq!(errors.len(), 1 + usize::from(expected.contains("storedVersions")), "{errors:?}");
    }
}
