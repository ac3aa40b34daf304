//! The page of a template and its binding.

use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::constants::labels;
use karmada_api::names;
use karmada_api::scope::Binding;
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use propagation::dependencies;
use propagation::failover::brake;
use propagation::namespaces;
use propagation::template::Template as Tree;
use scheduling::report::Report;
use scheduling::{Gates, Snapshot};
use serde_json::{Value, json};

use super::page::Page;
use super::{decision, overrides, policies, waits, works};
use crate::placement::advice::advise;
use crate::placement::explanation::{Scheduling, places, recheck, workload};
use crate::placement::live::{List, Live};
use crate::placement::places::{Obstacle, Row, rows, targets};
use crate::placement::selecting::{Selection, near_misses, selecting};

/// The inputs of a page.
#[derive(Clone, Debug)]
pub struct Facts {
    pub live: Live,
    /// The cluster of the Work that was named.
    pub focus: Option<String>,
    /// Bindings of the workload's dependencies.
    pub attached: Vec<Binding>,
    /// Why they are not known.
    pub attached_unknown: Option<String>,
    /// The Namespace is not propagated, by its label.
    pub namespace_stays: bool,
}

pub fn page(facts: &Facts) -> Page {
    let live = &facts.live;
    let selection = selecting(live);
    let it = &live.workload;
    let mut page = Page { subject: workload(live), ..Page::default() };
    page.fact("subject", reference(it));
    page.unknown.extend(live.unknown.iter().map(|it| format!("{}: {}", lists(it.list), it.why)));
    page.unknown.extend(facts.attached_unknown.iter().map(|why| format!("the bindings of what it requires: {why}")));
    let Some(binding) = &live.binding else {
        unbound(&mut page, live, &selection);
        return page;
    };
    let snapshot = Snapshot::of_clusters(live.clusters.iter().cloned());
    let report = Report::of(binding, &snapshot, &Gates::default()).filter(|_| live.knows(List::Clusters));
    let scheduling = Scheduling::of(binding);
    let rows = rows(live, binding, &scheduling, report.as_ref());
    page.answer = waits::bound(live, binding, &scheduling, &rows);
    page.waiting = waits::waiting(live, binding, &scheduling, &rows);
    page.next = next(facts, binding, &scheduling, &selection, &rows, report.as_ref());
    if let Some(cluster) = &facts.focus {
        let here: Vec<Row> = rows.iter().filter(|row| row.cluster == *cluster).cloned().collect();
        page.subject = format!("{}, in cluster {cluster}", workload(live));
        page.answer = here.first().map_or_else(|| "its state is unknown".to_owned(), |row| row.state.clone());
        page.waiting = waits::waiting(live, binding, &scheduling, &here);
        page.next = next(facts, binding, &scheduling, &selection, &here, report.as_ref());
    }
    of_policies(&mut page, live, &selection);
    page.lines("Binding", vec![name_of(binding)]);
    page.fact("binding", of_binding(binding));
    of_scheduling(&mut page, live, binding, &scheduling, report.as_ref());
    of_clusters(&mut page, binding, &rows, report.as_ref());
    of_overrides(&mut page, live, binding);
    of_works(&mut page, live);
    of_failover(&mut page, live, binding);
    of_dependencies(&mut page, facts, binding);
    of_warnings(&mut page, live, &rows);
    page
}

fn lists(list: List) -> &'static str {
    match list {
        List::Policies => "propagation policies",
        List::Overrides => "override policies",
        List::Works => "Works",
        List::Clusters => "clusters",
    }
}

pub fn reference(it: &ObjectReference) -> Value {
    json!({"apiVersion": it.api_version, "kind": it.kind, "namespace": it.namespace, "name": it.name})
}

/// `ResourceBinding shop/web-deployment`
pub fn name_of(binding: &Binding) -> String {
    format!("{} {}", Binding::kind(binding.scope), binding.key())
}

