//! The journeys of services across clusters with real processes: kubectl, `karmada up`, two members in push mode, one
//! in pull mode with its agent. Requests of the consumer go to every address that its API lists: servers of the test
//! answer for the pods.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::components::{Component, args};
use crate::process::{Karmada, eventually};

const FAST: [&str; 3] =
    ["--cluster-status-update-frequency=1s", "--cluster-failure-threshold=2s", "--cluster-success-threshold=1s"];
const GATE: &str = "--feature-gates=MultiClusterService=true";

/// The network between clusters: 10.A.B.C, an address of a pod, is 127.A.B.C here, because loopback addresses are not
/// allowed in slices. Every server answers with its own name.
struct Network {
    port: u16,
    servers: Vec<Server>,
}

struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    fn new() -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr()).expect("a free port");
        Self { port: free.port(), servers: Vec::new() }
    }

    fn place(address: &str, port: u16) -> SocketAddr {
        let rest = address.strip_prefix("10.").unwrap_or_else(|| panic!("{address} is no address of a pod"));
        SocketAddr::new(format!("127.{rest}").parse().expect("an address"), port)
    }

    fn serve(&mut self, address: &str, name: &str) {
        let address = Self::place(address, self.port);
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let (stop, name) = (Arc::new(AtomicBool::new(false)), name.to_owned());
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                // A disconnected client needs no response.
                let _ = stream.and_then(|mut stream| stream.write_all(name.as_bytes()));
            }
        });
        self.servers.push(Server { address, stop, thread: Some(thread) });
    }

    fn call(&self, address: &str, port: u16) -> String {
        let mut answer = String::new();
        let called = TcpStream::connect(Self::place(address, port)).and_then(|mut it| it.read_to_string(&mut answer));
        called.map_or_else(|error| format!("{address}:{port}: {error}"), |_| answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// `member1` and `member2` in push mode, `member3` in pull mode.
struct Fleet {
    plane: Karmada,
    members: [Option<Karmada>; 3],
    agent: Option<Component>,
    network: Network,
    // The last field: it is dropped when the processes have ended.
    directory: tempfile::TempDir,
}

impl Fleet {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let members = [1, 2, 3].map(|at| member(&directory, at));
        let plane = Karmada::up_with(&directory.path().join("up"), &[&FAST[..], &[GATE]].concat());
        for (at, member) in members[..2].iter().enumerate() {
            let name = format!("member{}", at + 1);
            plane.karmadactl_ok(&["join", &name, &format!("--cluster-kubeconfig={}", member.kubeconfig())]);
        }
        let mut agent = args(&["agent", "--cluster-name=member3", GATE, "--leader-elect=false"]);
        agent.extend(args(&["--karmada-kubeconfig", plane.kubeconfig(), "--kubeconfig", members[2].kubeconfig()]));
        agent.extend(args(&["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]));
        agent.extend(args(&FAST));
        let agent = Some(Component::start(&agent, 0));
        let fleet = Self { directory, plane, members: members.map(Some), agent, network: Network::new() };
        eventually("three clusters", || {
            let listed = fleet.plane.ok(&["get", "clusters", "-o", "name"]);
            if listed.lines().count() == 3 { Ok(()) } else { Err(listed) }
        });
        fleet.plane.ok(&["wait", "--for=condition=Ready", "clusters", "--all", "--timeout=60s"]);
        fleet
    }

    fn member(&self, number: usize) -> &Karmada {
        self.members[number - 1].as_ref().expect("the member runs")
    }

    fn apply(&self, objects: &[Value]) {
        let file = self.directory.path().join("manifest.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string()).expect("a temporary directory is writable");
        self.plane.ok(&["apply", "-f", &file.to_string_lossy()]);
    }

    /// Gives each pod of the application in a member an address 10.NUMBER.0.x, and a server.
    fn answer(&mut self, number: usize, app: &str, replicas: usize) {
        let selector = format!("app={app}");
        let names: Vec<String> = eventually(&format!("{replicas} pods of {app} in member{number}"), || {
            let listed = self.member(number).ok(&[
                "get",
                "pods",
                "-l",
                &selector,
                "-o",
                "name",
                "--field-selector=status.phase=Running",
            ]);
            let names: Vec<String> = listed.lines().map(str::to_owned).collect();
            if names.len() == replicas { Ok(names) } else { Err(listed) }
        });
        for name in names {
            let known = self.member(number).ok(&["get", &name, "-o", "jsonpath={.status.podIP}"]);
            if known.starts_with(&format!("10.{number}.")) {
                continue;
            }
            let address = format!("10.{number}.0.{}", self.network.servers.len() + 1);
            let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}}).to_string();
            self.member(number).ok(&["patch", &name, "--subresource=status", "--type=merge", "-p", &status]);
            self.network.serve(&address, &format!("member{number} {name}"));
        }
    }

    /// The responses of all endpoints in the API of member2 for a service of other clusters. Each must come from the
    /// pod and the cluster that the endpoint names.
    fn answers(&self, service: &str) -> Result<BTreeSet<String>, String> {
        let mut answers = BTreeSet::new();
        for slice in self.slices(service) {
            let name = slice["metadata"]["name"].as_str().unwrap_or_default();
            let name = name.strip_prefix("imported-").unwrap_or(name);
            let (cluster, _) = name.split_once('-').unwrap_or_default();
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                let (address, pod) = (endpoint["addresses"][0].as_str(), endpoint["targetRef"]["name"].as_str());
                let port = slice["ports"][0]["port"].as_u64().and_then(|port| port.try_into().ok());
                let answer = self.network.call(address.unwrap_or_default(), port.unwrap_or_default());
                let meant = format!("{cluster} pod/{}", pod.unwrap_or_default());
                if answer != meant {
                    return Err(format!("{slice}: {answer:?} instead of {meant:?}"));
                }
                answers.insert(answer);
            }
        }
        Ok(answers)
    }

    /// The slices of a service in member2 that Karmada wrote.
    fn slices(&self, service: &str) -> Vec<Value> {
        let selector = format!("kubernetes.io/service-name={service},karmada.io/managed=true");
        let list = self.member(2).ok(&["get", "endpointslices", "-l", &selector, "-o", "json"]);
        let mut list: Value = serde_json::from_str(&list).expect("JSON");
        list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The consumer reaches exactly the pods of these members.
    fn reaches(&self, service: &str, providers: &[usize]) {
        let app = service.strip_prefix("derived-").unwrap_or(service);
        eventually(&format!("requests to {service} reach the pods of {providers:?}"), || {
            let mut pods = BTreeSet::new();
            for number in providers {
                let listed = self.member(*number).ok(&["get", "pods", "-l", &format!("app={app}"), "-o", "name"]);
                pods.extend(listed.lines().map(|name| format!("member{number} {name}")));
            }
            let answers = self.answers(service)?;
            if answers == pods { Ok(()) } else { Err(format!("{answers:?} instead of {pods:?}")) }
        });
    }

    fn services(&self) -> Vec<String> {
        let listed = self.member(2).ok(&["get", "services", "-o", "name"]);
        listed.lines().map(|name| name.trim_start_matches("service/").to_owned()).collect()
    }

    fn has_event(&self, of: &str, reason: &str, message: &str) {
        let selector = format!("--field-selector=involvedObject.name={of},reason={reason}");
        eventually(&format!("the event {reason}"), || {
            let found = self.plane.ok(&["get", "events", &selector, "-o", "jsonpath={.items[*].message}"]);
            if found.contains(message) { Ok(()) } else { Err(found) }
        });
    }

    fn until(&self, what: &str, args: &[&str], expected: &str) {
        eventually(what, || {
            let found = self.plane.ok(args);
            if found == expected { Ok(()) } else { Err(found) }
        });
    }
}

fn member(directory: &tempfile::TempDir, number: usize) -> Karmada {
    let name = format!("member{number}");
    Karmada::member(&name, &directory.path().join(&name))
}

fn policy(name: &str, selectors: Value, clusters: &[&str]) -> Value {
    json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": clusters}}}})
}

/// A Deployment and a Service with the port of the test's servers.
fn application(name: &str, replicas: u64, image: &str, port: u16) -> [Value; 2] {
    let container = json!({"name": name, "image": image, "ports": [{"containerPort": port}]});
    [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"ports": [{"port": 80, "targetPort": port}], "selector": {"app": name}}}),
    ]
}

