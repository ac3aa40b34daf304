//! The pages of settings and of other commands.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
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
        examples: &[("Print the flags of every command", "karmadactl options")],
    },
];
