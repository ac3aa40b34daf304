use apimachinery::{ObjectKey, Status};

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn book(range: &str, second: Option<&str>) -> Book {
    let parse = |text: &str| text.parse().expect("a range");
    Book::new(Ranges { primary: parse(range), secondary: second.map(parse), node_ports: 30000..=30003 })
}

fn assign(book: &mut Book, name: &str, spec: Value) -> Result<Value, String> {
    let mut service = json!({"spec": spec});
    normalize(&mut service);
    let refused = |status: Status| status.message;
    book.assign(&key(name), None, &mut service, 0, false).map_err(refused)?;
    Ok(service["spec"].take())
}

#[test]
fn addresses_are_allocated_once_and_released() {
    let mut book = book("10.0.0.0/29", None);
    let mut allocated = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let spec = assign(&mut book, name, json!({"type": "ClusterIP"})).expect("six are there");
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
        assert_eq!(spec["clusterIPs"], json!([spec["clusterIP"]]));
        allocated.push(spec["clusterIP"].clone());
    }
    assert_eq!(json!(allocated), json!(["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]));
    let full = assign(&mut book, "g", json!({"type": "ClusterIP"})).expect_err("none is left");
    assert_eq!(full, "Internal error occurred: failed to allocate a serviceIP: range is full");
    let service = |ip: &str| json!({"spec": {"clusterIPs": [ip]}});
    book.absorb(&key("c"), None, Some(&service("10.0.0.3")));
    book.absorb(&key("c"), Some(&service("10.0.0.3")), None);
    assert_eq!(assign(&mut book, "g", json!({})).expect("one is free")["clusterIP"], "10.0.0.3");
    let mut later = json!({"spec": {}});
    assert!(book.assign(&key("h"), None, &mut later, 1000, false).is_ok(), "what was never written lapses");
}

#[test]
fn the_reserved_address_is_allocated_to_its_service_only() {
    let mut book = book("10.0.0.0/30", None).with_first_reserved_for(key("kubernetes"));
    let own = json!({"clusterIP": "10.0.0.1"});
    let refused = assign(&mut book, "a", own.clone()).expect_err("reserved");
    assert!(refused.ends_with("failed to allocate IP 10.0.0.1: provided IP is already allocated"), "{refused}");
    assert_eq!(assign(&mut book, "a", json!({})).expect("one is free")["clusterIP"], "10.0.0.2");
    assert!(assign(&mut book, "b", json!({})).is_err(), "the other one is reserved");
    let service = json!({"spec": {"clusterIPs": ["10.0.0.1"]}});
    book.absorb(&key("kubernetes"), None, Some(&service));
    book.absorb(&key("kubernetes"), Some(&service), None);
    assert!(assign(&mut book, "b", json!({})).is_err(), "also after its service was deleted");
    assert_eq!(assign(&mut book, "kubernetes", own).expect("its own")["clusterIP"], "10.0.0.1");
}

#[test]
fn a_service_allocates_only_new_addresses_and_ports() {
    let service = |ips: &[&str], port: Option<u16>| json!({"spec": {"clusterIPs": ips, "ports": [{"nodePort": port}]}});
    let one = service(&["10.0.0.1"], None);
    for (what, before, after, expected) in [
        ("new, with an address", None, one.clone(), true),
        ("new, without", None, service(&["None"], None), false),
        ("the same", Some(one.clone()), one.clone(), false),
        ("another family", Some(one.clone()), service(&["10.0.0.1", "fd00::1"], None), true),
        ("another address", Some(one.clone()), service(&["10.0.0.2"], None), true),
        ("a port", Some(one.clone()), service(&["10.0.0.1"], Some(30000)), true),
        ("less", Some(service(&["10.0.0.1"], Some(30000))), one, false),
    ] {
        assert_eq!(!new_allocations(before.as_ref(), &after).is_empty(), expected, "{what}");
    }
}

#[test]
fn addresses_can_be_requested() {
    let mut book = book("10.0.0.0/24", None);
    let requested = json!({"type": "ClusterIP", "clusterIP": "10.0.0.5"});
    assert_eq!(assign(&mut book, "a", requested.clone()).expect("it is free")["clusterIPs"], json!(["10.0.0.5"]));
    assert!(assign(&mut book, "a", requested.clone()).is_ok(), "it is its own");
    for (spec, expected) in [
        (requested, "failed to allocate IP 10.0.0.5: provided IP is already allocated"),
        (
            json!({"clusterIP": "1.2.3.4"}),
            "failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is not in the valid range. The range of valid IPs is \
             10.0.0.0/24",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (json!({"ipFamilyPolicy": "RequireDualStack"}), "this cluster is not configured for dual-stack services"),
    ] {
        let refused = assign(&mut book, "b", spec).expect_err(expected);
        assert!(refused.ends_with(expected), "{refused}");
    }
    let headless = assign(&mut book, "h", json!({"clusterIP": "None"})).expect("it needs none");
    assert_eq!(
        headless,
        json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack"})
    );
}

#[test]
fn two_families() {
    let mut book = book("10.0.0.0/24", Some("fd00::/112"));
    let spec = assign(&mut book, "a", json!({"ipFamilyPolicy": "PreferDualStack"})).expect("both are there");
    assert_eq!(spec["clusterIPs"], json!(["10.0.0.17", "fd00::101"]));
    let spec = assign(&mut book, "b", json!({"ipFamilies": ["IPv6"]})).expect("it is there");
    assert_eq!((&spec["clusterIP"], &spec["ipFamilyPolicy"]), (&json!("fd00::102"), &json!("SingleStack")));
}

#[test]
fn node_ports() {
    let mut book = book("10.0.0.0/24", None);
    let spec = |port: Value| json!({"type": "NodePort", "ports": [port]});
    let first = assign(&mut book, "a", spec(json!({"port": 80}))).expect("four are there");
    assert_eq!(first["ports"][0]["nodePort"], 30003);
    let taken = assign(&mut book, "b", spec(json!({"port": 80, "nodePort": 30003}))).expect_err("it is taken");
    assert!(
        taken.ends_with("spec.ports[0].nodePort: Invalid value: 30003: provided port is already allocated"),
        "{taken}"
    );
    let outside = assign(&mut book, "b", spec(json!({"port": 80, "nodePort": 80}))).expect_err("it is outside");
    assert!(outside.ends_with("The range of valid ports is 30000-30003"), "{outside}");
    let balanced = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 1}]});
    let balanced = assign(&mut book, "b", balanced).expect("two are left");
    assert_eq!((&balanced["ports"][0]["nodePort"], &balanced["healthCheckNodePort"]), (&json!(30000), &json!(30001)));
}

