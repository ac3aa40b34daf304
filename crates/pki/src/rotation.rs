//! The rules of rotation: from the existing certificates and the time to the certificates to create, the signing and
//! the trusted ones, and the time of the next change. Pure; [`crate::directory`] reads and writes.
//!
//! An authority has generations. A new one is published as a trusted certificate long before it signs, and an old one
//! is trusted until it expires, so that a client that reads its trust bundle occasionally misses none.

use crate::authority::ISSUED_LIFETIME;

const DAY: i64 = 24 * 3600;

/// A certificate is renewed when its remaining time is less than this, or less than a quarter of its lifetime.
pub const RENEW_BEFORE: i64 = 90 * DAY;

/// The validity of a certificate, in seconds since the epoch, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub not_before: i64,
    pub not_after: i64,
}

impl Validity {
    fn lifetime(self) -> i64 {
        self.not_after.saturating_sub(self.not_before)
    }

    fn is_over(self, now: i64) -> bool {
        now > self.not_after
    }
}

/// The state of one authority's generations at a time, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityState {
    /// Signs new certificates; `None` when all have expired.
    pub signer: Option<usize>,
    /// Those that have not expired, the oldest first.
    pub trusted: Vec<usize>,
    /// A successor must be created now.
    pub make: bool,
    /// When this changes next.
    pub changes_at: i64,
}

/// A successor is created when the last fifth of the lifetime begins: after eight of ten years.
fn succeeded_at(signer: Validity) -> i64 {
    signer.not_after.saturating_sub(signer.lifetime() / 5)
}

/// A successor signs when it has been published for a tenth of its predecessor's lifetime (one year of ten), and at the
/// latest when the predecessor has a twentieth left.
fn signs_at(predecessor: Validity, successor: Validity) -> i64 {
    let lifetime = predecessor.lifetime();
    let published = successor.not_before.saturating_add(lifetime / 10);
    published.min(predecessor.not_after.saturating_sub(lifetime / 20)).max(successor.not_before)
}

/// From when a generation signs. The first one always does.
pub fn signs_from(generations: &[Validity], at: usize) -> i64 {
    match at {
        0 => i64::MIN,
        at => signs_at(generations[at - 1], generations[at]),
    }
}

/// `generations` are those of one authority, the oldest first.
pub fn authority(generations: &[Validity], now: i64) -> AuthorityState {
    let trusted: Vec<usize> = (0..generations.len()).filter(|at| !generations[*at].is_over(now)).collect();
    let from = |at: usize| signs_from(generations, at);
    let ready = trusted.iter().rev().copied().find(|at| from(*at) <= now);
    let signer = ready.or_else(|| trusted.first().copied());
    let newest = signer.is_some() && signer == trusted.last().copied();
    let successor_due = signer.filter(|_| newest).map(|at| succeeded_at(generations[at]));
    let make = signer.is_none() || successor_due.is_some_and(|due| due <= now);
    let expiries = trusted.iter().map(|at| generations[*at].not_after.saturating_add(1));
    let handovers = trusted.iter().map(|at| from(*at));
    let changes = expiries.chain(handovers).chain(successor_due).filter(|at| *at > now).min();
    AuthorityState { signer, trusted, make, changes_at: changes.unwrap_or(i64::MAX) }
}

/// A certificate that an authority issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub validity: Validity,
    /// The end of the generation that signed it; `None` if it is not trusted.
    pub issuer: Option<i64>,
}

/// Whether a certificate must be renewed, or when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    Now,
    At(i64),
}

/// `signer` is the end of the generation that would sign the new certificate.
pub fn leaf(leaf: Leaf, signer: i64, now: i64) -> Renewal {
    let Some(issuer) = leaf.issuer else { return Renewal::Now };
    // It was issued while the clock was ahead: until it is there again, no client accepts the certificate.
    if leaf.validity.not_before > now {
        return Renewal::Now;
    }
    let ends = leaf.validity.not_after.min(issuer);
    let margin = RENEW_BEFORE.min(leaf.validity.lifetime() / 4);
    let due = ends.saturating_sub(margin);
    let next = now.saturating_add(i64::try_from(ISSUED_LIFETIME.as_secs()).unwrap_or(i64::MAX)).min(signer);
    match due > now {
        true => Renewal::At(due),
        // The signer ends as early: a new certificate would not last longer.
        false if next.saturating_sub(ends) <= DAY => Renewal::At(now.saturating_add(DAY)),
        false => Renewal::Now,
    }
}

