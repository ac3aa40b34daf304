//! Transcripts of `karmadactl apply`: its writes, its errors, and the policies it adds.

use expect_test::expect;
use serde_json::json;

use crate::karmadactl_desk::{CONFIG_MAP, Desk};

#[tokio::test]
async fn manifests_are_applied_and_removed_fields_deleted() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.check(
        "apply -f D/a.yaml --dry-run=client",
        expect![[r#"
        O|configmap/a created (dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run=server",
        expect![[r#"
        O|configmap/a created (server dry run)
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml",
        expect![[r#"
        O|configmap/a created
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml",
        expect![[r#"
        O|configmap/a unchanged
        rc=0
    "#]],
    )
    .await;
    // A field of the last manifest is removed, one of another manager stays.
    desk.check(
        "label cm a theirs=1",
        expect![[r#"
        O|configmap/a labeled
        rc=0
    "#]],
    )
    .await;
    desk.write("a.yaml", &CONFIG_MAP.replace("  k: v", "  other: w"));
    desk.check(
        "apply -f D/a.yaml",
        expect![[r#"
        O|configmap/a configured
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "get cm a -o jsonpath={.data}~{.metadata.labels}",
        expect![[r#"
        O|{"other":"w"} {"app":"demo","theirs":"1"}
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --server-side",
        expect![[r#"
        O|configmap/a serverside-applied
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --server-side --force-conflicts",
        expect![[r#"
        O|configmap/a serverside-applied
        rc=0
    "#]],
    )
    .await;
    desk.write("b.yaml", &CONFIG_MAP.replace("name: a", "name: b"));
    desk.check(
        "create -f D/b.yaml",
        expect![[r#"
        O|configmap/b created
        rc=0
    "#]],
    )
    .await;
    desk.check("apply -f D/b.yaml -o name", expect![[r#"
        O|configmap/b
        E|Warning: resource configmaps/b is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by karmadactl apply. karmadactl apply should only be used on resources created declaratively by either karmadactl create --save-config or karmadactl apply. The missing annotation will be patched automatically.
        rc=0
    "#]]).await;
    desk.check(
        "apply -f D/a.yaml --prune -l app=demo",
        expect![[r#"
        O|configmap/a configured
        O|configmap/b pruned
        E|Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice
        rc=0
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --dry-run=client -o go-template={{.kind}}/{{.metadata.name}}",
        expect![[r#"
        O|ConfigMap/a
        rc=0
    "#]],
    )
    .await;
    desk.write("strict.yaml", &CONFIG_MAP.replace("\ndata:", "\ndat:"));
    desk.check(
        "apply -f D/strict.yaml",
        expect![[r#"
            E|The request is invalid: patch: Invalid value: "map[dat:map[k:v] data:<nil> metadata:map[annotations:map[kubectl.kubernetes.io/last-applied-configuration:{\"apiVersion\":\"v1\",\"dat\":{\"k\":\"v\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"labels\":{\"app\":\"demo\"},\"name\":\"a\",\"namespace\":\"default\"}}\n]]]": strict decoding error: unknown field "dat"
            rc=1
        "#]],
    )
    .await;
    desk.check(
        "apply -f D/strict.yaml --validate=warn",
        expect![[r#"
            O|configmap/a configured
            E|Warning: unknown field "dat"
            rc=0
        "#]],
    )
    .await;
    desk.write("two.yaml", &format!("{CONFIG_MAP}---\napiVersion: nosuch/v1\nkind: Foo\nmetadata:\n  name: x\n"));
    desk.check("apply -f D/two.yaml", expect![[r#"
        O|configmap/a configured
        E|error: resource mapping not found for name: "x" namespace: "" from "D/two.yaml": no matches for kind "Foo" in version "nosuch/v1"
        E|ensure CRDs are installed first
        rc=1
    "#]]).await;
}

#[tokio::test]
async fn every_command_with_k_builds_the_kustomization() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.write(
        "kustomization.yaml",
        "resources: [a.yaml]\nnamePrefix: p-\nconfigMapGenerator: [{name: g, literals: [k=v]}]\n",
    );
    let mut transcript = String::new();
    for command in [
        "create -k D/",
        "apply -k D/",
        "label -k D/ x=y",
        "annotate -k D/ x=y",
        "patch -k D/ --type=merge -p {\"data\":{\"n\":\"1\"}}",
        "why -k D/",
        "diff -k D/",
        "describe -k D/ --show-events=false",
        "wait -k D/ --for=jsonpath={.data.n}=1 --timeout=1s",
        "delete -k D/",
    ] {
        transcript.push_str(&format!("$ {command}\n{}", desk.run_with(command, &[]).await));
    }
    expect![[r#"
        $ create -k D/
        O|configmap/p-a created
        O|configmap/p-g-bdg947hgcc created
        rc=0
        $ apply -k D/
        O|configmap/p-a configured
        O|configmap/p-g-bdg947hgcc configured
        E|Warning: resource configmaps/p-a is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by karmadactl apply. karmadactl apply should only be used on resources created declaratively by either karmadactl create --save-config or karmadactl apply. The missing annotation will be patched automatically.
        E|Warning: resource configmaps/p-g-bdg947hgcc is missing the kubectl.kubernetes.io/last-applied-configuration annotation which is required by karmadactl apply. karmadactl apply should only be used on resources created declaratively by either karmadactl create --save-config or karmadactl apply. The missing annotation will be patched automatically.
        rc=0
        $ label -k D/ x=y
        O|configmap/p-a labeled
        O|configmap/p-g-bdg947hgcc labeled
        rc=0
        $ annotate -k D/ x=y
        O|configmap/p-a annotated
        O|configmap/p-g-bdg947hgcc annotated
        rc=0
        $ patch -k D/ --type=merge -p {"data":{"n":"1"}}
        O|configmap/p-a patched
        O|configmap/p-g-bdg947hgcc patched
        rc=0
        $ why -k D/
        O|ConfigMap default/p-a: no policy selects it, so it stays in the control plane
        O|Waiting:     a policy that selects it
        O|Next:        create a PropagationPolicy in namespace default whose spec.resourceSelectors have apiVersion v1, kind ConfigMap and name p-a
        O|
        O|ConfigMap default/p-g-bdg947hgcc: no policy selects it, so it stays in the control plane
        O|Waiting:     a policy that selects it
        O|Next:        create a PropagationPolicy in namespace default whose spec.resourceSelectors have apiVersion v1, kind ConfigMap and name p-g-bdg947hgcc
        rc=0
        $ diff -k D/
        E|ConfigMap default/p-a: no policy selects it, and no member gets it
        E|ConfigMap default/p-g-bdg947hgcc: no policy selects it, and no member gets it
        rc=0
        $ describe -k D/ --show-events=false
        O|Name:         p-a
        O|Namespace:    default
        O|Labels:       app=demo
        O|              x=y
        O|Annotations:  x: y
        O|
        O|Data
        O|====
        O|k:
        O|----
        O|v
        O|
        O|n:
        O|----
        O|1
        O|
        O|
        O|BinaryData
        O|====
        O|
        O|
        O|
        O|Name:         p-g-bdg947hgcc
        O|Namespace:    default
        O|Labels:       x=y
        O|Annotations:  x: y
        O|
        O|Data
        O|====
        O|k:
        O|----
        O|v
        O|
        O|n:
        O|----
        O|1
        O|
        O|
        O|BinaryData
        O|====
        O|
        rc=0
        $ wait -k D/ --for=jsonpath={.data.n}=1 --timeout=1s
        O|configmap/p-a condition met
        O|configmap/p-g-bdg947hgcc condition met
        rc=0
        $ delete -k D/
        O|configmap "p-a" deleted from default namespace
        O|configmap "p-g-bdg947hgcc" deleted from default namespace
        rc=0
    "#]]
    .assert_eq(&transcript);
}

#[tokio::test]
async fn apply_refuses_as_kubectl_does() {
    let desk = Desk::new(&[]).await;
    desk.write("a.yaml", CONFIG_MAP);
    desk.write("empty.yaml", "---\n");
    desk.check(
        "apply",
        expect![[r#"
        E|error: must specify one of -f and -k
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/nofile.yaml",
        expect![[r#"
        E|error: the path "D/nofile.yaml" does not exist
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/empty.yaml",
        expect![[r#"
        E|error: no objects passed to apply
        rc=1
    "#]],
    )
    .await;
    desk.write("kustomization.yaml", "helmCharts: []\n");
    desk.check(
        "apply -k D/",
        expect![[r#"
        E|error: D: the field "helmCharts" is not supported: run `kubectl kustomize D/ | karmadactl COMMAND -f -` instead
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -k D/ -f D/a.yaml",
        expect![[r#"
        E|error: only one of -f or -k can be specified
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -k D/ -R",
        expect![[r#"
        E|error: the -k flag can't be used with -f or -R
        rc=1
    "#]],
    )
    .await;
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
    desk.check(
        "apply -f D/a.yaml --all-clusters --cluster m1",
        expect![[r#"
        E|error: --all-clusters and --cluster cannot be used together
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --cluster nosuch",
        expect![[r#"
        E|error: cluster nosuch does not exist
        rc=1
    "#]],
    )
    .await;
    desk.check(
        "apply -f D/a.yaml --force-conflicts",
        expect![[r#"
        E|error: --force-conflicts only works with --server-side
        rc=1
    "#]],
    )
    .await;
    desk.check("apply -f D/a.yaml --prune", expect![[r#"
        E|error: all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector
        rc=1
    "#]]).await;
    desk.check("apply -f D/a.yaml -o bogus", expect![[r#"
        E|error: unable to match a printer suitable for the output format "bogus", allowed formats are: go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,kyaml,name,template,templatefile,yaml
        rc=1
    "#]]).await;
    desk.check(
        "apply -f D/a.yaml --nosuch",
        expect![[r#"
        E|error: unknown flag: --nosuch
        E|See 'karmadactl apply --help' for usage.
        rc=1
    "#]],
    )
    .await;
    desk.write("other.yaml", &CONFIG_MAP.replace("  name: a", "  name: a\n  namespace: other"));
    desk.check("apply -f D/other.yaml -n default", expect![[r#"
        E|error: the namespace from the provided object "other" does not match the namespace "default". You must pass '--namespace=other' to perform this operation.
        rc=1
    "#]]).await;
    desk.check(
        "apply -f D/other.yaml",
        expect![[r#"
        E|Error from server (NotFound): error when creating "D/other.yaml": namespaces "other" not found
        rc=1
    "#]],
    )
    .await;
}

#[tokio::test]
async fn applied_objects_are_propagated_by_policies_of_their_own() {
    let desk = Desk::new(&["member1"]).await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app2"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "app2:role"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app2ns"}});
    desk.write("d2.yaml", &format!("{deployment}\n---\n{role}\n---\n{namespace}\n"));
    desk.check(
        "apply -f D/d2.yaml --cluster member1",
        expect![[r#"
            O|deployment.apps/app2 created
            O|propagationpolicy.policy.karmada.io/app2-6d7f8d5f5b created
            O|clusterrole.rbac.authorization.k8s.io/app2:role created
            O|clusterpropagationpolicy.policy.karmada.io/app2.role-54499c54c created
            O|namespace/app2ns created
            O|clusterpropagationpolicy.policy.karmada.io/app2ns-646d6c6947 created
            rc=0
        "#]],
    )
    .await;
    desk.check(
        "apply -f D/d2.yaml --all-clusters",
        expect![[r#"
            O|deployment.apps/app2 unchanged
            O|propagationpolicy.policy.karmada.io/app2-6d7f8d5f5b configured
            O|clusterrole.rbac.authorization.k8s.io/app2:role unchanged
            O|clusterpropagationpolicy.policy.karmada.io/app2.role-54499c54c configured
            O|namespace/app2ns unchanged
            O|clusterpropagationpolicy.policy.karmada.io/app2ns-646d6c6947 configured
            rc=0
        "#]],
    )
    .await;
    desk.check(
        "get propagationpolicy app2-6d7f8d5f5b -o jsonpath={.spec.placement}{.spec.resourceSelectors}",
        expect![[r#"
        O|{"clusterAffinity":{}}[{"apiVersion":"apps/v1","kind":"Deployment","name":"app2","namespace":"default"}]
        rc=0
    "#]],
    )
    .await;
    let member = desk.fleet.plane.members().iter().next().expect("a member").client().clone();
    let deployments = apimachinery::ApiResource::namespaced("apps", "v1", "Deployment", "deployments");
    crate::fleet::until("the deployment is propagated", async || {
        let key = apimachinery::ObjectKey::namespaced("default", "app2");
        member.get_opt(&deployments, &key).await.expect("the member answers")
    })
    .await;
}
