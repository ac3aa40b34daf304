//! The observations of the demonstration and the success of its acts, as functions of one state.

use std::collections::BTreeMap;

/// Replicas of nginx that each cluster should have.
pub type Placement = BTreeMap<String, i64>;

/// One member and its part of the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Status and reason of condition Ready; `None` before the first probe.
    pub ready: Option<(String, String)>,
    /// It has the taint of a cluster that is not Ready, which is removed after it has become Ready.
    pub is_tainted: bool,
    /// The replicas that the ResourceBinding assigns to it.
    pub assigned: Option<i64>,
    /// Whether its Work is applied; `None` while there is no Work.
    pub applied: Option<bool>,
    /// Ready and desired replicas of the Deployment in the member itself.
    pub replicas: Option<(i64, i64)>,
}

/// The state of all observed objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub members: Vec<Member>,
    /// Status of the binding's conditions.
    pub conditions: BTreeMap<String, String>,
    /// Ready and desired replicas in the template's status and spec.
    pub template: Option<(i64, i64)>,
}

impl View {
    /// The first member that is not Ready, or still has the taint of that. The scheduler does not move replicas later to
    /// a cluster that it excluded when they were divided, so the story waits for all.
    pub fn unready(&self) -> Option<String> {
        self.members.iter().find_map(|member| match member.is_ready() {
            false => Some(format!("cluster {} is not Ready{}", member.name, member.reason())),
            true => {
                member.is_tainted.then(|| format!("cluster {} is Ready, and still tainted as not ready", member.name))
            }
        })
    }

    /// The difference from nginx being ready in exactly these clusters with exactly these replicas.
    pub fn missing(&self, placement: &Placement) -> Option<String> {
        if let Some(unready) = self.unready() {
            return Some(unready);
        }
        let Some((ready, desired)) = self.template else {
            return Some("the control plane holds no Deployment default/nginx".into());
        };
        for condition in ["Scheduled", "FullyApplied"] {
            if self.conditions.get(condition).is_none_or(|status| status != "True") {
                return Some(format!("ResourceBinding default/nginx-deployment is not {condition}"));
            }
        }
        for member in &self.members {
            if let Some(missing) = member.missing(placement.get(&member.name).copied()) {
                return Some(missing);
            }
        }
        (ready != desired).then(|| format!("the Deployment's status reports {ready} of {desired} replicas ready"))
    }

    /// The difference from `lost` being reported as not Ready while the application was neither moved nor deleted, and
    /// its Deployment there was scaled to `drifted`.
    pub fn not_lost(&self, lost: &str, placement: &Placement, drifted: i64) -> Option<String> {
        for member in &self.members {
            let name = &member.name;
            match (name == lost, member.is_ready()) {
                (true, true) => return Some(format!("cluster {name} is still Ready")),
                (false, false) => return Some(format!("cluster {name} is not Ready{}", member.reason())),
                _ => {}
            }
            let expected = placement.get(name).copied();
            if member.assigned != expected {
                let count = |replicas: Option<i64>| replicas.map_or_else(|| "no".to_owned(), |n| n.to_string());
                let (assigned, expected) = (count(member.assigned), count(expected));
                return Some(format!("cluster {name} has {assigned} replicas assigned instead of {expected}"));
            }
            if expected.is_some() && (member.applied.is_none() || member.replicas.is_none()) {
                return Some(format!("cluster {name} no longer holds the Deployment or its Work"));
            }
            if name == lost
                && let Some((_, desired)) = member.replicas
                && desired != drifted
            {
                return Some(format!("the Deployment in cluster {name} has {desired} replicas instead of {drifted}"));
            }
        }
        None
    }

    /// `nginx 4/4 ready: member1 2/2, member2 2/2`
    pub fn summary(&self) -> String {
        let per_member = self.members.iter().filter_map(|member| {
            let (ready, desired) = member.replicas?;
            Some(format!("{} {ready}/{desired}", member.name))
        });
        let (ready, desired) = self.template.unwrap_or_default();
        format!("nginx {ready}/{desired} ready: {}", per_member.collect::<Vec<_>>().join(", "))
    }

    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }
}

