//! The names of the one binary.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::fleet::Ran;

/// Runs the binary through a link.
fn called(name: &str, args: &[&str]) -> Ran {
    let directory = tempfile::tempdir().expect("a directory");
    let link = directory.path().join(name);
    symlink(env!("CARGO_BIN_EXE_karmada"), &link).expect("a link");
    Ran::from(Command::new(link).args(args).output().expect("the binary starts"))
}

#[test]
fn the_plugin_names_itself_kubectl_karmada() {
    let version = called("kubectl-karmada", &["version"]).ok();
    assert!(version.starts_with("kubectl karmada version: version.Info{GitVersion:\"v"), "{version}");
    let unknown = called("kubectl-karmada", &["nosuch"]);
    assert_eq!((unknown.code, &*unknown.err), (Some(1), "error: unknown command \"nosuch\" for \"kubectl karmada\"\n"));
    let flag = called("kubectl-karmada", &["get", "--nosuch"]);
    let expected = "error: unknown flag: --nosuch\nSee 'kubectl karmada get --help' for usage.\n";
    assert_eq!((flag.code, &*flag.err), (Some(1), expected));
}

#[test]
fn version_has_the_fields_that_scripts_look_for() {
    let line = called("karmadactl", &["version"]).ok();
    let inner = line.strip_prefix("karmadactl version: version.Info{").and_then(|rest| rest.strip_suffix("}\n"));
    let fields: Vec<&str> =
        inner.expect(&line).split(", ").filter_map(|field| field.split_once(':')).map(|f| f.0).collect();
    let expected =
        ["GitVersion", "GitCommit", "GitShortCommit", "GitTreeState", "BuildDate", "GoVersion", "Compiler", "Platform"];
    assert_eq!(fields, expected);
}

#[test]
fn no_arguments_print_help() {
    let help = called("karmadactl", &[]);
    assert_eq!((help.code, &*help.err), (Some(0), ""));
    assert!(help.out.starts_with("karmadactl controls a Kubernetes Cluster Federation.\n"), "{}", help.out);
    for command in ["get", "api-resources", "join", "unjoin", "cordon", "uncordon", "version"] {
        assert!(
            help.out.lines().any(|line| line.split_whitespace().next() == Some(command)),
            "{command}: {}",
            help.out
        );
    }
}

/// kubectl finds plugins on PATH by their name.
#[test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
fn kubectl_finds_the_plugin() {
    let directory = tempfile::tempdir().expect("a directory");
    symlink(env!("CARGO_BIN_EXE_karmada"), directory.path().join("kubectl-karmada")).expect("a link");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(directory.path().to_owned()).chain(std::env::split_paths(&path));
    let mut command = Command::new("kubectl");
    command.args(["karmada", "version"]).env("PATH", std::env::join_paths(paths).expect("paths without colons"));
    let version = Ran::from(command.output().expect("kubectl starts")).ok();
    assert!(version.starts_with("kubectl karmada version: version.Info{"), "{version}");
}

#[test]
fn components_have_names_and_versions_of_their_own() {
    for component in karmada::flags::COMPONENTS {
        let name = format!("karmada-{component}");
        let version = called(&name, &["version"]).ok();
        assert!(version.starts_with(&format!("{name} version: version.Info{{GitVersion:\"v")), "{version}");
        let (help, short) = (called(&name, &["--help-all"]).ok(), called(&name, &["--help"]).ok());
        assert!(short.lines().count() < help.lines().count() / 2, "{name}: {short}");
        for flag in karmada::flags::flags() {
            let Some(default) = flag.default_here(component) else { continue };
            let begin = format!("--{} ", flag.name);
            let equals = format!("--{}[=", flag.name);
            let mut lines = help.lines().map(str::trim_start).map(|line| line.trim_start_matches("-v, "));
            assert!(lines.any(|line| line.starts_with(&begin) || line.starts_with(&equals)), "{name} --{}", flag.name);
            assert!(default.is_empty() || help.contains(&format!("[default: {default}]")), "{name} --{}", flag.name);
        }
    }
}
