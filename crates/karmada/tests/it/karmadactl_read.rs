//! The reading commands of `karmadactl`: transcripts, and completion of live names in a real shell.

use std::process::Command;

use expect_test::expect;

use crate::fleet::Fleet;

#[tokio::test]
async fn types_are_explained_and_objects_described() {
    let fleet = Fleet::start(&["member1"]).await;
    fleet.reachable("member1").await;
    fleet
        .check(
            "explain propagationpolicy.spec.placement.clusterAffinities",
            expect![[r#"
        O|GROUP:      policy.karmada.io
        O|KIND:       PropagationPolicy
        O|VERSION:    v1alpha1
        O|
        O|FIELD: clusterAffinities <[]Object>
        O|
        O|
        O|DESCRIPTION:
        O|    Groups of clusters, tried in order until scheduling succeeds. Later
        O|    decisions start with the group in use; a WorkloadRebalancer starts with the
        O|    first one. Excludes clusterAffinity.
        O|    A named group of clusters; groups are tried in order.
        O|    
        O|FIELDS:
        O|  affinityName	<string> -required-
        O|    Name of the group, unique among the groups and in the format of a label key.
        O|    The binding's `status.schedulerObservingAffinityName` is the name of the
        O|    group in use.
        O|
        O|  clusterNames	<[]string>
        O|    Names of the candidate clusters. Empty: any.
        O|
        O|  exclude	<[]string>
        O|    Names of excluded clusters. Takes precedence over all other fields.
        O|
        O|  fieldSelector	<Object>
        O|    Selects clusters by their provider, region and zones. Absent: any.
        O|
        O|  labelSelector	<Object>
        O|    Selects clusters by their labels. Absent: any. An invalid selector matches
        O|    none.
        O|
        O|  overflowAffinities	<[]Object>
        O|    Tiers of clusters that are added in order when the group's own clusters lack
        O|    capacity, and removed in reverse order. A cluster in several tiers counts in
        O|    the first. For dynamic weights and aggregated replicas only.
        O|
        O|
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "explain deploy.spec.strategy --recursive",
            expect![[r#"
        O|GROUP:      apps
        O|KIND:       Deployment
        O|VERSION:    v1
        O|
        O|FIELD: strategy <DeploymentStrategy>
        O|
        O|
        O|DESCRIPTION:
        O|    The deployment strategy to use to replace existing pods with new ones.
        O|    DeploymentStrategy describes how to replace existing pods with new ones.
        O|    
        O|FIELDS:
        O|  rollingUpdate	<RollingUpdateDeployment>
        O|    maxSurge	<IntOrString>
        O|    maxUnavailable	<IntOrString>
        O|  type	<string>
        O|
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "explain pods.spec.containers.imagePullPolicy -s members --cluster member1",
            expect![[r#"
        O|KIND:       Pod
        O|VERSION:    v1
        O|
        O|FIELD: imagePullPolicy <string>
        O|
        O|
        O|DESCRIPTION:
        O|    Image pull policy. One of Always, Never, IfNotPresent. Defaults to Always if
        O|    :latest tag is specified, or IfNotPresent otherwise. Cannot be updated. More
        O|    info: https://kubernetes.io/docs/concepts/containers/images#updating-images
        O|    
        O|
        rc=0
    "#]],
        )
        .await;
    fleet.check("explain", expect![[r#"
        E|error: You must specify the type of resource to explain. Use "karmadactl api-resources" for a complete list of supported resources.
        rc=1
    "#]]).await;
    fleet
        .check(
            "explain nosuch",
            expect![[r#"
        E|error: the server doesn't have a resource type "nosuch"
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "explain deploy.spec.nosuch",
            expect![[r#"
        E|error: field "nosuch" does not exist
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "explain deploy --api-version=apps/v9",
            expect![[r#"
        E|error: couldn't find resource for "apps/v9, Resource=deployments"
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "explain deploy -o html",
            expect![[r#"
        E|error: unrecognized format: html
        rc=1
    "#]],
        )
        .await;
    fleet.check("describe", expect![[r#"
        E|error: You must specify the type of resource to describe. Use "karmadactl api-resources" for a complete list of supported resources.
        rc=1
    "#]]).await;
    fleet
        .check(
            "describe cm nosuch",
            expect![[r#"
        E|Error from server (NotFound): configmaps "nosuch" not found
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "describe nosuch",
            expect![[r#"
        E|error: the server doesn't have a resource type "nosuch"
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "describe cm -l a=b",
            expect![[r#"
        E|No resources found in default namespace.
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "describe cm x -s members",
            expect![[r#"
        E|error: must specify a member cluster
        rc=1
    "#]],
        )
        .await;
    let described = fleet.karmadactl(&["describe", "cluster", "memb"]).await.ok();
    assert!(described.starts_with("Name:         member1\nNamespace:    \n"), "{described}");
    assert!(described.contains("\nSpec:\n") && !described.contains("\nEvents:"), "{described}");
}

#[tokio::test]
async fn templates_print_their_values() {
    let fleet = Fleet::start(&[]).await;
    fleet
        .check(
            "get ns default -o go-template={{.kind}}:{{.metadata.name}}",
            expect![[r#"
        O|Namespace:default
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "get ns default -o go-template --template {{.none}}",
            expect![[r#"
        O|<no value>
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "get ns default --allow-missing-template-keys=false -o go-template={{.none}}",
            expect![[r#"
        E|error: error executing template "{{.none}}": template: output:1:2: executing "output" at <.none>: map has no entry for key "none"
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "get ns default -o jsonpath={..name}",
            expect![[r#"
        O|default
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "get ns default -o jsonpath-as-json={.metadata.name}",
            expect![[r#"
        O|[
        O|    "default"
        O|]
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "get ns default -o jsonpath",
            expect![[r#"
        E|error: template format specified but no template given
        rc=1
    "#]],
        )
        .await;
    fleet
        .check(
            "get ns default -o go-template={{.a",
            expect![[r#"
        E|error: error parsing template {{.a, template: output:1: unclosed action
        rc=1
    "#]],
        )
        .await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("t");
    std::fs::write(&file, "{{.metadata.name}}\n").expect("written");
    let format = format!("go-template-file={}", file.display());
    assert_eq!(fleet.karmadactl(&["get", "ns", "default", "-o", &format]).await.ok(), "default\n");
}

#[tokio::test]
async fn the_shell_completes_live_names() {
    let fleet = Fleet::start(&["member1", "member2"]).await;
    fleet
        .check(
            "__complete cordon m",
            expect![[r#"
        O|member1
        O|member2
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete get --clusters=member1,m",
            expect![[r#"
        O|--clusters=member1,member1
        O|--clusters=member1,member2
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete get ns kube-p",
            expect![[r#"
        O|kube-public
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete get ns/kube-p",
            expect![[r#"
        O|ns/kube-public
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete get propagat",
            expect![[r#"
        O|propagationpolicies.policy.karmada.io
        rc=0
    "#]],
        )
        .await;
    // Types of equal names are different candidates, and each completes its own objects.
    fleet
        .check(
            "__complete get pods",
            expect![[r#"
        O|pods
        O|pods.metrics.k8s.io
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete get clusters.cluster.karmada.io m",
            expect![[r#"
        O|member1
        O|member2
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete cord",
            expect![[r#"
        O|cordon	Mark a cluster as unschedulable
        rc=0
    "#]],
        )
        .await;
    fleet
        .check(
            "__complete apply -f ",
            expect![[r#"
        O|:files
        rc=0
    "#]],
        )
        .await;
    let unreachable = Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(["karmadactl", "__complete", "cordon", "m"])
        .env("KUBECONFIG", "/nosuch")
        .output()
        .expect("the binary starts");
    assert!(unreachable.status.success() && unreachable.stdout.is_empty() && unreachable.stderr.is_empty());

    // The script in a real bash: the completions of the shell.
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

#[tokio::test]
async fn kubectl_completes_its_plugin() {
    let fleet = Fleet::start(&["member1"]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let link = directory.path().join("kubectl_complete-karmada");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_karmada"), &link).expect("linked");
    let complete = async |words: &[&str]| {
        let mut command = Command::new(&link);
        command.args(words).env("KUBECONFIG", fleet.kubeconfig());
        fleet.run(command).await.ok()
    };
    assert_eq!(complete(&["get", "clusters", "mem"]).await, "member1\n:4\n");
    assert_eq!(complete(&["apply", "-f", ""]).await, ":0\n");
    assert!(complete(&["unc"]).await.starts_with("uncordon\t"));
}