fn of_binding(binding: &Binding) -> Value {
    json!({
        "kind": Binding::kind(binding.scope), "namespace": binding.metadata.namespace, "name": binding.metadata.name,
        "generation": binding.metadata.generation,
        "schedulerObservedGeneration": binding.status.scheduler_observed_generation,
        "assigned": binding.spec.clusters, "conditions": binding.status.conditions,
        "suspension": binding.spec.suspension,
    })
}

fn unbound(page: &mut Page, live: &Live, selection: &Selection<'_>) {
    page.answer = waits::unbound(live, selection);
    if live.knows(List::Policies) {
        page.next = advise(live, selection, None, &[], None);
        let what = match selection.best {
            _ if live.is_never_propagated() => None,
            Some(_) => Some("the policy to take effect"),
            None => Some("a policy that selects it"),
        };
        page.waiting = what.map(str::to_owned).into_iter().collect();
    } else {
        page.waiting = vec!["unknown".to_owned()];
        page.next = vec!["get the right to list the policies, which Unknown names, and repeat this".to_owned()];
    }
    page.lines("Not by", near_misses(live, selection));
    of_policies(page, live, selection);
    of_warnings(page, live, &[]);
}

fn next(
    facts: &Facts,
    binding: &Binding,
    scheduling: &Scheduling,
    selection: &Selection<'_>,
    rows: &[Row],
    report: Option<&Report>,
) -> Vec<String> {
    let live = &facts.live;
    let mut steps = Vec::new();
    let namespace = &live.workload.namespace;
    let failed = rows.iter().any(|row| row.is_target && matches!(row.obstacle, Some(Obstacle::NotApplied(_))));
    if facts.namespace_stays && failed {
        steps.push(format!(
            "create namespace {namespace} in the members, or remove the label namespace.karmada.io/skip-auto-propagation from \
             it: the control plane does not propagate it"
        ));
    }
    if let Some(name) = live.clusters.iter().find(|it| is_paused(it, binding)).map(|it| &it.metadata.name) {
        steps
            .push(format!("wait until the fleet has recovered; if {name} is lost: karmadactl failover release {name}"));
    }
    let advice = advise(live, selection, Some((binding, scheduling)), rows, report);
    let is_busy = !binding.spec.graceful_eviction_tasks.is_empty();
    let all_fine = rows.iter().all(|row| !row.is_target || row.obstacle.is_none());
    let is_settled = all_fine && *scheduling == Scheduling::Scheduled && live.failing.is_none();
    if is_busy && is_settled && steps.is_empty() {
        return vec!["nothing to do: the old copies leave as Waiting describes".to_owned()];
    }
    steps.extend(advice);
    steps
}

fn is_paused(cluster: &Cluster, binding: &Binding) -> bool {
    let since = brake::paused_since(cluster);
    let has_it = targets(binding).contains_key(cluster.metadata.name.as_str());
    has_it && since.is_some_and(|since| !brake::is_released(cluster, since))
}

fn of_policies(page: &mut Page, live: &Live, selection: &Selection<'_>) {
    let policy_rows = policies::policy_rows(live, selection);
    page.table(
        ["POLICY", "OUTCOME", "PRIORITY", "SELECTS BY", "WHY"],
        policy_rows.iter().map(policies::PolicyRow::cells).collect(),
    );
    page.fact("policies", policy_rows.iter().map(policies::PolicyRow::to_value).collect::<Vec<_>>());
}

fn of_scheduling(page: &mut Page, live: &Live, binding: &Binding, scheduling: &Scheduling, report: Option<&Report>) {
    page.lines("Conditions", waits::conditions_of(binding));
    page.lines("Assigned", vec![places(&binding.spec.clusters)]);
    if let Some(placement) = &binding.spec.placement {
        if binding.is_workload() {
            let is_assigned =
                |it: &&Cluster| binding.spec.clusters.iter().any(|target| target.name == it.metadata.name);
            let assigned: Vec<&Cluster> = live.clusters.iter().map(|it| &**it).filter(is_assigned).collect();
            let division = decision::division(placement, &assigned);
            page.lines("Replicas", vec![format!("{}, {division}", binding.spec.replicas)]);
        }
        page.lines("Affinity", decision::affinity(binding, placement).into_iter().collect());
    }
    page.lines("Recheck", report.and_then(|it| recheck(binding, scheduling, it)).into_iter().collect());
}

