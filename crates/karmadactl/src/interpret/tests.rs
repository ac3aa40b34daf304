use expect_test::{Expect, expect};

use super::*;

const CUSTOMIZATION: &str = r#"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: example}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    replicaResource:
      luaScript: |
        local kube = require("kube")
        function GetReplicas(obj) return obj.spec.replicas, kube.accuratePodRequirements(obj.spec.template) end
    retention:
      luaScript: |
        function Retain(desired, observed) desired.spec.paused = observed.spec.paused return desired end
    healthInterpretation:
      luaScript: "function InterpretHealth(obj) return"
"#;
const FOLD: &str = r#"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: fold}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    statusAggregation:
      luaScript: |
        function AggregateStatus(obj, items)
          obj.status = {of = items[1].clusterName .. " " .. items[2].clusterName}
          return obj
        end
"#;
/// No customization, and two that are incomplete.
const WRONG: &str = r#"
apiVersion: v1
kind: ConfigMap
---
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: no-version}
spec: {target: {kind: Deployment}}
---
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: no-kind}
spec: {target: {apiVersion: apps/v1}}
"#;
const DESIRED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, template: {spec: {nodeSelector: {foo: bar}, containers: [{resources: {requests: {cpu: 100m}}}]}}}
"#;

/// Runs the command in a directory with the files; `FILE` in an argument is a name in there.
async fn check(args: &[&str], expected: &Expect) {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: InterpretArgs,
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("ric", CUSTOMIZATION),
        ("wrong", WRONG),
        ("fold", FOLD),
        ("items", "clusterName: m1\n---\nclusterName: m2\n"),
        ("desired", DESIRED),
        ("observed", &DESIRED.replace("replicas: 3", "paused: true")),
    ] {
        std::fs::write(directory.path().join(format!("{name}.yaml")), text).unwrap();
    }
    let place = |arg: &&str| match arg.strip_suffix(".yaml") {
        Some(_) => directory.path().join(arg).display().to_string(),
        None => (*arg).to_owned(),
    };
    let line = ["interpret".to_owned()].into_iter().chain(args.iter().map(place));
    let args = <Line as clap::Parser>::parse_from(line).args;
    let world = World::simulated("2026-11-21T00:00:00Z".parse().unwrap(), 1);
    let outcome = match inputs(&args).await {
        Ok(inputs) => run(&args, &inputs, &world),
        Err(error) => Err(error),
    };
    let text = match outcome {
        Ok(outcome) => format!("{}{}{}", outcome.out, outcome.err, if outcome.failed { "(failed)\n" } else { "" }),
        Err(error) => error.render(),
    };
    expected.assert_eq(&text.replace(&directory.path().display().to_string(), "DIR"));
}

#[tokio::test]
async fn checks() {
    check(
        &["-f", "ric.yaml", "--check"],
        &expect![[r#"
            -----------------------------------
            SOURCE: example
            TARGET: apps/v1 Deployment   
            RULERS:
                Retain:                  PASS
                InterpretReplica:        PASS
                InterpretComponent:      UNSET
                ReviseReplica:           UNSET
                InterpretStatus:         UNSET
                AggregateStatus:         UNSET
                InterpretHealth:         ERROR: script:1: 'end' expected near '<eof>'
                InterpretDependency:     UNSET
            (failed)
        "#]],
    )
    .await;
    check(
        &["-f", "nofile.yaml", "--check"],
        &expect![[r#"
        error: the path "DIR/nofile.yaml" does not exist
    "#]],
    )
    .await;
}

/// Each wrong document has its section.
#[tokio::test]
async fn checks_of_other_documents() {
    check(
        &["-f", "wrong.yaml", "--check"],
        &expect![[r#"
            -----------------------------------
            SOURCE: DIR/wrong.yaml
            not a ResourceInterpreterCustomization, got /v1, Kind=ConfigMap
            -----------------------------------
            SOURCE: no-version
            target.apiVersion no set
            -----------------------------------
            SOURCE: no-kind
            target.kind no set
            (failed)
        "#]],
    )
    .await;
    check(
        &["-f", "wrong.yaml", "--operation", "Retain"],
        &expect![[r#"
            error: fail to get customization object: not a ResourceInterpreterCustomization, got /v1, Kind=ConfigMap
        "#]],
    )
    .await;
}

#[tokio::test]
async fn objects_and_items_of_files() {
    check(
        &["-f", "ric.yaml", "--operation", "Retain", "--desired-file", "wrong.yaml"],
        &expect![[r#"
            error: fail to get desired object: get 3 objects, expect one
        "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--operation", "Retain", "--observed-file", "nofile.yaml"],
        &expect![[r#"
            error: the path "DIR/nofile.yaml" does not exist
        "#]],
    )
    .await;
    let aggregate = ["-f", "fold.yaml", "--operation", "AggregateStatus", "--desired-file", "desired.yaml"];
    check(
        &[&aggregate[..], &["--status-file", "items.yaml", "-o", "jsonpath={.status}"]].concat(),
        &expect![[r#"
            ---
            # [1/1] aggregatedStatus:
            {"of":"m1 m2"}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn executions() {
    check(
        &["-f", "ric.yaml", "--operation", "interpretreplica", "--desired-file", "desired.yaml"],
        &expect![[r#"
        ---
        # [1/2] replica:
        3
        ---
        # [2/2] requires:
        nodeClaim:
          nodeSelector:
            foo: bar
        resourceRequest:
          cpu: 100m
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--operation", "Retain", "--desired-file", "desired.yaml"],
        &expect![[r#"
        Execute Retain error: observed, observed-file options are not set
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--operation", "AggregateStatus", "--desired-file", "desired.yaml"],
        &expect![[r#"
        Execute AggregateStatus error: rule is not enabled
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--operation", "InterpretReplica", "--desired-file", "desired.yaml", "-o", "json"],
        &expect![[r#"
        ---
        # [1/2] replica:
        3
        ---
        # [2/2] requires:
        {
          "nodeClaim": {
            "nodeSelector": {
              "foo": "bar"
            }
          },
          "resourceRequest": {
            "cpu": "100m"
          }
        }
    "#]],
    )
    .await;
    check(
        &[
            "-f",
            "ric.yaml",
            "--operation",
            "InterpretReplica",
            "--desired-file",
            "desired.yaml",
            "-o",
            "jsonpath={.nodeClaim}",
        ],
        &expect![[r#"
        ---
        # [1/2] replica:

        ---
        # [2/2] requires:
        {"nodeSelector":{"foo":"bar"}}
    "#]],
    )
    .await;
    check(
        &[
            "-f",
            "ric.yaml",
            "--operation",
            "Retain",
            "--desired-file",
            "desired.yaml",
            "--observed-file",
            "observed.yaml",
            "-o",
            "jsonpath",
            "--template",
            "{.metadata.name} {.none}",
            "--allow-missing-template-keys=false",
        ],
        &expect![[r#"
        error: error executing jsonpath "{.metadata.name} {.none}": Error executing template: none is not found
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--operation", "Retain", "--desired-file", "desired.yaml", "-o", "jsonpath"],
        &expect![[r#"
        error: template format specified but no template given
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--check", "--edit"],
        &expect![[r#"
        error: you can't set both --check and --edit options
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml"],
        &expect![[r#"
        error: operation is not set for executing
    "#]],
    )
    .await;
    check(
        &["-f", "ric.yaml", "--operation", "Bogus"],
        &expect![[r#"
        error: operation Bogus is not supported. Use one of: Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency
    "#]],
    )
    .await;
}
