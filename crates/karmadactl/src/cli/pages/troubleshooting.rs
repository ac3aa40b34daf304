//! The pages of commands that troubleshoot and debug.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
    Page {
        command: "attach",
        group: Group::Troubleshooting,
        arguments: "(POD | TYPE/NAME) -c CONTAINER",
        description: "Prints the output of the process in the container; with -i it also sends the standard input.",
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
        description: "Prints the objects, and the events about them: built-in kinds in kubectl's layouts, every field \
                      of all others.",
        examples: &[
            ("Describe a cluster", "karmadactl describe cluster member1"),
            ("Describe a pod of member1", "karmadactl describe pods/nginx --operation-scope=members --cluster=member1"),
            ("Describe all propagation policies with a label", "karmadactl describe propagationpolicies -l app=nginx"),
        ],
    },
    Page {
        command: "why",
        group: Group::Troubleshooting,
        arguments: "(-f FILENAME | TYPE NAME | TYPE/NAME) [-n namespace]",
        description: "The first lines show the state, the awaited event and the next step. Evidence follows: policies, \
                      clusters, overrides, Works, evictions. Resources may be templates, bindings, Works, clusters and \
                      objects that only members have.",
        examples: &[
            ("Explain the state of deployment web in namespace shop", "karmadactl why deployment/web -n shop"),
            ("Explain the objects of a file", "karmadactl why -f web.yaml"),
            ("Explain a Work", "karmadactl why work/web-5f8b9d -n karmada-es-member1"),
            (
                "Explain why a cluster is not ready, and list the objects that wait for it",
                "karmadactl why cluster/member1",
            ),
            ("Print the page as data", "karmadactl why deployment/web -n shop -o json"),
        ],
    },
    Page {
        command: "tree",
        group: Group::Troubleshooting,
        arguments: "(TYPE NAME | TYPE/NAME) [-n namespace]",
        description: "Below each binding are its Works, below each Work the object in the member. Dependencies that \
                      the policy propagates follow.",
        examples: &[
            ("Print deployment web and all objects created from it", "karmadactl tree deployment/web -n shop"),
            ("Print it as data", "karmadactl tree deployment/web -n shop -o json"),
        ],
    },
    Page {
        command: "doctor",
        group: Group::Troubleshooting,
        arguments: "",
        description: "Checks certificates, clocks, members, queues, the store, and stuck objects: not scheduled, not \
                      applied, not deleted. Each finding has its evidence and the next step. The exit code is 1 if one \
                      is an error. The command only reads.",
        examples: &[
            ("Check everything", "karmadactl doctor"),
            ("Give each server half a minute to answer", "karmadactl doctor --timeout=30s"),
            ("Print the findings for programs", "karmadactl doctor -o json"),
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
                "Save the input of the decision, and explain it later without a server",
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
];
