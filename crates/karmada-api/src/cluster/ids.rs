//! The IDs of clusters: each belongs to one Cluster, and none equals the control plane's.

use std::collections::BTreeMap;

use apimachinery::field::{Error, Path};
use apimachinery::meta::Time;

/// Longer than any request (60 s): an admitted write is stored or has failed by then.
const RESERVED_FOR: i64 = 60;

/// The IDs in use and those of writes in flight: of two Clusters that are created at the same time with one ID, one is
/// rejected.
#[derive(Debug, Default)]
pub struct ClusterIds {
    /// By the name of the Cluster.
    stored: BTreeMap<String, String>,
    /// By name and ID of the Cluster that is being written; when it was reserved.
    reserved: BTreeMap<(String, String), Time>,
    /// The UID of the control plane's own namespace kube-system, once known.
    own: Option<String>,
}

impl ClusterIds {
    /// Records a stored Cluster with its ID, which may be empty.
    pub fn stored(&mut self, name: &str, id: &str) {
        self.release(name, id);
        self.stored.insert(name.to_owned(), id.to_owned());
    }

    /// Removes a deleted Cluster.
    pub fn deleted(&mut self, name: &str) {
        self.stored.remove(name);
    }

    /// Sets the control plane's own ID.
    pub fn set_own(&mut self, uid: &str) {
        self.own = Some(uid.to_owned());
    }

    /// Whether the control plane's own ID is known.
    pub fn knows_own(&self) -> bool {
        self.own.is_some()
    }

    /// Reserves an ID for a Cluster that is about to be written.
    ///
    /// # Errors
    /// The error in `spec.id`, with the next step.
    pub fn reserve(&mut self, name: &str, id: &str, now: Time) -> Result<(), Error> {
        self.check(name, id, now)?;
        self.reserved.retain(|_, since| !is_over(*since, now));
        self.reserved.insert((name.to_owned(), id.to_owned()), now);
        Ok(())
    }

    /// As [`ClusterIds::reserve`], for a write that will not be stored.
    ///
    /// # Errors
    /// The error in `spec.id`, with the next step.
    pub fn check(&self, name: &str, id: &str, now: Time) -> Result<(), Error> {
        let path = Path::new("spec").child("id");
        if self.own.as_deref() == Some(id) {
            let detail = format!(
                "{id} is the ID of this control plane itself, which cannot be its own member; give {name} the endpoint \
                 and the ID of another cluster"
            );
            return Err(Error::forbidden(&path, detail));
        }
        let reserved =
            self.reserved.iter().filter(|(_, since)| !is_over(**since, now)).map(|((other, taken), _)| (other, taken));
        let mut owners = self.stored.iter().chain(reserved);
        match owners.find(|(other, taken)| other.as_str() != name && taken.as_str() == id) {
            None => Ok(()),
            Some((other, _)) => {
                let mut error = Error::duplicate(&path, id);
                error.detail = format!(
                    "cluster {other} has this ID, so {name} would be the same cluster under a second name; remove \
                     {other} first: karmadactl unjoin {other}"
                );
                Err(error)
            }
        }
    }

    /// Releases the ID of a write that was not stored.
    pub fn release(&mut self, name: &str, id: &str) {
        self.reserved.remove(&(name.to_owned(), id.to_owned()));
    }
}

fn is_over(since: Time, now: Time) -> bool {
    now.timestamp().as_second() - since.timestamp().as_second() > RESERVED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::new(jiff::Timestamp::from_second(second).expect("a time"))
    }

    #[test]
    fn an_id_belongs_to_one_cluster() {
        let mut ids = ClusterIds::default();
        ids.set_own("own");
        ids.stored("m1", "a");
        ids.stored("by-hand", "");
        let found = |ids: &ClusterIds, name: &str, id: &str, second| {
            ids.check(name, id, at(second)).map_err(|error| error.to_string())
        };
        let twice = "spec.id: Duplicate value: \"a\": cluster m1 has this ID, so m2 would be the same cluster under a \
                     second name; remove m1 first: karmadactl unjoin m1";
        assert_eq!(found(&ids, "m2", "a", 0), Err(twice.to_owned()));
        assert_eq!(found(&ids, "m1", "a", 0), Ok(()), "its own");
        let itself = "spec.id: Forbidden: own is the ID of this control plane itself, which cannot be its own member; \
                      give m2 the endpoint and the ID of another cluster";
        assert_eq!(found(&ids, "m2", "own", 0), Err(itself.to_owned()));

        // Two Clusters at the same time.
        ids.reserve("m2", "b", at(0)).expect("it is free");
        assert!(found(&ids, "m3", "b", 1).is_err());
        assert_eq!(found(&ids, "m2", "b", 1), Ok(()));
        ids.release("m2", "b");
        ids.reserve("m3", "b", at(2)).expect("it is free again");
        ids.stored("m3", "b");
        assert!(found(&ids, "m2", "b", 1_000).is_err(), "stored permanently");
        ids.deleted("m3");
        assert_eq!(found(&ids, "m2", "b", 3), Ok(()));

        // Two writes of one Cluster at the same time.
        ids.reserve("m6", "d", at(0)).expect("it is free");
        ids.reserve("m6", "e", at(0)).expect("it is free");
        assert!(found(&ids, "m7", "d", 1).is_err());

        // A write whose end was not reported.
        ids.reserve("m4", "c", at(0)).expect("it is free");
        assert!(found(&ids, "m5", "c", 60).is_err());
        assert_eq!(found(&ids, "m5", "c", 61), Ok(()));
    }
}
