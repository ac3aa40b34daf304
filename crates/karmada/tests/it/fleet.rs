//! A control plane and members in the process of a test, each API server on its own socket.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use apimachinery::ApiResource;
use client::Client;
use expect_test::Expect;
use karmada::engine::Kind;
use karmada::member::{self, RunningMember};
use karmada::reach::Listen;
use karmada::up::{ControlPlane, Options};
use karmada_api::ApiType;
use karmada_api::cluster::v1alpha1::Cluster;
use karmadactl::join::{JoinOptions, Member};
use serde_json::json;
use simulator::MemberOptions;
use tempfile::TempDir;
use world::World;

pub struct Fleet {
    pub plane: ControlPlane,
    pub world: World,
    directory: TempDir,
}

impl Fleet {
    /// A control plane, with `inside` simulated members in its process, joined.
    pub async fn start(inside: &[&str]) -> Self {
        Self::start_with(inside, |_| ()).await
    }

    /// As [`Fleet::start`], with changed options.
    pub async fn start_with(inside: &[&str], change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let world = World::system();
        let mut options = Options {
            server: karmada::apiserver::Options {
                data_dir: directory.path().join("karmada"),
                store: Kind::Memory,
                listen: listen("karmada-apiserver"),
                token_auth_file: None,
                admission_config: None,
                identity: Default::default(),
                service_accounts: Default::default(),
                audit: Default::default(),
                overload: Default::default(),
                aggregation: Default::default(),
                services: Default::default(),
                plugins: karmada::apiserver::default_plugins(),
                admission: Default::default(),
                resource_models: true,
                events: Default::default(),
                backups: None,
                operation: Default::default(),
            },
            controllers: vec!["*".into()],
            kube_controllers: karmada::up::default_kube_controllers(),
            members: inside.iter().map(|name| MemberOptions::new(*name)).collect(),
            member_store: Kind::Memory,
            settings: Default::default(),
            scheduler: Default::default(),
            switches: Default::default(),
            estimators: None,
            descheduler: None,
            cluster_api: None,
            components: None,
            election: None,
        };
        change(&mut options);
        let plane = ControlPlane::start(&options, &world).await.expect("the control plane starts");
        assert!(plane.ready().await, "the components are ready");
        plane.members().join(plane.client()).await.expect("the members join");
        Self { plane, world, directory }
    }

    /// A member that is not joined yet, behind TLS.
    pub async fn member(&self, name: &str) -> RunningMember {
        let options = member::Options {
            data_dir: self.directory.path().join(name),
            store: Kind::Memory,
            listen: listen(name),
            member: MemberOptions::new(name),
        };
        RunningMember::start(options, &self.world).await.expect("the member starts")
    }

    /// A Cluster in push mode with an endpoint and a token, without a member.
    pub async fn add_cluster(&self, name: &str, endpoint: &str) {
        let control = self.plane.client();
        let secrets = ApiResource::namespaced("", "v1", "Secret", "secrets");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
            "data": {"token": "dG9rZW4="}});
        control.create(&secrets, &secret).await.expect("created");
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push", "apiEndpoint": endpoint,
                     "insecureSkipTLSVerification": endpoint.starts_with("https://"),
                     "impersonatorSecretRef": {"namespace": "default", "name": name}}});
        control.create(&Cluster::api_resource(), &cluster).await.expect("created");
    }

    /// Joins a member over its socket.
    pub async fn join(&self, member: &RunningMember) {
        let joining = Member {
            client: member.client().clone(),
            endpoint: member.url().to_owned(),
            insecure_skip_tls_verify: false,
            authority: None,
            proxy_url: None,
        };
        karmadactl::join::join(self.plane.client(), &joining, member.name(), &JoinOptions::default())
            .await
            .expect("the member joins");
    }

    /// Waits until the administrator can reach a member.
    pub async fn reachable(&self, cluster: &str) {
        let admin = self.admin().await;
        until(&format!("{cluster} lets the administrator in"), async || {
            let answer = admin.request(http::Method::GET, &proxied(cluster, "/api"), None).await;
            answer.is_ok().then_some(())
        })
        .await;
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig().expect("a socket")
    }

    /// The administrator, over the socket.
    pub async fn admin(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig(), None).await.expect("a kubeconfig")
    }

    /// The binary as `karmadactl`, with the control plane.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        command.arg("karmadactl").args(args).env("KUBECONFIG", self.kubeconfig());
        command.env_remove("KARMADACTL_OPERATION_SCOPE");
        command
    }

    pub async fn karmadactl(&self, args: &[&str]) -> Ran {
        self.run(self.command(args)).await
    }

    /// A command line, its words separated by single blanks, and its transcript.
    pub async fn check(&self, line: &str, expected: Expect) {
        let words: Vec<&str> = line.split(' ').collect();
        expected.assert_eq(&self.karmadactl(&words).await.transcript());
    }

    /// On its own thread: the servers are in this process.
    pub async fn run(&self, mut command: Command) -> Ran {
        let output = tokio::task::spawn_blocking(move || command.output());
        Ran::from(output.await.expect("no panic").expect("the binary starts"))
    }
}

/// The exit code and output of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    /// The lines of both streams, each with its letter, and the exit code.
    pub fn transcript(&self) -> String {
        let mut text = String::new();
        for (stream, output) in [("O", &self.out), ("E", &self.err)] {
            output.lines().for_each(|line| text.push_str(&format!("{stream}|{line}\n")));
        }
        text + &format!("rc={}\n", self.code.unwrap_or(-1))
    }

    /// Standard output of a successful command.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }
}

pub fn proxied(cluster: &str, path: &str) -> String {
    format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy{path}")
}

/// Waits up to a minute: machines that run tests may be busy.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, condition: impl Fn() -> F) -> T {
    for _ in 0..600 {
        if let Some(found) = condition().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never happened: {what}")
}

fn listen(cluster: &str) -> Listen {
    Listen::new(Ipv4Addr::LOCALHOST.into(), 0, cluster)
}
