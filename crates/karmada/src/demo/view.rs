//! What the demonstration shows and when it has succeeded: functions over what was observed.

use std::collections::{BTreeMap, BTreeSet};

/// One member and what of the application is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub version: String,
    pub ready: bool,
    /// What the scheduler gave it.
    pub assigned: Option<i64>,
    /// Whether the Work for it is applied; none while there is no Work.
    pub applied: Option<bool>,
    /// Ready and wanted replicas of the Deployment in it.
    pub replicas: Option<(i64, i64)>,
}

/// One look at everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub members: Vec<Member>,
    /// Status of the binding's conditions.
    pub conditions: BTreeMap<String, String>,
    /// Ready and wanted replicas in the template's status and spec.
    pub template: Option<(i64, i64)>,
}

impl View {
    /// The first member that is not Ready. Replicas are not moved later to a cluster that was not ready when they were
    /// divided, so nothing is divided before all are.
    pub fn unready(&self) -> Option<String> {
        let member = self.members.iter().find(|member| !member.ready)?;
        Some(format!("cluster {} is not Ready", member.name))
    }

    /// What is still missing until the application is ready in exactly the chosen members, or nothing.
    pub fn missing(&self, chosen: &BTreeSet<String>) -> Option<String> {
        if let Some(unready) = self.unready() {
            return Some(unready);
        }
        let Some((ready, wanted)) = self.template else {
            return Some("the control plane holds no Deployment default/nginx".into());
        };
        if self.conditions.get("Scheduled").is_none_or(|status| status != "True") {
            return Some("ResourceBinding default/nginx-deployment is not Scheduled".into());
        }
        for member in &self.members {
            if let Some(missing) = member.missing(chosen.contains(&member.name)) {
                return Some(missing);
            }
        }
        (ready < wanted).then(|| format!("the Deployment's status reports {ready} of {wanted} replicas ready"))
    }

    /// A table, one line for each row.
    pub fn table(&self) -> Vec<String> {
        let mut rows =
            vec![["CLUSTER", "VERSION", "READY", "ASSIGNED", "WORK", "REPLICAS"].map(str::to_owned).to_vec()];
        rows.extend(self.members.iter().map(Member::row));
        let mut lines = aligned(&rows);
        let conditions: Vec<String> = self.conditions.iter().map(|(name, status)| format!("{name}={status}")).collect();
        let conditions = if conditions.is_empty() { "none yet".to_owned() } else { conditions.join(" ") };
        lines.push(format!("resourcebinding nginx-deployment: {conditions}"));
        lines.push(format!("deployment nginx: {} ready", fraction(self.template)));
        lines
    }
}

impl Member {
    fn missing(&self, chosen: bool) -> Option<String> {
        let name = &self.name;
        match (chosen, self.assigned, self.replicas) {
            (true, None, _) => Some(format!("cluster {name} was not chosen")),
            (true, Some(_), None) => Some(format!("cluster {name} does not hold the Deployment")),
            (true, Some(assigned), Some((ready, wanted))) if ready < assigned || wanted != assigned => {
                Some(format!("cluster {name} has {ready} of {assigned} replicas ready"))
            }
            (false, Some(_), _) => Some(format!("cluster {name} was chosen, and should not be")),
            (false, None, Some(_)) => Some(format!("cluster {name} holds the Deployment, and should not")),
            _ => None,
        }
    }

    fn row(&self) -> Vec<String> {
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        vec![
            self.name.clone(),
            if self.version.is_empty() { "-".into() } else { self.version.clone() },
            if self.ready { "True" } else { "False" }.into(),
            text(self.assigned.map(|replicas| replicas.to_string())),
            text(self.applied.map(|applied| if applied { "Applied" } else { "Pending" }.into())),
            fraction(self.replicas),
        ]
    }
}

fn fraction(replicas: Option<(i64, i64)>) -> String {
    replicas.map_or_else(|| "-".into(), |(ready, wanted)| format!("{ready}/{wanted}"))
}

/// Columns as wide as their widest cell, three blanks between them, as kubectl prints.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}   ")).collect();
        cells.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn member(name: &str, assigned: Option<i64>, replicas: Option<(i64, i64)>) -> Member {
        let (version, applied) = ("v1.36.0".to_owned(), assigned.map(|_| true));
        Member { name: name.into(), version, ready: true, assigned, applied, replicas }
    }

    fn complete() -> View {
        View {
            members: vec![
                member("member1", Some(1), Some((1, 1))),
                member("member2", Some(1), Some((1, 1))),
                member("member3", None, None),
            ],
            conditions: [("Scheduled".to_owned(), "True".to_owned())].into(),
            template: Some((2, 2)),
        }
    }

    #[test]
    fn only_exactly_the_chosen_members_are_a_success() {
        let chosen: BTreeSet<String> = ["member1".to_owned(), "member2".to_owned()].into();
        let missing = |change: fn(&mut View)| {
            let mut view = complete();
            change(&mut view);
            view.missing(&chosen).unwrap_or_default()
        };
        let table = [
            missing(|_| {}),
            missing(|view| view.members[2].ready = false),
            missing(|view| view.template = None),
            missing(|view| view.conditions.clear()),
            missing(|view| view.members[0].assigned = None),
            missing(|view| view.members[0].replicas = None),
            missing(|view| view.members[1].replicas = Some((0, 1))),
            missing(|view| view.members[1].replicas = Some((2, 2))),
            missing(|view| view.members[2].assigned = Some(1)),
            missing(|view| view.members[2].replicas = Some((0, 0))),
            missing(|view| view.template = Some((1, 2))),
        ];
        expect![[r#"

            cluster member3 is not Ready
            the control plane holds no Deployment default/nginx
            ResourceBinding default/nginx-deployment is not Scheduled
            cluster member1 was not chosen
            cluster member1 does not hold the Deployment
            cluster member2 has 0 of 1 replicas ready
            cluster member2 has 2 of 1 replicas ready
            cluster member3 was chosen, and should not be
            cluster member3 holds the Deployment, and should not
            the Deployment's status reports 1 of 2 replicas ready"#]]
        .assert_eq(&table.join("\n"));
    }

    #[test]
    fn the_table_is_aligned() {
        expect![[r#"
            CLUSTER   VERSION   READY   ASSIGNED   WORK      REPLICAS
            member1   v1.36.0   True    1          Applied   1/1
            member2   v1.36.0   True    1          Applied   1/1
            member3   v1.36.0   True    -          -         -
            resourcebinding nginx-deployment: Scheduled=True
            deployment nginx: 2/2 ready"#]]
        .assert_eq(&complete().table().join("\n"));
    }
}