/// The authorities of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signs the certificates of servers, users and agents.
    Clients,
    /// Signs the client certificates of API servers that forward requests.
    FrontProxy,
}

/// The state of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub authority: Vec<Validity>,
    pub front_proxy: Vec<Validity>,
    /// `None` without a certificate; `Some(None)` if its names differ from the required ones.
    pub server: Option<Option<Leaf>>,
    /// Whether a server certificate is maintained. A command beside a server does not issue a missing one, because it
    /// does not know the names.
    pub serves: bool,
    pub admin: Option<Leaf>,
    pub has_token_key: bool,
}

/// A change of a directory. Each creates or replaces one file, so that a crash leaves it either done or not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new generation: the first one, or a successor.
    Authority(Kind),
    Server,
    Admin,
    TokenKey,
}

/// The steps to execute, and when to plan again. Steps may enable further ones: after them a new plan is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Seconds since the epoch.
    pub due: i64,
}

pub fn plan(facts: &Facts, now: i64) -> Plan {
    let mut plan = Plan { steps: Vec::new(), due: i64::MAX };
    for (kind, generations) in [(Kind::Clients, &facts.authority), (Kind::FrontProxy, &facts.front_proxy)] {
        let authority_state = authority(generations, now);
        plan.due = plan.due.min(authority_state.changes_at);
        if authority_state.make {
            plan.steps.push(Step::Authority(kind));
        }
    }
    if !facts.has_token_key {
        plan.steps.push(Step::TokenKey);
    }
    let Some(signer) = authority(&facts.authority, now).signer else { return plan };
    let signer = facts.authority[signer].not_after;
    let mut renew = |step: Step, present: Option<Leaf>| match present.map(|present| leaf(present, signer, now)) {
        Some(Renewal::At(at)) => plan.due = plan.due.min(at),
        Some(Renewal::Now) | None => plan.steps.push(step),
    };
    if facts.serves || facts.server.is_some() {
        renew(Step::Server, facts.server.flatten());
    }
    renew(Step::Admin, facts.admin);
    plan
}

/// The remaining days at which an expiry is reported, the last one first.
const WARNED_AT: [i64; 3] = [1, 7, 30];

