//! The ledger of the member: a summary of every pod and node, the used resources of each node, and the choice of a
//! node.
//!
//! A pod is charged to its node when the decision is made, before the API server stores it, so that concurrent
//! decisions do not use the same capacity.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;

use apimachinery::ObjectKey;

use super::node::NodeFacts;
use super::pod::{PodFacts, PodSpec};
use super::resources::Request;
use super::scheduling::{accepts, untolerated};

/// Pods get unique addresses from 10.0.0.0/8.
const FIRST_ADDRESS: u32 = 0x0a00_0001;
const LAST_ADDRESS: u32 = 0x0aff_fffe;

#[derive(Debug)]
pub(crate) struct Ledger {
    nodes: BTreeMap<Box<str>, NodeBook>,
    pods: HashMap<ObjectKey, PodFacts>,
    by_owner: HashMap<Box<str>, BTreeSet<ObjectKey>>,
    /// The charge of each pod: its node and its request.
    charges: HashMap<ObjectKey, (Box<str>, Request)>,
    addresses: HashSet<Ipv4Addr>,
    next_address: u32,
}

#[derive(Debug, Default)]
struct NodeBook {
    /// `None` while pods name a node that does not exist.
    facts: Option<NodeFacts>,
    used: Request,
    pods: i64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            pods: HashMap::new(),
            by_owner: HashMap::new(),
            charges: HashMap::new(),
            addresses: HashSet::new(),
            next_address: FIRST_ADDRESS,
        }
    }
}

impl Ledger {
    pub fn set_node(&mut self, facts: NodeFacts) {
        let book = self.nodes.entry(facts.name.clone()).or_default();
        book.facts = Some(facts);
    }

    pub fn remove_node(&mut self, name: &str) {
        if let Some(book) = self.nodes.get_mut(name) {
            book.facts = None;
            if book.pods == 0 {
                self.nodes.remove(name);
            }
        }
    }

    pub fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.get(name)?.facts.as_ref()
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeFacts> {
        self.nodes.values().filter_map(|book| book.facts.as_ref())
    }

    pub fn pod(&self, key: &ObjectKey) -> Option<&PodFacts> {
        self.pods.get(key)
    }

    /// The pods on a node, whether the node exists or not.
    pub fn on_node(&self, node: &str) -> impl Iterator<Item = &PodFacts> {
        self.pods.values().filter(move |pod| pod.node.as_ref() == node)
    }