fn of_clusters(page: &mut Page, binding: &Binding, rows: &[Row], report: Option<&Report>) {
    let evidence = decision::evidence(binding, report);
    page.table(
        ["CLUSTER", "REPLICAS", "SCORE", "ROOM", "FILTERED BY", "STATE"],
        rows.iter().map(|row| decision::cells(row, &evidence)).collect(),
    );
    page.fact("clusters", rows.iter().map(|row| decision::value(row, &evidence)).collect::<Vec<_>>());
}

fn of_overrides(page: &mut Page, live: &Live, binding: &Binding) {
    let chosen: Vec<&str> = targets(binding).into_keys().collect();
    let (effects, idle) = overrides::effects(live, &chosen);
    page.table(
        ["CLUSTER", "ORDER", "OVERRIDE", "SELECTS BY", "CHANGES"],
        effects.iter().map(overrides::Effect::cells).collect(),
    );
    page.lines("Unused", idle.clone());
    page.fact("overrides", effects.iter().map(overrides::Effect::to_value).collect::<Vec<_>>());
    page.fact("unusedOverrides", idle);
}

fn of_works(page: &mut Page, live: &Live) {
    let rows: Vec<works::Row> = live.works.iter().map(works::Row::of).collect();
    table_of_works(page, &rows);
}

fn of_failover(page: &mut Page, live: &Live, binding: &Binding) {
    let tasks = &binding.spec.graceful_eviction_tasks;
    page.lines("Evictions", tasks.iter().map(|task| waits::eviction(task, binding)).collect());
    page.fact("evictions", json!(tasks));
    let here = targets(binding);
    let reports = live.clusters.iter().filter(|it| here.contains_key(it.metadata.name.as_str())).flat_map(|cluster| {
        super::cluster::notable(cluster).into_iter().map(move |it| format!("{}: {it}", cluster.metadata.name))
    });
    page.lines("Members", reports.collect());
}

fn of_dependencies(page: &mut Page, facts: &Facts, binding: &Binding) {
    let required_by = &binding.spec.required_by;
    let by = |it: &karmada_api::work::v1alpha2::BindingSnapshot| {
        format!("binding {}/{}, which is in {}", it.namespace, it.name, places(&it.clusters))
    };
    page.lines("Needed by", required_by.iter().map(by).collect());
    let with = |it: &Binding| {
        let resource = &it.spec.resource;
        format!("{} {}/{}", resource.kind, resource.namespace, resource.name)
    };
    let mut taken: Vec<String> = facts.attached.iter().map(with).collect();
    taken.sort();
    if binding.spec.propagate_deps
        && let Ok(recorded) = dependencies::recorded(binding)
    {
        let missing = recorded.iter().filter(|it| {
            !it.name.is_empty()
                && !facts.attached.iter().any(|binding| dependencies::means(it, &binding.spec.resource, None))
        });
        if facts.attached_unknown.is_none() {
            taken.extend(missing.map(|it| format!("{} {}/{}: not attached", it.kind, it.namespace, it.name)));
        }
    }
    page.lines("Takes along", taken.clone());
    page.fact("requiredBy", json!(required_by));
    page.fact("dependencies", taken);
}

fn of_warnings(page: &mut Page, live: &Live, rows: &[Row]) {
    let warnings: Vec<String> = live.warnings.iter().filter(|it| !is_outdated(it, rows)).cloned().collect();
    page.lines("Warnings", warnings.clone());
    page.fact("warnings", warnings);
}

