//! Decisions of external authorizers about the rights that expressions check. An evaluation never calls a program: it
//! records the check, which is then decided, and the evaluation is repeated.

use apiserver::auth::authz::{self, Attributes, Authorizer, Deciding, Decision};
use parking_lot::Mutex;
use transport::Identity;

/// Checks of one evaluation that other programs decide; later ones count as not granted. An expression within its cost
/// has fewer.
const MAX_CHECKS: usize = 64;

type Question = (Identity, Attributes);

/// The checks of the evaluations on one request.
#[derive(Default)]
pub struct Rights(Mutex<Checks>);

#[derive(Default)]
struct Checks {
    open: Vec<Question>,
    decided: Vec<(Question, Decision)>,
}

impl Rights {
    /// The decision, if it is known; otherwise the check is recorded and counts as not granted.
    pub fn known(&self, authorizer: &dyn Authorizer, user: &Identity, requested: Attributes) -> Decision {
        if let Deciding::Now(decision) = authorizer.decide(user, &requested) {
            return decision;
        }
        let mut checks = self.0.lock();
        let is = |question: &Question| question.0 == *user && question.1 == requested;
        if let Some((_, decision)) = checks.decided.iter().find(|(question, _)| is(question)) {
            return decision.clone();
        }
        if checks.decided.len() + checks.open.len() < MAX_CHECKS && !checks.open.iter().any(is) {
            checks.open.push((user.clone(), requested));
        }
        Decision::NoOpinion(String::new())
    }

    /// Decides the recorded checks. Returns whether there were any, so that the evaluation has to be repeated.
    async fn decide(&self, authorizer: &dyn Authorizer) -> bool {
        let open = std::mem::take(&mut self.0.lock().open);
        let is_any = !open.is_empty();
        for (user, requested) in open {
            let decision = authz::decide(authorizer, &user, &requested).await;
            self.0.lock().decided.push(((user, requested), decision));
        }
        is_any
    }

    /// The result of an evaluation once all its checks are decided.
    pub async fn evaluated<T>(&self, authorizer: &dyn Authorizer, evaluate: impl Fn() -> T) -> T {
        loop {
            let result = evaluate();
            if !self.decide(authorizer).await {
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apiserver::auth::authz::ResourceAttributes;

    use super::*;

    /// Another program, which grants names that begin with `a`.
    #[derive(Default)]
    struct Remote(AtomicUsize);

    impl Authorizer for Remote {
        fn authorize(&self, _: &Identity, _: &Attributes) -> Decision {
            Decision::NoOpinion(String::new())
        }

        fn decide<'a>(&'a self, _: &'a Identity, requested: &'a Attributes) -> Deciding<'a> {
            let is_granted = matches!(requested, Attributes::Resource(it) if it.name.starts_with('a'));
            Deciding::Later(Box::pin(async move {
                self.0.fetch_add(1, Ordering::Relaxed);
                if is_granted { Decision::Allow("it begins with a".into()) } else { Decision::Deny(String::new()) }
            }))
        }
    }

    fn requested(name: &str) -> Attributes {
        Attributes::Resource(ResourceAttributes { name: name.to_owned(), ..ResourceAttributes::default() })
    }

    #[tokio::test]
    async fn checks_are_decided_once_and_evaluations_repeated() {
        let (remote, user) = (Remote::default(), Identity::default());
        let rights = Rights::default();
        let may = |name: &str| rights.known(&remote, &user, requested(name)).is_allowed();
        // The second check depends on the first.
        let evaluate = || if may("a1") { may("b") || may("a2") } else { false };
        assert!(rights.evaluated(&remote, evaluate).await);
        assert_eq!(remote.0.load(Ordering::Relaxed), 3);
        assert!(rights.evaluated(&remote, evaluate).await);
        assert_eq!(remote.0.load(Ordering::Relaxed), 3, "decisions are remembered for the request");
    }

    #[tokio::test]
    async fn checks_are_bounded() {
        let (remote, user) = (Remote::default(), Identity::default());
        let rights = Rights::default();
        let count =
            || (0..1_000).filter(|n| rights.known(&remote, &user, requested(&format!("a{n}"))).is_allowed()).count();
        assert_eq!(rights.evaluated(&remote, count).await, MAX_CHECKS);
        assert_eq!(remote.0.load(Ordering::Relaxed), MAX_CHECKS);
    }
}
