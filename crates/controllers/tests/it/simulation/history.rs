//! Actions of users, members and failures, drawn from a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::MEMBERS;
use super::kinds::{Kind, Made};
use super::policies::{NAMES, PolicySpec, Suspends};
use crate::network::NetworkFaults;

#[derive(Clone, Debug)]
pub enum Action {
    Template {
        kind: Kind,
        n: u8,
        made: Made,
    },
    DropTemplate {
        kind: Kind,
        n: u8,
    },
    /// Deleted and recreated before controllers notice.
    ReplaceTemplate {
        kind: Kind,
        n: u8,
        made: Made,
    },
    /// A finalizer delays the deletion of a template.
    Hold {
        kind: Kind,
        n: u8,
        on: bool,
    },
    Policy {
        cluster_wide: bool,
        n: u8,
        spec: PolicySpec,
    },
    DropPolicy {
        cluster_wide: bool,
        n: u8,
    },
    /// Changes one setting of an existing policy.
    Amend {
        cluster_wide: bool,
        n: u8,
        amendment: Amendment,
    },
    Override {
        cluster_wide: bool,
        n: u8,
        kind: Kind,
        member: &'static str,
        value: String,
    },
    DropOverride {
        cluster_wide: bool,
        n: u8,
    },
    /// On a binding, as another controller that suspends workloads does.
    SuspendScheduling {
        kind: Kind,
        n: u8,
        on: bool,
    },
    /// Deleted by a user.
    DropBinding {
        kind: Kind,
        n: u8,
    },
    /// Evicts a workload from a member, as upstream's taint manager does.
    Evict {
        kind: Kind,
        n: u8,
        purge: &'static str,
    },
    EndEvictions {
        kind: Kind,
        n: u8,
    },
    EditInMember {
        member: &'static str,
        kind: Kind,
        n: u8,
        disown: bool,
    },
    DeleteInMember {
        member: &'static str,
        kind: Kind,
        n: u8,
    },
    CreateInMember {
        member: &'static str,
        kind: Kind,
        n: u8,
    },
    /// With all its content; it is recreated at the end, or by the next step of this kind.
    DropNamespace,
    MakeNamespace,
    /// Deleted by a user of the member.
    DropNamespaceIn(&'static str),
    /// Widgets are no longer served, by a member or (`None`) by the control plane.
    DropDefinition(Option<&'static str>),
    MakeDefinition(Option<&'static str>),
    /// A cluster is in this zone from now on.
    Zone(&'static str, &'static str),
    /// With this effect; NoExecute evicts workloads where evictions are enabled.
    Taint(&'static str, &'static str),
    Untaint(&'static str),
    Cut(&'static str),
    Heal(&'static str),
    Unjoin(&'static str),
    Join(&'static str),
    /// Unjoined, and joined again as soon as it is removed.
    Rejoin(&'static str),
    Restart,
    /// A second process runs beside the first for this long.
    Overlap(Duration),
    NetworkFaults(NetworkFaults),
    Wait(Duration),
    /// A backup of the control plane's store.
    Backup,
    /// The backup is restored, and everything on it restarts; with a raised revision, or with its own.
    Restore {
        raised: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Amendment {
    Priority(i32),
    Preserve(bool),
    Suspend(Suspends),
    /// Its clusters change, and change back before controllers act.
    Waver(&'static str),
}

impl Amendment {
    fn draw(rng: &mut StdRng) -> Self {
        let member = one(rng, &MEMBERS);
        match rng.random_range(0..8) {
            0..2 => Self::Priority(rng.random_range(0..3)),
            2..4 => Self::Preserve(rng.random_range(0..2) == 0),
            4 => Self::Suspend(Suspends::Everywhere),
            5 => Self::Suspend(one(rng, &[Suspends::Nothing, Suspends::In(member)])),
            _ => Self::Waver(member),
        }
    }
}

/// The history of a seed. Some steps only let time pass, so that some actions happen in a stable system and others in a
/// busy one.
pub fn draw(seed: u64) -> Vec<Action> {
    let mut rng = StdRng::seed_from_u64(seed);
    let steps = rng.random_range(8..30);
    (0..steps).map(|step| action(&mut rng, seed, step)).collect()
}

/// As [`draw`], with a backup that is restored. Concurrent processes are excluded, because the current incarnation
/// would be ambiguous.
pub fn draw_restored(seed: u64) -> Vec<Action> {
    let mut steps = draw(seed);
    steps.retain(|action| !matches!(action, Action::Overlap(_)));
    let mut rng = StdRng::seed_from_u64(!seed);
    let at = rng.random_range(0..steps.len());
    steps.insert(at, Action::Backup);
    let later = rng.random_range(at + 1..=steps.len());
    steps.insert(later, Action::Restore { raised: rng.random_range(0..2) == 0 });
    steps
}

fn one<T: Copy>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

fn made(rng: &mut StdRng, step: usize) -> Made {
    let needs = (rng.random_range(0..3) > 0).then(|| rng.random_range(0..NAMES));
    Made { value: format!("v{step}"), replicas: rng.random_range(0..7), colour: one(rng, &["red", "blue"]), needs }
}

fn action(rng: &mut StdRng, seed: u64, step: usize) -> Action {
    use Kind::{ClusterRole, ConfigMap, Deployment, Widget};

    let kind = one(rng, &[Deployment, Deployment, Deployment, ConfigMap, ConfigMap, ClusterRole, Widget]);
    let (n, member) = (rng.random_range(0..NAMES), one(rng, &MEMBERS));
    let cluster_wide = rng.random_range(0..3) == 0 || !kind.is_namespaced();
    match rng.random_range(0..120) {
        0..17 => Action::Template { kind, n, made: made(rng, step) },
        17..21 => Action::DropTemplate { kind, n },
        21..23 => Action::ReplaceTemplate { kind, n, made: made(rng, step) },
        23..38 => Action::Policy { cluster_wide, n, spec: PolicySpec::draw(rng, kind) },
        38..43 => Action::DropPolicy { cluster_wide, n },
        43..48 => Action::Override { cluster_wide, n, kind, member, value: format!("o{step}") },
        48..50 => Action::DropOverride { cluster_wide, n },
        50..51 => Action::DropBinding { kind, n },
        51..52 => Action::SuspendScheduling { kind, n, on: rng.random_range(0..2) == 0 },
        52..54 => Action::Evict { kind, n, purge: one(rng, &["Directly", "Gracefully", "Never"]) },
        54..55 => Action::EndEvictions { kind, n },
        55..59 => Action::EditInMember { member, kind, n, disown: rng.random_range(0..4) == 0 },
        59..62 => Action::DeleteInMember { member, kind, n },
        62..65 => Action::CreateInMember { member, kind, n },
        65..67 => Action::Taint(member, one(rng, &["NoSchedule", "NoExecute"])),
        67..68 => Action::Untaint(member),
        68..71 => Action::Cut(member),
        71..74 => Action::Heal(member),
        74..76 => Action::Unjoin(member),
        76..78 => Action::Join(member),
        78..80 => Action::Restart,
        80..82 => Action::Overlap(Duration::from_millis(one(rng, &[0, 30, 500, 20_000]))),
        82..85 => {
            let lag = Duration::from_millis(one(rng, &[0, 0, 20, 300]));
            Action::NetworkFaults(NetworkFaults { seed: seed ^ step as u64, lost: one(rng, &[0, 20, 100, 300]), lag })
        }
        85..87 => Action::Hold { kind, n, on: rng.random_range(0..2) == 0 },
        87..88 => Action::DropNamespace,
        88..89 => Action::MakeNamespace,
        89..91 => Action::DropDefinition((rng.random_range(0..2) == 0).then_some(member)),
        91..93 => Action::MakeDefinition((rng.random_range(0..2) == 0).then_some(member)),
        93..96 => Action::Zone(member, one(rng, &["a", "b"])),
        96..102 => Action::Amend { cluster_wide, n, amendment: Amendment::draw(rng) },
        102..104 => Action::Rejoin(member),
        104..106 => Action::DropNamespaceIn(member),
        106..113 => Action::Wait(Duration::from_millis(rng.random_range(1..3_000))),
        _ => Action::Wait(Duration::from_secs(rng.random_range(3..90))),
    }
}
