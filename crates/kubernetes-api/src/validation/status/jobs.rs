//! Status of jobs: consistency of counts, times and conditions, and irreversible changes. A rule that the stored object
//! already violates is checked only if the fields it covers change.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList, Path};
use jiff::Timestamp;
use serde_json::Value;

use super::super::indexes;

/// The old and the new job, with the path of the status.
struct Change<'a> {
    old: &'a Value,
    new: &'a Value,
    path: Path,
}

pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let change = Change { old, new, path: Path::new("status") };
    change.counts(errors);
    change.ends(errors);
    change.indexes(errors);
    change.numbers_agree(errors);
    change.success(errors);
    change.stays(errors);
}

fn condition(job: &Value, type_: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

fn is_finished(job: &Value) -> bool {
    condition(job, "Complete") || condition(job, "Failed")
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

impl Change<'_> {
    fn now(&self, field: &str) -> &Value {
        &self.new["status"][field]
    }

    fn number(&self, field: &str) -> i64 {
        self.now(field).as_i64().unwrap_or(0)
    }

    fn differs(&self, field: &str) -> bool {
        self.old["status"][field] != *self.now(field)
    }

    fn turned(&self, condition_of: impl Fn(&Value) -> bool) -> bool {
        condition_of(self.old) != condition_of(self.new)
    }

    fn invalid(&self, field: &str, detail: &str, errors: &mut ErrorList) {
        errors.push(Error::invalid(&self.path.child(field), self.now(field).clone(), detail));
    }

    fn required(&self, field: &str, detail: &str, errors: &mut ErrorList) {
        errors.push(Error::required(&self.path.child(field), detail));
    }

    /// Upstream does not print conditions.
    fn conditions(&self, detail: &str, errors: &mut ErrorList) {
        errors.push(Error::without_value(&self.path.child("conditions"), detail));
    }

    fn counts(&self, errors: &mut ErrorList) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            if self.number(field) < 0 {
                self.invalid(field, super::NEGATIVE, errors);
            }
        }
        let mut seen = HashSet::new();
        for field in ["succeeded", "failed"] {
            let path = self.path.child("uncountedTerminatedPods").child(field);
            let pods = self.now("uncountedTerminatedPods")[field].as_array().into_iter().flatten();
            for (index, pod) in pods.enumerate() {
                let at = path.index(index);
                if pod == "" {
                    errors.push(Error::invalid(&at, "", "must not be empty"));
                } else if !seen.insert(pod) {
                    errors.push(Error::duplicate(&at, pod.clone()));
                }
            }
        }
    }

    fn ends(&self, errors: &mut ErrorList) {
        let is = |type_: &str| condition(self.new, type_);
        let turned = |type_: &str| self.turned(|job| condition(job, type_));
        let (complete, failed, target, met) =
            (is("Complete"), is("Failed"), is("FailureTarget"), is("SuccessCriteriaMet"));
        let completed = turned("Complete");
        if (completed || turned("Failed")) && complete && failed {
            self.conditions("cannot set Complete=True and Failed=true conditions", errors);
        }
        if (completed || turned("FailureTarget")) && complete && target {
            self.conditions("cannot set Complete=True and FailureTarget=true conditions", errors);
        }
        let (begin, end) = (time(self.now("startTime")), time(self.now("completionTime")));
        if completed || self.differs("completionTime") {
            if end.is_some() && !complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                self.invalid("completionTime", detail, errors);
            }
            if end.is_none() && complete {
                self.required("completionTime", "completionTime is required for Complete jobs", errors);
            }
        }
        if (self.differs("startTime") || self.differs("completionTime"))
            && begin.zip(end).is_some_and(|(begin, end)| end < begin)
        {
            self.invalid("completionTime", "completionTime cannot be set before startTime", errors);
        }
        if (turned("Failed") || turned("FailureTarget")) && failed && !target {
            self.conditions("cannot set Failed=True condition without the FailureTarget=true condition", errors);
        }
        if (completed || turned("SuccessCriteriaMet")) && complete && !met {
            self.conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition", errors);
        }
        self.leaves_nothing(errors);
    }

    /// A finished job has a start time, and no active pods.
    fn leaves_nothing(&self, errors: &mut ErrorList) {
        if !is_finished(self.new) {
            return;
        }
        let checks = |field: &str| self.turned(is_finished) || self.differs(field);
        if checks("active") && self.number("active") > 0 {
            self.invalid("active", "active>0 is invalid for finished job", errors);
        }
        if checks("startTime") && self.now("startTime").is_null() {
            self.required("startTime", "startTime is required for finished job", errors);
        }
        let left = self.now("uncountedTerminatedPods").as_object().into_iter().flat_map(|parts| parts.values());
        if checks("uncountedTerminatedPods")
            && left.into_iter().any(|pods| pods.as_array().is_some_and(|pods| !pods.is_empty()))
        {
            let pods = self.now("uncountedTerminatedPods");
            // Upstream prints the fields of its own struct.
            let shown = format!(r#"{{"Succeeded":{},"Failed":{}}}"#, pods["succeeded"], pods["failed"]);
            let at = self.path.child("uncountedTerminatedPods");
            let detail = "uncountedTerminatedPods needs to be empty for finished job";
            errors.push(Error::invalid(&at, Value::Null, detail).shown_as(shown));
        }
    }

    fn indexes(&self, errors: &mut ErrorList) {
        let spec = &self.new["spec"];
        let completions = spec["completions"].as_i64();
        let per_index = !spec["backoffLimitPerIndex"].is_null();
        let text = |field: &str| self.now(field).as_str();
        let (done, failed) = (text("completedIndexes").unwrap_or_default(), text("failedIndexes"));
        let (done_differs, failed_differs) = (self.differs("completedIndexes"), self.differs("failedIndexes"));
        let read = |text: &str| completions.map(|completions| indexes::parse(text, completions));
        if let Some(Err(why)) = read(done).filter(|_| done_differs) {
            self.invalid("completedIndexes", &format!("error parsing completedIndexes: {why}"), errors);
        }
        if let Some(Err(why)) = failed.and_then(read).filter(|_| failed_differs && per_index) {
            self.invalid("failedIndexes", &format!("error parsing failedIndexes: {why}"), errors);
        }
        if done_differs && !done.is_empty() && spec["completionMode"] != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            self.invalid("completedIndexes", detail, errors);
        }
        if failed_differs && failed.is_some() && !per_index {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            self.invalid("failedIndexes", detail, errors);
        }
        if (done_differs || failed_differs)
            && let (Some(Ok(done)), Some(Ok(failed))) = (read(done), failed.and_then(read))
            && let Some(index) = indexes::shared(&done, &failed)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            self.invalid("failedIndexes", &detail, errors);
        }
    }

    fn numbers_agree(&self, errors: &mut ErrorList) {
        let ended = is_finished(self.new) && (self.turned(is_finished) || self.differs("terminating"));
        if ended && self.number("terminating") > 0 {
            self.invalid("terminating", "terminating>0 is invalid for finished job", errors);
        }
        if (self.differs("ready") || self.differs("active")) && self.number("ready") > self.number("active") {
            self.invalid("ready", "cannot set more ready pods than active", errors);
        }
    }

    fn success(&self, errors: &mut ErrorList) {
        let met = condition(self.new, "SuccessCriteriaMet");
        for other in ["Failed", "FailureTarget"] {
            if met && condition(self.new, other) {
                self.conditions(&format!("cannot set SuccessCriteriaMet=True and {other}=true conditions"), errors);
            }
        }
        if self.new["spec"]["successPolicy"].is_object() && !met && condition(self.new, "Complete") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            self.conditions(detail, errors);
        }
    }

    /// Terminal conditions, counters of finished pods, and times of a job must not revert.
    fn stays(&self, errors: &mut ErrorList) {
        for type_ in ["Failed", "Complete", "FailureTarget"] {
            if condition(self.old, type_) && !condition(self.new, type_) {
                self.conditions(&format!("cannot disable the terminal {type_}=True condition"), errors);
            }
        }
        let before = |field: &str| self.old["status"][field].as_i64().unwrap_or(0);
        if self.number("failed") < before("failed") {
            self.invalid("failed", "cannot decrease the failed counter", errors);
        }
        // Indexed jobs may be scaled down, which recalculates the counts.
        let indexed = self.new["spec"]["completionMode"] == "Indexed";
        let resized = self.old["spec"]["completions"] != self.new["spec"]["completions"];
        if !(indexed && resized) && self.number("succeeded") < before("succeeded") {
            self.invalid("succeeded", "cannot decrease the succeeded counter", errors);
        }
        let (began, ended) = (&self.old["status"]["startTime"], &self.old["status"]["completionTime"]);
        if !ended.is_null() && !self.now("completionTime").is_null() && self.differs("completionTime") {
            self.invalid("completionTime", "field is immutable", errors);
        }
        let resumed = condition(self.old, "Suspended") && !condition(self.new, "Suspended");
        if !began.is_null() && self.differs("startTime") && self.new["spec"]["suspend"] != true && !resumed {
            self.invalid("startTime", "field is immutable for unsuspended job once set", errors);
        }
        let met = |job: &Value| condition(job, "SuccessCriteriaMet");
        if met(self.old) && !met(self.new) {
            self.conditions("cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if condition(self.old, "Complete") && !met(self.old) && met(self.new) {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.conditions(detail, errors);
        }
    }
}
