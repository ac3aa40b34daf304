//! Tells the tests whether kubectl is at hand, so that those that need it count as ignored where it is missing. With
//! `KARMADA_REQUIRE_PEERS=1` (CI) they run, and fail, instead.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(no_kubectl)");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=KARMADA_REQUIRE_PEERS");
    println!("cargo::rerun-if-changed=build.rs");
    let required = std::env::var_os("KARMADA_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join("kubectl").is_file());
    if !found && !required {
        println!("cargo::rustc-cfg=no_kubectl");
    }
}
