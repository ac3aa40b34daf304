//! Reinvocation: the webhooks or policies to call again in the second round of mutations. kube-apiserver's rules: only
//! those that request it and were called in the first round, if the object has changed since.

use std::collections::HashSet;

use apiserver::AdmissionRequest;
use serde_json::Value;

/// The state of a kube-apiserver plugin for a request.
#[derive(Default)]
pub struct Round {
    is_second: bool,
    /// Those to call again, since the last change.
    invoked: HashSet<String>,
    again: HashSet<String>,
    output: Option<Value>,
}

impl Round {
    /// Begins a round; `plugin` is the key of the state.
    pub fn begin(request: &mut AdmissionRequest<'_>, plugin: &'static str) -> Self {
        let place = request.rounds.kept.iter().position(|(name, _)| *name == plugin);
        let kept = place.map(|place| request.rounds.kept.swap_remove(place).1);
        let mut round = kept.and_then(|kept| kept.downcast::<Self>().ok()).map(|round| *round).unwrap_or_default();
        round.is_second = request.rounds.is_second;
        if round.is_second && round.output.as_ref() != request.object.as_deref() {
            round.changed();
        }
        round
    }

    /// Stores the state for the second round.
    pub fn end(mut self, request: &mut AdmissionRequest<'_>, plugin: &'static str) {
        if !self.is_second {
            self.output = request.object.as_deref().cloned();
            request.rounds.kept.push((plugin, Box::new(self)));
        }
    }

    /// Whether a webhook or policy that matches is called.
    pub fn calls(&self, id: &str) -> bool {
        !self.is_second || self.again.contains(id)
    }

    /// The object has changed after these were called.
    pub fn changed(&mut self) {
        self.again.extend(self.invoked.drain());
    }

    /// Records a call of a webhook or policy that requests reinvocation.
    pub fn called(&mut self, id: &str) {
        self.invoked.insert(id.to_owned());
    }
}
