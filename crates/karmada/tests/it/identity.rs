//! Users of an issuer, authorization by a configuration, and encrypted Secrets, with the binary and kubectl.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pki::{Claims, Signer, Verifier};
use serde_json::json;
use world::World;

use crate::process::{Karmada, eventually};

/// The issuer of `tests/clients/issuer.py`.
struct Issuer {
    python: Child,
    url: String,
    authority: String,
    signer: Signer,
}

impl Issuer {
    fn start(directory: &Path) -> Self {
        let world = World::system();
        let (authority, _) = pki::Authority::generate("issuer", &world).expect("an authority");
        let names = pki::ServerNames::api_server("127.0.0.1", &[]);
        let pair = authority.issue_server(&names, &world).expect("a certificate");
        std::fs::write(directory.join("tls.pem"), format!("{}{}", pair.certificate, pair.key)).expect("written");
        let interpreter = std::env::var_os("KARMADA_PYTHON").unwrap_or_else(|| "python3".into());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/issuer.py");
        let mut command = Command::new(interpreter);
        let mut python = command.arg(script).arg(directory).stdout(Stdio::piped()).spawn().expect("Python is at hand");
        let stdout = python.stdout.take().expect("a piped stdout");
        let url = BufReader::new(stdout).lines().next().expect("a line").expect("text");
        let signer = Signer::from_pem(&pki::token::generate_key().expect("a key")).expect("a key");
        let keys = Verifier::from_pems([signer.public_pem()]).expect("keys").key_set().expect("a key set");
        let well_known = directory.join(".well-known");
        std::fs::create_dir(&well_known).expect("a directory");
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        std::fs::write(well_known.join("openid-configuration"), discovery.to_string()).expect("written");
        std::fs::write(directory.join("keys"), serde_json::to_string(&keys).expect("JSON")).expect("written");
        Self { python, url, authority: authority.certificate().to_owned(), signer }
    }

    fn token(&self, change: impl FnOnce(&mut Claims)) -> String {
        let mut claims = Claims {
            aud: vec!["karmada".into()],
            exp: Some(World::system().now().as_second() + 600),
            iss: self.url.clone(),
            sub: "ann".into(),
            ..Claims::default()
        };
        change(&mut claims);
        self.signer.sign(&claims).expect("signed")
    }

