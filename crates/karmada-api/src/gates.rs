//! Feature gates: upstream's names, stages and defaults, one additional gate with Kubernetes' name, and the parser of
//! `--feature-gates`.

use std::collections::{BTreeMap, BTreeSet};

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Disabled by default; may change.
    Alpha,
    /// Complete; may be enabled by default.
    Beta,
}

impl Stage {
    /// The stage in `--help`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
        }
    }

    /// The name that sets every gate of the stage.
    fn all(self) -> &'static str {
        match self {
            Self::Alpha => "AllAlpha",
            Self::Beta => "AllBeta",
        }
    }
}

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Upstream's name.
    pub name: &'static str,
    /// Its stage.
    pub stage: Stage,
    /// Whether it is enabled by default.
    pub default: bool,
    /// Upstream's version that introduced it, with the stage then if another; empty if unknown.
    pub since: &'static str,
    /// The feature that it enables.
    pub effect: &'static str,
}

const fn gate(name: &'static str, stage: Stage, default: bool, since: &'static str, effect: &'static str) -> Gate {
    Gate { name, stage, default, since, effect }
}

use Stage::{Alpha, Beta};

/// The gate `ContextualLogging`; see [`GATES`].
pub const CONTEXTUAL_LOGGING: &str = "ContextualLogging";
/// The gate `ControllerPriorityQueue`; see [`GATES`].
pub const CONTROLLER_PRIORITY_QUEUE: &str = "ControllerPriorityQueue";
/// The gate `CustomizedClusterResourceModeling`; see [`GATES`].
pub const CUSTOMIZED_CLUSTER_RESOURCE_MODELING: &str = "CustomizedClusterResourceModeling";
/// The gate `Failover`; see [`GATES`].
pub const FAILOVER: &str = "Failover";
/// The gate `FederatedQuotaEnforcement`; see [`GATES`].
pub const FEDERATED_QUOTA_ENFORCEMENT: &str = "FederatedQuotaEnforcement";
/// The gate `GracefulEviction`; see [`GATES`].
pub const GRACEFUL_EVICTION: &str = "GracefulEviction";
/// The gate `HPAScaleToZero`, which upstream does not have; see [`GATES`].
pub const HPA_SCALE_TO_ZERO: &str = "HPAScaleToZero";
/// The gate `LoggingAlphaOptions`; see [`GATES`].
pub const LOGGING_ALPHA_OPTIONS: &str = "LoggingAlphaOptions";
/// The gate `LoggingBetaOptions`; see [`GATES`].
pub const LOGGING_BETA_OPTIONS: &str = "LoggingBetaOptions";
/// The gate `MultiClusterService`; see [`GATES`].
pub const MULTI_CLUSTER_SERVICE: &str = "MultiClusterService";
/// The gate `MultiplePodTemplatesScheduling`; see [`GATES`].
pub const MULTIPLE_POD_TEMPLATES_SCHEDULING: &str = "MultiplePodTemplatesScheduling";
/// The gate `PriorityBasedScheduling`; see [`GATES`].
pub const PRIORITY_BASED_SCHEDULING: &str = "PriorityBasedScheduling";
/// The gate `PropagateDeps`; see [`GATES`].
pub const PROPAGATE_DEPS: &str = "PropagateDeps";
/// The gate `PropagationPolicyPreemption`; see [`GATES`].
pub const PROPAGATION_POLICY_PREEMPTION: &str = "PropagationPolicyPreemption";
/// The gate `ResourceQuotaEstimate`; see [`GATES`].
pub const RESOURCE_QUOTA_ESTIMATE: &str = "ResourceQuotaEstimate";
/// The gate `SchedulingOvercommitProtection`; see [`GATES`].
pub const SCHEDULING_OVERCOMMIT_PROTECTION: &str = "SchedulingOvercommitProtection";
/// The gate `StatefulFailoverInjection`; see [`GATES`].
pub const STATEFUL_FAILOVER_INJECTION: &str = "StatefulFailoverInjection";
/// The gate `WorkloadAffinity`; see [`GATES`].
pub const WORKLOAD_AFFINITY: &str = "WorkloadAffinity";

