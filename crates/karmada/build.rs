//! Stamps the program with its commit and date, and detects for the tests whether kubectl, etcd and Python's Kubernetes
//! client are available: tests that need a missing one are ignored. With `KARMADA_REQUIRE_PEERS=1` (CI) they run, and
//! fail, instead.

mod build_stamp;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

fn main() {
    stamp();
    peers();
}

fn stamp() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    #[expect(clippy::disallowed_methods, reason = "the date of the build is of the machine that builds")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let development = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let (stamp, watched) = build_stamp::read(&root, epoch.as_deref(), now, development);
    println!("cargo::rustc-env=KARMADA_BUILD_COMMIT={}", stamp.commit);
    println!("cargo::rustc-env=KARMADA_BUILD_TREE_STATE={}", stamp.tree_state);
    println!("cargo::rustc-env=KARMADA_BUILD_DATE={}", stamp.date);
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo::rerun-if-changed=build_stamp.rs");
    for path in watched {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn peers() {
    println!("cargo::rustc-check-cfg=cfg(no_kubectl)");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=KARMADA_REQUIRE_PEERS");
    println!("cargo::rerun-if-changed=build.rs");
    let required = std::env::var_os("KARMADA_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let found = minor_of_kubectl();
    println!("cargo::rustc-check-cfg=cfg(old_kubectl)");
    // The transcripts need 1.27; Debian 12 packages an older one, which the other tests can do with.
    if found.map_or(!required, |minor| minor < 27) {
        println!("cargo::rustc-cfg=old_kubectl");
    }
    if found.is_none() && !required {
        println!("cargo::rustc-cfg=no_kubectl");
    }
    println!("cargo::rustc-check-cfg=cfg(no_etcd)");
    if !required && !has_etcd() {
        println!("cargo::rustc-cfg=no_etcd");
    }
    println!("cargo::rustc-check-cfg=cfg(no_python_client)");
    println!("cargo::rerun-if-env-changed=KARMADA_PYTHON");
    let python = std::env::var_os("KARMADA_PYTHON").unwrap_or_else(|| "python3".into());
    if !required && !has_client(python.as_ref()) {
        println!("cargo::rustc-cfg=no_python_client");
    }
}

fn has_etcd() -> bool {
    Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn has_client(python: &Path) -> bool {
    let import = Command::new(python)
        .args(["-c", "import grpc, kopf, kubernetes, opentelemetry.proto, prometheus_client"])
        .stderr(Stdio::null())
        .status();
    import.is_ok_and(|status| status.success())
}

fn minor_of_kubectl() -> Option<u32> {
    let output = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let minor = text.split("\"minor\": \"").nth(1)?;
    minor.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
