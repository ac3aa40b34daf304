//! The version that the program prints, and its source in the build.

#[path = "../../build_stamp.rs"]
mod build_stamp;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::fleet::Ran;
use crate::process::Karmada;

fn karmada(args: &[&str]) -> Ran {
    Ran::from(Command::new(env!("CARGO_BIN_EXE_karmada")).args(args).output().expect("the binary starts"))
}

#[test]
fn the_version_is_a_line_or_a_document() {
    let line = karmada(&["version"]).ok();
    assert!(line.starts_with("karmada version: version.Info{GitVersion:\"v"), "{line}");
    assert_eq!(karmada(&["--version"]).ok(), line);
    assert_eq!(karmada(&["-V"]).ok(), line);
    let of_component = karmada(&["scheduler", "version"]).ok();
    assert_eq!(of_component, line.replacen("karmada version", "karmada-scheduler version", 1));

    let json = karmada(&["version", "-o", "json"]).ok();
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(karmada(&["karmadactl", "version", "--output=json"]).ok(), json);
    assert_eq!(karmada(&["scheduler", "version", "-o", "json"]).ok(), json);
    let commit = document["gitCommit"].as_str().expect("a commit");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if root.join(".git").exists() {
        assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{json}");
        assert_eq!(document["gitShortCommit"].as_str(), commit.get(..9));
        assert!(["clean", "dirty"].contains(&document["gitTreeState"].as_str().expect("a state")), "{json}");
    } else {
        assert_eq!((commit, document["gitTreeState"].as_str()), ("unknown", Some("unknown")));
    }
    let date: jiff::Timestamp = document["buildDate"].as_str().expect("a date").parse().expect("RFC 3339");
    assert!(date.as_second() > 0, "{json}");
    let yaml = karmada(&["version", "-o", "yaml"]).ok();
    assert!(
        yaml.contains(&format!("gitCommit: {commit}\n")) || yaml.contains(&format!("gitCommit: \"{commit}\"\n")),
        "{yaml}"
    );
    let wide = karmada(&["version", "-o", "wide"]);
    assert_eq!((wide.code, &*wide.err), (Some(1), "error: --output must be 'yaml' or 'json'\n"));
}

#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn servers_name_the_build() {
    let directory = tempfile::tempdir().expect("a directory");
    let build: Value = serde_json::from_str(&karmada(&["version", "-o", "json"]).ok()).expect("JSON");
    for server in [
        Karmada::apiserver(&directory.path().join("apiserver")),
        Karmada::member("m1", &directory.path().join("member")),
    ] {
        let served: Value = serde_json::from_str(&server.ok(&["get", "--raw", "/version"])).expect("JSON");
        for field in ["gitCommit", "gitTreeState", "buildDate"] {
            assert_eq!(served[field], build[field], "{served}");
        }
        assert_eq!(served["gitVersion"], "v1.36.0+karmada-rs");
    }
}

#[test]
fn dates_are_written_as_rfc_3339() {
    for (seconds, expected) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_868_799, "2000-02-29T23:59:59Z"),
        (1_709_251_200, "2024-03-01T00:00:00Z"),
        (1_795_385_664, "2026-11-22T22:14:24Z"),
        (4_107_542_399, "2100-02-28T23:59:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (u64::MAX, "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(build_stamp::date(seconds), expected, "{seconds}");
    }
}

fn git(root: &Path, args: &[&str]) {
    let name = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"];
    let ran = Command::new("git").arg("-C").arg(root).args(name).args(args).output().expect("git is on PATH");
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn an_archive_is_unknown_and_a_repository_has_its_commit_and_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let source = root.join("crates/a/src");
    std::fs::create_dir_all(&source).expect("a directory");
    std::fs::write(source.join("lib.rs"), "").expect("a file");
    std::fs::write(root.join("Cargo.toml"), "").expect("a file");
    let (stamp, watched) = build_stamp::read(root, Some("1795385664"), 7, false);
    let unknown = || "unknown".to_owned();
    let expected =
        build_stamp::Stamp { commit: unknown(), tree_state: unknown(), date: "2026-11-22T22:14:24Z".to_owned() };
    assert_eq!((stamp, watched.len()), (expected, 0), "an archive");
    assert_eq!(build_stamp::read(root, None, 7, false).0.date, "1970-01-01T00:00:07Z");

    if Command::new("git").arg("--version").output().is_err() {
        return;
    }
    git(root, &["init", "--quiet"]);
    git(root, &["add", "--all"]);
    git(root, &["commit", "--quiet", "--message=first"]);
    let state = |root: &Path| build_stamp::read(root, None, 7, false).0.tree_state;
    let (stamp, watched) = build_stamp::read(root, None, 7, false);
    assert_eq!((stamp.commit.len(), &*stamp.tree_state), (40, "clean"));
    assert!(
        watched.iter().all(|path| path.exists()) && watched.iter().any(|path| path.ends_with("HEAD")),
        "{watched:?}"
    );
    let (_, in_development) = build_stamp::read(root, None, 7, true);
    assert!(
        !in_development.is_empty() && in_development.iter().all(|path| !path.ends_with("HEAD")),
        "{in_development:?}"
    );
    std::fs::write(root.join("notes.txt"), "not a source").expect("a file");
    assert_eq!(state(root), "clean");
    std::fs::write(source.join("lib.rs"), "// changed").expect("a file");
    assert_eq!(state(root), "dirty");
    git(root, &["commit", "--quiet", "--all", "--message=second"]);
    let (next, _) = build_stamp::read(root, None, 7, false);
    assert!(next.commit != stamp.commit && next.tree_state == "clean", "{next:?}");

    // An archive that is unpacked inside another repository does not belong to that repository.
    let inside = root.join("crates/a");
    assert_eq!(state(&inside), "unknown");
}
