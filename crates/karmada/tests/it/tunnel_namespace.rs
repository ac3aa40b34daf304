//! A member in a network without an inbound path, as behind a firewall: control plane and kubectl are in a separate
//! network namespace, the member listens on the loopback address of another one, and the agent is beside it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use client::Client;
use world::World;

use crate::fleet::{Ran, proxied};
use crate::{kubelet, tunnel_streams};

/// Set in the process inside the namespace.
const INSIDE: &str = "KARMADA_TEST_NETWORK_NAMESPACE";
const TEST: &str = "tunnel_namespace::kubectl_reaches_a_member_without_an_inbound_path";
const CONTROL: &str = "10.99.0.2";

/// Whether this user may create network namespaces. Some machines forbid it; the test then uses one network for all.
fn is_permitted() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--net", "--map-root-user", "--", "ip", "link", "set", "lo", "up"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A child that ends with the test.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ChildGuard {
    /// Starts a command and returns its first line, too.
    fn start(mut command: Command) -> (Self, String) {
        let mut child = Self(command.stdout(Stdio::piped()).spawn().expect("the command starts"));
        let stdout = child.0.stdout.take().expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("text");
        (child, line)
    }
}

/// The network of the control plane; the loopback address of this process where there is no other.
struct Network(Option<ChildGuard>);

impl Network {
    /// A namespace that is connected with this one by a pair of interfaces.
    fn apart() -> Self {
        let mut command = Command::new("unshare");
        let (holder, line) = ChildGuard::start({
            command.args(["--net", "--", "sh", "-c", "echo ready; exec sleep infinity"]);
            command
        });
        assert_eq!(line, "ready\n");
        let run = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(Command::new(words[0]).args(&words[1..]).status().expect("it starts").success(), "{line}");
        };
        let within = format!("nsenter --net=/proc/{}/ns/net", holder.0.id());
        run("ip link set lo up");
        run(&format!("ip link add outside type veth peer name inside netns {}", holder.0.id()));
        run("ip addr add 10.99.0.1/24 dev outside");
        run("ip link set outside up");
        run(&format!("{within} ip link set lo up"));
        run(&format!("{within} ip addr add {CONTROL}/24 dev inside"));
        run(&format!("{within} ip link set inside up"));
        Self(Some(holder))
    }

    fn command(&self, program: &str) -> Command {
        match &self.0 {
            None => Command::new(program),
            Some(holder) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/proc/{}/ns/net", holder.0.id())).arg(program);
                command
            }
        }
    }

    fn address(&self) -> &'static str {
        if self.0.is_some() { CONTROL } else { "127.0.0.1" }
    }

    /// `karmada up` in this network.
    fn control_plane(&self, data_dir: &Path) -> ChildGuard {
        let mut command = self.command(env!("CARGO_BIN_EXE_karmada"));
        command.args(["up", "--secure-port=0", "--allow-http-member-endpoints", "--bind-address", self.address()]);
        let (guard, line) = ChildGuard::start({
            command.arg("--data-dir").arg(data_dir).env("KARMADA_LOG", "error");
            command
        });
        assert!(line.starts_with("The control plane is ready on https://"), "{line}");
        guard
    }

    /// kubectl in this network, with the member's API behind the proxy as its server.
    fn kubectl(&self, data_dir: &Path, server: &str, args: &[&str]) -> Command {
        let mut command = self.command("kubectl");
        command.arg(format!("--server={server}{}", proxied("m1", ""))).args(args);
        command.env("KUBECONFIG", data_dir.join("karmada-apiserver.config")).env("HOME", data_dir);
        command
    }

    /// A connection to the member from this network.
    fn reaches(&self, member: SocketAddr) -> bool {
        let target = format!("exec 3<>/dev/tcp/10.99.0.1/{}", member.port());
        self.command("bash").args(["-c", &target]).stderr(Stdio::null()).status().expect("it starts").success()
    }
}

async fn reached_through_the_agent(network: Network) {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path();
    let _control_plane = network.control_plane(data_dir);
    let kubeconfig = data_dir.join("karmada-apiserver.config");
    let admin = Client::from_kubeconfig(&kubeconfig, None).await.expect("a kubeconfig");
    tunnel_streams::register(&admin).await;
    let member = kubelet::member().await;
    if network.0.is_some() {
        assert!(!network.reaches(member), "the member has an inbound path");
    }
    let _agent = tunnel_streams::connected(admin, &World::system(), member).await;
    let text = std::fs::read(&kubeconfig).expect("a kubeconfig");
    let config = apimachinery::yaml::to_json_value(&text).expect("YAML");
    let server = config["clusters"][0]["cluster"]["server"].as_str().expect("a URL").to_owned();
    for (line, expected) in [
        ("get pod web -o name", "pod/web"),
        ("logs web -c nginx", "second\n"),
        ("exec web -c nginx -- date", "command=date"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = network.kubectl(data_dir, &server, &words);
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
        let out = Ran::from(output.expect("kubectl starts")).ok();
        assert!(out.contains(expected), "{line}: {out}");
    }
    let forward = network.kubectl(data_dir, &server, &["port-forward", "pod/web", "0:80"]);
    let started = tokio::task::spawn_blocking(move || ChildGuard::start(forward)).await.expect("no panic");
    assert!(started.1.starts_with("Forwarding from 127.0.0.1:"), "{}", started.1);
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn kubectl_reaches_a_member_without_an_inbound_path() {
    let is_inside = std::env::var_os(INSIDE).is_some();
    if !is_inside && is_permitted() {
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user", "--"]).arg(std::env::current_exe().expect("this test"));
        let output = command.args(["--exact", TEST, "--nocapture"]).env(INSIDE, "1").output().expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
        return;
    }
    let network = if is_inside {
        Network::apart()
    } else {
        println!("this user may not create network namespaces: one network for all");
        Network(None)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(reached_through_the_agent(network));
}