/// Journey MCS1.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn an_exported_service_is_reached_from_the_cluster_that_imports_it() {
    let mut fleet = Fleet::start();
    let kinds = [("ServiceExport", "serviceexports"), ("ServiceImport", "serviceimports")];
    let definitions = kinds.map(|(_, plural)| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "name": format!("{plural}.multicluster.x-k8s.io")})
    });
    fleet.apply(&[json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "multicluster-definitions"},
        "spec": {"resourceSelectors": definitions,
            "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2", "member3"]}}}})]);
    let select = |api: &str, kind: &str| json!([{"apiVersion": api, "kind": kind, "name": "serve"}]);
    let [deployment, service] = application("serve", 1, "jeremyot/serve:0a40de8", fleet.network.port);
    let both = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}, {"apiVersion": "v1", "kind": "Service", "name": "serve"}]);
    let exchange = "multicluster.x-k8s.io/v1alpha1";
    fleet.apply(&[deployment, service, policy("mcs-workload", both, &["member1", "member3"])]);
    fleet.apply(&[
        json!({"apiVersion": exchange, "kind": "ServiceExport", "metadata": {"name": "serve", "namespace": "default"}}),
        policy("serve-export-policy", select(exchange, "ServiceExport"), &["member1", "member3"]),
        json!({"apiVersion": exchange, "kind": "ServiceImport", "metadata": {"name": "serve", "namespace": "default"},
            "spec": {"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]}}),
        policy("serve-import-policy", select(exchange, "ServiceImport"), &["member2"]),
    ]);
    fleet.answer(1, "serve", 1);
    fleet.answer(3, "serve", 1);
    fleet.reaches("derived-serve", &[1, 3]);
    assert_eq!(fleet.services(), ["derived-serve", "kubernetes"]);
    fleet.has_event("serve", "SyncDerivedServiceSucceed", "Sync derived service for serviceImport(serve) succeed.");

    // More pods, in both clusters.
    fleet.plane.ok(&["scale", "deployment", "serve", "--replicas=3"]);
    fleet.answer(1, "serve", 3);
    fleet.answer(3, "serve", 3);
    fleet.reaches("derived-serve", &[1, 3]);

    changes(&mut fleet);

    // The consumer loses the endpoints of a cluster that is removed, and no others.
    let provider = format!("--cluster-kubeconfig={}", fleet.member(1).kubeconfig());
    fleet.plane.karmadactl_ok(&["unjoin", "member1", &provider]);
    fleet.reaches("derived-serve", &[3]);
    fleet.plane.ok(&["delete", "serviceexport", "serve"]);
    fleet.reaches("derived-serve", &[]);
    fleet.plane.ok(&["delete", "serviceimport", "serve"]);
    eventually("the derived Service is gone", || {
        let left = fleet.services();
        if left == ["kubernetes"] { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// A slice of the provider changes a thousand times.
fn changes(fleet: &mut Fleet) {
    const CHANGES: usize = 1000;
    let slice = |last: usize| {
        let endpoints: Vec<Value> = (0..=last % 4)
            .map(|at| json!({"addresses": [format!("10.99.{}.{at}", last % 250)], "targetRef": {"kind": "Pod", "name": format!("p{at}")}}))
            .collect();
        json!({"endpoints": endpoints, "ports": [{"name": "", "port": fleet.network.port, "protocol": "TCP"}]})
    };
    let mut first = slice(0);
    first["apiVersion"] = "discovery.k8s.io/v1".into();
    first["kind"] = "EndpointSlice".into();
    first["addressType"] = "IPv4".into();
    first["metadata"] =
        json!({"name": "many", "namespace": "default", "labels": {"kubernetes.io/service-name": "serve"}});
    let file = fleet.directory.path().join("slice.json");
    std::fs::write(&file, first.to_string()).expect("a temporary directory is writable");
    fleet.member(1).ok(&["create", "-f", &file.to_string_lossy()]);
    let patches = (1..=CHANGES).map(slice).collect();
    patched(fleet.member(1).kubeconfig(), patches);
    let mut expected = slice(CHANGES);
    let imported = eventually("the last change", || {
        let slices = fleet.slices("derived-serve");
        let found = slices.iter().find(|it| it["metadata"]["name"] == "imported-member1-many");
        let found = found.ok_or_else(|| format!("{slices:?}"))?;
        for endpoint in expected["endpoints"].as_array_mut().into_iter().flatten() {
            endpoint["conditions"] = json!({});
        }
        let shown = json!({"endpoints": found["endpoints"], "ports": found["ports"]});
        if shown == expected { Ok(found.clone()) } else { Err(shown.to_string()) }
    });
    let writes = imported["metadata"]["generation"].as_u64().expect("a number");
    assert!(writes <= CHANGES as u64 + 1, "{writes} writes");
    fleet.member(1).ok(&["delete", "endpointslice", "many"]);
}

/// Sends merge patches of the slice one after another.
fn patched(kubeconfig: &str, patches: Vec<Value>) {
    use apimachinery::{ApiResource, ObjectKey};
    use client::{Client, Patch, PatchOptions};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let member = Client::from_kubeconfig(kubeconfig.as_ref(), None).await.expect("a client");
        let slices = ApiResource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
        let key = ObjectKey::namespaced("default", "many");
        for patch in patches {
            member.patch(&slices, &key, &Patch::Merge(patch), &PatchOptions::default()).await.expect("patched");
        }
    });
}

/// Journey MCS2.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn a_multi_cluster_service_is_reached_by_its_own_name() {
    let mut fleet = Fleet::start();
    let [deployment, service] = application("nginx", 2, "nginx", fleet.network.port);
    let [curl, _] = application("curl", 1, "curlimages/curl", 80);
    let select = |name: &str| json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}]);
    let mcs = |providers: &[&str]| {
        let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
        json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "nginx", "namespace": "default"},
            "spec": {"types": ["CrossCluster"], "providerClusters": named(providers), "consumerClusters": named(&["member2"])}})
    };
    fleet.apply(&[
        deployment,
        policy("nginx-propagation", select("nginx"), &["member1", "member3"]),
        curl,
        policy("curl", select("curl"), &["member2"]),
    ]);
    fleet.apply(&[service, mcs(&["member1", "nowhere"])]);
    fleet.answer(1, "nginx", 2);
    fleet.answer(3, "nginx", 2);
    fleet.reaches("nginx", &[1]);
    assert_eq!(fleet.services(), ["kubernetes", "nginx"]);
    fleet.has_event("nginx", "ClusterNotFound", "nowhere");
    fleet.apply(&[mcs(&["member1"])]);
    let conditions = "jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message};{end}";
    fleet.until(
        "the conditions of the page",
        &["get", "mcs", "nginx", "-o", conditions],
        "ServiceApplied=True ServiceAppliedSucceed: Service is propagated to target clusters.;\
         EndpointSliceDispatched=True EndpointSliceDispatchedSucceed: EndpointSlice are dispatched successfully;",
    );
    fleet.has_event("nginx", "SyncServiceSucceed", "");
    fleet.has_event("nginx", "DispatchEndpointSliceSucceed", "");

    // A second provider, in pull mode.
    fleet.apply(&[mcs(&["member1", "member3"])]);
    fleet.reaches("nginx", &[1, 3]);

    // A provider fails: its pods may still run, so consumers keep the endpoints.
    let before = fleet.answers("nginx").expect("answers");
    fleet.members[0].take().expect("member1 runs").kill();
    fleet.agent.take();
    fleet.plane.ok(&["wait", "--for=condition=Ready=false", "cluster/member1", "--timeout=60s"]);
    fleet.plane.ok(&["label", "mcs", "nginx", "touched=true"]);
    fleet.plane.ok(&["annotate", "service", "nginx", "touched=true"]);
    eventually("the consumer has the change", || {
        let found = fleet.member(2).ok(&["get", "service", "nginx", "-o", "jsonpath={.metadata.annotations.touched}"]);
        if found == "true" { Ok(()) } else { Err(found) }
    });
    assert_eq!(fleet.answers("nginx"), Ok(before));

    // It recovers, and its changes are collected again.
    fleet.members[0] = Some(member(&fleet.directory, 1));
    fleet.plane.ok(&["wait", "--for=condition=Ready", "cluster/member1", "--timeout=60s"]);
    fleet.plane.ok(&["scale", "deployment", "nginx", "--replicas=3"]);
    fleet.answer(1, "nginx", 3);
    fleet.reaches("nginx", &[1, 3]);

    // A provider is removed from the list while it does not respond.
    fleet.apply(&[mcs(&["member1"])]);
    fleet.reaches("nginx", &[1]);
    fleet.plane.ok(&["delete", "mcs", "nginx"]);
    fleet.reaches("nginx", &[]);
    assert_eq!(fleet.member(1).ok(&["get", "pods", "-l", "app=nginx", "-o", "name"]).lines().count(), 3);
}