impl Member {
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|(status, _)| status == "True")
    }

    /// `Ready=False (ClusterNotReachable)`
    pub fn readiness(&self) -> String {
        match &self.ready {
            Some((status, reason)) => format!("Ready={status} ({reason})"),
            None => "without condition Ready".into(),
        }
    }

    fn reason(&self) -> String {
        self.ready.as_ref().map_or_else(String::new, |(_, reason)| format!(": {reason}"))
    }

    fn missing(&self, expected: Option<i64>) -> Option<String> {
        let name = &self.name;
        let Some(expected) = expected else {
            return match (self.assigned, self.replicas) {
                (Some(_), _) => Some(format!("cluster {name} is assigned replicas, and should have none")),
                (None, Some(_)) => Some(format!("cluster {name} still holds the Deployment")),
                (None, None) => None,
            };
        };
        match (self.assigned, self.replicas) {
            (assigned, _) if assigned != Some(expected) => {
                Some(format!("cluster {name} is assigned {} of {expected} replicas", assigned.unwrap_or(0)))
            }
            (_, None) => Some(format!("cluster {name} does not hold the Deployment")),
            (_, Some((ready, desired))) if ready != expected || desired != expected => Some(format!(
                "the Deployment in cluster {name} has {ready}/{desired} replicas ready instead of {expected}"
            )),
            _ => (self.applied != Some(true)).then(|| format!("the Work for cluster {name} is not Applied")),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn member(name: &str, assigned: Option<i64>, replicas: Option<(i64, i64)>) -> Member {
        let ready = Some(("True".to_owned(), "ClusterReady".to_owned()));
        Member { name: name.into(), ready, is_tainted: false, assigned, applied: assigned.map(|_| true), replicas }
    }

    fn complete() -> View {
        View {
            members: vec![
                member("member1", Some(2), Some((2, 2))),
                member("member2", Some(2), Some((2, 2))),
                member("member3", None, None),
            ],
            conditions: ["Scheduled", "FullyApplied"].map(|it| (it.to_owned(), "True".to_owned())).into(),
            template: Some((4, 4)),
        }
    }

    fn placement() -> Placement {
        ["member1", "member2"].map(|name| (name.to_owned(), 2)).into()
    }

    fn unreachable(view: &mut View, at: usize) {
        view.members[at].ready = Some(("False".into(), "ClusterNotReachable".into()));
    }

    #[test]
    fn an_application_is_placed_in_exactly_the_chosen_clusters() {
        let missing = |change: fn(&mut View)| {
            let mut view = complete();
            change(&mut view);
            view.missing(&placement()).unwrap_or_default()
        };
        let table = [
            missing(|_| {}),
            missing(|view| unreachable(view, 2)),
            missing(|view| view.members[0].ready = None),
            missing(|view| view.members[1].is_tainted = true),
            missing(|view| view.template = None),
            missing(|view| view.conditions.clear()),
            missing(|view| drop(view.conditions.insert("FullyApplied".into(), "False".into()))),
            missing(|view| view.members[0].assigned = None),
            missing(|view| view.members[0].assigned = Some(3)),
            missing(|view| view.members[0].replicas = None),
            missing(|view| view.members[1].replicas = Some((1, 2))),
            missing(|view| view.members[1].replicas = Some((5, 5))),
            missing(|view| view.members[1].applied = Some(false)),
            missing(|view| view.members[2].assigned = Some(1)),
            missing(|view| view.members[2].replicas = Some((0, 0))),
            missing(|view| view.template = Some((3, 4))),
        ];
        expect![[r#"

            cluster member3 is not Ready: ClusterNotReachable
            cluster member1 is not Ready
            cluster member2 is Ready, and still tainted as not ready
            the control plane holds no Deployment default/nginx
            ResourceBinding default/nginx-deployment is not Scheduled
            ResourceBinding default/nginx-deployment is not FullyApplied
            cluster member1 is assigned 0 of 2 replicas
            cluster member1 is assigned 3 of 2 replicas
            cluster member1 does not hold the Deployment
            the Deployment in cluster member2 has 1/2 replicas ready instead of 2
            the Deployment in cluster member2 has 5/5 replicas ready instead of 2
            the Work for cluster member2 is not Applied
            cluster member3 is assigned replicas, and should have none
            cluster member3 still holds the Deployment
            the Deployment's status reports 3 of 4 replicas ready"#]]
        .assert_eq(&table.join("\n"));
    }

    #[test]
    fn a_lost_member_keeps_its_assignment() {
        let missing = |change: fn(&mut View)| {
            let mut view = complete();
            unreachable(&mut view, 1);
            view.members[1].replicas = Some((5, 5));
            change(&mut view);
            view.not_lost("member2", &placement(), 5).unwrap_or_default()
        };
        let table = [
            missing(|_| {}),
            missing(|view| view.members[1].ready = Some(("Unknown".into(), "ClusterStatusUnknown".into()))),
            missing(|view| view.members[1].replicas = Some((2, 2))),
            missing(|view| view.members[1] = member("member2", Some(2), Some((5, 5)))),
            missing(|view| unreachable(view, 0)),
            missing(|view| view.members[1].assigned = None),
            missing(|view| view.members[0].assigned = Some(4)),
            missing(|view| view.members[2].assigned = Some(2)),
            missing(|view| view.members[1].applied = None),
            missing(|view| view.members[1].replicas = None),
        ];
        expect![[r#"


            the Deployment in cluster member2 has 2 replicas instead of 5
            cluster member2 is still Ready
            cluster member1 is not Ready: ClusterNotReachable
            cluster member2 has no replicas assigned instead of 2
            cluster member1 has 4 replicas assigned instead of 2
            cluster member3 has 2 replicas assigned instead of no
            cluster member2 no longer holds the Deployment or its Work
            cluster member2 no longer holds the Deployment or its Work"#]]
        .assert_eq(&table.join("\n"));
    }

    #[test]
    fn observations_are_summarized() {
        let mut view = complete();
        unreachable(&mut view, 1);
        assert_eq!(view.summary(), "nginx 4/4 ready: member1 2/2, member2 2/2");
        let readiness = ["member1", "member2"].map(|name| view.member(name).map(Member::readiness));
        assert_eq!(
            readiness.map(Option::unwrap_or_default),
            ["Ready=True (ClusterReady)", "Ready=False (ClusterNotReachable)"]
        );
        assert_eq!(Member::default().readiness(), "without condition Ready");
    }
}
