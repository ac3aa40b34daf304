//! What a server receives from a client with each kind of credentials.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{Client, Error};

/// A server that records the head of each request, and rejects those with a text in it.
struct Server {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
    rejected: Arc<Mutex<String>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let acceptor = acceptor(&[]);
        let address = format!("https://{}/base/", listener.local_addr().expect("an address"));
        let server = Self { address, heads: Arc::default(), rejected: Arc::new(Mutex::new("nothing".into())) };
        let (heads, rejected) = (server.heads.clone(), server.rejected.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = acceptor.accept(stream).await.expect("a handshake");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.expect("a head"));
                }
                let head = String::from_utf8(head).expect("text");
                let is_rejected = head.contains(&*rejected.lock());
                heads.lock().push(head);
                let status = if is_rejected { "401 Unauthorized" } else { "200 OK" };
                let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
                stream.write_all(reply.as_bytes()).await.expect("written");
                let _ = stream.shutdown().await;
            }
        });
        server
    }

    /// A kubeconfig for the server, with this user, in YAML.
    fn kubeconfig(&self, user: &str) -> String {
        let cluster = format!(
            "{{server: '{}', insecure-skip-tls-verify: true, extensions: [{{name: {}, extension: {{a: 1}}}}]}}",
            self.address,
            crate::config::EXTENSION
        );
        format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
        )
    }

    async fn client(&self, user: &str) -> crate::Result<Client> {
        Client::from_kubeconfig_text(&self.kubeconfig(user), None).await
    }

    /// The lines of the head of the next request that begin with this, in lower case.
    async fn receives(&self, client: &Client, name: &str) -> Vec<String> {
        let _ = client.request(http::Method::GET, "/version", None).await;
        let head = self.heads.lock().pop().expect("a request");
        assert!(head.starts_with("GET /base/version HTTP/1.1\r\n"), "{head}");
        head.lines().filter(|line| line.to_ascii_lowercase().starts_with(name)).map(str::to_owned).collect()
    }
}

/// With a certificate of its own, for these protocols.
pub(super) fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new([]).and_then(|params| params.self_signed(&key));
    let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.expect("a certificate").der().clone()], key);
    let mut config = config.expect("a pair");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A program that prints the file `answer` of its folder, and appends what it received to `calls`.
struct Program(TempDir);

impl Program {
    fn new(status: &str) -> Self {
        let program = Self(tempfile::tempdir().expect("a folder"));
        let script = "#!/bin/sh\necho \"$1 $VARIABLE $KUBERNETES_EXEC_INFO\" >> calls\nexec cat answer\n";
        let path = program.0.path().join("plugin");
        std::fs::write(&path, script).expect("written");
        program.answers(status);
        program
    }

    fn answers(&self, status: &str) {
        let answer = format!("apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus: {status}\n");
        std::fs::write(self.0.path().join("answer"), answer).expect("written");
    }

