//! Errors of `karmadactl` for wrong command lines, kubeconfigs and servers: each row is a command line with its stdout,
//! stderr and exit code.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use apiserver::serve::{self, Limits, TlsConfig};
use base64::Engine as _;
use expect_test::{Expect, expect};
use karmada::engine::Kind;
use karmada::member::{self, RunningMember};
use karmada::reach::Listen;
use pki::authority::{Authority, KeyPairPem, ServerNames};
use serde_json::{Value, json};
use simulator::MemberOptions;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Request};
use world::World;

use crate::fleet::Ran;

/// Kubeconfigs for commands. Paths read `D` in expectations, and ports `PORT`.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("written");
    }

    /// A kubeconfig with one context `c` for the server, and another one.
    fn kubeconfig(&self, name: &str, cluster: Value, user: Value) {
        let contexts = json!([{"name": "c", "context": {"cluster": "k", "user": "u"}},
            {"name": "other", "context": {"cluster": "k", "user": "u"}}]);
        let config = json!({"current-context": "c", "contexts": contexts, "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": user}]});
        self.write(name, &config.to_string());
    }

    async fn run(&self, line: &str, variable: Option<&str>) -> String {
        let here = self.0.path().to_string_lossy().into_owned();
        let full = |text: &str| text.replace("D/", &format!("{here}/"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        command.arg("karmadactl").args(line.split(' ').map(full)).env("HOME", self.0.path().join("home"));
        for name in
            ["KUBECONFIG", "KARMADACTL_OPERATION_SCOPE", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"]
        {
            command.env_remove(name);
        }
        if let Some(variable) = variable {
            command.env("KUBECONFIG", full(variable));
        }
        // The servers are in this process.
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
        let ran = Ran::from(output.expect("the binary starts"));
        let text = format!("{}{}rc={}\n", ran.out, ran.err, ran.code.unwrap_or(-1)).replace(&here, "D");
        let parts: Vec<&str> = text.split("127.0.0.1:").collect();
        parts
            .join("127.0.0.1:PORT")
            .split("PORT")
            .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()))
            .collect::<Vec<_>>()
            .join("PORT")
    }

    async fn check(&self, line: &str, expected: Expect) {
        expected.assert_eq(&self.run(line, None).await);
    }

    async fn check_listed(&self, variable: &str, line: &str, expected: Expect) {
        expected.assert_eq(&self.run(line, Some(variable)).await);
    }
}

fn authority(world: &World) -> Authority {
    Authority::generate("test", world).expect("an authority").0
}

/// The cluster settings of a kubeconfig.
fn trusting(server: &str, authority: &str) -> Value {
    json!({"server": server, "certificate-authority-data": base64::prelude::BASE64_STANDARD.encode(authority)})
}

/// A server behind TLS with useless responses.
async fn server(pair: &KeyPairPem) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let tls = TlsConfig::new(&pair.certificate, &pair.key).expect("a certificate");
    let answer = |_: Request| async { Ok::<_, Infallible>(http::Response::new(transport::empty())) };
    let service = ApiService::new(tower::service_fn(answer));
    tokio::spawn(serve::serve(listener, Some(tls), service, Limits::default(), CancellationToken::new()));
    format!("https://{address}")
}

/// A port without a listener.
async fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    format!("https://{}", listener.local_addr().expect("an address"))
}

/// A cluster without Karmada's APIs.
async fn plain(directory: &Path) -> RunningMember {
    let listen = Listen::new(Ipv4Addr::LOCALHOST.into(), 0, "plain");
    let options = member::Options {
        data_dir: directory.join("plain"),
        store: Kind::Memory,
        listen,
        member: MemberOptions::new("plain"),
    };
    RunningMember::start(options, &World::system()).await.expect("the member starts")
}

fn authority_of(kubeconfig: &Path) -> String {
    let bytes = std::fs::read(kubeconfig).expect("a kubeconfig");
    let document = apimachinery::yaml::documents(&bytes).expect("YAML").remove(0);
    let data = document["clusters"][0]["cluster"]["certificate-authority-data"].as_str().expect("a bundle");
    let bytes = base64::prelude::BASE64_STANDARD.decode(data).expect("base64");
    String::from_utf8(bytes).expect("PEM")
}

