//! The API of search.karmada.io: discovery, and the responses at its paths.

use apimachinery::ApiResource;
use client::Client;
use http::Method;
use serde_json::{Value, json};
use transport::Identity;

use crate::plane::Plane;

const SEARCH: &str = "/apis/search.karmada.io/v1alpha1/search";
const PROXY: &str = "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy";

async fn get(client: &Client, path: &str) -> Value {
    let bytes = client.request(Method::GET, path, None).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Code and body of a response.
async fn answer(client: &Client, method: Method, path: &str) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(path).body(transport::empty()).expect("a request");
    let response = client.send(request).await.expect("an answer");
    let code = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body in memory").to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list").iter();
    let name = |item: &Value| {
        let cluster = item["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"].as_str();
        format!("{}/{}", cluster.unwrap_or("?"), item["metadata"]["name"].as_str().unwrap_or("?"))
    };
    items.map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn members_are_read_as_if_they_were_one() {
    let plane = Plane::start().await;
    let client = plane.client();
    let discovered = get(client, "/apis/search.karmada.io/v1alpha1").await;
    let resources: Vec<String> = discovered["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .map(|it| {
            let verbs: Vec<&str> = it["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            format!("{} {} {} {}", it["name"], it["kind"], it["namespaced"], verbs.join(",")).replace('"', "")
        })
        .collect();
    assert_eq!(
        resources,
        [
            "proxying Proxying false create,delete,get,patch,update",
            "resourceregistries ResourceRegistry false create,delete,deletecollection,get,list,patch,update,watch",
            "resourceregistries/status ResourceRegistry false get,patch,update",
            "search Search false get",
        ]
    );

    for (path, code, text) in [
        ("/cache", 500, "invalid requestInfo parts: [search cache]"),
        ("/bogus/api/v1/nodes", 500, "connect with unrecognized search category bogus"),
        ("/cache/version/x/y", 500, "k8s native Request URL(version/x/y) is not a resource request"),
        ("/cache/apis/foo.io/v1/bars", 500, "{\"error\":\"no matches for foo.io/v1, Resource=bars\"}"),
        ("/cache/api/v1/nodes?labelSelector=a%3D%3D%3Db", 400, "{\"error\":"),
        ("/opensearch/api/v1/nodes", 200, ""),
        ("/cache/api/v1/nodes", 200, "\"items\":[]"),
        ("", 405, "the server does not allow this method on the requested resource"),
    ] {
        let (found, body) = answer(client, Method::GET, &format!("{SEARCH}{path}")).await;
        assert!(found == code && body.contains(text), "{path}: {found} {body}");
    }
    assert_eq!(answer(client, Method::POST, &format!("{SEARCH}/cache/api/v1/nodes")).await.0, 405);

    // Without a ResourceRegistry, the control plane responds.
    assert_eq!(names(&get(client, &format!("{PROXY}/api/v1/nodes")).await), Vec::<String>::new());
    let registries = ApiResource::cluster("search.karmada.io", "v1alpha1", "ResourceRegistry", "resourceregistries");
    let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": {"name": "nodes"},
        "spec": {"targetCluster": {"clusterNames": ["member1", "member2"]}, "resourceSelectors": [{"apiVersion": "v1", "kind": "Node"}]}});
    client.create(&registries, &registry).await.expect("a registry");

    let expected =
        ["member1/member1-node-1", "member1/member1-node-2", "member2/member2-node-1", "member2/member2-node-2"];
    let found = get(client, &format!("{SEARCH}/cache/api/v1/nodes")).await;
    assert_eq!((found["kind"].as_str(), &found["metadata"]), (Some("NodeList"), &json!({})));
    assert_eq!(names(&found), expected);
    assert_eq!(names(&get(client, &format!("{SEARCH}/cache/api/v1/nodes/member2-node-1")).await), expected[2..3]);
    assert_eq!(names(&get(client, &format!("{PROXY}/api/v1/nodes")).await), expected);
    pages_and_tables(client, &expected).await;
    changes_are_followed(&plane).await;
    versions_of_lists_are_preconditions(&plane).await;
    let one = get(client, &format!("{PROXY}/api/v1/nodes/member1-node-1")).await;
    assert!(one["metadata"]["resourceVersion"].as_str().is_some_and(|it| it.starts_with("ey")), "{one}");
    let (code, body) = answer(client, Method::GET, &format!("{PROXY}/api/v1/nodes/nowhere")).await;
    assert!(code == 404 && body.contains("nodes \\\"nowhere\\\" not found"), "{body}");
    let (code, body) = answer(client, Method::GET, &format!("{PROXY}/api/v1/nodes?fieldSelector=spec.x%3Dy")).await;
    assert!(code == 400 && body.contains("is not a known field selector"), "{body}");
    let (code, body) = answer(client, Method::POST, &format!("{PROXY}/api/v1/nodes")).await;
    assert!(code == 405 && body.contains("create is not supported on resources of kind \\\"nodes\\\""), "{body}");
    // Unregistered resources are served by the control plane, with the caller's own rights.
    assert_eq!(get(client, &format!("{PROXY}/api/v1/namespaces/default")).await["metadata"]["name"], "default");
    let outsider = Identity { user: "stranger".into(), ..Identity::default() };
    let outsider = Client::in_process(plane.plane.service(), outsider);
    assert_eq!(answer(&outsider, Method::GET, &format!("{PROXY}/api/v1/namespaces/default")).await.0, 403);
    let deep = format!("{PROXY}{PROXY}/api/v1/nodes");
    assert_eq!(answer(client, Method::GET, &deep).await.0, 400);
}