    fn configuration(&self, prefix: &str) -> String {
        let authority: String = self.authority.lines().map(|line| format!("      {line}\n")).collect();
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    \
             audiences: [karmada]\n    certificateAuthority: |\n{authority}  claimMappings:\n    username: {{claim: sub, \
             prefix: '{prefix}'}}\n",
            self.url
        )
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

/// The user of a token, with a kubeconfig that has no other credentials.
fn user(server: &Karmada, token: &str) -> Result<String, String> {
    let file = format!("{}.token", server.kubeconfig());
    std::fs::copy(server.kubeconfig(), &file).expect("a kubeconfig");
    server.ok(&["--kubeconfig", &file, "config", "set-credentials", "holder", "--token", token]);
    server.ok(&["--kubeconfig", &file, "config", "set-context", "--current", "--user=holder"]);
    let template = "jsonpath={.status.userInfo.username}";
    let output = server.kubectl(&["--kubeconfig", &file, "auth", "whoami", "-o", template]);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
#[cfg_attr(no_python_client, ignore = "KARMADA_PYTHON, or python3, has no package `kubernetes`")]
fn users_of_an_issuer_log_in_and_the_configuration_is_reloaded() {
    let (dir, of_issuer) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let issuer = Issuer::start(of_issuer.path());
    let file = of_issuer.path().join("authentication.yaml");
    std::fs::write(&file, issuer.configuration("oidc:")).expect("written");
    let server = Karmada::up_with(dir.path(), &["--authentication-config", file.to_str().expect("UTF-8")]);
    let token = issuer.token(|_| ());
    eventually("the keys are fetched", || user(&server, &token));
    assert_eq!(user(&server, &token).as_deref(), Ok("oidc:ann"));
    let expired = issuer.token(|claims| claims.exp = Some(1));
    let elsewhere = issuer.token(|claims| claims.aud = vec!["other".into()]);
    for token in [&expired, &elsewhere] {
        let refusal = user(&server, token).expect_err("refused");
        assert!(refusal.contains("You must be logged in to the server"), "{refusal}");
    }
    // A file that cannot be used is refused, and the issuers stay.
    let reloads = |status: &str| {
        let text = server.ok(&["get", "--raw", "/metrics"]);
        let desired =
            format!("apiserver_authentication_config_controller_automatic_reloads_total{{status=\"{status}\"}} 1");
        if text.contains(&desired) { Ok(()) } else { Err(desired) }
    };
    std::fs::write(&file, "kind: nothing").expect("written");
    eventually("the file is refused", || reloads("failure"));
    assert_eq!(user(&server, &token).as_deref(), Ok("oidc:ann"));
    std::fs::write(&file, issuer.configuration("new:")).expect("written");
    eventually("the file is used", || reloads("success"));
    eventually("the keys are fetched", || user(&server, &token));
    assert_eq!(user(&server, &token).as_deref(), Ok("new:ann"));
    assert!(server.terminate());
}

fn encryption(directory: &Path, providers: &str) -> String {
    let file = directory.join("encryption.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
         providers: [{providers}]\n"
    );
    std::fs::write(&file, text).expect("written");
    file.to_str().expect("UTF-8").to_owned()
}

/// Whether any file of the store has these bytes.
fn is_on_disk(data: &Path, searched: &[u8]) -> bool {
    let files = std::fs::read_dir(data.join("store")).expect("a store");
    let contents = files.filter_map(|file| std::fs::read(file.ok()?.path()).ok());
    contents.into_iter().any(|content| content.windows(searched.len()).any(|part| part == searched))
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn secrets_are_encrypted_on_disk_and_rotated_as_upstream_documents_it() {
    const KEY: &str = "{name: k1, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}";
    let (dir, files) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let data = dir.path().join("data");
    let file = encryption(files.path(), &format!("{{aesgcm: {{keys: [{KEY}]}}}}, {{identity: {{}}}}"));
    let flags = ["--encryption-provider-config", &file, "--encryption-provider-config-automatic-reload=true"];
    let server = Karmada::up_with(&data, &flags);
    // In base64: needle-in-the-store
    let needle = "bmVlZGxlLWluLXRoZS1zdG9yZQ==";
    server.ok(&["create", "secret", "generic", "a", "--from-literal=password=needle-in-the-store"]);
    let password = |server: &Karmada| server.ok(&["get", "secret", "a", "-o", "jsonpath={.data.password}"]);
    assert_eq!(password(&server), needle);
    assert!(!is_on_disk(&data, needle.as_bytes()) && is_on_disk(&data, b"k8s:enc:aesgcm:v1:k1:"));
    assert!(server.terminate());
    assert!(!is_on_disk(&data, needle.as_bytes()));

    // Another provider becomes the first; the file is reloaded, and the stored values are rewritten.
    let server = Karmada::up_with(&data, &flags);
    assert_eq!(password(&server), needle);
    let rotated = format!("{{secretbox: {{keys: [{KEY}]}}}}, {{aesgcm: {{keys: [{KEY}]}}}}, {{identity: {{}}}}");
    encryption(files.path(), &rotated);
    eventually("the file is read", || {
        let text = server.ok(&["get", "--raw", "/metrics"]);
        let desired = "apiserver_encryption_config_controller_automatic_reloads_total{status=\"success\"} 1";
        if text.contains(desired) { Ok(()) } else { Err(desired.to_owned()) }
    });
    let all = server.ok(&["get", "secrets", "-A", "-o", "json"]);
    let secrets = files.path().join("secrets.json");
    std::fs::write(&secrets, all).expect("written");
    server.ok(&["replace", "-f", secrets.to_str().expect("UTF-8")]);
    assert!(server.terminate());

    // Without the previous key everything is readable; without any it is unknown, not absent.
    let last = encryption(files.path(), &format!("{{secretbox: {{keys: [{KEY}]}}}}"));
    let server = Karmada::up_with(&data, &["--encryption-provider-config", &last]);
    assert_eq!(password(&server), needle);
    assert!(server.terminate());
    let server = Karmada::apiserver(&data);
    let refusal = server.refused(&["get", "secret", "a"]);
    assert!(refusal.contains("secrets \"a\" in namespace \"default\" cannot be read"), "{refusal}");
    assert!(server.terminate());
}

#[test]
fn a_misspelled_resource_is_reported_before_the_server_is_ready() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = encryption(directory.path(), "{identity: {}}");
    let text =
        std::fs::read_to_string(&file).expect("a file").replace("[secrets]", "[secrets, secret, widgets.example.com]");
    std::fs::write(&file, text).expect("written");
    let mut server = Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(["up", "--secure-port", "0", "--encryption-provider-config", &file, "--data-dir"])
        .arg(directory.path().join("data"))
        .env_remove("KARMADA_LOG")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = BufReader::new(server.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let log: Vec<String> = lines.take_while(|line| !line.contains("Control plane is ready")).collect();
    server.kill().expect("it runs");
    server.wait().expect("the process is ours");
    let reported: Vec<&String> = log.iter().filter(|line| line.contains("No such resource exists")).collect();
    assert!(matches!(reported.as_slice(), [only] if only.contains("resource=\"secret\"")), "{log:#?}");
}

#[test]
fn flags_are_checked_before_anything_is_created() {
    let directory = tempfile::tempdir().expect("a directory");
    let pod = directory.path().join("pod.yaml");
    std::fs::write(&pod, "apiVersion: v1\nkind: Pod\n").expect("written");
    let pod = pod.to_str().expect("UTF-8");
    for (flags, expected) in [
        (&["--authentication-config", pod][..], "not an apiserver.config.k8s.io/v1 AuthenticationConfiguration"),
        (&["--authentication-config", pod, "--oidc-issuer-url=https://i", "--oidc-client-id=a"], "exclude each other"),
        (&["--oidc-issuer-url=http://i", "--oidc-client-id=a"], "URL scheme must be https"),
        (&["--oidc-issuer-url=https://i"], "--oidc-issuer-url and --oidc-client-id must be set together"),
        (&["--authorization-config", pod], "not an apiserver.config.k8s.io/v1 AuthorizationConfiguration"),
        (&["--authorization-config", pod, "--authorization-mode=RBAC"], "excludes --authorization-mode"),
        (&["--authorization-mode=Webhook"], "must be set together"),
        (&["--authorization-mode=Node"], "allows no user anything here: add RBAC"),
        (&["--authorization-mode=ABAC"], "ABAC policies cannot be changed through the API"),
        (&["--encryption-provider-config", pod], "not an apiserver.config.k8s.io/v1 EncryptionConfiguration"),
        (&["--encryption-provider-config=/nonexistent"], "--encryption-provider-config: cannot read /nonexistent"),
    ] {
        let data = directory.path().join("data");
        let output = Command::new(env!("CARGO_BIN_EXE_karmada"))
            .arg("apiserver")
            .args(flags)
            .arg("--data-dir")
            .arg(&data)
            .output()
            .expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(expected), "{flags:?}: {text}");
        assert!(!data.exists(), "{flags:?}");
    }
}

/// The user of a client certificate.
fn holder(server: &Karmada, directory: &Path) -> Result<String, String> {
    let file = format!("{}.certificate", server.kubeconfig());
    std::fs::copy(server.kubeconfig(), &file).expect("a kubeconfig");
    let path = |name: &str| format!("{}", directory.join(name).display());
    let (certificate, key) = (path("client.crt"), path("client.key"));
    let flags = ["--client-certificate", &certificate, "--client-key", &key];
    server.ok(&[&["--kubeconfig", &file, "config", "set-credentials", "holder"][..], &flags].concat());
    server.ok(&["--kubeconfig", &file, "config", "set-context", "--current", "--user=holder"]);
    let template = "jsonpath={.status.userInfo.username}";
    let output = server.kubectl(&["--kubeconfig", &file, "auth", "whoami", "-o", template]);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn certificates_of_further_authorities_are_accepted_and_the_bundle_is_reloaded() {
    let (dir, files) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let world = World::system();
    let authority = || pki::Authority::generate("corporate", &world).expect("an authority").0;
    let (present, next) = (authority(), authority());
    let issue = |authority: &pki::Authority| {
        let pair = authority.issue_client("ann", &["developers".to_owned()], &world).expect("a certificate");
        std::fs::write(files.path().join("client.crt"), pair.certificate).expect("written");
        std::fs::write(files.path().join("client.key"), pair.key).expect("written");
    };
    let bundle = files.path().join("ca.pem");
    std::fs::write(&bundle, present.certificate()).expect("written");
    let flags = ["--client-ca-file", bundle.to_str().expect("UTF-8"), "--tls-min-version=VersionTLS13"];
    let server = Karmada::up_with(dir.path(), &flags);
    issue(&present);
    assert_eq!(holder(&server, files.path()).as_deref(), Ok("ann"));
    issue(&next);
    assert!(holder(&server, files.path()).is_err(), "its authority is not accepted yet");
    std::fs::write(&bundle, format!("{}{}", present.certificate(), next.certificate())).expect("written");
    eventually("the bundle is read again", || holder(&server, files.path()));
    // A bundle that cannot be used leaves the last one in effect, and the administrator is accepted as before.
    std::fs::write(&bundle, "no certificate").expect("written");
    assert_eq!(holder(&server, files.path()).as_deref(), Ok("ann"));
    let name = "jsonpath={.status.userInfo.username}";
    assert_eq!(server.ok(&["auth", "whoami", "-o", name]), "kubernetes-admin");
    let published = ["get", "configmap", "-n", "kube-system", "extension-apiserver-authentication", "-o", "yaml"];
    assert!(server.ok(&published).matches("BEGIN CERTIFICATE").count() >= 3);
    assert!(server.terminate());
}
