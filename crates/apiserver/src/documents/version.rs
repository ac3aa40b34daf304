//! `/version`: the emulated Kubernetes version. Clients parse `gitVersion` as a semantic version and compare minors.

use serde::Serialize;

/// The document at `/version`, with upstream's fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// The major version of Kubernetes' API.
    pub major: String,
    /// The minor version of Kubernetes' API.
    pub minor: String,
    /// The major version of the emulated API.
    pub emulation_major: String,
    /// The minor version of the emulated API.
    pub emulation_minor: String,
    /// The oldest compatible major version.
    pub min_compatibility_major: String,
    /// The oldest compatible minor version.
    pub min_compatibility_minor: String,
    /// The semantic version.
    pub git_version: String,
    /// The commit of the build.
    pub git_commit: String,
    /// `clean` or `dirty`.
    pub git_tree_state: String,
    /// The date of the build.
    pub build_date: String,
    /// Named after the field upstream has; it holds our language.
    pub go_version: String,
    /// The compiler.
    pub compiler: String,
    /// The operating system and architecture.
    pub platform: String,
}

impl Default for VersionInfo {
    /// The level of Kubernetes whose API this server implements.
    fn default() -> Self {
        Self::new("1", "36", 0, "karmada-rs")
    }
}

impl VersionInfo {
    /// `vMAJOR.MINOR.PATCH+PRODUCT`.
    pub fn new(major: &str, minor: &str, patch: u32, product: &str) -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            major: major.into(),
            minor: minor.into(),
            emulation_major: major.into(),
            emulation_minor: minor.into(),
            min_compatibility_major: major.into(),
            min_compatibility_minor: minor
                .parse::<u32>()
                .map_or_else(|_| minor.into(), |n| n.saturating_sub(1).to_string()),
            git_version: format!("v{major}.{minor}.{patch}+{product}"),
            git_commit: String::new(),
            git_tree_state: "clean".into(),
            build_date: "1970-01-01T00:00:00Z".into(),
            go_version: "rust".into(),
            compiler: "rustc".into(),
            platform: format!("{}/{architecture}", std::env::consts::OS),
        }
    }
}
