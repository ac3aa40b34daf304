//! `/debug/api_priority_and_fairness/`: the levels, their queues and the requests that wait, in kube-apiserver's tables.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use flow_control::level::Level;

use super::FlowControl;
use super::plan::Plan;
use super::seats::Seats;
use crate::request::RequestInfo;

const PREFIX: &str = "/debug/api_priority_and_fairness/";

impl FlowControl {
    /// Whether there is such a dump.
    pub fn dumps(&self, path: &str) -> bool {
        let is_fair = self.settings.get().is_some_and(|settings| settings.is_fair);
        let dump = path.strip_prefix(PREFIX).unwrap_or_default();
        is_fair && matches!(dump, "dump_priority_levels" | "dump_queues" | "dump_requests")
    }

    /// The table at this path.
    pub fn dump(&self, info: &RequestInfo, now: jiff::Timestamp) -> String {
        let plan = self.plan.load_full();
        match info.path.strip_prefix(PREFIX).unwrap_or_default() {
            "dump_priority_levels" => levels(&plan),
            "dump_queues" => queues(&plan),
            _ => {
                let arrived = |at| {
                    let ago = jiff::SignedDuration::try_from(self.clock.since(at)).unwrap_or_default();
                    now.checked_sub(ago).unwrap_or(now).to_string()
                };
                requests(&plan, info.query.flag("includeRequestDetails"), arrived)
            }
        }
    }
}

/// Columns are as wide as their widest cell, and separated by commas.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([head.get(at).map_or(0, |cell| cell.len())]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        for (at, cell) in row.iter().enumerate() {
            if at + 1 == row.len() {
                out.push_str(cell);
            } else {
                let padded = widths.get(at).copied().unwrap_or_default() + 2;
                let _ = write!(out, "{:<padded$}", format!("{cell},"));
            }
        }
        out.push('\n');
    }
    out
}

fn levels(plan: &Plan) -> String {
    let row = |(name, level): (&String, &Arc<Seats>)| {
        let counts = level.counts();
        let of_level = || plan.schemas.iter().filter(|schema| Arc::ptr_eq(&schema.level, level));
        let dispatched: u64 = of_level().map(|schema| schema.stats.dispatched.load(Relaxed)).sum();
        let executing: u64 = of_level().map(|schema| schema.stats.executing.load(Relaxed)).sum();
        let refused = of_level().fold([0; 3], |sum: [u64; 3], schema| {
            let more = schema.stats.refusals();
            [sum[0] + more[0], sum[1] + more[1], sum[2] + more[2]]
        });
        let is_idle = executing == 0 && counts.waiting == 0;
        let numbers = [u64::from(counts.waiting), executing, dispatched, refused[0], refused[1], refused[2]];
        let mut cells = vec![name.clone(), counts.active.to_string(), is_idle.to_string(), "false".to_owned()];
        cells.extend(numbers.map(|number| number.to_string()));
        cells
    };
    let rows: Vec<_> = plan.levels.iter().map(row).collect();
    let head = [
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ];
    table(&head, &rows)
}

/// Queues without requests are omitted.
fn queues(plan: &Plan) -> String {
    let mut rows = Vec::new();
    for (name, level) in &plan.levels {
        for queue in level.read(Level::queues) {
            rows.push(vec![
                name.clone(),
                queue.index.to_string(),
                queue.waiting.to_string(),
                queue.running.to_string(),
                queue.held.to_string(),
                format!("{:.8}ss", queue.tag),
                queue.waiting_seats.to_string(),
                queue.waiting_widths.to_string(),
                format!("{:.8}ss", queue.work),
            ]);
        }
    }
    let head = [
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ];
    table(&head, &rows)
}

/// Of executing requests, no data is kept that could be shown.
fn requests(plan: &Plan, with_details: bool, arrived: impl Fn(u64) -> String) -> String {
    let mut rows = Vec::new();
    for (name, level) in &plan.levels {
        level.read(|level| {
            for (queue, place, waiting) in level.waiting() {
                let (work, details) = (waiting.work, &waiting.entry.details);
                let mut row = vec![
                    name.clone(),
                    waiting.entry.schema.name.clone(),
                    queue.to_string(),
                    place.to_string(),
                    details.distinguisher.clone(),
                    arrived(waiting.since),
                    work.seats.to_string(),
                    work.final_seats.to_string(),
                    format!("{}ms", work.extra / 1_000_000),
                    "-".to_owned(),
                ];
                if with_details {
                    row.extend([
                        details.user.clone(),
                        details.verb.to_owned(),
                        details.path.clone(),
                        details.namespace.clone(),
                        details.name.clone(),
                        details.api_version.clone(),
                        details.resource.clone(),
                        details.subresource.clone(),
                    ]);
                }
                rows.push(row);
            }
        });
    }
    let mut head = vec![
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ];
    if with_details {
        head.extend(["UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource"]);
    }
    table(&head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned() {
        let rows =
            [vec!["catch-all".to_owned(), "0".into(), "x".into()], vec!["b".to_owned(), "12345".into(), "".into()]];
        let expected = "Name,      Max,   Last\ncatch-all, 0,     x\nb,         12345, \n";
        assert_eq!(table(&["Name", "Max", "Last"], &rows), expected);
    }
}
