//! What a simulated member looks like.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::quantity::{Format, Quantity};

/// One node. All of its capacity can be allocated.
#[derive(Clone, Debug)]
pub struct NodeShape {
    pub cpu: Quantity,
    /// In bytes.
    pub memory: Quantity,
    pub pods: u32,
    /// What `spec.providerID` begins with; without it there is none.
    pub provider: Option<String>,
    /// Besides those every node has (`kubernetes.io/hostname`, ...).
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
    /// Nodes that do not exist are created at the start; others are left as they are.
    pub nodes: Vec<NodeShape>,
    /// From the moment a pod has a node until its containers are ready.
    pub pod_start: Duration,
    /// How long a Job's pod runs.
    pub job_run: Duration,
    /// Objects are kept as they are written: no workload runs, and no node gives a sign of life.
    pub bare: bool,
}

impl MemberOptions {
    /// Two nodes of the default shape; pods start at once, Jobs take a second.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: vec![NodeShape::default(); 2],
            pod_start: Duration::ZERO,
            job_run: Duration::from_secs(1),
            bare: false,
        }
    }
}
