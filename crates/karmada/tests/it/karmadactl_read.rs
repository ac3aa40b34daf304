//! The commands of `karmadactl` that read and explain: transcripts, and live completion in a real shell.

use std::process::Command;

use expect_test::{Expect, expect};

use crate::fleet::{Fleet, Ran};

fn shown(ran: &Ran) -> String {
    let mut text = String::new();
    for (stream, output) in [("O", &ran.out), ("E", &ran.err)] {
        output.lines().for_each(|line| text.push_str(&format!("{stream}|{line}\n")));
    }
    text + &format!("rc={}\n", ran.code.unwrap_or(-1))
}

async fn check(fleet: &Fleet, line: &str, expected: Expect) {
    let words: Vec<&str> = line.split(' ').collect();
    expected.assert_eq(&shown(&fleet.karmadactl(&words).await));
}

#[tokio::test]
async fn types_are_explained_and_objects_described() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    check(&fleet, "explain propagationpolicy.spec.placement.clusterAffinities", expect![""]).await;
    check(&fleet, "explain deploy.spec.strategy --recursive", expect![""]).await;
    check(&fleet, "explain pods.spec.containers.imagePullPolicy -s members --cluster member1", expect![""]).await;
    check(&fleet, "explain", expect![""]).await;
    check(&fleet, "explain nosuch", expect![""]).await;
    check(&fleet, "explain deploy.spec.nosuch", expect![""]).await;
    check(&fleet, "explain deploy --api-version=apps/v9", expect![""]).await;
    check(&fleet, "explain deploy -o html", expect![""]).await;
    check(&fleet, "describe", expect![""]).await;
    check(&fleet, "describe cm nosuch", expect![""]).await;
    check(&fleet, "describe nosuch", expect![""]).await;
    check(&fleet, "describe cm -l a=b", expect![""]).await;
    check(&fleet, "describe cm x -s members", expect![""]).await;
    let described = fleet.karmadactl(&["describe", "cluster", "memb"]).await.ok();
    assert!(described.starts_with("Name:         member1\nNamespace:    \n"), "{described}");
    assert!(described.contains("\nSpec:\n") && described.contains("\nEvents:"), "{described}");
}

#[tokio::test]
async fn templates_print_what_they_find() {
    let fleet = Fleet::start(&[]).await;
    check(&fleet, "get ns default -o go-template={{.kind}}:{{.metadata.name}}", expect![""]).await;
    check(&fleet, "get ns default -o go-template --template {{.none}}", expect![""]).await;
    check(&fleet, "get ns default --allow-missing-template-keys=false -o go-template={{.none}}", expect![""]).await;
    check(&fleet, "get ns default -o jsonpath={..name}", expect![""]).await;
    check(&fleet, "get ns default -o jsonpath-as-json={.metadata.name}", expect![""]).await;
    check(&fleet, "get ns default -o jsonpath", expect![""]).await;
    check(&fleet, "get ns default -o go-template={{.a", expect![""]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("t");
    std::fs::write(&file, "{{.metadata.name}}\n").expect("written");
    let format = format!("go-template-file={}", file.display());
    assert_eq!(fleet.karmadactl(&["get", "ns", "default", "-o", &format]).await.ok(), "default\n");
}

#[tokio::test]
async fn the_shell_completes_live_names() {
    let fleet = Fleet::start(&["member1", "member2"]).await;
    check(&fleet, "__complete cordon m", expect![""]).await;
    check(&fleet, "__complete get --clusters=member1,m", expect![""]).await;
    check(&fleet, "__complete get ns kube-p", expect![""]).await;
    check(&fleet, "__complete get ns/kube-p", expect![""]).await;
    check(&fleet, "__complete get propagat", expect![""]).await;
    check(&fleet, "__complete cord", expect![""]).await;
    check(&fleet, "__complete apply -f ", expect![""]).await;
    let unreachable = Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(["karmadactl", "__complete", "cordon", "m"])
        .env("KUBECONFIG", "/nosuch")
        .output()
        .expect("the binary starts");
    assert!(unreachable.status.success() && unreachable.stdout.is_empty() && unreachable.stderr.is_empty());

    // The script in a real bash: what the shell would offer.
    let bin = tempfile::tempdir().expect("a directory");
    let program = bin.path().join("karmadactl");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_karmada"), &program).expect("a link in a directory of our own");
    for (words, cursor, expected) in [
        ("karmadactl cordon m", 2, "member1 member2 "),
        ("karmadactl get --clusters = member1,member2", 4, "member1,member2 "),
        ("karmadactl comple", 1, "completion "),
    ] {
        let line = format!(
            "source <(karmadactl completion bash); COMP_WORDS=({words}); COMP_CWORD={cursor}; _karmadactl_complete; \
             printf '%s ' \"${{COMPREPLY[@]}}\""
        );
        let mut command = Command::new("bash");
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap_or_default());
        command.args(["-c", &line]).env("PATH", path).env("KUBECONFIG", fleet.kubeconfig());
        assert_eq!(fleet.run(command).await.ok(), expected, "{words}");
    }
}