/// The smallest of 30, 7 and 1 days that is not less than the remaining time; `None` with more time.
pub fn warning(not_after: i64, now: i64) -> Option<i64> {
    WARNED_AT.into_iter().find(|days| not_after.saturating_sub(now) <= days * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: i64 = 365 * DAY;

    /// `from-to` in years after the epoch.
    fn of_years(text: &str) -> Vec<Validity> {
        let part = |text: &str| (text.parse::<f64>().expect("a number") * YEAR as f64) as i64;
        let range = |text: &str| {
            let (from, to) = text.split_once('-').expect("a range");
            Validity { not_before: part(from), not_after: part(to) }
        };
        text.split_whitespace().map(range).collect()
    }

    #[test]
    fn generations_follow_one_another() {
        for (generations, years, signer, trusted, make, changes) in [
            // Generations, time, signer, trusted ones, whether a successor is created, when to plan again.
            ("", 1.0, None, vec![], true, f64::INFINITY),
            ("0-10", 1.0, Some(0), vec![0], false, 8.0),
            ("0-10", 7.9, Some(0), vec![0], false, 8.0),
            ("0-10", 8.0, Some(0), vec![0], true, 10.0),
            ("0-10 8-18", 8.0, Some(0), vec![0, 1], false, 9.0),
            ("0-10 8-18", 9.0, Some(1), vec![0, 1], false, 10.0),
            ("0-10 8-18", 10.1, Some(1), vec![1], false, 16.0),
            // The server was stopped for long: the successor signs immediately, because the old one has less than a
            // year left.
            ("0-10", 9.9, Some(0), vec![0], true, 10.0),
            ("0-10 9.9-19.9", 9.9, Some(1), vec![0, 1], false, 10.0),
            ("0-10", 12.0, None, vec![], true, f64::INFINITY),
            ("0-10 12-22", 12.0, Some(1), vec![1], false, 20.0),
            // An operator's own authority with a lifetime of a year.
            ("0-1", 0.5, Some(0), vec![0], false, 0.8),
            ("0-1 0.8-10.8", 0.85, Some(0), vec![0, 1], false, 0.9),
            // A clock that was set back.
            ("5-15", 4.0, Some(0), vec![0], false, 13.0),
            // Requested by a user, early.
            ("0-10 3-13", 3.5, Some(0), vec![0, 1], false, 4.0),
            ("0-10 3-13 3.2-13.2", 4.5, Some(2), vec![0, 1, 2], false, 10.0),
        ] {
            let authority_state = authority(&of_years(generations), (years * YEAR as f64) as i64);
            let found = (authority_state.signer, authority_state.trusted, authority_state.make);
            assert_eq!(found, (signer, trusted, make), "{generations:?} in year {years}");
            let at = authority_state.changes_at as f64 / YEAR as f64;
            let is_close = if changes.is_infinite() {
                authority_state.changes_at == i64::MAX
            } else {
                (at - changes).abs() < 0.01
            };
            assert!(is_close, "{generations:?} in year {years}: {at}, not {changes}");
        }
    }

    #[test]
    fn certificates_are_renewed_before_they_or_their_issuer_expire() {
        let day = |days: i64| days * DAY;
        for (lifetime, issuer, signer, now, expected) in [
            // Days of life from 0, end of its issuer, end of the signer, now.
            (365, Some(3650), 3650, 0, Renewal::At(day(275))),
            (365, Some(3650), 3650, 275, Renewal::Now),
            (365, Some(3650), 3650, 400, Renewal::Now),
            (3650, Some(3650), 6570, 3500, Renewal::At(day(3560))),
            (3650, Some(3650), 6570, 3560, Renewal::Now),
            // Its issuer ends first.
            (365, Some(100), 3650, 0, Renewal::At(day(10))),
            (365, Some(100), 3650, 20, Renewal::Now),
            // The same issuer would sign, and ends.
            (100, Some(100), 100, 90, Renewal::At(day(91))),
            // Ten days of life: a quarter of it.
            (10, Some(3650), 3650, 7, Renewal::At(day(7) + DAY / 2)),
            (365, None, 3650, 0, Renewal::Now),
            // The clock was set back.
            (365, Some(3650), 3650, -1, Renewal::Now),
        ] {
            let certificate =
                Leaf { validity: Validity { not_before: 0, not_after: day(lifetime) }, issuer: issuer.map(day) };
            assert_eq!(leaf(certificate, day(signer), day(now)), expected, "{lifetime} {issuer:?} {now}");
        }
    }

    #[test]
    fn steps_follow_from_the_existing_certificates() {
        let years = |text: &str| of_years(text);
        let leaf =
            |text: &str, issuer: f64| Leaf { validity: of_years(text)[0], issuer: Some((issuer * YEAR as f64) as i64) };
        let both = [Step::Authority(Kind::Clients), Step::Authority(Kind::FrontProxy)];
        let whole = Facts {
            authority: years("0-10"),
            front_proxy: years("0-10"),
            server: Some(Some(leaf("0-1", 10.0))),
            serves: true,
            admin: Some(leaf("0-1", 10.0)),
            has_token_key: true,
        };
        let empty = Facts { serves: true, ..Facts::default() };
        let with_authority = Facts { authority: years("0-10"), front_proxy: years("0-10"), ..empty.clone() };
        let other_names = Facts { server: Some(None), ..whole.clone() };
        let beside_a_server = Facts { server: None, serves: false, ..whole.clone() };
        for (facts, now, steps) in [
            (&empty, 0.0, vec![both[0], both[1], Step::TokenKey]),
            (&with_authority, 0.0, vec![Step::TokenKey, Step::Server, Step::Admin]),
            (&whole, 0.5, vec![]),
            (&whole, 0.76, vec![Step::Server, Step::Admin]),
            (&other_names, 0.5, vec![Step::Server]),
            (&beside_a_server, 0.5, vec![]),
            (&whole, 8.1, vec![both[0], both[1], Step::Server, Step::Admin]),
            (&whole, 11.0, both.to_vec()),
        ] {
            assert_eq!(plan(facts, (now * YEAR as f64) as i64).steps, steps, "in year {now}: {facts:?}");
        }
        assert_eq!(plan(&whole, YEAR / 2).due, YEAR - RENEW_BEFORE);
    }

    #[test]
    fn expiries_are_reported_three_times() {
        for (hours, expected) in
            [(31 * 24, None), (30 * 24, Some(30)), (8 * 24, Some(30)), (7 * 24, Some(7)), (24, Some(1)), (-5, Some(1))]
        {
            assert_eq!(warning(hours * 3600, 0), expected, "{hours} h");
        }
    }
}
