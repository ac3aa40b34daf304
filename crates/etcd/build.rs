//! Detects for the tests whether etcd is available: tests that need it are ignored without it. With
//! `KARMADA_REQUIRE_PEERS=1` (CI) they run, and fail, instead.

use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(no_etcd)");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=KARMADA_REQUIRE_PEERS");
    println!("cargo::rerun-if-changed=build.rs");
    let required = std::env::var_os("KARMADA_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let found = || Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !required && !found() {
        println!("cargo::rustc-cfg=no_etcd");
    }
}
