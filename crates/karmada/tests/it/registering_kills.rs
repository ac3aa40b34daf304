//! Kills `register` and `unregister` (kill -9) between any two packets to either server, and runs them again; two
//! clusters that register under one name.
//!
//! A normal run kills each eight times; `KILLS=1000` kills at every packet.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apimachinery::ObjectKey;
use client::Client;
use futures::StreamExt;
use karmada::member::RunningMember;
use karmada_api::ApiType;
use karmada_api::agents;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::work::v1alpha1::Work;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fleet::{Fleet, Ran};
use crate::registering_journey::{agent_key, deployments, installed, ready, secrets, start, tree};

/// Forwards packets to the servers, until the sending process must be killed.
#[derive(Clone, Default)]
struct Wire {
    packets: Arc<AtomicUsize>,
    /// The number of the packet before which the process is killed, and the process.
    victim: Arc<Mutex<Option<(usize, u32)>>>,
}

impl Wire {
    /// An address that forwards to a server.
    async fn before(&self, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let wire = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(wire.clone().relay(stream, server));
            }
        });
        address
    }

    async fn relay(self, stream: TcpStream, server: SocketAddr) {
        let Ok(up) = TcpStream::connect(server).await else { return };
        let ((mut from, mut to), (mut answers, mut requests)) = (stream.into_split(), up.into_split());
        tokio::spawn(async move {
            // Either end may close.
            let _ = tokio::io::copy(&mut answers, &mut to).await;
        });
        let mut packet = vec![0; 65536];
        while let Ok(length @ 1..) = from.read(&mut packet).await {
            let number = self.packets.fetch_add(1, Ordering::SeqCst);
            if let Some((at, process)) = *self.victim.lock()
                && number >= at
            {
                kill(process);
                return;
            }
            if requests.write_all(&packet[..length]).await.is_err() {
                return;
            }
        }
    }

    /// Runs a command that is killed before it sends its packet `at`; returns whether it was killed.
    async fn run_until(&self, at: usize, command: &mut Command) -> Option<Ran> {
        self.packets.store(0, Ordering::SeqCst);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child: Child = {
            // The process id is known before the process can send anything.
            let mut victim = self.victim.lock();
            let child = command.spawn().expect("the binary starts");
            *victim = Some((at, child.id()));
            child
        };
        let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("no panic");
        *self.victim.lock() = None;
        let ran = Ran::from(output.expect("the output"));
        ran.code.is_some().then_some(ran)
    }
}

fn kill(process: u32) {
    let sent = Command::new("kill").args(["-9", &process.to_string()]).stderr(Stdio::null()).status();
    assert!(sent.is_ok(), "kill is on PATH");
}

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("https://").trim_end_matches('/').parse().expect("an address and a port")
}

/// The member's kubeconfig and the control plane's, through a wire.
struct Wired {
    wire: Wire,
    member: RunningMember,
    directory: tempfile::TempDir,
    plane: SocketAddr,
}

impl Wired {
    async fn new(fleet: &Fleet, name: &str) -> Self {
        let (wire, member) = (Wire::default(), fleet.member(name).await);
        let directory = tempfile::tempdir().expect("a directory");
        let copy = async |path: &std::path::Path, copy: &str| {
            let config = std::fs::read_to_string(path).expect("a kubeconfig");
            let tree = apimachinery::yaml::to_json_value(config.as_bytes()).expect("YAML");
            let url = tree["clusters"][0]["cluster"]["server"].as_str().expect("a URL").to_owned();
            let through = wire.before(address(&url)).await;
            let config = config.replace(&url, &format!("https://{through}"));
            std::fs::write(directory.path().join(copy), config).expect("a file");
            through
        };
        copy(member.kubeconfig(), "member").await;
        let plane = copy(&fleet.kubeconfig(), "plane").await;
        Self { wire, member, directory, plane }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_string_lossy().into_owned()
    }

    fn register(&self, fleet: &Fleet, command: &str, name: &str) -> Command {
        let mut words: Vec<String> = command.split_whitespace().skip(1).map(str::to_owned).collect();
        words[1] = self.plane.to_string();
        words.push(format!("--kubeconfig={}", self.path("member")));
        words.push(format!("--cluster-name={name}"));
        let mut command = fleet.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        command.env_remove("KUBECONFIG");
        command
    }

    fn unregister(&self, fleet: &Fleet, name: &str) -> Command {
        let (member, plane) = (self.path("member"), self.path("plane"));
        fleet.command(&["unregister", name, "--cluster-kubeconfig", &member, "--karmada-config", &plane])
    }

    /// The objects of an agent in its cluster.
    async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let client = self.member.client();
        for (resource, key) in [
            (secrets(), agent_key("karmada-kubeconfig")),
            (deployments(), agent_key("karmada-agent")),
            (crate::karmadactl_join::cluster_roles(), ObjectKey::cluster("karmada-agent")),
            (crate::karmadactl_join::cluster_role_bindings(), ObjectKey::cluster("karmada-agent")),
        ] {
            if tree(client, &resource, &key).await.is_some() {
                left.push(format!("{} {key}", resource.plural));
            }
        }
        left
    }
}

async fn granted(control: &Client, name: &str) -> usize {
    let mut found = 0;
    for grant in agents::grants(name, "karmada-cluster") {
        let namespace = grant.object["metadata"]["namespace"].as_str();
        let listed = control.list(&grant.resource, namespace, &Default::default()).await.expect("a list").items;
        found += usize::from(listed.iter().any(|it| it.name() == grant.object["metadata"]["name"]));
    }
    found
}

/// Positions over `packets` at which processes are killed.
fn positions(packets: usize) -> Vec<usize> {
    let kills: usize = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(8);
    let kills = kills.min(packets);
    (0..kills).map(|at| at * packets / kills).collect()
}

