//! The proposal of one metric: its values over all members, the ignored pods, and the resulting replicas.

use std::collections::BTreeMap;

use apimachinery::quantity::{Format, Quantity};
use jiff::Timestamp;
use karmada_api::autoscaling::v1alpha1::CrossVersionObjectReference;
use serde_json::{Value, json};

use crate::Settings;
use crate::pods::{self, Group, PodValue};
use crate::reading::{Answer, Member, Sample, Series};
use crate::replicas::{self, Aim, Frame, Level, NO_PODS, Proposed};
use crate::spec::{Identifier, Metric, Source, Spec, Target};

/// Everything a decision depends on, besides the history.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The namespace of the FederatedHPA.
    pub namespace: &'a str,
    /// Its request.
    pub spec: &'a Spec,
    /// The controller's flags.
    pub settings: &'a Settings,
    /// The time.
    pub now: Timestamp,
    /// `spec.replicas` of the template's scale.
    pub replicas: i32,
    /// The ready clusters of its binding, with the values read from them.
    pub members: &'a [Member],
    /// Other FederatedHPAs that scale the same pods, as `NAMESPACE/NAME`.
    pub competing: &'a [String],
}

/// A metric, its values and its proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The metric and its target: `cpu, target 80% of requests`.
    pub title: String,
    /// The proposal, or the reason why there is none.
    pub outcome: Result<Proposal, Failure>,
    /// The contribution of each member, in the order of the members.
    pub shares: Vec<Share>,
    /// Pods that do not count with a sample.
    pub left_out: Vec<LeftOut>,
}

/// The replicas that a metric proposes.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// For the template.
    pub replicas: i32,
    /// The name in events: `cpu resource utilization (percentage of request)`.
    pub name: String,
    /// The entry of `status.currentMetrics`.
    pub status: Value,
    /// The present value: `54% (549m)`.
    pub level: String,
    /// The reason for the result, other than the value.
    pub note: Option<&'static str>,
    /// Members whose part of a total is unknown: without it the workload must not shrink.
    pub unknown: Vec<String>,
}

/// Why a metric has no proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason of the condition and the event.
    pub reason: &'static str,
    /// Their message.
    pub error: String,
    /// The words that the error of all metrics puts before it.
    pub context: String,
}

impl Failure {
    /// The error as the FederatedHPA's error names it.
    pub fn full(&self) -> String {
        format!("{}{}", self.context, self.error)
    }
}

/// The contribution of a member to a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The member.
    pub cluster: String,
    /// Its pods, and those that count with a sample.
    pub pods: (usize, usize),
    /// The sum of the samples, in thousandths.
    pub value: Option<i64>,
    /// Why its values are unknown.
    pub error: Option<String>,
}

/// A pod that does not count with a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its member.
    pub cluster: String,
    /// Its name.
    pub pod: String,
    /// How it counts, and why.
    pub group: Group,
}

/// The members that answered.
pub(crate) type Answers<'a> = Vec<(&'a str, &'a Answer)>;

pub(crate) fn of_metric(
    input: &Input<'_>,
    answers: &Answers<'_>,
    frame: Frame,
    index: usize,
    metric: &Metric,
) -> Report {
    let title = title(metric);
    match &metric.source {
        Source::Unknown(type_) => {
            let error = format!("unknown metric source type {type_:?}");
            let failure = Failure { reason: "InvalidMetricSourceType", error, context: String::new() };
            Report { title, outcome: Err(failure), shares: Vec::new(), left_out: Vec::new() }
        }
        Source::Resource { .. } | Source::ContainerResource { .. } | Source::Pods(_) => {
            of_pods(title, input, answers, frame, index, metric)
        }
        Source::Object(..) | Source::External(_) => of_total(title, input, answers, frame, index, metric),
    }
}

