//! The pages of commands about clusters.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
    Page {
        command: "join",
        group: Group::Registration,
        arguments: "CLUSTER_NAME --cluster-kubeconfig=<KUBECONFIG>",
        description: "In Push mode the control plane connects to the member cluster. Service accounts are created in \
                      the member cluster, and their tokens are stored in the control plane.",
        examples: &[
            (
                "Join the cluster of a kubeconfig's current context as member1",
                "karmadactl join member1 --cluster-kubeconfig=member1.config",
            ),
            (
                "Join the cluster of another context",
                "karmadactl join member1 --cluster-kubeconfig=members.config --cluster-context=kind-member1",
            ),
            (
                "Set the provider, region and zones that policies can select",
                "karmadactl join member1 --cluster-kubeconfig=member1.config --cluster-provider=aws --cluster-region=eu-west-1 --cluster-zones=eu-west-1a,eu-west-1b",
            ),
            (
                "Check without changing anything",
                "karmadactl join member1 --cluster-kubeconfig=member1.config --dry-run",
            ),
            (
                "Register the new address and new credentials of member1",
                "karmadactl join member1 --cluster-kubeconfig=member1.config --renew",
            ),
        ],
    },
    Page {
        command: "unjoin",
        group: Group::Registration,
        arguments: "CLUSTER_NAME [--cluster-kubeconfig=<KUBECONFIG>]",
        description: "Propagated resources leave the member cluster, unless their policies preserve them. With \
                      --cluster-kubeconfig the credentials that join created are removed from the member cluster as \
                      well.",
        examples: &[
            ("Remove member1", "karmadactl unjoin member1"),
            (
                "Remove member1, and the credentials of the control plane from it",
                "karmadactl unjoin member1 --cluster-kubeconfig=member1.config",
            ),
            (
                "Print which workloads would leave member1, without changing anything",
                "karmadactl unjoin member1 --dry-run",
            ),
            (
                "Remove a cluster that no longer answers, after waiting ten seconds",
                "karmadactl unjoin member1 --wait=10s --force",
            ),
        ],
    },
    Page {
        command: "token",
        group: Group::Registration,
        arguments: "COMMAND",
        description: "With a token a cluster verifies the control plane and obtains the certificate of its agent: see \
                      karmadactl register.",
        examples: &[
            ("Create a token that is valid for a day", "karmadactl token create"),
            ("List the tokens", "karmadactl token list"),
            ("Delete a token by its id", "karmadactl token delete abcdef"),
        ],
    },
    Page {
        command: "token create",
        group: Group::Registration,
        arguments: "",
        description: "The token is printed, or the command that registers a cluster with it.",
        examples: &[
            ("Create a token that is valid for a day", "karmadactl token create"),
            (
                "Print the command that registers a cluster with a new token",
                "karmadactl token create --print-register-command --ttl=1h",
            ),
        ],
    },
    Page {
        command: "token list",
        group: Group::Registration,
        arguments: "",
        description: "",
        examples: &[("List the tokens with their remaining time", "karmadactl token list")],
    },
    Page {
        command: "token delete",
        group: Group::Registration,
        arguments: "TOKEN ...",
        description: "A deleted token authenticates no request; clusters that have registered with it stay.",
        examples: &[
            ("Delete a token by its id", "karmadactl token delete abcdef"),
            ("Check without deleting it", "karmadactl token delete abcdef --dry-run"),
            ("Delete two tokens", "karmadactl token delete abcdef ghijkl.0123456789abcdef"),
        ],
    },
    Page {
        command: "register",
        group: Group::Registration,
        arguments: "HOST:PORT --token=TOKEN --discovery-token-ca-cert-hash=sha256:HASH",
        description: "In Pull mode an agent in the cluster connects to the control plane; the cluster accepts no \
                      connections. --kubeconfig is the kubeconfig of the cluster to register. karmadactl token create \
                      --print-register-command prints the command to run.",
        examples: &[
            (
                "Register the cluster of a kubeconfig's current context as member1",
                "karmadactl register karmada.example.com:5443 --token=abcdef.0123456789abcdef --discovery-token-ca-cert-hash=sha256:1234 --cluster-name=member1 --kubeconfig=member1.config",
            ),
            (
                "Check without changing anything",
                "karmadactl register karmada.example.com:5443 --token=abcdef.0123456789abcdef --discovery-token-ca-cert-hash=sha256:1234 --cluster-name=member1 --dry-run",
            ),
        ],
    },
    Page {
        command: "unregister",
        group: Group::Registration,
        arguments: "CLUSTER_NAME --cluster-kubeconfig=<KUBECONFIG>",
        description: "Propagated resources leave the cluster, unless their policies preserve them; then the agent and \
                      its credentials are removed. Without --karmada-config the agent's own kubeconfig is used, and \
                      the agent's rights stay in the control plane.",
        examples: &[
            (
                "Remove member1, and the rights of its agent",
                "karmadactl unregister member1 --cluster-kubeconfig=member1.config --karmada-config=karmada-apiserver.config",
            ),
            (
                "Remove member1 with the credentials of its agent",
                "karmadactl unregister member1 --cluster-kubeconfig=member1.config",
            ),
        ],
    },
    Page {
        command: "cordon",
        group: Group::Management,
        arguments: "CLUSTER",
        description: "The scheduler assigns no further workloads to the cluster; existing ones stay.",
        examples: &[
            ("Mark cluster member1 as unschedulable", "karmadactl cordon member1"),
            ("Check without changing anything", "karmadactl cordon member1 --dry-run"),
        ],
    },
    Page {
        command: "uncordon",
        group: Group::Management,
        arguments: "CLUSTER",
        description: "",
        examples: &[
            ("Mark cluster member1 as schedulable", "karmadactl uncordon member1"),
            ("Check without changing anything", "karmadactl uncordon member1 --dry-run"),
        ],
    },
    Page {
        command: "taint",
        group: Group::Management,
        arguments: "CLUSTER NAME KEY_1=VAL_1:TAINT_EFFECT_1 ... KEY_N=VAL_N:TAINT_EFFECT_N",
        description: "NoSchedule rejects further workloads; NoExecute evicts those whose policies do not tolerate the \
                      taint. KEY:EFFECT- removes a taint.",
        examples: &[
            (
                "Keep further workloads away from member1",
                "karmadactl taint clusters member1 dedicated=special-user:NoSchedule",
            ),
            ("Remove the taint with this key and effect", "karmadactl taint clusters member1 dedicated:NoSchedule-"),
            ("Remove all taints with this key", "karmadactl taint clusters member1 dedicated-"),
            (
                "Print the workloads that a taint would evict, and where they would go",
                "karmadactl taint clusters member1 drain=yes:NoExecute --dry-run",
            ),
        ],
    },
    Page {
        command: "resume",
        group: Group::Management,
        arguments: "[CLUSTER... | --all]",
        description: "After the restore of a backup, members may be newer than the store. Such members are held: no \
                      object is overwritten, deleted or recreated in them. Without arguments the command lists held \
                      members. With arguments it prints, for each member, the objects to overwrite, recreate and \
                      delete, and requires confirmation.",
        examples: &[
            ("List held members", "karmadactl resume"),
            ("Print the changes in member1", "karmadactl resume member1 --dry-run"),
            ("Print each field to overwrite", "karmadactl resume member1 --dry-run --diff"),
            ("Resume all members without confirmation", "karmadactl resume --all --yes"),
        ],
    },
    Page {
        command: "failover",
        group: Group::Management,
        arguments: "(plan CLUSTER | history [CLUSTER | KIND/NAME] | release (CLUSTER... | --all))",
        description: "The plan lists, by priority, the workloads that would leave the cluster if it failed, with their \
                      times and targets, and those without a feasible target. It changes nothing. The history lists \
                      the newest 20,000 moves and those in progress, of one cluster or of one workload. A release \
                      resumes evictions from failed clusters, which the control plane paused because too much of the \
                      fleet turned unhealthy.",
        examples: &[
            ("Plan the failure of member1", "karmadactl failover plan member1"),
            (
                "Plan a taint of member1, with all numbers",
                "karmadactl failover plan member1 --taint maintenance -o yaml",
            ),
            ("List the moves from and to member1", "karmadactl failover history member1"),
            (
                "List the moves of deployment web in namespace shop",
                "karmadactl failover history deployment/web -n shop",
            ),
            ("Release paused evictions from member1", "karmadactl failover release member1"),
        ],
    },
];
