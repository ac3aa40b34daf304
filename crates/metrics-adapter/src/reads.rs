//! One request to several members.

use std::time::Duration;

use client::Client;
use fleet_metrics::missing::Missing;
use futures::future::join_all;
use readings::Bounds;
use readings::served::Failure;

use crate::fleet::{Fleet, Target};

/// Discovery has to answer before the API server in front considers this one unavailable, after 5 s.
const DISCOVERY: Duration = Duration::from_secs(3);

/// The limits of requests to members.
pub(crate) struct Limits {
    pub requests: Bounds,
    pub discovery: Bounds,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: Bounds::default(), discovery: Bounds::within(DISCOVERY) }
    }
}

/// The members' responses, by cluster, and the members that did not respond.
pub(crate) struct Answers<T> {
    pub found: Vec<(String, T)>,
    pub missing: Vec<Missing>,
    /// Members that do not serve the API.
    pub unserved: Vec<Missing>,
}

impl<T> Answers<T> {
    /// With members that do not serve the API among those without an answer.
    pub fn strict(mut self) -> Self {
        self.missing.append(&mut self.unserved);
        self.missing.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        self
    }

    /// Whether clusters were requested, and none responded.
    pub fn is_unknown(&self) -> bool {
        self.found.is_empty() && !self.missing.is_empty()
    }
}

/// Sends a read to each of the targets that are not excluded. The answers are in the order of the targets.
pub(crate) async fn read<'a, T, R: Future<Output = Result<T, Failure>> + Send>(
    fleet: &dyn Fleet,
    bounds: &Bounds,
    targets: &'a [Target],
    read: impl Fn(Client, &'a str) -> R + Sync,
) -> Answers<T> {
    let read = &read;
    let reads = targets.iter().map(|target| async move {
        if let Some(why) = &target.excluded {
            return Err(Failure::Failed(why.clone()));
        }
        bounds.run(async { read(fleet.client(&target.name).await?, &target.name).await }).await
    });
    let mut answers = Answers { found: Vec::new(), missing: Vec::new(), unserved: Vec::new() };
    for (target, answer) in targets.iter().zip(join_all(reads).await) {
        let cluster = target.name.clone();
        match answer {
            Ok(found) => answers.found.push((cluster, found)),
            Err(failure) => {
                let without = Missing { cluster, reason: failure.to_string() };
                match failure {
                    Failure::NotServed(_) => answers.unserved.push(without),
                    Failure::Failed(_) => answers.missing.push(without),
                }
            }
        }
    }
    answers
}
