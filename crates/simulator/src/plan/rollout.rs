//! The sizes of a Deployment's ReplicaSets: the steps of a rollout, and scaling during one. All functions return sizes
//! by uid; other sets are unchanged.

use std::collections::BTreeMap;

use super::deployment::{Deployment, MAX_REPLICAS, Owned, Sets};

type Sizes = BTreeMap<String, i64>;

fn spec_total<'s>(sets: impl Iterator<Item = &'s Owned>) -> i64 {
    sets.map(|owned| owned.set.replicas()).sum()
}

fn available_total<'s>(sets: impl Iterator<Item = &'s Owned>) -> i64 {
    sets.map(|owned| owned.set.status.available_replicas).sum()
}

fn named(owned: &Owned, size: i64) -> (String, i64) {
    (owned.set.metadata.uid.clone(), size)
}

pub(crate) fn to_zero(sets: &[&Owned]) -> Sizes {
    sets.iter().map(|owned| named(owned, 0)).collect()
}

/// The initial size of a ReplicaSet.
pub(crate) fn first_size(deployment: &Deployment, sets: &Sets<'_>) -> i64 {
    if deployment.recreates() { deployment.replicas() } else { grown(deployment, sets, 0) }
}

/// The size that the new ReplicaSet may grow to while the old ones are unchanged.
fn grown(deployment: &Deployment, sets: &Sets<'_>, size: i64) -> i64 {
    let (surge, _) = deployment.slack();
    let growth = deployment.replicas() + surge - spec_total(sets.all());
    size + growth.clamp(0, (deployment.replicas() - size).max(0))
}

/// The next step of a rollout: first the new set grows, then the old ones shrink as far as availability allows.
pub(crate) fn next(deployment: &Deployment, sets: &Sets<'_>) -> Sizes {
    let Some(new) = sets.new else { return Sizes::new() };
    let size = new.set.replicas();
    let desired = if size > deployment.replicas() || deployment.recreates() {
        deployment.replicas()
    } else {
        grown(deployment, sets, size)
    };
    if desired != size {
        return [named(new, desired)].into();
    }
    shrunk(deployment, sets, new)
}

fn shrunk(deployment: &Deployment, sets: &Sets<'_>, new: &Owned) -> Sizes {
    let (_, unavailable) = deployment.slack();
    let least = deployment.replicas() - unavailable;
    let new_missing = new.set.replicas() - new.set.status.available_replicas;
    let mut sizes: Vec<(&Owned, i64)> = sets.old.iter().map(|owned| (*owned, owned.set.replicas())).collect();
    // Unavailable pods are removed first: they cost no availability.
    let mut allowed = spec_total(sets.all()) - least - new_missing;
    let mut cleaned = 0;
    for (owned, size) in &mut sizes {
        let idle = (*size - owned.set.status.available_replicas).clamp(0, allowed.max(0));
        (*size, allowed, cleaned) = (*size - idle, allowed - idle, cleaned + idle);
    }
    let mut allowed = (available_total(sets.all()) - least).min(allowed);
    if spec_total(sets.all()) - cleaned - least - new_missing <= 0 {
        allowed = 0;
    }
    for (_, size) in &mut sizes {
        let gone = (*size).clamp(0, allowed.max(0));
        (*size, allowed) = (*size - gone, allowed - gone);
    }
    sizes
        .into_iter()
        .filter(|(owned, size)| *size != owned.set.replicas())
        .map(|(owned, size)| named(owned, size))
        .collect()
}

/// The sizes after the Deployment was scaled: a single set gets all replicas; during a rollout each set gets its share,
/// so that the rollout continues from the same state.
pub(crate) fn scale(deployment: &Deployment, sets: &Sets<'_>) -> Sizes {
    let active: Vec<&Owned> = sets.all().filter(|owned| owned.set.replicas() > 0).collect();
    let latest = active.last().copied().or(sets.new).or(sets.old.last().copied());
    if let (Some(only), true) = (latest, active.len() <= 1) {
        return [named(only, deployment.replicas())].into();
    }
    let desired = deployment.replicas();
    if let Some(new) = sets.new
        && new.set.replicas() == desired
        && new.set.status.available_replicas == desired
    {
        return to_zero(&sets.old);
    }
    if deployment.recreates() { Sizes::new() } else { shares(deployment, active) }
}

fn shares(deployment: &Deployment, mut active: Vec<&Owned>) -> Sizes {
    let (surge, _) = deployment.slack();
    let most = if deployment.replicas() > 0 { deployment.replicas() + surge } else { 0 };
    let to_add = most - spec_total(active.iter().copied());
    // Larger sets first; of equal ones the newer grows and the older shrinks.
    active.sort_by(|a, b| {
        let age = a.set.metadata.age_order().cmp(&b.set.metadata.age_order());
        b.set.replicas().cmp(&a.set.replicas()).then(if to_add > 0 { age.reverse() } else { age })
    });
    let mut added = 0;
    let mut sizes: Vec<i64> = Vec::new();
    for owned in &active {
        let share = share(deployment, owned, most);
        let left = to_add - added;
        let share = if to_add > 0 { share.clamp(0, left.max(0)) } else { share.clamp(left.min(0), 0) };
        sizes.push((owned.set.replicas() + share).max(0));
        added += share;
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    active.iter().zip(sizes).map(|(owned, size)| named(owned, size)).collect()
}

/// The proportional change of a set's size.
fn share(deployment: &Deployment, owned: &Owned, most: i64) -> i64 {
    let size = owned.set.replicas();
    if deployment.replicas() == 0 {
        return -size;
    }
    let before = owned.set.metadata.number(MAX_REPLICAS).filter(|before| *before > 0);
    let before = before.or_else(|| deployment.status["replicas"].as_i64().filter(|before| *before > 0));
    let Some(before) = before else { return 0 };
    let scaled = i128::from(size) * i128::from(most);
    let (scaled, before) = (2 * scaled + i128::from(before), 2 * i128::from(before));
    i64::try_from(scaled.div_euclid(before)).unwrap_or(i64::MAX).saturating_sub(size)
}
