//! The help of each command beside its flags: group, usage and examples.

/// The groups of the root help, as upstream names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Basic,
    Registration,
    Management,
    Troubleshooting,
    Advanced,
    Settings,
    Other,
    /// Not listed.
    Hidden,
}

impl Group {
    /// In the order of the root help.
    pub const LISTED: [Self; 7] = [
        Self::Basic,
        Self::Registration,
        Self::Management,
        Self::Troubleshooting,
        Self::Advanced,
        Self::Settings,
        Self::Other,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Basic => "Basic Commands:",
            Self::Registration => "Cluster Registration Commands:",
            Self::Management => "Cluster Management Commands:",
            Self::Troubleshooting => "Troubleshooting and Debugging Commands:",
            Self::Advanced => "Advanced Commands:",
            Self::Settings => "Settings Commands:",
            Self::Other => "Other Commands:",
            Self::Hidden => "",
        }
    }
}

/// One command. `karmadactl` in texts stands for the program's name.
#[derive(Debug)]
pub struct Page {
    pub command: &'static str,
    pub group: Group,
    /// The arguments of the usage line.
    pub arguments: &'static str,
    /// What the one-line description leaves out.
    pub description: &'static str,
    /// Each with a comment before it.
    pub examples: &'static [(&'static str, &'static str)],
}