/// A metric of pods.
fn of_pods(
    title: String,
    input: &Input<'_>,
    answers: &Answers<'_>,
    frame: Frame,
    index: usize,
    metric: &Metric,
) -> Report {
    let (mut grouped, mut shares, mut found) = (Vec::new(), Vec::new(), 0);
    for (cluster, answer) in answers {
        let (samples, error) = match samples(answer, index, &metric.source) {
            Ok(samples) => (samples, None),
            Err(error) => (BTreeMap::new(), Some(error)),
        };
        found += samples.len();
        let is_cpu = matches!(&metric.source,
            Source::Resource { name } | Source::ContainerResource { name, .. } if name == "cpu");
        let pods = pods::of_member(cluster, answer, &samples, is_cpu, input.settings, input.now);
        shares.push(share(cluster, &pods, error));
        grouped.extend(pods);
    }
    let outcome = match found {
        0 => Err(in_words(metric, no_samples(&metric.source, &shares))),
        _ if grouped.is_empty() => Err(in_words(metric, NO_PODS.to_owned())),
        _ => by_target(&grouped, frame, metric),
    };
    let outcome = outcome.map_err(|error| failure(metric, error)).map(|proposed| Proposal {
        replicas: proposed.replicas,
        name: name(metric),
        status: status(metric, &proposed.level),
        level: level(&proposed.level),
        note: proposed.note,
        unknown: Vec::new(),
    });
    let left_out = grouped.iter().filter(|it| it.group != Group::Counted).map(|it| LeftOut {
        cluster: it.cluster.to_owned(),
        pod: it.pod.name.clone(),
        group: it.group,
    });
    Report { title, outcome, left_out: left_out.collect(), shares }
}

fn share(cluster: &str, pods: &[PodValue<'_>], error: Option<String>) -> Share {
    let counted = || pods.iter().filter(|it| it.group == Group::Counted);
    let value = counted().filter_map(|it| it.value).reduce(i64::saturating_add);
    Share { cluster: cluster.to_owned(), pods: (pods.len(), counted().count()), value, error }
}

/// The samples of a member's pods by name.
fn samples<'a>(answer: &'a Answer, index: usize, source: &Source) -> Result<BTreeMap<&'a str, Sample>, String> {
    let of_usage = |resource: &str, container: Option<&str>| {
        let usage = answer.usage.as_ref().map(|usage| usage.as_ref().map_err(Clone::clone));
        let usage = usage.unwrap_or_else(|| Err("it was not read".to_owned()))?;
        let samples = usage.iter().filter_map(|it| Some((it.pod.as_str(), it.sample(resource, container)?)));
        Ok(samples.collect())
    };
    match source {
        Source::Resource { name } => of_usage(name, None),
        Source::ContainerResource { name, container } => of_usage(name, Some(container)),
        _ => match answer.series.get(&index) {
            Some(Ok(Series::Pods(samples))) => Ok(samples.iter().map(|(pod, it)| (pod.as_str(), *it)).collect()),
            Some(Err(error)) => Err(error.clone()),
            _ => Err("it was not read".to_owned()),
        },
    }
}

/// No member has a sample of any pod.
fn no_samples(source: &Source, shares: &[Share]) -> String {
    let (what, api) = match source {
        Source::Resource { name } | Source::ContainerResource { name, .. } => {
            (format!("metrics for resource {name}"), "resource metrics API")
        }
        Source::Pods(metric) | Source::Object(_, metric) => (format!("metric {}", metric.name), "custom metrics API"),
        Source::External(metric) => (format!("metric {}", metric.name), "external metrics API"),
        Source::Unknown(type_) => (format!("metric of type {type_}"), "metrics API"),
    };
    let mut errors: Vec<String> = Vec::new();
    for share in shares {
        errors.extend(share.error.as_ref().map(|error| format!("{}: {error}", share.cluster)));
    }
    match errors.is_empty() {
        true => format!("unable to get {what}: no metrics returned from {api}"),
        false => format!("unable to get {what}: unable to fetch metrics from {api}: {}", errors.join("; ")),
    }
}

/// The requests of pods that count, and zeros where no request is required.
fn requests(pods: &[PodValue<'_>], source: &Source) -> Result<Vec<i64>, String> {
    let request = |it: &PodValue<'_>| match (source, it.group) {
        (_, Group::Ignored(_)) => Ok(0),
        (Source::Resource { name }, _) => pods::request(it.pod, name, None),
        (Source::ContainerResource { name, container }, _) => pods::request(it.pod, name, Some(container)),
        _ => Ok(0),
    };
    pods.iter().map(request).collect()
}