    fn user(&self, more: &str) -> String {
        let folder = self.0.path().display();
        // The shell reads the script: executing a file just written fails while another thread forks.
        format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /bin/sh, \
             args: ['-c', 'cd {folder} && . ./plugin', name, given], env: [{{name: VARIABLE, value: v}}]{more}}}}}"
        )
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn config_error(result: crate::Result<Client>) -> String {
    match result {
        Err(Error::Config(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn users_of_a_kubeconfig_are_authenticated() {
    let server = Server::start().await;
    for (user, expected) in [
        ("{}", &[][..]),
        ("{token: abc}", &["authorization: Bearer abc"]),
        // Base64 of `ann:p:w`.
        ("{username: ann, password: 'p:w'}", &["authorization: Basic YW5uOnA6dw=="]),
        ("{username: ann}", &["authorization: Basic YW5uOg=="]),
        ("{password: pw}", &[]),
        ("{token: abc, auth-provider: {name: oidc, config: {id-token: xyz}}}", &["authorization: Bearer abc"]),
        ("{token: abc, client-key: /nonexistent}", &["authorization: Bearer abc"]),
        ("{auth-provider: {name: oidc, config: {id-token: xyz}}}", &["authorization: Bearer xyz"]),
        ("{tokenFile: /nonexistent/token, token: abc}", &["authorization: Bearer abc"]),
    ] {
        let client = server.client(user).await.expect("a client");
        assert_eq!(server.receives(&client, "authorization:").await, expected, "{user}");
    }
    let user = "{token: abc, as: ann, as-uid: '7', as-groups: [dev, ops], as-user-extra: {Example.com/Team: [a, b], 'x%': [c]}}";
    let client = server.client(user).await.expect("a client");
    let received = server.receives(&client, "impersonate-").await;
    assert_eq!(
        received,
        [
            "impersonate-user: ann",
            "impersonate-uid: 7",
            "impersonate-group: dev",
            "impersonate-group: ops",
            "impersonate-extra-example.com%2fteam: a",
            "impersonate-extra-example.com%2fteam: b",
            "impersonate-extra-x%25: c",
        ]
    );
}

#[tokio::test]
async fn unusable_users_are_named() {
    let server = Server::start().await;
    for (user, expected) in [
        ("{token: \"a\\nb\"}", "the token contains characters"),
        ("{tokenFile: /nonexistent/token}", "token file /nonexistent/token: No such file"),
        ("{tokenFile: /dev/null}", "token file /dev/null: it is empty"),
        ("{auth-provider: {name: gcp}}", "use the \"gke-gcloud-auth-plugin\""),
        ("{auth-provider: {name: ldap}}", "no Auth Provider found for name \"ldap\""),
        ("{auth-provider: {name: oidc}}", "has no id-token"),
        ("{client-certificate-data: AAAA}", "client-key-data or client-key must be specified for u"),
        ("{client-certificate-data: '%', client-key-data: AAAA}", "client-certificate-data is not base64"),
        ("{client-certificate: /nonexistent/crt}", "unable to read client-cert /nonexistent/crt for u: No such file"),
        ("{client-certificate-data: AAAA, client-key-data: AAAA}", "client certificate: holds no certificate"),
        ("{as: \"a\\nb\"}", "impersonation, impersonate-user"),
    ] {
        let error = config_error(server.client(user).await);
        let searched = expected.to_lowercase();
        assert!(error.to_lowercase().contains(&searched), "{user}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn token_files_are_read_again() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("token");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write("first\n");
    let user = format!("{{tokenFile: {}, token: fallback}}", file.display());
    let client = server.client(&user).await.expect("a client");
    let received = async || server.receives(&client, "authorization:").await.concat();
    assert_eq!(received().await, "authorization: Bearer first");
    write("second");
    assert_eq!(received().await, "authorization: Bearer first", "not before its time");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(received().await, "authorization: Bearer second");
    std::fs::remove_file(&file).expect("removed");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(received().await, "authorization: Bearer second", "the last token");
}

#[tokio::test]
async fn exec_plugins_run_when_credentials_are_needed() {
    let (server, program) = (Server::start().await, Program::new("{token: first}"));
    let client = server.client(&program.user(", provideClusterInfo: true")).await.expect("a client");
    assert!(program.calls().is_empty(), "not before the first request");
    let received = async || server.receives(&client, "authorization:").await.concat();
    assert_eq!(received().await, "authorization: Bearer first");
    assert_eq!(received().await, "authorization: Bearer first");
    let calls = program.calls();
    let (arguments, info) = calls[0].split_once(" {").expect("an object");
    assert_eq!((calls.len(), arguments), (1, "given v"));
    let info: serde_json::Value = serde_json::from_str(&format!("{{{info}")).expect("JSON");
    let cluster = serde_json::json!({"server": server.address, "insecure-skip-tls-verify": true, "config": {"a": 1}});
    assert_eq!(info["apiVersion"], "client.authentication.k8s.io/v1");
    assert_eq!(info["spec"], serde_json::json!({"interactive": false, "cluster": cluster}));
    // A token that expires is replaced before the next request, one that is rejected after it.
    program.answers("{token: second, expirationTimestamp: '2000-01-01T00:00:00Z'}");
    *server.rejected.lock() = "Bearer first".into();
    assert_eq!(received().await, "authorization: Bearer first");
    assert_eq!(received().await, "authorization: Bearer second");
    program.answers("{token: third, expirationTimestamp: '9999-01-01T00:00:00Z'}");
    assert_eq!(received().await, "authorization: Bearer third");
    assert_eq!(received().await, "authorization: Bearer third");
    assert_eq!(program.calls().len(), 3);
}

#[tokio::test]
async fn concurrent_requests_share_one_run_of_a_plugin() {
    let (server, program) = (Server::start().await, Program::new("{token: shared}"));
    let client = server.client(&program.user("")).await.expect("a client");
    let requests = (0..8).map(|_| client.request(http::Method::GET, "/version", None));
    for response in futures::future::join_all(requests).await {
        response.expect("a response");
    }
    assert_eq!(program.calls().len(), 1);
    assert!(server.heads.lock().iter().all(|head| head.contains("Bearer shared")));
}

#[tokio::test]
async fn failures_of_exec_plugins_fail_the_request() {
    let server = Server::start().await;
    let exec = |fields: &str| {
        format!("{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, {fields}}}}}")
    };
    let prints = |text: &str| exec(&format!("command: /bin/echo, args: ['{text}']"));
    let credential =
        |status: &str| prints(&format!("{{apiVersion: client.authentication.k8s.io/v1, status: {status}}}"));
    for (user, expected) in [
        (
            "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, interactiveMode: Never, command: x}}"
                .to_owned(),
            "invalid apiVersion",
        ),
        (exec("command: /nonexistent/plugin, installHint: Install it."), "Install it."),
        (exec("command: /nonexistent/plugin"), "executable /nonexistent/plugin not found"),
        (exec("command: /"), "exec: executable /: Permission denied"),
        (exec("command: /bin/sh, args: ['-c', 'exit 3']"), "failed with exit code 3"),
        (prints("nonsense"), "decoding stdout: invalid type: string, expected struct Credential"),
        (prints("{}"), "is configured to use API version client.authentication.k8s.io/v1, plugin returned version "),
        (prints("{apiVersion: client.authentication.k8s.io/v1, kind: X}"), "no kind \"X\" is registered for version"),
        (prints("{apiVersion: client.authentication.k8s.io/v1}"), "didn't return a status field"),
        (credential("{}"), "didn't return a token or cert/key pair"),
        (credential("{clientKeyData: x}"), "only certificate or key"),
        (credential("{token: x, expirationTimestamp: soon}"), "expirationTimestamp"),
        (credential("{clientKeyData: x, clientCertificateData: z}"), "client certificate: holds no certificate"),
    ] {
        let client = server.client(&user).await.expect("a client");
        let error = client.request(http::Method::GET, "/version", None).await.expect_err("no credentials").to_string();
        assert!(error.contains(expected) && !error.contains("token: x"), "{user}: {error}");
        assert!(server.heads.lock().is_empty(), "{user}: a request without credentials was sent");
    }
}

/// A program that never ends is killed with the request that waits for it.
#[tokio::test]
async fn an_exec_plugin_ends_with_its_request() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().expect("a folder"));
    let pid = folder.path().join("pid");
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: /bin/sh, \
         args: ['-c', 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000']}}}}",
        pid.display()
    );
    let client = server.client(&user).await.expect("a client");
    let request = tokio::spawn(async move { client.request(http::Method::GET, "/version", None).await });
    while !pid.exists() {
        tokio::task::yield_now().await;
    }
    let process = std::fs::read_to_string(&pid).expect("a process");
    request.abort();
    while Path::new("/proc").join(process.trim()).exists() {
        tokio::task::yield_now().await;
    }
}