/// Whether a warning is about one cluster in which the workload is as desired now.
fn is_outdated(warning: &str, rows: &[Row]) -> bool {
    let is_fine = |row: &Row| row.is_target && row.obstacle.is_none();
    ["SyncFailed: ", "ApplyOverridePolicyFailed: "].iter().any(|reason| warning.starts_with(reason))
        && rows.iter().any(|row| is_fine(row) && warning.contains(&format!("cluster({})", row.cluster)))
}

/// Works of an object without a binding: created by another controller, or orphaned.
pub fn without_binding(page: &mut Page, works: &[Work]) {
    let rows: Vec<works::Row> = works.iter().map(works::Row::of).collect();
    let outstanding = || rows.iter().filter(|row| row.applied != "True" || row.message != "-");
    let applied = rows.len() - outstanding().count();
    page.answer = format!("applied in {applied} of {} clusters, without a policy", rows.len());
    page.waiting = waits::of_clusters(outstanding().map(|row| (row.cluster.as_str(), row.message.clone())));
    page.next = match outstanding().next() {
        Some(row) => vec![format!("see the cluster: karmadactl why cluster/{}", row.cluster)],
        None => vec!["nothing to do".to_owned()],
    };
    table_of_works(page, &rows);
}

/// A Namespace without Works and without a policy.
pub fn of_namespace(page: &mut Page, namespace: &Value) {
    let is_propagated = namespaces::is_propagated(Tree(namespace), |_| false);
    page.waiting.clear();
    (page.answer, page.next) = match () {
        () if stays(namespace) => (
            format!("it stays in the control plane by its label {}", labels::SKIP_AUTO_PROPAGATION),
            vec!["nothing to do; to have it in every cluster, remove the label".to_owned()],
        ),
        () if !is_propagated => (
            "it is not propagated: default and the namespaces of Kubernetes and Karmada never are".to_owned(),
            vec!["nothing to do".to_owned()],
        ),
        () => {
            page.waiting.push("its Works, one for each cluster".to_owned());
            let steps = "repeat this in a few seconds; if nothing changes, see whether the controllers of the control plane run";
            ("it is not in any cluster yet".to_owned(), vec![steps.to_owned()])
        }
    };
}

/// A Work without a binding, orphaned or created by another controller.
pub fn of_work_only(work: &Work) -> Page {
    let row = works::Row::of(work);
    let mut page = Page { subject: format!("Work {}", row.work), ..Page::default() };
    page.answer = match row.applied.as_str() {
        "True" if row.message == "-" => format!("applied in {}, and no binding has it", row.cluster),
        _ => format!("{}; no binding has it", row.message),
    };
    if row.message != "-" {
        page.waiting.push(format!("{}: {}", row.cluster, row.message));
        page.next.push(format!("see the cluster: karmadactl why cluster/{}", row.cluster));
    } else {
        page.next.push("nothing to do".to_owned());
    }
    let manifests = work.spec.workload.manifests.iter().filter_map(|it| it.to_value().ok()).map(|it| {
        let it = Tree(&it);
        format!("{} {}", it.kind(), it.key())
    });
    page.lines("Manifests", manifests.collect());
    table_of_works(&mut page, &[row]);
    page
}

fn table_of_works(page: &mut Page, rows: &[works::Row]) {
    page.table(
        ["WORK", "APPLIED", "DISPATCHING", "HEALTH", "MEMBER", "MESSAGE"],
        rows.iter().map(works::Row::cells).collect(),
    );
    page.fact("works", rows.iter().map(works::Row::to_value).collect::<Vec<_>>());
}

/// The Work that carries an object to a cluster, from any controller.
pub fn work_name(it: &ObjectReference) -> String {
    names::work_name(&it.kind, &it.name, &it.namespace)
}

/// Whether the label of a Namespace excludes it from propagation.
pub fn stays(namespace: &Value) -> bool {
    let label = Tree(namespace).label(labels::SKIP_AUTO_PROPAGATION);
    label.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