fn by_target(pods: &[PodValue<'_>], frame: Frame, metric: &Metric) -> Result<Proposed, String> {
    let Target { average_value, average_utilization, .. } = &metric.target;
    let none = || vec![0; pods.len()];
    match (&metric.source, average_value, average_utilization) {
        (_, Some(average), _) => {
            let aim = Aim::Average(positive(average.milli_value())?);
            let result = replicas::of_pods(pods, &none(), aim, frame);
            result.map_err(|error| in_words(metric, error))
        }
        (Source::Resource { .. } | Source::ContainerResource { .. }, None, Some(percent)) => {
            let aim = Aim::Utilization(i32::try_from(positive(i64::from(*percent))?).unwrap_or(i32::MAX));
            let result = requests(pods, &metric.source).and_then(|it| replicas::of_pods(pods, &it, aim, frame));
            result.map_err(|error| in_words(metric, error))
        }
        (Source::Resource { .. } | Source::ContainerResource { .. }, None, None) => Err(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
                .to_owned(),
        ),
        _ => Err("invalid pods metric source: no average value target was set".to_owned()),
    }
}

/// Upstream's words before an error of a resource, also if the target is an average value.
fn in_words(metric: &Metric, error: String) -> String {
    match &metric.source {
        Source::Resource { name } | Source::ContainerResource { name, .. } => {
            format!("failed to get {name} utilization: {error}")
        }
        _ => error,
    }
}

/// A target that is not positive has no ratio. Admission refuses it.
fn positive(target: i64) -> Result<i64, String> {
    if target > 0 { Ok(target) } else { Err(format!("the target {target} is not positive")) }
}

/// A metric with one value for each member: of an object, or from outside.
fn of_total(
    title: String,
    input: &Input<'_>,
    answers: &Answers<'_>,
    frame: Frame,
    index: usize,
    metric: &Metric,
) -> Report {
    let (mut shares, mut unknown) = (Vec::new(), Vec::new());
    let mut sum: Option<i64> = None;
    for (cluster, answer) in answers {
        let (value, error) = match answer.series.get(&index) {
            Some(Ok(Series::Total(value))) => (*value, None),
            Some(Err(error)) => (None, Some(error.clone())),
            _ => (None, Some("it was not read".to_owned())),
        };
        if error.is_some() {
            unknown.push((*cluster).to_owned());
        }
        sum = match (sum, value) {
            (Some(sum), Some(value)) => Some(sum.saturating_add(value)),
            (sum, value) => sum.or(value),
        };
        let ready = answer.pods.iter().filter(|pod| pod.is_ready()).count();
        shares.push(Share { cluster: (*cluster).to_owned(), pods: (answer.pods.len(), ready), value, error });
    }
    let outcome = match sum {
        None => Err(no_total(&metric.source, &shares, input)),
        Some(sum) => total_by_target(sum, &shares, frame, metric),
    };
    let outcome = outcome.map_err(|error| failure(metric, error)).map(|proposed| Proposal {
        replicas: proposed.replicas,
        name: name(metric),
        status: status(metric, &proposed.level),
        level: level(&proposed.level),
        note: proposed.note,
        unknown,
    });
    Report { title, outcome, shares, left_out: Vec::new() }
}

fn no_total(source: &Source, shares: &[Share], input: &Input<'_>) -> String {
    let error = no_samples(source, shares);
    match source {
        Source::Object(object, _) => format!("{error} (for {} {}/{})", object.kind, input.namespace, object.name),
        _ => error,
    }
}

fn total_by_target(sum: i64, shares: &[Share], frame: Frame, metric: &Metric) -> Result<Proposed, String> {
    let kind = if matches!(metric.source, Source::External(_)) { "external" } else { "object" };
    match (metric.target.average_value, metric.target.value) {
        (Some(average), _) => Ok(replicas::of_average(sum, positive(average.milli_value())?, frame)),
        (None, Some(value)) => {
            let pods = shares.iter().fold((0, 0), |sum, it| (sum.0 + it.pods.0, sum.1 + it.pods.1));
            replicas::of_value(sum, positive(value.milli_value())?, pods.1, pods.0, frame)
        }
        (None, None) => {
            Err(format!("invalid {kind} metric source: neither a value target nor an average value target was set"))
        }
    }
}

fn failure(metric: &Metric, error: String) -> Failure {
    let (reason, context) = match &metric.source {
        Source::Resource { name } => {
            ("FailedGetResourceMetric", format!("failed to get {name} resource metric value: "))
        }
        Source::ContainerResource { container, .. } => {
            ("FailedGetContainerResourceMetric", format!("failed to get {container} container metric value: "))
        }
        Source::Pods(_) => ("FailedGetPodsMetric", "failed to get pods metric value: ".to_owned()),
        Source::Object(..) => ("FailedGetObjectMetric", "failed to get object metric value: ".to_owned()),
        Source::External(metric) => {
            ("FailedGetExternalMetric", format!("failed to get {} external metric value: ", metric.name))
        }
        Source::Unknown(_) => ("InvalidMetricSourceType", String::new()),
    };
    Failure { reason, error, context }
}

/// The name in events and conditions.
fn name(metric: &Metric) -> String {
    let is_average = metric.target.average_value.is_some();
    match &metric.source {
        Source::Resource { name } if !is_average => format!("{name} resource utilization (percentage of request)"),
        Source::ContainerResource { name, .. } if !is_average => {
            format!("{name} container resource utilization (percentage of request)")
        }
        Source::Resource { name } | Source::ContainerResource { name, .. } => format!("{name} resource"),
        Source::Pods(metric) => format!("pods metric {}", metric.name),
        Source::Object(object, metric) => format!("{} metric {}", object.kind, metric.name),
        Source::External(metric) => format!("external metric {}", metric.name),
        Source::Unknown(type_) => type_.clone(),
    }
}

/// The metric and its target, for people.
fn title(metric: &Metric) -> String {
    let Target { value, average_value, average_utilization } = &metric.target;
    let target = match (average_value, average_utilization, value) {
        (Some(average), ..) => format!("target {average} for each pod"),
        (None, Some(percent), _) => format!("target {percent}% of requests"),
        (None, None, Some(value)) => format!("target {value} in total"),
        (None, None, None) => "no target".to_owned(),
    };
    let what = match &metric.source {
        Source::Resource { name } => name.clone(),
        Source::ContainerResource { name, container } => format!("{name} of container {container}"),
        Source::Pods(metric) => format!("{} of pods", metric.name),
        Source::Object(object, metric) => format!("{} of {} {}", metric.name, object.kind, object.name),
        Source::External(metric) => format!("external {}", metric.name),
        Source::Unknown(type_) => format!("type {type_:?}"),
    };
    format!("{what}, {target}")
}

pub(crate) fn amount(milli: i64) -> Quantity {
    Quantity::from_milli(milli, Format::DecimalSi)
}

fn level(level: &Level) -> String {
    match level.utilization {
        Some(percent) => format!("{percent}% ({})", amount(level.average)),
        None => amount(level.average).to_string(),
    }
}

/// The entry of `status.currentMetrics`.
fn status(metric: &Metric, level: &Level) -> Value {
    let value = amount(level.average);
    let current = match (level.utilization, metric.target.average_value, &metric.source) {
        (Some(percent), ..) => json!({"averageUtilization": percent, "averageValue": value}),
        (None, None, Source::Object(..) | Source::External(_)) => json!({"value": value}),
        _ => json!({"averageValue": value}),
    };
    match &metric.source {
        Source::Resource { name } => json!({"type": "Resource", "resource": {"name": name, "current": current}}),
        Source::ContainerResource { name, container } => json!({"type": "ContainerResource",
            "containerResource": {"container": container, "name": name, "current": current}}),
        Source::Pods(it) => json!({"type": "Pods", "pods": {"metric": it, "current": current}}),
        Source::Object(object, it) => object_status(object, it, current),
        Source::External(it) => json!({"type": "External", "external": {"metric": it, "current": current}}),
        Source::Unknown(type_) => json!({"type": type_}),
    }
}

fn object_status(object: &CrossVersionObjectReference, metric: &Identifier, current: Value) -> Value {
    json!({"type": "Object", "object": {"describedObject": object, "metric": metric, "current": current}})
}

/// The tolerances of a FederatedHPA.
pub(crate) fn tolerance(input: &Input<'_>) -> replicas::Tolerance {
    let Settings { tolerance, .. } = *input.settings;
    let of = |rules: Option<&crate::spec::Rules>| rules.and_then(|rules| rules.tolerance).unwrap_or(tolerance);
    let behavior = input.spec.behavior.as_ref();
    replicas::Tolerance { up: of(behavior.map(|it| &it.up)), down: of(behavior.map(|it| &it.down)) }
}
