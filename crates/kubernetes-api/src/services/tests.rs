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
    book.assign(&key(name), &mut service, 0, false).map_err(refused)?;
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
    assert!(book.assign(&key("h"), &mut later, 1000, false).is_ok(), "what was never written lapses");
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
