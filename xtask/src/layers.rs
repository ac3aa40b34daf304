//! The layers of the workspace, as data. A dependency between two crates is allowed only if it is listed here;
//! `tests/it/layers.rs` compares the list with cargo's metadata.

/// A crate, its allowed dependencies in the workspace, and whether it is pure.
pub struct Layer {
    pub name: &'static str,
    pub may_use: &'static [&'static str],
    /// Pure crates decide: no async runtime, no sockets, no clock.
    pub pure: bool,
}

const fn pure(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use, pure: true }
}

const fn shell(name: &'static str, may_use: &'static [&'static str]) -> Layer {
    Layer { name, may_use, pure: false }
}

/// Bottom up; a crate uses only crates above its own row.
pub const LAYERS: &[Layer] = &[
    pure("apimachinery", &[]),
    pure("metrics", &[]),
    pure("audit", &["apimachinery"]),
    pure("cel", &["apimachinery"]),
    pure("apiextensions", &["apimachinery", "cel"]),
    pure("kubernetes-api", &["apimachinery", "cel"]),
    pure("karmada-api", &["apimachinery", "apiextensions"]),
    pure("interpreter", &["apimachinery", "karmada-api"]),
    pure("propagation", &["apimachinery", "apiextensions", "karmada-api", "interpreter"]),
    pure("scheduling", &["apimachinery", "karmada-api", "interpreter", "propagation"]),
    shell("world", &[]),
    shell("pki", &["world"]),
    shell("transport", &["apimachinery"]),
    shell("storage", &[]),
    shell("faults", &[]),
    shell("client", &["apimachinery", "metrics", "transport", "world"]),
    shell(
        "apiserver",
        &[
            "apimachinery",
            "audit",
            "metrics",
            "apiextensions",
            "kubernetes-api",
            "transport",
            "storage",
            "world",
            "pki",
        ],
    ),
    shell(
        "admission",
        &["apimachinery", "cel", "metrics", "kubernetes-api", "transport", "storage", "world", "client", "apiserver"],
    ),
    shell("controller-runtime", &["apimachinery", "metrics", "transport", "client", "world"]),
    shell("tunnel", &["metrics", "karmada-api", "transport", "client", "controller-runtime", "world"]),
    shell(
        "kube-controllers",
        &["apimachinery", "kubernetes-api", "transport", "client", "controller-runtime", "world", "pki"],
    ),
    shell(
        "controllers",
        &[
            "apimachinery",
            "metrics",
            "karmada-api",
            "interpreter",
            "propagation",
            "client",
            "controller-runtime",
            "pki",
            "transport",
            "world",
            "pki",
        ],
    ),
    shell(
        "fleet-api",
        &[
            "apimachinery",
            "kubernetes-api",
            "karmada-api",
            "propagation",
            "transport",
            "client",
            "apiserver",
            "controller-runtime",
            "tunnel",
            "controllers",
        ],
    ),
    shell(
        "estimator",
        &["apimachinery", "metrics", "karmada-api", "scheduling", "transport", "client", "controller-runtime", "world"],
    ),
    shell(
        "scheduler",
        &[
            "apimachinery",
            "metrics",
            "estimator",
            "karmada-api",
            "propagation",
            "scheduling",
            "client",
            "controller-runtime",
            "transport",
            "world",
        ],
    ),
    shell(
        "simulator",
        &[
            "apimachinery",
            "kubernetes-api",
            "transport",
            "storage",
            "client",
            "apiserver",
            "controller-runtime",
            "kube-controllers",
            "world",
            "pki",
        ],
    ),
    shell(
        "karmadactl",
        &[
            "apimachinery",
            "apiextensions",
            "karmada-api",
            "kubernetes-api",
            "interpreter",
            "propagation",
            "scheduling",
            "client",
            "transport",
            "world",
            "pki",
        ],
    ),
    shell(
        "karmada",
        &[
            "apimachinery",
            "audit",
            "metrics",
            "apiextensions",
            "karmada-api",
            "kubernetes-api",
            "interpreter",
            "propagation",
            "transport",
            "storage",
            "client",
            "apiserver",
            "admission",
            "controller-runtime",
            "kube-controllers",
            "controllers",
            "estimator",
            "scheduler",
            "scheduling",
            "simulator",
            "karmadactl",
            "fleet-api",
            "tunnel",
            "pki",
            "world",
        ],
    ),
    shell(
        "bench",
        &[
            "apimachinery",
            "apiserver",
            "client",
            "controller-runtime",
            "karmada-api",
            "kubernetes-api",
            "storage",
            "transport",
            "world",
        ],
    ),
    shell(
        "fuzz",
        &[
            "apimachinery",
            "cel",
            "apiextensions",
            "kubernetes-api",
            "transport",
            "storage",
            "client",
            "apiserver",
            "world",
        ],
    ),
    shell("xtask", &["apimachinery", "karmada-api", "scheduling"]),
];

/// Crates that a pure crate may not use directly.
pub const IMPURE: &[&str] =
    &["tokio", "kube", "k8s-openapi", "hyper", "axum", "tower", "rand", "redb", "fjall", "rusqlite"];