/// The registration is complete: the agent's credentials work, and the mark of an unfinished one is removed.
async fn is_registered(control: &Client, wired: &Wired, name: &str) {
    let secret = tree(wired.member.client(), &secrets(), &agent_key("karmada-kubeconfig")).await.expect("a Secret");
    assert!(secret["metadata"].get("annotations").is_none(), "{name}: {}", secret["metadata"]);
    let (config, command) = installed(wired.member.client(), wired.directory.path()).await;
    assert!(command.contains(&format!("--cluster-name={name}")), "{command:?}");
    let agent = Client::from_kubeconfig(std::path::Path::new(&config), None).await.expect("a kubeconfig");
    let works = agent.list(&Work::api_resource(), Some(&format!("karmada-es-{name}")), &Default::default()).await;
    works.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(granted(control, name).await, agents::grants(name, "karmada-cluster").len(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_registration_is_finished_by_the_next() {
    let fleet = Fleet::start(&[]).await;
    let control = fleet.admin().await;
    let command = fleet.register_command().await;
    let whole = Wired::new(&fleet, "whole").await;
    let ran = whole.wire.run_until(usize::MAX, &mut whole.register(&fleet, &command, "whole")).await;
    ran.expect("it is not killed").ok();
    is_registered(&control, &whole, "whole").await;

    let attempt = async |at: usize| {
        let name = format!("m{at}");
        let wired = Wired::new(&fleet, &name).await;
        let finished = wired.wire.run_until(at, &mut wired.register(&fleet, &command, &name)).await;
        // The number of packets of a run varies slightly.
        if let Some(ran) = finished {
            return drop(ran.ok());
        }
        let again = wired.wire.run_until(usize::MAX, &mut wired.register(&fleet, &command, &name)).await;
        let again = again.expect("it is not killed").ok();
        let is_finished = again.ends_with(&format!("\ncluster({name}) is joined successfully\n"));
        // Killed after its last write, the registration is complete.
        assert!(is_finished || again.contains("Secret already exists"), "{at}: {again}");
        is_registered(&control, &wired, &name).await;
    };
    let packets = whole.wire.packets.load(Ordering::SeqCst);
    let attempts = positions(packets).into_iter().map(attempt);
    futures::stream::iter(attempts).buffer_unordered(4).collect::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_unregistration_is_finished_by_the_next() {
    let fleet = Fleet::start(&[]).await;
    let control = fleet.admin().await;
    let command = fleet.register_command().await;
    let registered = async |name: &str| {
        let wired = Wired::new(&fleet, name).await;
        let ran = wired.wire.run_until(usize::MAX, &mut wired.register(&fleet, &command, name)).await;
        ran.expect("it is not killed").ok();
        let (config, agent) = installed(wired.member.client(), wired.directory.path()).await;
        let agent = start(&agent, &config, &wired.member, 1).await;
        ready(&control, name).await;
        (wired, agent)
    };
    let is_gone = async |wired: &Wired, name: &str| {
        assert_eq!(wired.left().await, Vec::<String>::new(), "{name}");
        assert_eq!(granted(&control, name).await, 0, "{name}");
        assert!(tree(&control, &Cluster::api_resource(), &ObjectKey::cluster(name)).await.is_none(), "{name}");
    };
    let (whole, agent) = registered("whole").await;
    let ran = whole.wire.run_until(usize::MAX, &mut whole.unregister(&fleet, "whole")).await;
    ran.expect("it is not killed").ok();
    is_gone(&whole, "whole").await;
    drop(agent);

    let attempt = async |at: usize| {
        let name = format!("m{at}");
        let (wired, agent) = registered(&name).await;
        if let Some(ran) = wired.wire.run_until(at, &mut wired.unregister(&fleet, &name)).await {
            ran.ok();
        } else if !wired.left().await.is_empty() {
            let again = wired.wire.run_until(usize::MAX, &mut wired.unregister(&fleet, &name)).await;
            again.expect("it is not killed").ok();
        }
        is_gone(&wired, &name).await;
        drop(agent);
    };
    let packets = whole.wire.packets.load(Ordering::SeqCst);
    let attempts = positions(packets).into_iter().map(attempt);
    futures::stream::iter(attempts).buffer_unordered(3).collect::<()>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_clusters_that_register_under_one_name_the_first_has_it() {
    let fleet = Fleet::start(&[]).await;
    let control = fleet.admin().await;
    let command = fleet.register_command().await;
    let clusters = [Wired::new(&fleet, "one").await, Wired::new(&fleet, "two").await];
    let [one, two] = [0, 1].map(|at| fleet.run(clusters[at].register(&fleet, &command, "same")));
    let (one, two) = futures::future::join(one, two).await;
    let (winner, loser, refused) = if one.code == Some(0) { (0, 1, two) } else { (1, 0, one) };
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains(" registers as same since "), "{refused:?}");
    is_registered(&control, &clusters[winner], "same").await;
    assert_eq!(clusters[loser].left().await, Vec::<String>::new());

    // This holds before the agent of the first has created its Cluster.
    let again = fleet.run(clusters[loser].register(&fleet, &command, "same")).await;
    assert!(again.err.contains(" registers as same since "), "{again:?}");
    let (config, agent) = installed(clusters[winner].member.client(), clusters[winner].directory.path()).await;
    let agent = start(&agent, &config, &clusters[winner].member, 1).await;
    ready(&control, "same").await;
    let late = fleet.run(clusters[loser].register(&fleet, &command, "same")).await;
    assert!(late.err.contains("failed to register as cluster with name same already exists"), "{late:?}");
    drop(agent);
}
