//! `karmadactl logs`, `exec`, `attach` and `top` through the cluster proxy, with a member that responds as a kubelet
//! and a metrics server do.

use std::io::Write as _;
use std::process::Stdio;

use expect_test::expect;

use crate::fleet::{Fleet, Ran};
use crate::kubelet::member;

async fn fleet() -> Fleet {
    let fleet = Fleet::start_with(&[], |options| options.server.admission.allow_http_endpoints = true).await;
    let address = member().await;
    fleet.add_cluster("m1", &format!("http://{address}")).await;
    fleet
}

#[tokio::test]
async fn logs_are_copied() {
    let fleet = fleet().await;
    fleet
        .check(
            "logs web -C m1",
            expect![[r#"
        O|log of container=nginx
        O|second
        E|Defaulted container "nginx" out of: nginx, side
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web -c side -C m1 --tail=5 --timestamps",
            expect![[r#"
        O|log of timestamps=true&tailLines=5&container=side
        O|second
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web --all-containers --prefix -C m1",
            expect![[r#"
        O|[pod/web/nginx] log of container=nginx
        O|[pod/web/nginx] second
        O|[pod/web/side] log of container=side
        O|[pod/web/side] second
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web -c nope -C m1",
            expect![[r#"
        E|error: container nope is not valid for pod web out of: nginx, side
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "logs nosuchpod -C m1",
            expect![[r#"
        E|error: error from server (NotFound): pods "nosuchpod" not found in namespace "default"
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "logs web",
            expect![[r#"
        E|error: must specify a cluster
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "logs -C m1",
            expect![[r#"
                E|error: expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER] (-C CLUSTER)'.
                E|POD or TYPE/NAME is a required argument for the logs command
                E|See 'karmadactl logs -h' for help and examples
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "logs web -C nosuch",
            expect![[r#"
        E|Error from server (NotFound): clusters.cluster.karmada.io "nosuch" not found
        rc=1
    "#]],
        )
        .await;
}

#[tokio::test]
async fn commands_run_and_their_exit_code_is_ours() {
    let fleet = fleet().await;
    fleet
        .check(
            "exec web -s members --cluster m1 -- echo a",
            expect![[r#"
        O|command=echo&command=a&container=nginx&stdout=true&stderr=true
        E|Defaulted container "nginx" out of: nginx, side
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "exec web -c side -s members --cluster m1 -- fail",
            expect![[r#"
        O|command=fail&container=side&stdout=true&stderr=true
        E|to stderr
        E|command terminated with exit code 3
        rc=3
    "#]],
        )
        .await;
    fleet
        .check(
            "attach web -c nginx -s members --cluster m1",
            expect![[r#"
        O|container=nginx&stdout=true&stderr=true
        E|All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.
        E|If you don't see a command prompt, try pressing enter.
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "attach pod web -c nginx -s members --cluster m1",
            expect![[r#"
        O|container=nginx&stdout=true&stderr=true
        E|All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.
        E|If you don't see a command prompt, try pressing enter.
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "attach a b c -s members --cluster m1",
            expect![[r#"
                E|error: expected POD, TYPE/NAME, or TYPE NAME, (at most 2 arguments) saw 3: [a b c]
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "exec web date -s members --cluster m1",
            expect![[r#"
                E|error: exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead
                E|See 'karmadactl exec -h' for help and examples
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "exec web -s members --cluster m1",
            expect![[r#"
                E|error: you must specify at least one command for the container
                rc=1
            "#]],
        )
        .await;
    fleet
        .check(
            "exec web -s members -- date",
            expect![[r#"
        E|error: must specify a member cluster
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "exec web -s all -- date",
            expect![[r#"
        E|error: not support operation scope: all
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "attach",
            expect![[r#"
                E|error: at least 1 argument is required for attach
                rc=1
            "#]],
        )
        .await;
    expect![[r#"
        O|command=cat&container=nginx&stdin=true&stdout=true&stderr=true
        O|typed
        E|to stderr
        rc=0
    "#]]
    .assert_eq(&with_input(&fleet, "cat").await);
}

/// Before Kubernetes 1.30 API servers know only the former protocol.
#[tokio::test]
async fn commands_run_in_older_clusters() {
    let fleet = fleet().await;
    expect![[r#"
        O|command=former&container=nginx&stdin=true&stdout=true&stderr=true
        O|typed
        E|Warning: before Kubernetes 1.30 a cluster does not receive the end of the input: a command that waits for it does not end
        E|to stderr
        rc=0
    "#]]
    .assert_eq(&with_input(&fleet, "former").await);
}

/// What `exec -i` prints for a command that reads a line.
async fn with_input(fleet: &Fleet, program: &str) -> String {
    let mut command = fleet.command(&["exec", "web", "-q", "-i", "-s", "members", "--cluster", "m1", "--", program]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("the binary starts");
        child.stdin.take().expect("piped").write_all(b"typed\n").expect("written");
        child.wait_with_output()
    });
    Ran::from(output.await.expect("no panic").expect("it ends")).transcript()
}

/// The process of the container has a terminal or not, whatever the flag says.
#[tokio::test]
async fn attach_uses_the_terminal_that_the_container_has() {
    let fleet = fleet().await;
    fleet
        .check(
            "attach web -c nginx -t -s members --cluster m1",
            expect![[r#"
        O|container=nginx&stdout=true&stderr=true
        E|error: Unable to use a TTY - container nginx did not allocate one
        E|All commands and output from this session will be recorded in container logs, including credentials and sensitive information passed through the command prompt.
        E|If you don't see a command prompt, try pressing enter.
        E|to stderr
        rc=0
    "#]],
        )
        .await;
    let attach = format!("{} karmadactl attach web -s members -C m1", env!("CARGO_BIN_EXE_karmada"));
    let mut shell = std::process::Command::new("script");
    shell.args(["-qec", &format!("{attach} -c side -i"), "/dev/null"]).stdin(Stdio::null());
    shell.env("KUBECONFIG", fleet.kubeconfig()).env_remove("KARMADACTL_OPERATION_SCOPE");
    let output = fleet.run(shell).await.ok();
    assert!(output.contains("container=side&stdin=true&stdout=true&tty=true"), "{output}");
    assert!(
        output
            .contains("Session ended, resume using 'karmadactl attach web -s members -C m1 -c side -n default -i -t'"),
        "{output}"
    );
}

#[tokio::test]
async fn a_cluster_outside_the_scope_is_reported() {
    let fleet = fleet().await;
    for line in ["exec web -C m1 -- date", "attach web -C m1", "describe pod web -C m1"] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = fleet.karmadactl(&words).await;
        let warning = "Warning: --cluster has no effect without --operation-scope=members\n";
        assert!(ran.err.starts_with(warning), "{line}: {}", ran.err);
    }
}

#[tokio::test]
async fn usage_is_read_from_members() {
    let fleet = fleet().await;
    fleet
        .check(
            "top pod",
            expect![[r#"
        O|NAME   CLUSTER   CPU(cores)   MEMORY(bytes)   
        O|web    m1        1040m        1044Mi          
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top pods --containers --no-headers",
            expect![[r#"
        O|web   nginx   m1   40m     20Mi     
        O|web   side    m1   1000m   1024Mi   
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod nosuch",
            expect![[r#"
        E|error: cluster(m1): pods "nosuch" not found
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top node",
            expect![[r#"
        O|NAME   CLUSTER   CPU(cores)   CPU%        MEMORY(bytes)   MEMORY%     
        O|n1     m1        1500m        18%         2048Mi          12%         
        O|n2     m1        <unknown>    <unknown>   <unknown>       <unknown>   
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top node --show-capacity --sort-by=cpu",
            expect![[r#"
        O|NAME   CLUSTER   CPU(cores)   CPU%        MEMORY(bytes)   MEMORY%     
        O|n1     m1        1500m        9%          2048Mi          6%          
        O|n2     m1        <unknown>    <unknown>   <unknown>       <unknown>   
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod --sort-by=disk",
            expect![[r#"
        E|error: --sort-by accepts only cpu or memory
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod web -l a=b",
            expect![[r#"
        E|error: only one of NAME or selector can be provided
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top pod -C nosuch",
            expect![[r#"
        E|error: clusters don't exist: nosuch
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "top bogus",
            expect![[r#"
        E|error: unknown command "bogus" for "karmadactl top"
        rc=1
    "#]],
        )
        .await;
}
