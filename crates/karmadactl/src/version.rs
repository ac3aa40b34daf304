//! `version`: what this program is, in the form scripts parse.

/// The line upstream prints; `program` is `karmadactl` or `kubectl karmada`. Upstream's Go fields stay, because e2e
/// suites and scripts look for them; `GoVersion` says what built us instead.
pub fn line(program: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (commit, short, date) = (
        option_env!("KARMADA_GIT_COMMIT").unwrap_or("unknown"),
        option_env!("KARMADA_GIT_SHORT_COMMIT").unwrap_or("unknown"),
        option_env!("KARMADA_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
    );
    format!(
        "{program} version: version.Info{{GitVersion:\"v{version}\", GitCommit:\"{commit}\", \
         GitShortCommit:\"{short}\", GitTreeState:\"clean\", BuildDate:\"{date}\", GoVersion:\"rust{}\", \
         Compiler:\"rustc\", Platform:\"{}/{}\"}}\n",
        env!("CARGO_PKG_RUST_VERSION"),
        std::env::consts::OS,
        platform_arch(),
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
