//! How held members and plans are printed.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::HeldMember;
use super::plan::{Id, Overwritten, Plan};
use crate::error::Error;
use crate::table::{Layout, cut, printable};

/// Objects of a part that are printed as text.
const OBJECTS: usize = 50;
/// Fields of an object that are printed without --diff.
const FIELDS: usize = 3;
/// Characters of a value that are printed without --diff.
const CHARACTERS: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Yaml,
}

impl Form {
    pub fn parse(text: Option<&str>) -> Result<Self, Error> {
        match text {
            None | Some("") => Ok(Self::Text),
            Some("json") => Ok(Self::Json),
            Some("yaml") => Ok(Self::Yaml),
            Some(other) => Err(Error::Flag(format!("--output must be 'yaml' or 'json', not {other:?}"))),
        }
    }

    pub fn encode(self, value: &Value) -> Result<String, Error> {
        match self {
            Self::Yaml => Ok(apimachinery::yaml::to_string(value)),
            Self::Json | Self::Text => {
                let text = serde_json::to_string_pretty(value);
                text.map(|text| text + "\n").map_err(|error| Error::message(error.to_string()))
            }
        }
    }

    /// The members that are held.
    pub fn members(self, held: &[HeldMember], columns: Option<usize>) -> Result<String, Error> {
        if self != Self::Text {
            return self.encode(&json!({ "items": held }));
        }
        if held.is_empty() {
            return Ok("No member is held.\n".to_owned());
        }
        let heading = ["NAME", "SINCE", "REASON", "CONFIRMED", "MESSAGE"].map(str::to_owned).to_vec();
        let mut layout = Layout::fitting(columns, &heading);
        let row = |it: &HeldMember| {
            let confirmed = if it.confirmed { "yes" } else { "no" };
            [&it.cluster, &it.since, &it.reason, confirmed, &it.message].map(printable).to_vec()
        };
        let lines: Vec<Vec<String>> = std::iter::once(heading).chain(held.iter().map(row)).collect();
        let next = "\nPrint what would change in one: karmadactl resume NAME --dry-run\n";
        Ok(layout.render(&lines) + next)
    }
}

/// Prints a plan. `delete` is the URL of the first object to delete manually.
pub fn plan(held: &HeldMember, plan: &Plan, delete: Option<&str>, diff: bool) -> String {
    let mut out = format!("Cluster {} is held since {}: {}\n", held.cluster, held.since, printable(&held.message));
    let shown = if diff { usize::MAX } else { OBJECTS };
    // Writing to a String cannot fail.
    if title(&mut out, plan.overwritten.len(), "overwritten") {
        plan.overwritten.iter().take(shown).for_each(|it| overwritten(&mut out, it, diff));
        more(&mut out, plan.overwritten.len(), shown);
    }
    for (ids, what) in [(&plan.recreated, "recreated"), (&plan.deleted, "deleted")] {
        if title(&mut out, ids.len(), what) {
            listed(&mut out, ids, shown);
        }
    }
    if !plan.blocked.is_empty() {
        let _ = writeln!(out, "{} and cannot be applied:", counted(plan.blocked.len(), "stays", "stay"));
        for it in plan.blocked.iter().take(shown) {
            let _ = writeln!(out, "  {}: {}", it.id, printable(&it.reason));
        }
        more(&mut out, plan.blocked.len(), shown);
    }
    if !plan.left.is_empty() {
        let _ = writeln!(out, "{} in the member, without a Work:", counted(plan.left.len(), "is left", "are left"));
        listed(&mut out, &plan.left, shown);
        if let Some(url) = delete {
            let _ =
                writeln!(out, "  They stay until a person decides. To delete the first: kubectl delete --raw {url}");
        }
    }
    let _ = writeln!(out, "{}.", counted(plan.unchanged, "is unchanged", "are unchanged"));
    if plan.suspended > 0 {
        let _ = writeln!(out, "{}.", counted(plan.suspended, "is suspended", "are suspended"));
    }
    out
}

/// `1 object is`, `2 objects are`.
fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 object {one}"),
        count => format!("{count} objects {many}"),
    }
}

fn title(out: &mut String, count: usize, what: &str) -> bool {
    if count > 0 {
        let _ = writeln!(out, "{} {what}:", counted(count, "is", "are"));
    }
    count > 0
}

fn listed(out: &mut String, ids: &[Id], shown: usize) {
    for id in ids.iter().take(shown) {
        let _ = writeln!(out, "  {id}");
    }
    more(out, ids.len(), shown);
}

fn more(out: &mut String, count: usize, shown: usize) {
    if count > shown {
        let _ = writeln!(out, "  ... and {} more; -o yaml prints all", count - shown);
    }
}

fn overwritten(out: &mut String, it: &Overwritten, diff: bool) {
    let _ = writeln!(out, "  {}", it.id);
    let fields = if diff { usize::MAX } else { FIELDS };
    for difference in it.differences.iter().take(fields) {
        let observed = difference.observed.as_ref().map_or_else(|| "(none)".to_owned(), |value| short(value, diff));
        let _ = writeln!(out, "    {}: {observed} -> {}", difference.path, short(&difference.desired, diff));
    }
    if it.differences.len() > fields {
        let _ = writeln!(out, "    ... and {} more fields; --diff prints all", it.differences.len() - fields);
    }
}

fn short(value: &Value, whole: bool) -> String {
    let text = printable(&value.to_string());
    if whole { text } else { cut(&text, CHARACTERS).into_owned() }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::plan::{Blocked, Shown};
    use super::*;

    #[test]
    fn a_plan_names_each_change() {
        let held = HeldMember {
            cluster: "m1".to_owned(),
            since: "2026-11-23T00:00:00Z".to_owned(),
            reason: "StoreOlderThanMember".to_owned(),
            message: "the member has writes of revision 90".to_owned(),
            confirmed: false,
        };
        let id = |name: &str| Id {
            kind: "ConfigMap".to_owned(),
            group: String::new(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        };
        let difference =
            |n: usize| Shown { path: format!("data.k{n}"), observed: None, desired: json!("x".repeat(50)) };
        let whole = Plan {
            overwritten: vec![Overwritten { id: id("a"), differences: (0..4).map(difference).collect() }],
            recreated: vec![id("b"), id("c")],
            deleted: vec![id("d")],
            left: vec![id("e")],
            blocked: vec![Blocked { id: id("f"), reason: "not ours".to_owned() }],
            unchanged: 7,
            suspended: 1,
        };
        expect![[r#"
            Cluster m1 is held since 2026-11-23T00:00:00Z: the member has writes of revision 90
            1 object is overwritten:
              ConfigMap ns/a
                data.k0: (none) -> "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
                data.k1: (none) -> "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
                data.k2: (none) -> "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
                ... and 1 more fields; --diff prints all
            2 objects are recreated:
              ConfigMap ns/b
              ConfigMap ns/c
            1 object is deleted:
              ConfigMap ns/d
            1 object stays and cannot be applied:
              ConfigMap ns/f: not ours
            1 object is left in the member, without a Work:
              ConfigMap ns/e
              They stay until a person decides. To delete the first: kubectl delete --raw /url
            7 objects are unchanged.
            1 object is suspended.
        "#]]
        .assert_eq(&plan(&held, &whole, Some("/url"), false));
        let diff = plan(&held, &whole, None, true);
        assert!(diff.contains("data.k3: (none)") && !diff.contains("..."), "{diff}");
        assert_eq!(Form::Text.members(&[], None).expect("text"), "No member is held.\n");
    }
}