    /// The pods whose controller has this uid, in the order of their names.
    pub fn owned(&self, uid: &str) -> impl Iterator<Item = &PodFacts> {
        self.by_owner.get(uid).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// Returns the previous summary.
    pub fn set_pod(&mut self, facts: PodFacts) -> Option<PodFacts> {
        let key = facts.key.clone();
        let old = self.forget(&key);
        if facts.is_terminal() || facts.node.is_empty() {
            // A decision whose write is in flight stays charged.
            if facts.is_terminal() || old.as_ref().is_some_and(|old| !old.node.is_empty()) {
                self.release(&key);
            }
        } else {
            self.charge(key.clone(), &facts.node, facts.request);
        }
        if let Some(owner) = &facts.owner {
            self.by_owner.entry(owner.clone()).or_default().insert(key.clone());
        }
        self.addresses.extend(facts.ip);
        self.pods.insert(key, facts);
        old
    }

    pub fn remove_pod(&mut self, key: &ObjectKey) -> Option<PodFacts> {
        self.release(key);
        self.forget(key)
    }

    fn forget(&mut self, key: &ObjectKey) -> Option<PodFacts> {
        let old = self.pods.remove(key)?;
        if let Some(ip) = &old.ip {
            self.addresses.remove(ip);
        }
        if let Some(owner) = &old.owner
            && let Some(keys) = self.by_owner.get_mut(owner)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(old)
    }

    /// Charges a pod to a node; an earlier charge of the pod is released.
    pub fn charge(&mut self, key: ObjectKey, node: &str, request: Request) {
        if self.charges.get(&key).is_some_and(|(at, much)| at.as_ref() == node && *much == request) {
            return;
        }
        self.release(&key);
        let book = self.nodes.entry(node.into()).or_default();
        book.used = book.used.plus(request);
        book.pods += 1;
        self.charges.insert(key, (node.into(), request));
    }

    /// Releases the charge of a pod.
    pub fn release(&mut self, key: &ObjectKey) {
        let Some((node, request)) = self.charges.remove(key) else { return };
        if let Some(book) = self.nodes.get_mut(&node) {
            book.used = book.used.minus(request);
            book.pods -= 1;
            if book.pods == 0 && book.facts.is_none() {
                self.nodes.remove(&node);
            }
        }
    }

    /// An address that no living pod has.
    pub fn next_address(&mut self) -> Ipv4Addr {
        loop {
            let address = Ipv4Addr::from_bits(self.next_address);
            // 16 million addresses, and nodes of 110 pods each, would need 150,000 nodes: one is free.
            self.next_address = if self.next_address == LAST_ADDRESS { FIRST_ADDRESS } else { self.next_address + 1 };
            if self.addresses.insert(address) {
                return address;
            }
        }
    }

    /// The node with the most free resources among those that match the pod.
    ///
    /// # Errors
    /// Why no node matches, with kube-scheduler's messages.
    pub fn place(&self, spec: &PodSpec) -> Result<Box<str>, String> {
        let request = Request::of_pod(spec);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(f64, i64, &NodeFacts)> = None;
        let mut count = 0;
        for (book, node) in self.nodes.values().filter_map(|book| Some((book, book.facts.as_ref()?))) {
            count += 1;
            let against = book.against(node, spec, request);
            if against.is_empty() {
                let score = book.taken_with(node, request);
                if best.is_none_or(|(least, pods, _)| (score, book.pods) < (least, pods)) {
                    best = Some((score, book.pods, node));
                }
            }
            for reason in against {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        match best {
            Some((_, _, node)) => Ok(node.name.clone()),
            None if count == 0 => Err("no nodes available to schedule pods".to_owned()),
            None => {
                let reasons: Vec<String> = reasons.iter().map(|(reason, nodes)| format!("{nodes} {reason}")).collect();
                Err(format!("0/{count} nodes are available: {}.", reasons.join(", ")))
            }
        }
    }
}

impl NodeBook {
    /// Why the pod does not fit; the first rejecting filter reports all its reasons, as upstream's.
    fn against(&self, node: &NodeFacts, spec: &PodSpec, request: Request) -> Vec<String> {
        // Upstream also cordons by a taint; a pod that tolerates it is accepted by both.
        let cordon = super::scheduling::Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            value: String::new(),
            effect: "NoSchedule".into(),
        };
        if node.unschedulable && untolerated(&spec.tolerations, &[cordon], &["NoSchedule"]).is_some() {
            return vec!["node(s) were unschedulable".to_owned()];
        }
        if let Some(taint) = untolerated(&spec.tolerations, &node.taints, &["NoSchedule", "NoExecute"]) {
            return vec![format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value)];
        }
        if !accepts(spec, &node.name, &node.labels) {
            return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
        }
        let mut reasons = Vec::new();
        if self.pods >= node.pods {
            reasons.push("Too many pods".to_owned());
        }
        let then = self.used.plus(request);
        if request.cpu_milli > 0 && then.cpu_milli > node.allocatable.cpu_milli {
            reasons.push("Insufficient cpu".to_owned());
        }
        if request.memory > 0 && then.memory > node.allocatable.memory {
            reasons.push("Insufficient memory".to_owned());
        }
        reasons
    }

    /// The mean utilization of CPU and memory with the pod.
    fn taken_with(&self, node: &NodeFacts, request: Request) -> f64 {
        let share = |used: i64, all: i64| if all > 0 { used as f64 / all as f64 } else { 1.0 };
        let then = self.used.plus(request);
        (share(then.cpu_milli, node.allocatable.cpu_milli) + share(then.memory, node.allocatable.memory)) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::pod::Pod;
    use super::*;

    fn node(name: &str, cpu: i64, pods: i64) -> NodeFacts {
        NodeFacts {
            name: name.into(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Request { cpu_milli: cpu * 1000, memory: 1 << 30 },
            pods,
            address: None,
        }
    }

    fn pod(name: &str, cpu: &str, node: &str, phase: &str) -> Pod {
        let object = json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"},
            "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase}});
        serde_json::from_value(object).expect("a pod")
    }

    fn spec(cpu: &str) -> PodSpec {
        pod("x", cpu, "", "Pending").spec
    }

    #[test]
    fn pods_go_to_the_emptiest_node_until_none_fits() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.place(&spec("1")), Err("no nodes available to schedule pods".to_owned()));
        for name in ["a", "b", "c"] {
            ledger.set_node(node(name, 2, 10));
        }
        let mut places = String::new();
        for index in 0..6 {
            let place = ledger.place(&spec("1")).expect("room");
            places.push_str(&place);
            ledger.charge(ObjectKey::namespaced("ns", index.to_string()), &place, Request::of_pod(&spec("1")));
        }
        assert_eq!(places, "abcabc");
        assert_eq!(ledger.place(&spec("1")), Err("0/3 nodes are available: 3 Insufficient cpu.".to_owned()));
        assert!(ledger.place(&spec("0")).is_ok(), "a pod without requests fits");
        ledger.release(&ObjectKey::namespaced("ns", "4"));
        assert_eq!(ledger.place(&spec("1")).as_deref(), Ok("b"));
    }

    #[test]
    fn refusals_are_counted_by_reason() {
        let mut ledger = Ledger::default();
        ledger.set_node(NodeFacts { unschedulable: true, ..node("a", 4, 10) });
        let taints = vec![super::super::scheduling::Taint {
            key: "gpu".into(),
            value: "yes".into(),
            effect: "NoSchedule".into(),
        }];
        ledger.set_node(NodeFacts { taints, ..node("b", 4, 10) });
        ledger.set_node(node("c", 1, 0));
        let expected = "0/3 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) had untolerated taint \
                        {gpu: yes}, 1 node(s) were unschedulable.";
        assert_eq!(ledger.place(&spec("2")), Err(expected.to_owned()));
    }

    #[test]
    fn the_ledger_follows_the_pods() {
        let mut ledger = Ledger::default();
        ledger.set_node(node("a", 2, 10));
        let full = |ledger: &Ledger| ledger.place(&spec("1")).is_err();
        let set = |ledger: &mut Ledger, node: &str, phase: &str| {
            ledger.set_pod(PodFacts::new(&pod("p", "2", node, phase)));
        };
        let key = ObjectKey::namespaced("ns", "p");
        set(&mut ledger, "", "Pending");
        assert!(!full(&ledger), "no node, no charge");
        ledger.charge(key.clone(), "a", Request::of_pod(&spec("2")));
        set(&mut ledger, "", "Pending");
        assert!(full(&ledger), "an older state does not undo a decision");
        set(&mut ledger, "a", "Running");
        assert!(full(&ledger));
        set(&mut ledger, "a", "Succeeded");
        assert!(!full(&ledger), "an ended pod uses nothing");
        set(&mut ledger, "a", "Running");
        ledger.remove_pod(&key);
        assert!(!full(&ledger));
        assert_eq!(ledger.nodes.get("a").map(|book| (book.used, book.pods)), Some((Request::default(), 0)));
    }

    #[test]
    fn living_pods_share_no_address() {
        let mut ledger = Ledger::default();
        let mut taken = pod("p", "1", "a", "Running");
        taken.status.pod_ip = Some("10.0.0.2".into());
        ledger.set_pod(PodFacts::new(&taken));
        let two = [ledger.next_address(), ledger.next_address()].map(|address| address.to_string());
        assert_eq!(two, ["10.0.0.1", "10.0.0.3"]);
    }
}
