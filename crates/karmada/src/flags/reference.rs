//! The pages of the documentation that are generated from data; a test compares them with `docs/reference`.

use std::fmt::Write as _;

use karmada_api::gates::GATES;
use metrics::{Buckets, Description, Kind};

use super::gates::{EFFECTIVE_GATES, NEEDLESS_GATES};
use super::{COMPONENTS, Ignored, UP, flags};

const MADE: &str =
    "<!-- Made from the program's data by `UPDATE_DOCS=1 cargo test -p karmada reference`; do not edit. -->\n";

/// `docs/reference/flags.md`.
pub fn flags_page() -> String {
    let mut page = format!(
        "# Flags of upstream's components\n\n{MADE}\nNames and types are upstream's, and so are defaults unless the table shows another one. All are accepted. The last \
         column\nlists the commands in which a flag has an effect. Elsewhere another value than the default is accepted with a \
         notice where it needs no effect, and refused otherwise;\nnone is ignored silently. Log flags about files are accepted: \
         logs go to standard error, where upstream ignores them too.\n\n\
         `--help` of a command lists the flags that have an effect, `--help-all` lists all of them.\n"
    );
    page.push_str(&ports());
    for component in COMPONENTS {
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## karmada-{component}\n\n| flag | type | default | meaning | works in |\n|---|---|---|---|---|\n"
        );
        for flag in flags() {
            let Some(default) = flag.default_of(component) else { continue };
            let up = UP.contains(component) && flag.is_effective("up");
            let works = [(up, "up"), (flag.is_effective(component), *component)];
            let works: Vec<&str> = works.into_iter().filter_map(|(works, name)| works.then_some(name)).collect();
            let works = match flag.ignored {
                _ if !works.is_empty() => works.join(", "),
                Ignored::Notice(why) => format!("needs no effect: {why}"),
                Ignored::Inert => "needs no effect".to_owned(),
                Ignored::Refused(Some(why)) => format!("refused: {why}"),
                Ignored::Refused(None) => String::new(),
            };
            let default = match flag.default_here(component) {
                Some("") if !default.is_empty() => format!("none (upstream `{default}`)"),
                Some(here) if here != default => format!("`{here}` (upstream `{default}`)"),
                _ if default.is_empty() => String::new(),
                _ => format!("`{default}`"),
            };
            let _ = writeln!(
                page,
                "| `--{}` | {} | {default} | {} | {} |",
                flag.name,
                flag.type_,
                flag.meaning.replace('|', "\\|"),
                works
            );
        }
    }
    page
}

/// The section of default sockets.
fn ports() -> String {
    let mut text = "\n## What listens by default\n\nMetrics and health listen on loopback. `:8080` or `0.0.0.0:8080` opens them to other machines, `0` turns them off. A component \
                    that others call\nlistens on all addresses. `karmada up`, `karmada apiserver` and `karmada member` listen on `127.0.0.1` \
                    (`--bind-address`, `--secure-port`) and on nothing else.\n\n| component | flags | address |\n|---|---|---|\n"
        .to_owned();
    for super::Listener { component, flags, address } in super::listeners() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| karmada-{component} | {flags} | `{address}` |");
    }
    text
}

/// `docs/reference/feature-gates.md`.
pub fn gates_page() -> String {
    let mut page = format!(
        "# Feature gates\n\n{MADE}\n`--feature-gates=Name=true,...`; `AllAlpha` and `AllBeta` set every gate of the stage that is not named.\n\n\
         | gate | stage | default | since | when open | can be changed |\n|---|---|---|---|---|---|\n"
    );
    for gate in GATES {
        let works = match gate.name {
            name if EFFECTIVE_GATES.contains(&name) => "yes",
            name if NEEDLESS_GATES.contains(&name) => "yes, without effect: it is about Go's logging library",
            _ => "not yet",
        };
        let stage = gate.stage.as_str();
        let _ = writeln!(
            page,
            "| {} | {stage} | {} | {} | {} | {works} |",
            gate.name, gate.default, gate.since, gate.effect
        );
    }
    page
}

fn buckets(kind: Kind) -> String {
    match kind {
        Kind::Histogram(Buckets::Default) => "5 ms to 10 s, eleven".to_owned(),
        Kind::Histogram(Buckets::Exponential { start, factor, count }) => format!("{start} s × {factor}ⁱ, {count}"),
        Kind::Histogram(Buckets::Listed(bounds)) => format!("{} bounds", bounds.len()),
        Kind::Counter | Kind::Sum | Kind::Gauge => String::new(),
    }
}

/// `docs/reference/metrics.md`.
pub fn metrics_page() -> String {
    let mut page = format!(
        "# Metrics\n\n{MADE}\nNames and labels are upstream's. `karmada up` and `karmada apiserver` serve them at `/metrics` of the API (the client needs \
         the right\n`get` on the path `/metrics`), the other commands on `--metrics-bind-address`. A family appears once it has a value.\n"
    );
    let parts: [(&str, &[Description]); 23] = [
        ("Controllers", controllers::metrics::ALL),
        ("Autoscaling", controllers::SCALING_METRICS),
        ("Scheduler", scheduler::metrics::ALL),
        ("Estimator", estimator::metrics::ALL),
        ("Queues and passes", controller_runtime::metrics::ALL),
        ("Leases", crate::components::METRICS),
        ("Clients", client::metrics::ALL),
        ("API server", apiserver::metrics::ALL),
        ("API priority and fairness", apiserver::flow::METRICS),
        ("Auditing", apiserver::audit::ALL),
        ("Traces", otlp::ALL),
        ("Admission webhooks", admission::counted::ALL),
        ("Aggregated API servers", aggregation::counted::ALL),
        ("Store", crate::metrics::ALL),
        ("Store in etcd", crate::external::METRICS),
        ("Events in memory", crate::event_storage::METRICS),
        ("Backups", crate::backups::schedule::METRICS),
        ("Certificates", crate::certificates::METRICS),
        ("Identity", crate::identity::METRICS),
        ("Webhook", crate::webhook::METRICS),
        ("Search with OpenSearch", fleet_api::opensearch::ALL),
        ("Agent tunnels", tunnel::metrics::ALL),
        ("Process", crate::metrics::PROCESS),
    ];
    for (title, families) in parts {
        let _ = write!(page, "\n## {title}\n\n| name | type | labels | buckets | meaning |\n|---|---|---|---|---|\n");
        for family in families {
            let labels = family.labels.join(", ");
            let _ = writeln!(
                page,
                "| `{}` | {} | {labels} | {} | {} |",
                family.name,
                family.type_name(),
                buckets(family.kind),
                family.help
            );
        }
    }
    page.push_str(NOT_HERE);
    page
}

/// Families that upstream declares and never serves.
const NOT_HERE: &str = "
## Not served

Upstream declares these families for FederatedHPA and never serves them:

| name | type | labels |
|---|---|---|
| `horizontal_pod_autoscaler_controller_metric_computation_total` | counter | action, error, metric_type |
| `horizontal_pod_autoscaler_controller_metric_computation_duration_seconds` | histogram | action, error, metric_type |
";