#[tokio::test]
async fn arguments_are_named() {
    let files = Files::new();
    files
        .check(
            "cordon",
            expect![[r#"
        error: cluster name is required
        Usage: karmadactl cordon CLUSTER [options]
        See 'karmadactl cordon --help' for usage.
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "cordon a b",
            expect![[r#"
        error: more than one cluster name is not supported
        Usage: karmadactl cordon CLUSTER [options]
        See 'karmadactl cordon --help' for usage.
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "join",
            expect![[r#"
        error: cluster name is required
        Usage: karmadactl join CLUSTER_NAME --cluster-kubeconfig=<KUBECONFIG> [options]
        See 'karmadactl join --help' for usage.
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "unjoin a b",
            expect![[r#"
        error: only the cluster name is allowed as an argument
        Usage: karmadactl unjoin CLUSTER_NAME [--cluster-kubeconfig=<KUBECONFIG>] [options]
        See 'karmadactl unjoin --help' for usage.
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "completion",
            expect![[r#"
                error: Shell not specified.
                See 'karmadactl completion -h' for help and examples
                rc=1
            "#]],
        )
        .await;
    files
        .check(
            "api-resources pods",
            expect![[r#"
                error: unexpected arguments: [pods]
                See 'karmadactl api-resources -h' for help and examples
                rc=1
            "#]],
        )
        .await;
    files
        .check(
            "explian-placement web",
            expect![[r#"
        error: unknown command "explian-placement" for "karmadactl"

        Did you mean this?
        	explain-placement
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "register host:6443",
            expect![[r#"
                error: token is required
                rc=1
            "#]],
        )
        .await;

    files.write("config", "{}");
    files
        .check(
            "get --kubeconfig D/config",
            expect![[r#"
        error: cluster(Karmada): You must provide one or more resources by argument or filename.
        Example resource specifications include:
           '-f rsrc.yaml'
           '--filename=rsrc.json'
           '<resource> <name>'
           '<resource>'
        Usage: karmadactl get [NAME | -l label | -n namespace] [options]
        See 'karmadactl get --help' for usage.
        rc=1
    "#]],
        )
        .await;
}

#[tokio::test]
async fn kubeconfigs_that_cannot_be_used_are_named() {
    let files = Files::new();
    files.write("malformed", "contexts:\n- name: [a\n");
    files.kubeconfig("good", json!({"server": closed().await}), json!({}));
    files.kubeconfig(
        "no-authority",
        json!({"server": closed().await, "certificate-authority": "nosuch.crt"}),
        json!({}),
    );
    files
        .check(
            "get clusters",
            expect![[r#"
        error: Missing or incomplete configuration info.  Please point to an existing, complete config file:
          1. Via the command-line flag --kubeconfig
          2. Via the KUBECONFIG environment variable
          3. In your home directory as ~/.kube/config
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "get clusters --kubeconfig D/nosuch",
            expect![[r#"
        error: kubeconfig D/nosuch of --kubeconfig does not exist
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "get clusters --kubeconfig D/malformed",
            expect![[r#"
        error: kubeconfig D/malformed of --kubeconfig is malformed: error converting YAML to JSON: yaml: line 2: unclosed bracket '['
        rc=1
    "#]],
        )
        .await;
    files
        .check(
            "get clusters --kubeconfig D/good --karmada-context nope",
            expect![[r#"
        error: context "nope" does not exist in kubeconfig D/good; its contexts: c, other
        rc=1
    "#]],
        )
        .await;
    files.check("get clusters --kubeconfig D/no-authority", expect![[r#"
        error: kubeconfig D/no-authority: unable to read certificate-authority D/nosuch.crt for k: No such file or directory (os error 2)
        rc=1
    "#]]).await;
    files
        .check_listed(
            "D/nosuch",
            "get clusters",
            expect![[r#"
        error: kubeconfig D/nosuch of $KUBECONFIG does not exist
        rc=1
    "#]],
        )
        .await;
    files
        .check_listed(
            "D/nosuch:D/neither",
            "get clusters",
            expect![[r#"
        error: kubeconfig D/nosuch, D/neither of $KUBECONFIG do not exist
        rc=1
    "#]],
        )
        .await;
    files
        .check_listed(
            "D/good:D/malformed",
            "get clusters",
            expect![[r#"
                error: kubeconfig D/malformed of $KUBECONFIG is malformed: error converting YAML to JSON: yaml: line 2: unclosed bracket '['
                rc=1
            "#]],
        )
        .await;
    // The flag is one file and overrides the variable.
    files
        .check_listed(
            "D/good",
            "get clusters --kubeconfig D/nosuch",
            expect![[r#"
        error: kubeconfig D/nosuch of --kubeconfig does not exist
        rc=1
    "#]],
        )
        .await;
    files
        .check_listed(
            "D/good",
            "join m1 --cluster-kubeconfig D/nosuch",
            expect![[r#"
        error: failed to get joining cluster config. error: kubeconfig D/nosuch of --cluster-kubeconfig does not exist
        rc=1
    "#]],
        )
        .await;
    files.check_listed("D/good", "join m1 --cluster-kubeconfig D/good --cluster-context nope", expect![[r#"
        error: failed to get joining cluster config. error: context "nope" does not exist in kubeconfig D/good; its contexts: c, other
        rc=1
    "#]]).await;
}

#[tokio::test]
async fn servers_that_are_not_reached_are_named() {
    let (files, world) = (Files::new(), World::system());
    files.kubeconfig("refused", json!({"server": closed().await}), json!({}));
    for line in ["get clusters", "cordon m1", "api-resources", "explain-placement web"] {
        let printed = files.run(&format!("{line} --kubeconfig D/refused"), None).await;
        expect![[r#"
            The connection to the server 127.0.0.1:PORT was refused - did you specify the right host or port?
            The server is that of context "c" of kubeconfig D/refused. Start the control plane, or choose another with --kubeconfig or --karmada-context.
            rc=1
        "#]].assert_eq(&printed);
    }
    // A name with a label of more than 63 characters has no address, without a query of the resolver.
    let name = "x".repeat(64);
    files.kubeconfig("unresolved", json!({"server": format!("http://{name}:6443")}), json!({}));
    let printed = files.run("cordon m1 --kubeconfig D/unresolved", None).await;
    let begin = format!("Unable to connect to the server {name}:6443: lookup {name}: ");
    assert!(printed.starts_with(&begin) && printed.ends_with("\nrc=1\n"), "{printed}");

    let (trusted, untrusted) = (authority(&world), authority(&world));
    let names = |names: &[&str]| ServerNames {
        common_name: "server".into(),
        dns: names.iter().map(|name| (*name).to_owned()).collect(),
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
    };
    let good = server(&trusted.issue_server(&names(&["a.example", "b.example"]), &world).expect("a certificate")).await;
    files.kubeconfig("other-authority", trusting(&good, untrusted.certificate()), json!({}));
    files.check("cordon m1 --kubeconfig D/other-authority", expect![[r#"
        Unable to connect to the server 127.0.0.1:PORT: tls: failed to verify certificate: x509: certificate signed by unknown authority
        The server is that of context "c" of kubeconfig D/other-authority. The server's certificate is not from the authority that cluster "k" of the kubeconfig trusts: get the kubeconfig of this control plane again, or choose another with --kubeconfig or --karmada-context.
        rc=1
    "#]]).await;
    let mut cluster = trusting(&good, trusted.certificate());
    cluster["tls-server-name"] = json!("c.example");
    files.kubeconfig("other-name", cluster, json!({}));
    files.check("cordon m1 --kubeconfig D/other-name", expect![[r#"
        Unable to connect to the server 127.0.0.1:PORT: tls: failed to verify certificate: x509: certificate is valid for a.example, b.example, 127.0.0.1, not c.example
        The server is that of context "c" of kubeconfig D/other-name. Use one of these names in `server` of cluster "k", or set its `tls-server-name` to one; or add the name to the certificate of the control plane.
        rc=1
    "#]]).await;
    let past = World::simulated("2010-01-01T00:00:00Z".parse().expect("a time"), 1);
    let old = Authority::generate("old", &past).expect("an authority").0;
    let expired = server(&old.issue_server(&names(&[]), &past).expect("a certificate")).await;
    files.kubeconfig("expired", trusting(&expired, old.certificate()), json!({}));
    let printed = files.run("cordon m1 --kubeconfig D/expired", None).await;
    let (before, after) = printed.split_once("current time ").expect("the time is named");
    let after = after.split_once(' ').expect("a time").1;
    expect![[r#"
        Unable to connect to the server 127.0.0.1:PORT: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time NOW is after 2011-01-01T00:00:00Z
        The server is that of context "c" of kubeconfig D/expired. Renew the server's certificate.
        rc=1
    "#]].assert_eq(&format!("{before}current time NOW {after}"));

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    files.kubeconfig("no-tls", json!({"server": format!("https://{address}")}), json!({}));
    files.check("cordon m1 --kubeconfig D/no-tls", expect![[r#"
        Unable to connect to the server 127.0.0.1:PORT: the server does not use TLS
        The server is that of context "c" of kubeconfig D/no-tls. Correct the address: it begins with https, and the server uses another protocol. Or choose another control plane with --kubeconfig or --karmada-context.
        rc=1
    "#]]).await;
}

#[tokio::test]
async fn rejected_credentials_and_wrong_servers_are_named() {
    let files = Files::new();
    let plain = plain(files.0.path()).await;
    let cluster = trusting(plain.url(), &authority_of(plain.kubeconfig()));
    files.kubeconfig("token", cluster.clone(), json!({"token": "unknown"}));
    files.check("get clusters --kubeconfig D/token", expect![[r#"
        error: You must be logged in to the server 127.0.0.1:PORT (Unauthorized)
        The server is that of context "c" of kubeconfig D/token. It does not accept the credentials of user "u": get a new kubeconfig of this control plane, or choose another with --kubeconfig or --karmada-context.
        rc=1
    "#]]).await;
    files.check("cordon m1 --kubeconfig D/token --karmada-context other", expect![[r#"
        error: You must be logged in to the server 127.0.0.1:PORT (Unauthorized)
        The server is that of context "other" of kubeconfig D/token. It does not accept the credentials of user "u": get a new kubeconfig of this control plane, or choose another with --kubeconfig or --karmada-context.
        rc=1
    "#]]).await;
    let past = World::simulated("2010-01-01T00:00:00Z".parse().expect("a time"), 1);
    let pair = Authority::generate("old", &past).and_then(|(old, _)| old.issue_client("tom", &[], &past));
    let user = pki::kubeconfig::User::with_certificate(&pair.expect("a certificate"));
    files.kubeconfig("expired", cluster.clone(), serde_json::to_value(user).expect("JSON"));
    files.check("get clusters --kubeconfig D/expired", expect![[r#"
        error: You must be logged in to the server 127.0.0.1:PORT (Unauthorized)
        The server is that of context "c" of kubeconfig D/expired. The client certificate of user "u" expired at 2011-01-01T00:00:00Z: get a new kubeconfig of this control plane, or choose another with --kubeconfig or --karmada-context.
        rc=1
    "#]]).await;

    let config = plain.kubeconfig().to_string_lossy().into_owned();
    std::fs::copy(&config, files.0.path().join("plain.config")).expect("copied");
    files.check("cordon m1 --kubeconfig D/plain.config", expect![[r#"
        error: the server 127.0.0.1:PORT is not a Karmada control plane: it does not serve cluster.karmada.io
        The server is that of context "plain" of kubeconfig D/plain.config. Choose the kubeconfig of the control plane with --kubeconfig, or its context with --karmada-context.
        rc=1
    "#]]).await;
    let same = files.run("cordon m1 --kubeconfig D/plain.config", None).await;
    for line in ["get clusters", "get clusters -w", "get pods -s members", "explain-placement web"] {
        assert_eq!(files.run(&format!("{line} --kubeconfig D/plain.config"), None).await, same, "{line}");
    }
    files.check("join m1 --kubeconfig D/plain.config --cluster-kubeconfig D/plain.config", expect![[r#"
        error: the server 127.0.0.1:PORT is not a Karmada control plane: it does not serve cluster.karmada.io
        The server is that of context "plain" of kubeconfig D/plain.config. Choose the kubeconfig of the control plane with --kubeconfig, or its context with --karmada-context.
        rc=1
    "#]]).await;
    // The error names the kubeconfig of the rejected credentials.
    files.check("join m1 --kubeconfig D/plain.config --cluster-kubeconfig D/token", expect![[r#"
        error: You must be logged in to the server 127.0.0.1:PORT (Unauthorized)
        The server is that of context "c" of kubeconfig D/token. It does not accept the credentials of user "u": get a new kubeconfig of this cluster, or choose another with --cluster-kubeconfig or --cluster-context.
        rc=1
    "#]]).await;
    // A list works as one kubeconfig, without the files that do not exist.
    let printed = files.run("api-resources -o name --api-group=apps", Some("D/nosuch:D/plain.config")).await;
    assert!(printed.contains("deployments.apps\n"), "{printed}");
    assert!(printed.contains("Warning: kubeconfig D/nosuch of $KUBECONFIG does not exist\nrc=0\n"), "{printed}");
    // Types outside Karmada are like those of any server.
    let printed = files.run("get namespaces -o name --kubeconfig D/plain.config", None).await;
    assert!(printed.starts_with("namespace/default\n"), "{printed}");
    plain.stop().await.expect("stopped");
}
