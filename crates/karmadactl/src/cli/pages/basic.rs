//! The pages of basic commands.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
    Page {
        command: "explain",
        group: Group::Basic,
        arguments: "TYPE [--recursive=FALSE|TRUE] [--api-version=api-version-group] [--output=plaintext|plaintext-openapiv2]",
        description: "Fields are named by their path: TYPE.FIELD.FIELD.",
        examples: &[
            ("Print the documentation of propagation policies", "karmadactl explain propagationpolicies"),
            ("Print all fields of a resource", "karmadactl explain propagationpolicies --recursive"),
            ("Print the documentation of one field", "karmadactl explain propagationpolicies.spec.placement"),
            (
                "Print the documentation of a resource of a member cluster",
                "karmadactl explain pods --operation-scope=members --cluster=member1",
            ),
        ],
    },
    Page {
        command: "get",
        group: Group::Basic,
        arguments: "[NAME | -l label | -n namespace]",
        description: "Prints a table of the most important information about the specified resources. Rows of member \
                      clusters are read through the control plane; no kubeconfig of a member is needed.",
        examples: &[
            ("List all clusters", "karmadactl get clusters"),
            (
                "List deployments of the control plane and of all member clusters",
                "karmadactl get deployments --operation-scope=all",
            ),
            (
                "List pods in the member clusters member1 and member2",
                "karmadactl get pods --operation-scope=members --clusters=member1,member2",
            ),
            (
                "Get a deployment of the control plane in YAML output format",
                "karmadactl get deployment nginx -n default -o yaml",
            ),
            (
                "List deployments with the label app=nginx in all namespaces",
                "karmadactl get deployments -A -l app=nginx",
            ),
            ("List propagation policies and deployments together", "karmadactl get propagationpolicies,deployments"),
            (
                "Watch the pods of one member cluster",
                "karmadactl get pods --operation-scope=members --clusters=member1 --watch",
            ),
        ],
    },
    Page {
        command: "create",
        group: Group::Basic,
        arguments: "-f FILENAME",
        description: "JSON and YAML formats are accepted. With a kind, one object is made from flags, as by kubectl.",
        examples: &[
            ("Create the deployment of a manifest", "karmadactl create -f deployment.yaml"),
            ("Create the objects that another command prints", "karmadactl create -f -"),
            ("Edit the manifest before the object is created", "karmadactl create -f deployment.yaml --edit"),
            ("Create a deployment without a manifest", "karmadactl create deployment web --image=nginx:1.27"),
        ],
    },
    Page {
        command: "delete",
        group: Group::Basic,
        arguments: "([-f FILENAME] | TYPE [(NAME | -l label | --all)])",
        description: "Deleted templates leave the member clusters as well, unless their policies preserve them.",
        examples: &[
            ("Delete the objects of a manifest", "karmadactl delete -f deployment.yaml"),
            ("Delete a propagation policy by its name", "karmadactl delete propagationpolicy nginx -n default"),
            ("Delete deployments and services with a label", "karmadactl delete deployments,services -l app=nginx"),
            ("Print the objects to delete", "karmadactl delete deployments --all --dry-run=server"),
        ],
    },
    Page {
        command: "edit",
        group: Group::Basic,
        arguments: "(RESOURCE/NAME | -f FILENAME)",
        description: "Opens $KUBE_EDITOR, $EDITOR or vi. A refused change is opened again with the reason.",
        examples: &[
            ("Edit a deployment", "karmadactl edit deployment/nginx -n default"),
            ("Edit a propagation policy in another editor", "karmadactl edit propagationpolicy/nginx"),
            ("Edit a cluster in JSON", "karmadactl edit cluster/member1 -o json"),
        ],
    },
];
