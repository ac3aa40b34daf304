//! The pages of advanced commands.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
    Page {
        command: "apply",
        group: Group::Advanced,
        arguments: "-f FILENAME",
        description: "Creates objects that do not exist. With --cluster or --all-clusters it also applies a policy \
                      that propagates them.",
        examples: &[
            ("Apply a manifest without propagating it", "karmadactl apply -f deployment.yaml"),
            (
                "Apply a manifest and propagate it to two clusters",
                "karmadactl apply -f deployment.yaml --cluster=member1,member2",
            ),
            ("Apply a manifest and propagate it to all clusters", "karmadactl apply -f deployment.yaml --all-clusters"),
            ("Let the server merge the fields", "karmadactl apply -f deployment.yaml --server-side"),
            (
                "Apply a directory, and delete objects that are no longer in it",
                "karmadactl apply -f manifests/ --prune -l app=nginx",
            ),
        ],
    },
    Page {
        command: "promote",
        group: Group::Advanced,
        arguments: "<RESOURCE_TYPE> <RESOURCE_NAME> -n <NAME_SPACE> -C <CLUSTER_NAME>",
        description: "The workload keeps running: the policy takes it over in place and preserves it on deletion.",
        examples: &[
            ("Promote deployment nginx of member1", "karmadactl promote deployment nginx -n default -C member1"),
            (
                "Promote it with the objects it depends on",
                "karmadactl promote deployment nginx -n default -C member1 -d",
            ),
            (
                "Print the template and the policy without creating them",
                "karmadactl promote deployment nginx -n default -C member1 -o yaml",
            ),
            (
                "Promote it without a policy",
                "karmadactl promote deployment nginx -n default -C member1 --auto-create-policy=false",
            ),
        ],
    },
    Page {
        command: "rollout",
        group: Group::Advanced,
        arguments: "",
        description: "For deployments, daemonsets and statefulsets; status follows other kinds by their health.",
        examples: &[
            (
                "Follow the newest change of a deployment into all its clusters",
                "karmadactl rollout status deployment/web",
            ),
            ("Restart a deployment in all its clusters", "karmadactl rollout restart deployment/web"),
        ],
    },
    Page {
        command: "rollout status",
        group: Group::Advanced,
        arguments: "(TYPE NAME | TYPE/NAME)",
        description: "Follows the template's newest generation: scheduled, applied in each cluster, rolled out there. \
                      Each change is a line that begins with the cluster. Ends when all clusters have finished; a \
                      rollout that exceeds its progress deadline in one ends it with exit code 1. Members that the \
                      proxy does not reach are followed by the statuses that the control plane collects.",
        examples: &[
            ("Follow a deployment into all its clusters", "karmadactl rollout status deployment/web -n shop"),
            (
                "Follow it in two clusters, five minutes at most",
                "karmadactl rollout status deployment/web -C member1,member2 --timeout=5m",
            ),
            ("Print the current status", "karmadactl rollout status deployment/web --watch=false"),
            ("Follow the rollouts of member1 alone", "karmadactl rollout status daemonset/agent -s members -C member1"),
        ],
    },
    Page {
        command: "rollout history",
        group: Group::Advanced,
        arguments: "(TYPE NAME | TYPE/NAME)",
        description: "Templates have no revisions; those of the member clusters are read through the control plane.",
        examples: &[
            ("View the revisions of a deployment in all its clusters", "karmadactl rollout history deployment/web"),
            (
                "View the pod template of revision 3 in member1",
                "karmadactl rollout history deployment/web --revision=3 -C member1",
            ),
        ],
    },
    Page {
        command: "rollout restart",
        group: Group::Advanced,
        arguments: "TYPE/NAME",
        description: "Annotates the pod template of the control plane, which replaces the pods in every cluster. Warns \
                      about clusters in which an override or the interpreter's retention reverts that.",
        examples: &[
            ("Restart a deployment in all its clusters", "karmadactl rollout restart deployment/web"),
            ("Restart the deployments with a label", "karmadactl rollout restart deployment -l app=web"),
            ("Check without changing anything", "karmadactl rollout restart deployment/web --dry-run=server"),
        ],
    },
    Page {
        command: "rollout pause",
        group: Group::Advanced,
        arguments: "TYPE/NAME",
        description: "Changes of the pod template are propagated to the clusters, but replace no pods until the \
                      deployment is resumed.",
        examples: &[("Pause a deployment in all its clusters", "karmadactl rollout pause deployment/web")],
    },
    Page {
        command: "rollout resume",
        group: Group::Advanced,
        arguments: "TYPE/NAME",
        description: "",
        examples: &[("Resume a deployment in all its clusters", "karmadactl rollout resume deployment/web")],
    },
    Page {
        command: "rollout undo",
        group: Group::Advanced,
        arguments: "TYPE/NAME",
        description: "The control plane keeps no revisions of templates: this command prints how to find an earlier \
                      one.",
        examples: &[("Explain how to return to a revision of a deployment", "karmadactl rollout undo deployment/web")],
    },
    Page {
        command: "wait",
        group: Group::Advanced,
        arguments: "([-f FILENAME] | TYPE/NAME | TYPE [(-l label | --all)]) --for=(create|delete|propagated|condition=NAME|jsonpath='{}'[=VALUE])",
        description: "Prints a line for each object that satisfies the condition.",
        examples: &[
            (
                "Wait until every cluster runs the newest generation of a deployment",
                "karmadactl wait --for=propagated deployment/web --timeout=2m",
            ),
            ("Wait until cluster member1 is ready", "karmadactl wait --for=condition=Ready cluster/member1"),
            (
                "Wait until a deployment is available in two clusters",
                "karmadactl wait --for=condition=Available deployment/web -s members -C member1,member2",
            ),
            (
                "Wait until a field has a value",
                "karmadactl wait --for=jsonpath={.status.readyReplicas}=3 deployment/web",
            ),
            (
                "Wait until all pods with a label are gone in member1",
                "karmadactl wait --for=delete pod -l app=web -s members -C member1",
            ),
        ],
    },
    Page {
        command: "top",
        group: Group::Advanced,
        arguments: "",
        description: "Members need the metrics API (metrics.k8s.io).",
        examples: &[
            ("Show the usage of pods", "karmadactl top pod"),
            ("Show the usage of nodes", "karmadactl top node"),
        ],
    },
    Page {
        command: "top pod",
        group: Group::Advanced,
        arguments: "[NAME | -l label]",
        description: "",
        examples: &[
            ("Show the usage of the pods of all member clusters in the default namespace", "karmadactl top pod"),
            ("Show the usage of all pods of member1 by memory", "karmadactl top pod -A -C member1 --sort-by=memory"),
            ("Show the usage of each container and the sum", "karmadactl top pod --containers --sum"),
        ],
    },
    Page {
        command: "top node",
        group: Group::Advanced,
        arguments: "[NAME | -l label]",
        description: "",
        examples: &[
            ("Show the usage of all nodes of all member clusters", "karmadactl top node"),
            ("Show the usage of a node of member1", "karmadactl top node node-1 --clusters=member1"),
        ],
    },
    Page {
        command: "diff",
        group: Group::Advanced,
        arguments: "(-f FILENAME | TYPE NAME | TYPE/NAME) [-C clusters]",
        description: "Templates are rendered for each cluster with their overrides, and compared with the members' \
                      objects. With -f the files are first applied as a dry run, including policies and overrides; the \
                      command never writes. KARMADA_EXTERNAL_DIFF or KUBECTL_EXTERNAL_DIFF names a program that \
                      compares. The exit code is 0 without differences, 1 with some, and greater after an error.",
        examples: &[
            ("Print how members differ from deployment web", "karmadactl diff deployment/web -n shop"),
            ("Print the changes in the members by applying a file", "karmadactl diff -f web.yaml"),
            ("Compare member1 only", "karmadactl diff -f web.yaml -C member1"),
            ("Compare with another program", "KARMADA_EXTERNAL_DIFF=\"colordiff -N -u\" karmadactl diff -f web.yaml"),
        ],
    },
    Page {
        command: "patch",
        group: Group::Advanced,
        arguments: "(-f FILENAME | TYPE NAME) [-p PATCH|--patch-file FILE]",
        description: "Karmada's kinds take merge and JSON patches; built-in kinds take strategic merge patches, too.",
        examples: &[
            (
                "Change the replicas of a deployment",
                "karmadactl patch deployment nginx -p '{\"spec\":{\"replicas\":3}}'",
            ),
            (
                "Change the placement of a policy",
                "karmadactl patch propagationpolicy nginx --type=merge --patch-file=placement.yaml",
            ),
        ],
    },
    Page {
        command: "schedule",
        group: Group::Advanced,
        arguments: "--dry-run [-f FILENAME] [--without-cluster CLUSTER]",
        description: "",
        examples: &[
            ("Predict the placement of the workloads of a file", "karmadactl schedule --dry-run -f web.yaml"),
            (
                "Predict the placement of the workloads of member1 without it",
                "karmadactl schedule --dry-run --without-cluster=member1",
            ),
        ],
    },
];
