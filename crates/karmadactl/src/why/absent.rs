//! Objects that the control plane does not have: remaining copies, and objects of members that Karmada does not manage.

use karmada_api::constants::{annotations, conditions};
use karmada_api::names;
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use propagation::retain::is_managed;
use propagation::template::Template as Tree;
use serde_json::json;

use super::page::Page;
use super::read::MemberObject;
use super::template::reference;
use super::works;

/// The page of an object without a template and a binding; `None` if there is no trace of it.
pub fn page(
    it: &ObjectReference,
    left: &[Work],
    members: &[(String, MemberObject)],
    unknown: &[String],
) -> Option<Page> {
    let found: Vec<(&str, bool, &serde_json::Value)> = members
        .iter()
        .filter_map(|(cluster, there)| match there {
            MemberObject::Found(object) => Some((cluster.as_str(), is_managed(Tree(object)), object)),
            _ => None,
        })
        .collect();
    if found.is_empty() && left.is_empty() {
        return None;
    }
    let name = if it.namespace.is_empty() { it.name.clone() } else { format!("{}/{}", it.namespace, it.name) };
    let mut page = Page { subject: format!("{} {name}", it.kind), ..Page::default() };
    let listed = |managed: bool| -> Vec<&str> {
        found.iter().filter(|(_, is, _)| *is == managed).map(|(cluster, _, _)| *cluster).collect()
    };
    let (managed_copies, unmanaged_objects) = (listed(true), listed(false));
    page.answer = match (left, managed_copies.as_slice(), unmanaged_objects.as_slice()) {
        ([], [], unmanaged_objects) => {
            format!(
                "it is not in the control plane; {} has one that Karmada does not manage",
                unmanaged_objects.join(", ")
            )
        }
        ([], managed_copies, _) => {
            format!("it is not in the control plane; {} has a copy that no Work keeps", managed_copies.join(", "))
        }
        (_, [], []) => "it is not in the control plane; Works of it are left".to_owned(),
        (_, managed_copies, _) => {
            format!("it is not in the control plane; its copies are left in {}", managed_copies.join(", "))
        }
    };
    page.waiting = left.iter().filter_map(outstanding).collect();
    page.next = next(it, left, &managed_copies, &unmanaged_objects);
    page.unknown = unknown.to_vec();
    let unread = members.iter().filter_map(|(cluster, there)| match there {
        MemberObject::Unknown(why) => Some(format!("{cluster}: {why}")),
        _ => None,
    });
    page.unknown.extend(unread);
    let rows = found.iter().map(|(cluster, managed, object)| {
        let work = Tree(object).annotation(annotations::WORK_NAME).unwrap_or("-").to_owned();
        let managed = if *managed { "yes" } else { "no" };
        [(*cluster).to_owned(), managed.to_owned(), work, works::summary(&object["status"])]
    });
    let rows: Vec<[String; 4]> = rows.collect();
    page.fact("subject", reference(it));
    page.fact(
        "members",
        rows.iter()
            .map(|row| json!({"cluster": row[0], "managed": row[1] == "yes", "work": row[2], "status": row[3]}))
            .collect::<Vec<_>>(),
    );
    page.table(["CLUSTER", "MANAGED", "WORK", "STATUS"], rows);
    let rows: Vec<works::Row> = left.iter().map(works::Row::of).collect();
    page.fact("works", rows.iter().map(works::Row::to_value).collect::<Vec<_>>());
    page.table(
        ["WORK", "APPLIED", "DISPATCHING", "HEALTH", "MEMBER", "MESSAGE"],
        rows.iter().map(works::Row::cells).collect(),
    );
    Some(page)
}

fn outstanding(work: &Work) -> Option<String> {
    let cluster = names::cluster_of_namespace(&work.metadata.namespace).unwrap_or(&work.metadata.namespace);
    let applied = work.status.conditions.iter().find(|it| it.type_ == conditions::APPLIED);
    match (work.metadata.deletion_timestamp, applied) {
        (Some(_), Some(it)) if it.status != "True" => {
            Some(format!("{cluster}: its copy is being removed: {}", it.message))
        }
        (Some(_), _) => Some(format!("{cluster}: its copy is being removed")),
        (None, _) => None,
    }
}

fn next(it: &ObjectReference, left: &[Work], managed_copies: &[&str], unmanaged_objects: &[&str]) -> Vec<String> {
    let kind = it.kind.to_lowercase();
    let within = if it.namespace.is_empty() { String::new() } else { format!(" -n {}", it.namespace) };
    let mut steps = Vec::new();
    if left.iter().any(|work| work.metadata.deletion_timestamp.is_some()) {
        let cluster = left.iter().find_map(|work| names::cluster_of_namespace(&work.metadata.namespace));
        steps.push(match cluster {
            Some(cluster) => format!("wait; if it does not end, see the cluster: karmadactl why cluster/{cluster}"),
            None => "wait until the Works are gone".to_owned(),
        });
    } else if let Some(work) = left.first() {
        let (work, namespace) = (&work.metadata.name, &work.metadata.namespace);
        steps.push(format!("see what keeps the copy: karmadactl why work/{work} -n {namespace}"));
    }
    if let Some(cluster) = unmanaged_objects.first() {
        steps.push(format!("let Karmada manage it: karmadactl promote {kind} {}{within} -C {cluster}", it.name));
    }
    if left.is_empty()
        && let Some(cluster) = managed_copies.first()
    {
        steps.push(format!(
            "create it in the control plane again, or delete the copy in {cluster}: nothing in the control plane does"
        ));
    }
    steps
}
