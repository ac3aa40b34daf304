//! The help of each command except its flags: group, usage and examples.

mod advanced;
mod basic;
mod clusters;
mod create;
mod others;
mod troubleshooting;

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

/// One command. In texts, `karmadactl` is replaced by the program's name.
#[derive(Debug)]
pub struct Page {
    pub command: &'static str,
    pub group: Group,
    /// The arguments of the usage line.
    pub arguments: &'static str,
    /// The description below the one-line summary.
    pub description: &'static str,
    /// Each with a comment before it.
    pub examples: &'static [(&'static str, &'static str)],
}

/// Every page, in the order of the root help.
pub fn all() -> impl Iterator<Item = &'static Page> {
    [basic::PAGES, create::PAGES, clusters::PAGES, troubleshooting::PAGES, advanced::PAGES, others::PAGES]
        .into_iter()
        .flatten()
}

/// The page of a command; every command of the tree has one, which a test checks.
pub fn page(command: &str) -> Option<&'static Page> {
    all().find(|page| page.command == command)
}

/// Commands of upstream that this version does not have, with their replacements.
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

/// Commands that only kubectl has, and that work with the control plane.
const OF_KUBECTL: &[&str] = &[
    "auth",
    "autoscale",
    "certificate",
    "cluster-info",
    "config",
    "events",
    "expose",
    "kustomize",
    "plugin",
    "proxy",
    "replace",
    "run",
    "scale",
    "set",
];
/// Commands that only kubectl has, and that work with the nodes and the running pods of a member.
const OF_KUBECTL_IN_MEMBERS: &[&str] = &["cp", "debug", "drain", "port-forward"];

/// How a command of kubectl's is run; `None` for any other word.
pub fn with_kubectl(command: &str) -> Option<String> {
    if OF_KUBECTL.contains(&command) {
        return Some(format!(
            "It is a command of kubectl, which works with the same kubeconfig:\n\tkubectl {command}\n"
        ));
    }
    OF_KUBECTL_IN_MEMBERS.contains(&command).then(|| {
        format!(
            "It is a command of kubectl, which reaches a member by its path behind the address of the control plane:\n\t\
             kubectl --server=https://HOST:PORT/apis/cluster.karmada.io/v1alpha1/clusters/NAME/proxy {command}\n"
        )
    })
}
