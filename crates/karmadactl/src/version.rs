//! `version`: what this program is, in the form scripts parse.

/// What was built, as upstream's fields. Go's stay, because e2e suites and scripts look for them; `go_version` says what
/// built us instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    pub version: String,
    pub commit: &'static str,
    pub short_commit: &'static str,
    pub tree_state: &'static str,
    pub date: &'static str,
    pub go_version: String,
    pub compiler: &'static str,
    pub platform: String,
}

impl Default for Build {
    /// This program.
    fn default() -> Self {
        Self {
            version: format!("v{}", env!("CARGO_PKG_VERSION")),
            commit: option_env!("KARMADA_GIT_COMMIT").unwrap_or("unknown"),
            short_commit: option_env!("KARMADA_GIT_SHORT_COMMIT").unwrap_or("unknown"),
            tree_state: "clean",
            date: option_env!("KARMADA_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
            go_version: format!("rust{}", env!("CARGO_PKG_RUST_VERSION")),
            compiler: "rustc",
            platform: format!("{}/{}", std::env::consts::OS, platform_arch()),
        }
    }
}

impl Build {
    /// In the order of the declaration.
    pub fn fields(&self) -> [&str; 8] {
        [
            &self.version,
            self.commit,
            self.short_commit,
            self.tree_state,
            self.date,
            &self.go_version,
            self.compiler,
            &self.platform,
        ]
    }
}

/// The line upstream prints; `program` is `karmadactl` or `kubectl karmada`.
pub fn line(program: &str) -> String {
    let build = Build::default();
    let [version, commit, short, tree, date, go, compiler, platform] = build.fields();
    format!(
        "{program} version: version.Info{{GitVersion:\"{version}\", GitCommit:\"{commit}\", GitShortCommit:\"{short}\", \
         GitTreeState:\"{tree}\", BuildDate:\"{date}\", GoVersion:\"{go}\", Compiler:\"{compiler}\", \
         Platform:\"{platform}\"}}\n"
    )
}

/// Go's names of processor architectures.
fn platform_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_that_scripts_look_for_are_there() {
        let line = super::line("kubectl karmada");
        for needle in ["kubectl karmada version: version.Info{", "GitVersion:\"v", "GoVersion:", "Platform:\"linux/"] {
            assert!(line.contains(needle), "{line}");
        }
    }
}
