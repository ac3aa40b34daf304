//! The rules of third-party crates: licences, TLS, sources, versions.

use std::collections::{BTreeMap, BTreeSet};

/// Crates that would bring a second implementation of TLS, or one that is not Rust's rustls.
const TLS: &[&str] = &["openssl", "openssl-sys", "native-tls", "boring", "s2n-tls", "mbedtls"];

/// Implementations of cryptography for rustls. Two of them are two sets of bugs, and each takes a minute to build.
const CRYPTOGRAPHY: &[&str] = &["aws-lc-rs", "ring", "graviola"];

/// Licences under which a dependency may be distributed with a program under Apache-2.0.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates with two versions in a build of the program, and why. Each costs its compilation twice.
const DUPLICATES: &[(&str, &str)] = &[
    ("base64", "hyper-util has 0.23; others have 0.22"),
    ("block-buffer", "of digest"),
    ("cpufeatures", "of sha2 and chacha20"),
    ("crypto-common", "of digest"),
    ("digest", "sha1 of tungstenite has 0.11; sha2 has 0.10"),
    ("pem", "jsonwebtoken has 3; rcgen has 4"),
    ("syn", "procedural macros move to 3 one by one"),
    ("untrusted", "aws-lc-rs has 0.7; rustls-webpki has 0.9"),
];

/// Crates that tests use and the program must not be built with: what each would cost, and what stands in its place.
const TESTS_ONLY: &[(&str, &str)] = &[
    ("k8s-openapi", "half a minute of compilation; the build script of apiserver reads its source"),
    ("kube-client", "half a minute of compilation; client::remote is the connector"),
    ("schemars", "code of schemas, a fifth of karmada-api; its schemas are files"),
    ("jsonpath-rust", "a second JSONPath; apimachinery::jsonpath is kubectl's"),
];

/// The only source of crates.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A crate in `Cargo.lock` that is not ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locked {
    pub name: String,
    pub version: String,
    pub source: String,
}

/// The third-party crates of a lock file.
#[must_use]
pub fn locked(lock: &str) -> Vec<Locked> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|text| text.trim_matches('"').to_owned())
    };
    let package = |block: &str| {
        let (name, version, source) = (value(block, "name")?, value(block, "version")?, value(block, "source")?);
        Some(Locked { name, version, source })
    };
    lock.split("[[package]]").filter_map(package).collect()
}

/// Crates from elsewhere than the registry.
#[must_use]
pub fn sources(locked: &[Locked]) -> Vec<String> {
    let other_sources = locked.iter().filter(|it| it.source != REGISTRY);
    other_sources
        .map(|it| format!("{} {}: from {}, which is not the registry", it.name, it.version, it.source))
        .collect()
}

/// Crates with several versions, over lines of `name version ...`, and rows of the exceptions that are no longer
/// needed.
#[must_use]
pub fn duplicates(built: &str) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in built.lines().filter(|line| !line.contains("(/")) {
        let mut words = line.split([' ', '|']);
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    let excepted = |name: &str| DUPLICATES.iter().any(|(known, _)| *known == name);
    let new = versions.iter().filter(|(name, _)| !excepted(name));
    let mut findings: Vec<String> =
        new.map(|(name, versions)| format!("{name}: several versions {versions:?}")).collect();
    let gone = DUPLICATES.iter().filter(|(name, _)| !versions.contains_key(name));
    findings.extend(gone.map(|(name, _)| format!("{name}: has one version; remove its row from DUPLICATES")));
    findings
}

/// The rules of third-party crates, over lines of `name version (path)|licence`.
#[must_use]
pub fn dependencies(built: &str) -> Vec<String> {
    let lines: BTreeSet<&str> = built.lines().filter(|line| !line.contains("(/") && !line.contains("(*)")).collect();
    let mut findings = Vec::new();
    let mut providers = BTreeSet::new();
    for (package, licence) in lines.iter().filter_map(|line| line.split_once('|')) {
        let name = package.split(' ').next().unwrap_or(package);
        if TLS.contains(&name) {
            findings.push(format!("{name}: another implementation of TLS"));
        }
        if let Some((_, why)) = TESTS_ONLY.iter().find(|(known, _)| *known == name) {
            findings.push(format!("{name}: is for tests only: {why}"));
        }
        if CRYPTOGRAPHY.contains(&name) {
            providers.insert(name);
        }
        if !permitted(licence) {
            findings.push(format!("{name}: licence \"{licence}\" is not permitted"));
        }
    }
    if providers.len() > 1 {
        findings.push(format!("more than one provider of cryptography: {providers:?}"));
    }
    findings
}

/// Whether a licence expression of SPDX can be met with permitted licences alone.
#[must_use]
pub fn permitted(expression: &str) -> bool {
    // Old packages separate alternatives by a slash.
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    let group = |text: &str| text.split(" OR ").any(|it| LICENCES.contains(&it.trim()));
    expression.split(" AND ").all(group)
}
