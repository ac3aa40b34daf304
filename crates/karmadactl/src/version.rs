//! `version`: the version of this program, in a form that scripts can parse.

use std::sync::OnceLock;

use serde::Serialize;

use crate::error::Error;

/// The commit a program was built from and the date of the build; `unknown` where the build has no such information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub commit: &'static str,
    /// `clean` or `dirty`: whether the sources differed from the commit.
    pub tree_state: &'static str,
    pub date: &'static str,
}

static STAMP: OnceLock<Stamp> = OnceLock::new();

/// Sets the stamp of this program, as a linker would; the first call counts. It is set at run time because a constant
/// of this crate would have it compiled again with every commit, and every crate above it.
pub fn stamp(stamp: Stamp) {
    let _ = STAMP.set(stamp);
}

/// The build, in upstream's fields. Go's stay, because e2e suites and scripts read them; `go_version` has the compiler
/// of this program instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    #[serde(rename = "gitVersion")]
    pub version: String,
    #[serde(rename = "gitCommit")]
    pub commit: &'static str,
    #[serde(rename = "gitShortCommit")]
    pub short_commit: &'static str,
    #[serde(rename = "gitTreeState")]
    pub tree_state: &'static str,
    #[serde(rename = "buildDate")]
    pub date: &'static str,
    pub go_version: String,
    pub compiler: &'static str,
    pub platform: String,
}

/// As many digits as upstream's short commits have.
const SHORT: usize = 9;

impl Build {
    /// This program.
    pub fn this() -> Self {
        let unknown = Stamp { commit: "unknown", tree_state: "unknown", date: "unknown" };
        Self::of(STAMP.get().copied().unwrap_or(unknown))
    }

    pub fn of(stamp: Stamp) -> Self {
        Self {
            version: format!("v{}", env!("CARGO_PKG_VERSION")),
            commit: stamp.commit,
            short_commit: stamp.commit.get(..SHORT).unwrap_or(stamp.commit),
            tree_state: stamp.tree_state,
            date: stamp.date,
            go_version: format!("rust{}", env!("CARGO_PKG_RUST_VERSION")),
            compiler: "rustc",
            platform: format!("{}/{}", std::env::consts::OS, platform_arch()),
        }
    }

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

/// The output of `version`: the line, or with `-o` the fields as a document.
///
/// # Errors
/// A format that is neither json nor yaml.
pub fn text(program: &str, output: Option<&str>) -> Result<String, Error> {
    let encode = |error: serde_json::Error| Error::message(format!("encoding the version: {error}"));
    match output {
        None => Ok(line(program)),
        Some("json") => Ok(format!("{}\n", serde_json::to_string_pretty(&Build::this()).map_err(encode)?)),
        Some("yaml") => Ok(apimachinery::yaml::to_string(&serde_json::to_value(Build::this()).map_err(encode)?)),
        Some(_) => Err(Error::message("--output must be 'yaml' or 'json'")),
    }
}

/// The line upstream prints; `program` is `karmadactl` or `kubectl karmada`.
pub fn line(program: &str) -> String {
    let build = Build::this();
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

    #[test]
    fn documents_have_the_same_fields() {
        let json = super::text("karmadactl", Some("json")).expect("a format");
        assert!(json.starts_with("{\n  \"gitVersion\": \"v"), "{json}");
        let yaml = super::text("karmadactl", Some("yaml")).expect("a format");
        for field in [
            "gitVersion",
            "gitCommit",
            "gitShortCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        ] {
            assert!(json.contains(&format!("\"{field}\": \"")) && yaml.contains(&format!("{field}: ")), "{json}{yaml}");
        }
        let error = super::text("karmadactl", Some("wide")).expect_err("no such format");
        assert_eq!(error.to_string(), "--output must be 'yaml' or 'json'");
    }

    #[test]
    fn a_commit_is_shortened_and_an_unknown_one_is_not() {
        let stamp = |commit| super::Stamp { commit, tree_state: "clean", date: "2026-11-22T00:00:00Z" };
        assert_eq!(super::Build::of(stamp("0123456789abcdef")).short_commit, "012345678");
        assert_eq!(super::Build::of(stamp("unknown")).short_commit, "unknown");
    }
}