/// All gates, by name.
pub const GATES: &[Gate] = &[
    gate(CONTEXTUAL_LOGGING, Beta, true, "1.15", "log lines carry the context of the request they belong to"),
    gate(
        CONTROLLER_PRIORITY_QUEUE,
        Beta,
        true,
        "1.15 (alpha), 1.17",
        "first lists and resyncs come after changes in work queues",
    ),
    gate(
        CUSTOMIZED_CLUSTER_RESOURCE_MODELING,
        Beta,
        true,
        "",
        "clusters get resource models, and nodes are counted by them",
    ),
    gate(FAILOVER, Beta, false, "", "taints put on clusters by policies; evictions by NoExecute taints"),
    gate(
        FEDERATED_QUOTA_ENFORCEMENT,
        Alpha,
        false,
        "1.14",
        "bindings that exceed a FederatedResourceQuota are rejected",
    ),
    gate(
        GRACEFUL_EVICTION,
        Beta,
        true,
        "",
        "failover of an application may keep the old copy until the new one is healthy",
    ),
    gate(
        HPA_SCALE_TO_ZERO,
        Alpha,
        false,
        "",
        "FederatedHPAs may have minReplicas 0 and metrics of type External, as HorizontalPodAutoscalers",
    ),
    gate(LOGGING_ALPHA_OPTIONS, Alpha, false, "1.15", "buffers and separate streams for logs"),
    gate(LOGGING_BETA_OPTIONS, Beta, true, "1.15", "logs as JSON"),
    gate(MULTI_CLUSTER_SERVICE, Alpha, false, "", "MultiClusterServices are reconciled"),
    gate(
        MULTIPLE_POD_TEMPLATES_SCHEDULING,
        Alpha,
        false,
        "1.15",
        "workloads of several components are scheduled as sets",
    ),
    gate(
        PRIORITY_BASED_SCHEDULING,
        Beta,
        true,
        "1.13 (alpha), 1.19",
        "bindings of higher priority are scheduled first",
    ),
    gate(PROPAGATE_DEPS, Beta, true, "", "dependencies of a workload are propagated with it"),
    gate(
        PROPAGATION_POLICY_PREEMPTION,
        Alpha,
        false,
        "",
        "policies with preemption Always take over templates of others",
    ),
    gate(RESOURCE_QUOTA_ESTIMATE, Alpha, false, "", "estimators count the ResourceQuotas of members"),
    gate(
        SCHEDULING_OVERCOMMIT_PROTECTION,
        Alpha,
        false,
        "1.18",
        "scheduled workloads use capacity before members report them",
    ),
    gate(STATEFUL_FAILOVER_INJECTION, Alpha, false, "1.12", "state is carried over when a workload moves"),
    gate(WORKLOAD_AFFINITY, Alpha, false, "1.17", "workloads share or avoid clusters by the labels of their templates"),
];

/// The state of the feature gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    explicit: BTreeMap<&'static str, bool>,
    /// Gates that `AllAlpha` or `AllBeta` set.
    by_stage: BTreeSet<&'static str>,
}

/// Why `--feature-gates` is invalid; the messages are those of Kubernetes' components.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The gate has no value.
    #[error("missing bool value for {0}")]
    NoValue(String),
    /// The value is not a boolean.
    #[error("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    NotBool {
        /// The gate.
        name: String,
        /// Its value.
        value: String,
    },
    /// The gate does not exist.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
}