/// The versions by member in upstream's text format.
fn versions(text: &Value) -> Value {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text.as_str().expect("a text"));
    serde_json::from_slice(&bytes.expect("base64")).expect("JSON")
}

async fn pages_and_tables(client: &Client, expected: &[&str]) {
    let nodes = format!("{PROXY}/api/v1/nodes");
    let whole = get(client, &nodes).await;
    let members: Vec<String> =
        versions(&whole["metadata"]["resourceVersion"]).as_object().expect("an object").keys().cloned().collect();
    assert_eq!(members, ["member1", "member2"]);
    // Pages end within a member, at its end, and at the end of all.
    for limit in [1, 2, 3, 4, 9] {
        let (mut seen, mut token, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = get(client, &format!("{nodes}?limit={limit}&continue={token}")).await;
            let items = names(&page);
            assert!(!items.is_empty() && items.len() <= limit, "{limit}: {page}");
            seen.extend(items);
            pages += 1;
            assert_eq!(versions(&page["metadata"]["resourceVersion"]).as_object().map(serde_json::Map::len), Some(2));
            match page["metadata"]["continue"].as_str() {
                Some(next) => {
                    let next_page = versions(&page["metadata"]["continue"]);
                    assert_eq!(next_page["rv"], page["metadata"]["resourceVersion"]);
                    next.clone_into(&mut token);
                }
                None => break,
            }
        }
        assert_eq!(
            (seen.as_slice(), pages),
            (expected.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>().as_slice(), 4_usize.div_ceil(limit))
        );
    }
    assert_eq!(answer(client, Method::GET, &format!("{nodes}?limit=1&continue=abc")).await.0, 400);
    assert_eq!(names(&get(client, &format!("{nodes}?labelSelector=nothing%3Dso")).await), Vec::<String>::new());
    let found = get(client, &format!("{nodes}?fieldSelector=metadata.name%3Dmember2-node-1")).await;
    assert_eq!(names(&found), ["member2/member2-node-1"]);

    let request = http::Request::builder()
        .uri(&nodes)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .body(transport::empty())
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body in memory").to_bytes();
    let table: Value = serde_json::from_slice(&body).expect("a table");
    assert_eq!((&table["kind"], &table["columnDefinitions"][1]["name"]), (&json!("Table"), &json!("Created At")));
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

async fn changes_are_followed(plane: &Plane) {
    let client = plane.client();
    let nodes = format!("{PROXY}/api/v1/nodes");
    let whole = get(client, &nodes).await;
    let since = whole["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let request = http::Request::builder()
        .uri(format!("{nodes}?watch=true&resourceVersion={since}&timeoutSeconds=30"))
        .body(transport::empty())
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    assert_eq!(response.status(), 200);
    let member = plane.plane.members().iter().find(|member| member.name() == "member2").expect("a member");
    let resource = ApiResource::cluster("", "v1", "Node", "nodes");
    let patch = client::Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    let key = apimachinery::ObjectKey::cluster("member2-node-1");
    member.client().patch(&resource, &key, &patch, &client::PatchOptions::default()).await.expect("a changed node");
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body in memory").to_bytes();
    let events: Vec<Value> = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("an event"))
        .filter(|event: &Value| event["object"]["metadata"]["labels"]["seen"] == "yes")
        .collect();
    let first = events.first().expect("the change");
    let object = &first["object"];
    assert_eq!((&first["type"], &object["metadata"]["name"]), (&json!("MODIFIED"), &json!("member2-node-1")));
    assert_eq!(object["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"], "member2");
    let (before, after) = (versions(&json!(since)), versions(&object["metadata"]["resourceVersion"]));
    assert!(after["member2"] != before["member2"] && after["member1"].is_string(), "{before} {after}");
}

/// Sends a body and returns the code and the response.
async fn send(client: &Client, method: Method, path: &str, media_type: &str, body: Vec<u8>) -> (u16, Value) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
    let request = request.header("accept", "application/json").body(transport::full(body)).expect("a request");
    let response = client.send(request).await.expect("an answer");
    let code = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body in memory").to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

/// A version of several members, as lists and watches return it, reaches the member as its own version.
async fn versions_of_lists_are_preconditions(plane: &Plane) {
    const MARK: &str = "resource.karmada.io/cached-from-cluster";
    let groups = ["system:masters", "system:authenticated"].map(str::to_owned).into();
    let admin = Identity { user: "system:admin".into(), groups, ..Identity::default() };
    let client = &Client::in_process(plane.plane.service(), admin);
    let path = format!("{PROXY}/api/v1/nodes/member1-node-1");
    let direct = "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/api/v1/nodes/member1-node-1";
    let encoded = |versions: Value| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(versions.to_string())
    };
    let merged = |own: &Value| encoded(json!({"member1": own, "member2": "7"}));
    let forms: [(&str, Method, &str); 8] = [
        ("application/json", Method::PUT, ""),
        ("application/yaml", Method::PUT, ""),
        ("application/vnd.kubernetes.protobuf", Method::PUT, ""),
        ("application/json", Method::PUT, "/status"),
        ("application/merge-patch+json", Method::PATCH, ""),
        ("application/strategic-merge-patch+json", Method::PATCH, ""),
        ("application/json-patch+json", Method::PATCH, ""),
        ("application/json-patch+json", Method::PATCH, "/status"),
    ];
    for (media_type, method, subresource) in forms {
        let what = format!("{method} {media_type} {subresource}");
        let url = format!("{path}{subresource}");
        // The first version is the member's current one, the second an outdated one, the third names another member.
        let own = get(client, direct).await;
        let newest = merged(&own["metadata"]["resourceVersion"]);
        let elsewhere = encoded(json!({"member2": "7"}));
        for (version, expected) in [(newest, 200), (merged(&json!("1")), 409), (elsewhere, 409)] {
            let body = match media_type {
                "application/json-patch+json" => {
                    json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                        {"op": "add", "path": "/metadata/labels/form", "value": "patched"}])
                }
                _ if method == Method::PATCH => {
                    json!({"metadata": {"resourceVersion": version, "annotations": {MARK: "member1", "form": media_type}}})
                }
                _ => {
                    let mut object = own.clone();
                    object["metadata"]["resourceVersion"] = json!(version);
                    object["metadata"]["annotations"][MARK] = json!("member1");
                    object["metadata"]["annotations"]["form"] = json!(what);
                    object
                }
            };
            let body = match media_type {
                "application/yaml" => apimachinery::yaml::to_string(&body).into_bytes(),
                "application/vnd.kubernetes.protobuf" => {
                    kubernetes_api::protobuf::encode(body.to_string().as_bytes()).expect("a message")
                }
                _ => body.to_string().into_bytes(),
            };
            let (code, answer) = send(client, method.clone(), &url, media_type, body).await;
            assert_eq!(code, expected, "{what} {version}: {answer}");
        }
        let changed = get(client, direct).await;
        assert_eq!(changed["metadata"]["annotations"].get(MARK), None, "{what}");
    }
    // A node that has changed is not deleted; the version of a watch is the member's own.
    let own = get(client, direct).await["metadata"]["resourceVersion"].clone();
    for (version, expected) in [(merged(&json!("1")), 409), (merged(&own), 200)] {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": version}});
        let (code, answer) =
            send(client, Method::DELETE, &format!("{path}?dryRun=All"), "application/json", options.to_string().into())
                .await;
        assert_eq!(code, expected, "{answer}");
    }
}
