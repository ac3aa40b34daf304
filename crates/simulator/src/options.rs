//! Options of a simulated member.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::quantity::{Format, Quantity};

use crate::plan::load::Load;

/// A node. All of its capacity is allocatable.
#[derive(Clone, Debug)]
pub struct NodeShape {
    pub cpu: Quantity,
    /// In bytes.
    pub memory: Quantity,
    pub pods: u32,
    /// The prefix of `spec.providerID`, if it has one.
    pub provider: Option<String>,
    /// In addition to the labels of every node (`kubernetes.io/hostname`, ...).
    pub labels: BTreeMap<String, String>,
}

impl Default for NodeShape {
    /// 4 CPUs, 16 GiB, 110 pods.
    fn default() -> Self {
        Self {
            cpu: Quantity::new(4, Format::DecimalSi),
            memory: Quantity::new(16 << 30, Format::BinarySi),
            pods: 110,
            provider: None,
            labels: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// Nodes are named after it: `NAME-node-1`, ...
    pub name: String,
    /// Nodes to create at the start; existing nodes are unchanged.
    pub nodes: Vec<NodeShape>,
    /// The time between a pod's scheduling and its readiness.
    pub pod_start: Duration,
    /// How long a Job's pod runs.
    pub job_run: Duration,
    /// The usage of pods without an annotation, in `metrics.k8s.io`.
    pub load: Load,
    /// Objects are only stored: no workload runs, and nodes send no heartbeats.
    pub bare: bool,
}

impl MemberOptions {
    /// Two nodes of the default shape; pods start immediately and use 1m and 16Mi, Jobs take a second.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: vec![NodeShape::default(); 2],
            pod_start: Duration::ZERO,
            job_run: Duration::from_secs(1),
            load: Load {
                cpu: Some(Quantity::from_milli(1, Format::DecimalSi)),
                memory: Some(Quantity::new(16 << 20, Format::BinarySi)),
            },
            bare: false,
        }
    }
}