impl Gates {
    /// Parses `Name=bool,...`. `AllAlpha` and `AllBeta` set every gate of the stage that is not set itself.
    ///
    /// # Errors
    /// An entry without a value, a value that is not a boolean, or an unknown gate.
    ///
    /// ```
    /// use karmada_api::gates::{FAILOVER, Gates};
    ///
    /// let gates = Gates::parse("Failover=true").expect("a known gate");
    /// assert!(gates.is_open(FAILOVER));
    /// ```
    pub fn parse(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        let mut stages = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else { return Err(GateError::NoValue(pair.to_owned())) };
            let (name, value) = (name.trim(), value.trim());
            let Some(open) = parse_bool(value) else {
                return Err(GateError::NotBool { name: name.to_owned(), value: value.to_owned() });
            };
            if let Some(stage) = [Alpha, Beta].into_iter().find(|stage| stage.all() == name) {
                stages.push((stage, open));
                continue;
            }
            let known = GATES.iter().find(|gate| gate.name == name);
            let Some(known) = known else { return Err(GateError::Unknown(name.to_owned())) };
            gates.explicit.insert(known.name, open);
        }
        for (stage, open) in stages {
            for gate in GATES.iter().filter(|gate| gate.stage == stage) {
                if gates.explicit.contains_key(gate.name) && !gates.by_stage.contains(gate.name) {
                    continue;
                }
                gates.explicit.insert(gate.name, open);
                gates.by_stage.insert(gate.name);
            }
        }
        Ok(gates)
    }

    /// Whether a gate is enabled. An unknown gate is disabled.
    pub fn is_open(&self, name: &str) -> bool {
        self.explicit.get(name).copied().unwrap_or_else(|| GATES.iter().any(|gate| gate.name == name && gate.default))
    }

    /// Whether the gate has the state of its stage, because it is not set itself.
    pub fn is_of_stage(&self, name: &str) -> bool {
        self.by_stage.contains(name)
    }

    /// The gates that differ from their default.
    pub fn changed(&self) -> impl Iterator<Item = (&'static Gate, bool)> + '_ {
        GATES.iter().filter_map(|gate| {
            let open = self.is_open(gate.name);
            (open != gate.default).then_some((gate, open))
        })
    }
}

/// The values that Go's `strconv.ParseBool` accepts.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// The text of `--help`: one line per gate, as Kubernetes' components print it.
pub fn help() -> String {
    let mut lines = vec![
        "AllAlpha=true|false (ALPHA - default=false)".to_owned(),
        "AllBeta=true|false (BETA - default=false)".to_owned(),
    ];
    lines.extend(
        GATES.iter().map(|it| format!("{}=true|false ({} - default={})", it.name, it.stage.as_str(), it.default)),
    );
    format!(
        "A set of key=value pairs that describe feature gates for alpha/experimental features. Options are:\n{}",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_gates_in_order() {
        assert_eq!(GATES.len(), 18);
        assert!(GATES.is_sorted_by_key(|gate| gate.name));
        let open: Vec<&str> = GATES.iter().filter(|gate| gate.default).map(|gate| gate.name).collect();
        assert_eq!(
            open,
            [
                "ContextualLogging",
                "ControllerPriorityQueue",
                "CustomizedClusterResourceModeling",
                "GracefulEviction",
                "LoggingBetaOptions",
                "PriorityBasedScheduling",
                "PropagateDeps"
            ]
        );
        assert!(GATES.iter().all(|gate| gate.stage == Beta || !gate.default), "no alpha gate is open by default");
    }

    #[test]
    fn explicit_values_precede_the_stage() {
        let gates = Gates::parse("Failover=true, AllAlpha=T,MultiClusterService=0,GracefulEviction=false").unwrap();
        for (name, open) in [
            (FAILOVER, true),
            (WORKLOAD_AFFINITY, true),
            (MULTI_CLUSTER_SERVICE, false),
            (GRACEFUL_EVICTION, false),
            (PROPAGATE_DEPS, true),
            ("Nothing", false),
        ] {
            assert_eq!(gates.is_open(name), open, "{name}");
        }
        assert!(
            gates.is_of_stage(WORKLOAD_AFFINITY) && !gates.is_of_stage(FAILOVER) && !gates.is_of_stage(PROPAGATE_DEPS)
        );
        assert_eq!(Gates::parse("Failover=false").unwrap().changed().count(), 0);
    }

    #[test]
    fn errors_are_those_of_kubernetes() {
        for (text, error) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("Failover", "missing bool value for Failover"),
            ("Failover=yes", "invalid value of Failover=yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax"),
        ] {
            assert_eq!(Gates::parse(text).map_err(|error| error.to_string()), Err(error.to_owned()));
        }
        assert!(help().contains("\nFailover=true|false (BETA - default=false)\n"));
    }
}