/// In the order of the root help.
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
        description: "JSON and YAML formats are accepted.",
        examples: &[
            ("Create the deployment of a manifest", "karmadactl create -f deployment.yaml"),
            ("Create what another command prints", "karmadactl create -f -"),
            ("Edit the manifest before the object is created", "karmadactl create -f deployment.yaml --edit"),
        ],
    },
    Page {
        command: "delete",
        group: Group::Basic,
        arguments: "([-f FILENAME] | TYPE [(NAME | -l label | --all)])",
        description: "Deleted templates leave the member clusters as well, unless their policies preserve them.",
        examples: &[
            ("Delete what a manifest describes", "karmadactl delete -f deployment.yaml"),
            ("Delete a propagation policy by its name", "karmadactl delete propagationpolicy nginx -n default"),
            ("Delete deployments and services with a label", "karmadactl delete deployments,services -l app=nginx"),
            ("Print what would be deleted", "karmadactl delete deployments --all --dry-run=server"),
        ],
    },
    Page {
        command: "edit",
        group: Group::Basic,
        arguments: "(RESOURCE/NAME | -f FILENAME)",
        description: "Opens $KUBE_EDITOR or $EDITOR, else vi. A change that the server refuses is opened again with the reason.",
        examples: &[
            ("Edit a deployment", "karmadactl edit deployment/nginx -n default"),
            ("Edit a propagation policy in another editor", "karmadactl edit propagationpolicy/nginx"),
            ("Edit a cluster in JSON", "karmadactl edit cluster/member1 -o json"),
        ],
    },
    Page {
        command: "join",
        group: Group::Registration,
        arguments: "CLUSTER_NAME --cluster-kubeconfig=<KUBECONFIG>",
        description: "In Push mode the control plane connects to the member cluster. Service accounts are created in the \
                      member cluster, and their tokens are stored in the control plane.",
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
        ],
    },
    Page {
        command: "unjoin",
        group: Group::Registration,
        arguments: "CLUSTER_NAME [--cluster-kubeconfig=<KUBECONFIG>]",
        description: "Propagated resources leave the member cluster, unless their policies preserve them. With \
                      --cluster-kubeconfig the credentials that join created are removed from the member cluster as well.",
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
        arguments: "create | list | delete TOKEN...",
        description: "A bootstrap token lets a cluster register itself: it signs the public description of the control plane, and \
                      obtains a certificate for the agent of a cluster that is not registered yet. Pass a token over a channel \
                      that you trust, and let it expire. All flags are those of create.",
        examples: &[
            ("Create a token that is valid for a day", "karmadactl token create"),
            (
                "Print the command that registers a cluster with a new token",
                "karmadactl token create --print-register-command --ttl=1h",
            ),
            ("List the tokens", "karmadactl token list"),
            ("Delete a token by its id", "karmadactl token delete abcdef"),
        ],
    },
    Page {
        command: "register",
        group: Group::Registration,
        arguments: "HOST:PORT --token=TOKEN --discovery-token-ca-cert-hash=sha256:HASH",
        description: "In Pull mode an agent in the cluster connects to the control plane; nothing connects to the cluster. \
                      --kubeconfig is that of the cluster that is registered. karmadactl token create \
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
        description: "Propagated resources leave the cluster, unless their policies preserve them; then the agent and its \
                      credentials are removed. Without --karmada-config the agent's own kubeconfig is used, and the agent's \
                      rights stay in the control plane.",
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
        description: "The scheduler chooses the cluster for no further workloads; those that run there stay.",
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
        description: "NoSchedule keeps further workloads away; NoExecute evicts those whose policies do not tolerate the taint. KEY:EFFECT- removes a taint.",
        examples: &[
            (
                "Keep further workloads away from member1",
                "karmadactl taint clusters member1 dedicated=special-user:NoSchedule",
            ),
            ("Remove the taint with this key and effect", "karmadactl taint clusters member1 dedicated:NoSchedule-"),
            ("Remove all taints with this key", "karmadactl taint clusters member1 dedicated-"),
            ("Check without changing anything", "karmadactl taint clusters member1 drain=yes:NoExecute --dry-run"),
        ],
    },
    Page {
        command: "resume",
        group: Group::Management,
        arguments: "[CLUSTER... | --all]",
        description: "After a backup is restored, the store is older than what members have. Such members are held: nothing is \
                      overwritten, deleted or recreated in them. Without arguments the command lists them. With them it \
                      prints, for each member, which objects would be overwritten, recreated and deleted, and asks for \
                      confirmation.",
        examples: &[
            ("List the members that are held", "karmadactl resume"),
            ("Print what would change in member1", "karmadactl resume member1 --dry-run"),
            ("Print each field that would be overwritten", "karmadactl resume member1 --dry-run --diff"),
            ("Resume all members without a question", "karmadactl resume --all --yes"),
        ],
    },
    Page {
        command: "failover",
        group: Group::Management,
        arguments: "(plan CLUSTER | history [CLUSTER | KIND/NAME] | release (CLUSTER... | --all))",
        description: "The plan shows, in the order of their priority, which workloads would leave the cluster if it died, when, \
                      where they would go, and which of them would find no place. It changes nothing. The history lists the newest 20,000 \
                      moves and those in progress, of one cluster or of one workload. A release ends the pause \
                      of evictions from clusters that are lost, which the control plane began because too much of the fleet \
                      turned unhealthy.",
        examples: &[
            ("Print what would happen if member1 died", "karmadactl failover plan member1"),
            (
                "Print what would leave member1 for a taint, with all numbers",
                "karmadactl failover plan member1 --taint maintenance -o yaml",
            ),
            ("List what left member1 or came to it", "karmadactl failover history member1"),
            (
                "List the moves of deployment web in namespace shop",
                "karmadactl failover history deployment/web -n shop",
            ),
            ("Let workloads leave member1 though evictions are paused", "karmadactl failover release member1"),
        ],
    },
    Page {
        command: "attach",
        group: Group::Troubleshooting,
        arguments: "(POD | TYPE/NAME) -c CONTAINER",
        description: "The output is that of the process in the container; with -i it reads the standard input.",
        examples: &[
            (
                "Attach to pod mypod of member1 and print its output",
                "karmadactl attach mypod --operation-scope=members --cluster=member1",
            ),
            (
                "Attach to container ruby with a terminal",
                "karmadactl attach mypod -c ruby -i -t --operation-scope=members --cluster=member1",
            ),
        ],
    },
    Page {
        command: "logs",
        group: Group::Troubleshooting,
        arguments: "[-f] [-p] (POD | TYPE/NAME) [-c CONTAINER] (-C CLUSTER)",
        description: "",
        examples: &[
            ("Print the logs of pod nginx of member1", "karmadactl logs nginx -C member1"),
            (
                "Follow the logs of all containers of the pods with a label",
                "karmadactl logs -f -l app=nginx --all-containers -C member1",
            ),
            ("Print the last 20 lines of a deployment's pod", "karmadactl logs deployment/nginx --tail=20 -C member1"),
        ],
    },
    Page {
        command: "exec",
        group: Group::Troubleshooting,
        arguments: "(POD | TYPE/NAME) [-c CONTAINER] (-C CLUSTER) -- COMMAND [args...]",
        description: "The exit code is that of the command.",
        examples: &[
            (
                "Print the date in the first container of pod mypod of member1",
                "karmadactl exec mypod --operation-scope=members --cluster=member1 -- date",
            ),
            (
                "Open a shell in container ruby",
                "karmadactl exec mypod -c ruby -i -t --operation-scope=members --cluster=member1 -- sh",
            ),
        ],
    },
    Page {
        command: "describe",
        group: Group::Troubleshooting,
        arguments: "(-f FILENAME | TYPE [NAME_PREFIX | -l label] | TYPE/NAME) (--operation-scope=SCOPE --cluster=CLUSTER)",
        description: "Prints every field of the objects, and the events about them.",
        examples: &[
            ("Describe a cluster", "karmadactl describe cluster member1"),
            ("Describe a pod of member1", "karmadactl describe pods/nginx --operation-scope=members --cluster=member1"),
            ("Describe all propagation policies with a label", "karmadactl describe propagationpolicies -l app=nginx"),
        ],
    },
    Page {
        command: "explain-placement",
        group: Group::Troubleshooting,
        arguments: "(TYPE NAME | TYPE/NAME | NAME) [-n namespace]",
        description: "",
        examples: &[
            (
                "Explain where deployment web in namespace shop runs, and why",
                "karmadactl explain-placement deployment web -n shop",
            ),
            (
                "Explain as if cluster member1 did not exist",
                "karmadactl explain-placement deployment web -n shop --without-cluster=member1",
            ),
            (
                "Save what the decision is made of, and explain it later without a server",
                "karmadactl explain-placement deployment web -n shop --save=web.yaml\nkarmadactl explain-placement -f web.yaml",
            ),
        ],
    },
    Page {
        command: "interpret",
        group: Group::Troubleshooting,
        arguments: "(-f FILENAME) (--operation OPERATION) [--ARGS VALUE]...",
        description: "Scripts run on files, without a control plane; --edit changes those of the control plane.",
        examples: &[
            ("Validate the scripts of a customization", "karmadactl interpret -f customization.yaml --check"),
            (
                "Print the replicas that a customization finds in an object",
                "karmadactl interpret -f customization.yaml --operation=InterpretReplica --desired-file=object.yaml",
            ),
            (
                "Run the retention script with the desired and the observed object",
                "karmadactl interpret -f customization.yaml --operation=Retain --desired-file=desired.yaml --observed-file=observed.yaml",
            ),
            (
                "Aggregate statuses",
                "karmadactl interpret -f customization.yaml --operation=AggregateStatus --desired-file=object.yaml --status-file=items.yaml",
            ),
            (
                "Edit the scripts of a customization of the control plane",
                "karmadactl interpret -f customization.yaml --edit",
            ),
        ],
    },
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
    Page {
        command: "label",
        group: Group::Settings,
        arguments: "[--overwrite] (-f FILENAME | TYPE NAME) KEY_1=VAL_1 ... KEY_N=VAL_N [--resource-version=version]",
        description: "KEY- removes a label.",
        examples: &[
            ("Label a cluster", "karmadactl label cluster member1 environment=production"),
            ("Replace the value of a label", "karmadactl label --overwrite cluster member1 environment=test"),
            ("Remove a label", "karmadactl label cluster member1 environment-"),
            ("Print the labels of all clusters", "karmadactl label clusters --all --list"),
        ],
    },
    Page {
        command: "annotate",
        group: Group::Settings,
        arguments: "[--overwrite] (-f FILENAME | TYPE NAME) KEY_1=VAL_1 ... KEY_N=VAL_N [--resource-version=version]",
        description: "KEY- removes an annotation.",
        examples: &[
            ("Annotate a deployment", "karmadactl annotate deployment nginx description=frontend"),
            (
                "Replace the value of an annotation",
                "karmadactl annotate --overwrite deployment nginx description=backend",
            ),
            ("Remove an annotation", "karmadactl annotate deployment nginx description-"),
        ],
    },
    Page {
        command: "completion",
        group: Group::Settings,
        arguments: "SHELL",
        description: "",
        examples: &[
            ("Load completion into the current bash", "source <(karmadactl completion bash)"),
            ("Load completion into every new zsh", "karmadactl completion zsh > \"${fpath[1]}/_karmadactl\""),
            (
                "Load completion into every new fish",
                "karmadactl completion fish > ~/.config/fish/completions/karmadactl.fish",
            ),
            (
                "Load completion into the current PowerShell",
                "karmadactl completion powershell | Out-String | Invoke-Expression",
            ),
        ],
    },
    Page {
        command: "api-resources",
        group: Group::Other,
        arguments: "",
        description: "",
        examples: &[
            ("Print the supported API resources of the control plane", "karmadactl api-resources"),
            ("Print them with more information", "karmadactl api-resources -o wide"),
            ("Print those of a member cluster", "karmadactl api-resources --operation-scope=members --cluster=member1"),
            ("Print those of one API group", "karmadactl api-resources --api-group=policy.karmada.io"),
        ],
    },
    Page {
        command: "api-versions",
        group: Group::Other,
        arguments: "",
        description: "",
        examples: &[
            ("Print the supported API versions of the control plane", "karmadactl api-versions"),
            ("Print those of a member cluster", "karmadactl api-versions --operation-scope=members --cluster=member1"),
        ],
    },
    Page {
        command: "version",
        group: Group::Other,
        arguments: "",
        description: "",
        examples: &[
            ("Print the version of this program", "karmadactl version"),
            ("Print the commit and the date of the build as JSON", "karmadactl version -o json"),
        ],
    },
    Page {
        command: "options",
        group: Group::Hidden,
        arguments: "",
        description: "",
        examples: &[("Print the flags that every command takes", "karmadactl options")],
    },
];

/// The page of a command; every command of the tree has one, which a test checks.
pub fn page(command: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.command == command)
}

/// Commands of upstream that this version does not have, and what does their work meanwhile.
pub const ABSENT: &[(&str, &str)] = &[
    (
        "addons",
        "search runs in `karmada up`, the descheduler with `karmada up --descheduler`; `karmada scheduler-estimator` runs \
         beside it",
    ),
    ("deinit", "stop `karmada up` and remove its data directory"),
    ("init", "use `karmada up`, which runs the whole control plane in one process"),
];

/// The answer to a command that is not built; `None` for any other word.
pub fn absent(program: &str, command: &str) -> Option<String> {
    let (_, instead) = ABSENT.iter().find(|(name, _)| *name == command)?;
    let instead = instead.replace("karmadactl", program);
    Some(format!("error: \"{program} {command}\" is not part of this version: {instead}\n"))
}
