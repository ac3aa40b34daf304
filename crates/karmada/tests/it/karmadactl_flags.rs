//! Transcripts of flags that `karmadactl` shares with kubectl 1.36, in the forms that scripts use.

use expect_test::expect;

use crate::karmadactl_desk::{CONFIG_MAP, Desk};

#[tokio::test]
async fn older_forms_of_dry_run_are_accepted() {
    let desk = Desk::new(&[]).await;
    desk.check(
        "create cm a --from-literal=k=v --dry-run",
        expect![[r#"
        O|configmap/a created (dry run)
        E|Warning: --dry-run is deprecated and can be replaced with --dry-run=client.
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "create cm a --from-literal=k=v --dry-run=true -o name",
        expect![[r#"
        O|configmap/a
        E|Warning: --dry-run=true is deprecated and can be replaced with --dry-run=client.
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "create cm a --from-literal=k=v --dry-run=false -o name",
        expect![[r#"
        O|configmap/a
        E|Warning: --dry-run=false is deprecated and can be replaced with --dry-run=none.
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "delete cm a --dry-run=true",
        expect![[r#"
        O|configmap "a" deleted from default namespace (dry run)
        E|Warning: --dry-run=true is deprecated and can be replaced with --dry-run=client.
        rc=0
    "#]],
    )
    .await;
    desk.write("a.yaml", CONFIG_MAP);
    // Only `apply` requires a value.
    desk.check(
        "apply -f D/a.yaml --dry-run",
        expect![[r#"
        E|error: --dry-run flag without a value was specified. A value must be set: "none", "server", or "client".
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run=maybe",
        expect![[r#"
        E|error: Invalid dry-run value (maybe). Must be "none", "server", or "client".
        rc=1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn several_conditions_are_awaited() {
    let desk = Desk::new(&[]).await;
    desk.run_with("create cm a --from-literal=k=v -o name", &[]).await;
    desk.check(
        "wait cm a --for=create --for=jsonpath={.data.k}=v",
        expect![[r#"
        O|configmap/a condition met
        O|configmap/a condition met
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "wait cm a --for=jsonpath={.data.k}=v --for=delete --timeout=0",
        expect![[r#"
        O|configmap/a condition met
        E|error: condition not met for configmaps/a
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "wait cm none --for=delete",
        expect![[r#"
        rc=0
    "#]],
    )
    .await;
}

#[tokio::test]
async fn events_are_described_for_a_single_object() {
    let desk = Desk::new(&[]).await;
    for name in ["ab", "ac"] {
        desk.run_with(&format!("create cm {name} --from-literal=k=v"), &[]).await;
    }
    let events = async |line: &str| desk.run_with(line, &[]).await.matches("Events:").count();
    assert_eq!(events("describe cm ab").await, 1);
    assert_eq!(events("describe cm ab ac").await, 0);
    assert_eq!(events("describe cm ab ac --show-events").await, 2);
    assert_eq!(events("describe cm ab --show-events=false").await, 0);
    // A prefix, even if one object has it.
    assert_eq!(events("describe cm a").await, 0);
    desk.run_with("delete cm ac", &[]).await;
    assert_eq!(events("describe cm a").await, 0);
}

#[tokio::test]
async fn arguments_that_a_command_cannot_use_point_to_its_help() {
    let desk = Desk::new(&[]).await;
    desk.check(
        "create cm",
        expect![[r#"
        E|error: exactly one NAME is required, got 0
        E|See 'karmadactl create configmap -h' for help and examples
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "api-resources pods",
        expect![[r#"
        E|error: unexpected arguments: [pods]
        E|See 'karmadactl api-resources -h' for help and examples
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "completion fsh",
        expect![[r#"
        E|error: Unsupported shell type "fsh".
        E|See 'karmadactl completion -h' for help and examples
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "exec",
        expect![[r#"
        E|error: pod, type/name or --filename must be specified
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "exec pod date",
        expect![[r#"
        E|error: exec [POD] [COMMAND] is not supported anymore. Use exec [POD] -- [COMMAND] instead
        E|See 'karmadactl exec -h' for help and examples
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "attach",
        expect![[r#"
        E|error: at least 1 argument is required for attach
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "top pod a b",
        expect![[r#"
        E|error: pod [NAME | -l label]
        E|See 'karmadactl top pod -h' for help and examples
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "delete",
        expect![[r#"
        E|error: You must provide one or more resources by argument or filename.
        E|Example resource specifications include:
        E|   '-f rsrc.yaml'
        E|   '--filename=rsrc.json'
        E|   '<resource> <name>'
        E|   '<resource>'
        rc=1
    "#]],
    )
    .await;
    desk.check("explain", expect![[r#"
        E|error: You must specify the type of resource to explain. Use "karmadactl api-resources" for a complete list of supported resources.
        rc=1
    "#]]).await;
    desk.check(
        "explain cm --api-version=v2",
        expect![[r#"
        E|error: couldn't find resource for "/v2, Resource=configmaps"
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "create pc a --value=x",
        expect![[r#"
        E|error: invalid argument "x" for "--value" flag: strconv.ParseInt: parsing "x": invalid syntax
        E|See 'karmadactl create priorityclass --help' for usage.
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "create pc a --value=3000000000",
        expect![[r#"
            E|error: invalid argument "3000000000" for "--value" flag: strconv.ParseInt: parsing "3000000000": value out of range
            E|See 'karmadactl create priorityclass --help' for usage.
            rc=1
        "#]],
    )
    .await;
    desk.check(
        "patch cm a --local -p {}",
        expect![[r#"
        E|error: cannot specify --local and server resources
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "label cm a k=v --local",
        expect![[r#"
        E|error: can only use local files by -f pod.yaml or --filename=pod.json when --local=true is set
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "delete ns none -n default",
        expect![[r#"
        E|Warning: deleting cluster-scoped resources, not scoped to the provided namespace
        E|Error from server (NotFound): namespaces "none" not found
        rc=1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn files_of_registry_secrets_have_the_key_of_their_type() {
    let desk = Desk::new(&[]).await;
    desk.write("config.json", "{\"auths\":{}}");
    desk.check(
        "create secret docker-registry a --from-file=D/config.json --dry-run=client -o jsonpath={.data}",
        expect![[r#"
            O|{".dockerconfigjson":"eyJhdXRocyI6e319"}
            rc=0
        "#]],
    )
    .await;
    // An empty image makes no container.
    desk.check(
        "create deployment a --image= --dry-run=client -o jsonpath={.spec.template.spec.containers}",
        expect![[r#"
            O|[]
            rc=0
        "#]],
    )
    .await;
}