#[test]
fn updates_keep_unspecified_fields() {
    let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}});
    let after = |spec: Value| {
        let mut service = json!({"spec": spec});
        carry_over(&old, &mut service);
        service["spec"].take()
    };
    let port = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(after(json!({"type": "NodePort", "ports": port, "externalTrafficPolicy": "Cluster"})), old["spec"]);
    let mut plain = old["spec"].clone();
    plain["type"] = "ClusterIP".into();
    let expected = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": port});
    assert_eq!(after(plain), expected);
    let mut external = old["spec"].clone();
    external["type"] = "ExternalName".into();
    external["externalName"] = "a.b".into();
    assert_eq!(after(external), json!({"type": "ExternalName", "externalName": "a.b", "ports": port}));
    let moved = after(json!({"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1"], "ports": port}));
    assert_eq!(moved["clusterIPs"], json!(["10.0.0.2"]));
}

/// The `spec` of a service after an update that sends exactly this one.
fn updated(old: &Value, new: Value) -> Value {
    let mut service = json!({"spec": new});
    carry_over(&json!({"spec": old}), &mut service);
    service["spec"].take()
}

#[test]
fn node_ports_are_kept_by_name() {
    let ports = |list: &[(&str, u16, Option<u16>)]| {
        let port = |(name, port, node): &(&str, u16, Option<u16>)| match node {
            Some(node) => json!({"name": name, "port": port, "nodePort": node}),
            None => json!({"name": name, "port": port}),
        };
        list.iter().map(port).collect::<Value>()
    };
    let spec = |type_: &str, ports: &Value| json!({"type": type_, "clusterIP": "10.0.0.1", "ports": ports});
    let old = spec("NodePort", &ports(&[("a", 80, Some(30001)), ("b", 81, Some(30002))]));
    for (type_, sent, kept) in [
        (
            "NodePort",
            ports(&[("a", 8080, None), ("b", 81, None)]),
            ports(&[("a", 8080, Some(30001)), ("b", 81, Some(30002))]),
        ),
        // A new name gets a new port; a taken port is not kept.
        ("NodePort", ports(&[("c", 80, None)]), ports(&[("c", 80, None)])),
        (
            "NodePort",
            ports(&[("a", 80, Some(30002)), ("b", 81, None)]),
            ports(&[("a", 80, Some(30002)), ("b", 81, None)]),
        ),
        ("LoadBalancer", ports(&[("a", 80, None)]), ports(&[("a", 80, Some(30001))])),
        (
            "ClusterIP",
            ports(&[("a", 80, Some(30001)), ("b", 81, Some(30002))]),
            ports(&[("a", 80, None), ("b", 81, None)]),
        ),
        ("ClusterIP", ports(&[("a", 80, Some(30001))]), ports(&[("a", 80, None)])),
        ("ClusterIP", ports(&[("a", 80, Some(30003))]), ports(&[("a", 80, Some(30003))])),
    ] {
        assert_eq!(updated(&old, spec(type_, &sent))["ports"], kept, "{type_} {sent}");
    }
}

