//! The pages of advanced commands.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
    Page {
        command: "apply",
        group: Group::Advanced,
        arguments: "-f FILENAME",
        description: "An object that does not exist is created. With --cluster or --all-clusters a policy that propagates it is applied as well.",
        examples: &[
            ("Apply a manifest without propagating it", "karmadactl apply -f deployment.yaml"),
            (
                "Apply a manifest and propagate it to two clusters",
                "karmadactl apply -f deployment.yaml --cluster=member1,member2",
            ),
            ("Apply a manifest and propagate it to all clusters", "karmadactl apply -f deployment.yaml --all-clusters"),
            ("Let the server merge the fields", "karmadactl apply -f deployment.yaml --server-side"),
            (
                "Apply a directory and delete what it no longer holds",
                "karmadactl apply -f manifests/ --prune -l app=nginx",
            ),
        ],
    },
    Page {
        command: "promote",
        group: Group::Advanced,
        arguments: "<RESOURCE_TYPE> <RESOURCE_NAME> -n <NAME_SPACE> -C <CLUSTER_NAME>",
        description: "The object keeps running: the policy overwrites it in place and preserves it on deletion.",
        examples: &[
            ("Promote deployment nginx of member1", "karmadactl promote deployment nginx -n default -C member1"),
            (
                "Promote it with the objects it depends on",
                "karmadactl promote deployment nginx -n default -C member1 -d",
            ),
            (
                "Print the template and the policy and create nothing",
                "karmadactl promote deployment nginx -n default -C member1 -o yaml",
            ),
            (
                "Promote it without a policy",
                "karmadactl promote deployment nginx -n default -C member1 --auto-create-policy=false",
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
            ("Print where the workloads of a file would run", "karmadactl schedule --dry-run -f web.yaml"),
            (
                "Print where the workloads of member1 would run without it",
                "karmadactl schedule --dry-run --without-cluster=member1",
            ),
        ],
    },
];