#[test]
fn fields_end_with_their_type() {
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
        "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a/b"});
    let with = |changes: Value| {
        let mut spec = local.clone();
        apimachinery::merge_patch::apply(&mut spec, &changes);
        spec
    };
    for (sent, expected) in [
        (with(json!({"healthCheckNodePort": null})), local.clone()),
        (
            with(json!({"externalTrafficPolicy": "Cluster"})),
            with(json!({"externalTrafficPolicy": "Cluster", "healthCheckNodePort": null})),
        ),
        (
            with(json!({"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30002})),
            with(json!({"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30002})),
        ),
        (with(json!({"type": "ClusterIP"})), json!({"type": "ClusterIP"})),
        (
            with(json!({"type": "ClusterIP", "externalIPs": ["1.2.3.4"]})),
            json!({"type": "ClusterIP", "externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "Local"}),
        ),
    ] {
        assert_eq!(updated(&local, sent.clone()), expected, "{sent}");
    }
    let status = |type_: &str| {
        let mut service =
            json!({"spec": {"type": type_}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
        carry_over(&json!({ "spec": local }), &mut service);
        service["status"]["loadBalancer"]["ingress"].is_array()
    };
    assert!(status("LoadBalancer") && !status("NodePort"));
}

#[test]
fn policies_add_and_release_families() {
    let dual = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
        "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"});
    let single = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
    let preferred = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"});
    let release = "must be 'SingleStack' to release the secondary";
    for (old, changes, expected) in [
        (&dual, json!({"ipFamilyPolicy": "SingleStack"}), Ok(1)),
        (&dual, json!({"ipFamilyPolicy": "SingleStack", "clusterIPs": ["10.0.0.1"], "ipFamilies": null}), Ok(1)),
        (&dual, json!({"ipFamilyPolicy": null, "clusterIPs": ["10.0.0.1"]}), Err(format!("{release} cluster IP"))),
        (&dual, json!({"ipFamilies": ["IPv4"]}), Err(format!("{release} IP family"))),
        (&dual, json!({"ipFamilyPolicy": null, "ipFamilies": null, "clusterIPs": null}), Ok(2)),
        (&single, json!({"ipFamilyPolicy": "PreferDualStack"}), Ok(2)),
        (&single, json!({"selector": {"a": "b"}}), Ok(1)),
        // It was stored when the server had one range.
        (&preferred, json!({"selector": {"a": "b"}}), Ok(1)),
        (&preferred, json!({"ipFamilyPolicy": "RequireDualStack"}), Ok(2)),
    ] {
        let mut spec = old.clone();
        apimachinery::merge_patch::apply(&mut spec, &changes);
        let (old, mut service) = (json!({ "spec": old }), json!({ "spec": spec }));
        carry_over(&old, &mut service);
        let mut book = book("10.0.0.0/24", Some("fd00::/112"));
        let assigned = book.assign(&key("a"), Some(&old), &mut service, 0, false);
        match (assigned, expected) {
            (Ok(()), Ok(number)) => {
                let found = ["clusterIPs", "ipFamilies"].map(|field| service["spec"][field].as_array().map(Vec::len));
                assert_eq!(found, [Some(number); 2], "{changes}");
            }
            (Err(refused), Err(expected)) => assert!(refused.message.ends_with(&expected), "{}", refused.message),
            (assigned, expected) => panic!("{changes}: {assigned:?} {expected:?}"),
        }
    }
}

#[test]
fn families_of_new_services() {
    for (ranges, spec, expected) in [
        (None, json!({"ipFamilies": ["IPv4", "IPv6"]}), "when multiple IP families are specified"),
        (
            None,
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            Some("fd00::/112"),
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
    ] {
        let refused = assign(&mut book("10.0.0.0/24", ranges), "a", spec).expect_err(expected);
        assert!(refused.ends_with(expected), "{refused}");
    }
    // Addresses of services without pods may be of any family.
    for (spec, families) in [
        (json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}), json!(["IPv6"])),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), json!(["IPv4", "IPv6"])),
    ] {
        let mut spec = spec;
        spec["clusterIP"] = "None".into();
        assert_eq!(assign(&mut book("10.0.0.0/24", None), "a", spec).expect("a service")["ipFamilies"], families);
    }
}

#[test]
fn ports_of_load_balancers() {
    let mut book = book("10.0.0.0/24", None);
    let dns = json!([{"name": "a", "port": 53, "protocol": "UDP"}, {"name": "b", "port": 53, "protocol": "TCP"}]);
    let shared = assign(&mut book, "a", json!({"type": "NodePort", "ports": dns})).expect("a service");
    assert_eq!(shared["ports"][0]["nodePort"], shared["ports"][1]["nodePort"]);
    let balanced = |health: Option<u16>, node: Option<u16>| {
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "externalTrafficPolicy": "Local",
            "healthCheckNodePort": health, "ports": [{"port": 1, "nodePort": node}]})
    };
    let alone = assign(&mut book, "b", balanced(None, None)).expect("a service");
    assert!(alone["healthCheckNodePort"].is_u64() && alone["ports"][0]["nodePort"].is_null(), "{alone}");
    let taken = alone["healthCheckNodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
    let refused = assign(&mut book, "c", balanced(taken, None)).expect_err("it is taken");
    assert!(refused.contains("failed to allocate requested HealthCheck NodePort"), "{refused}");
    let refused = assign(&mut book, "c", balanced(None, taken)).expect_err("it is taken");
    assert!(refused.ends_with("provided port is already allocated"), "{refused}");
}
