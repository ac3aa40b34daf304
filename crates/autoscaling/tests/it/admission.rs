//! Every schedule that admission accepts can be run.

use autoscaling::cron::{Schedule, zone};
use jiff::tz::TimeZone;
use karmada_api::admission::{self, Operation, Options, Request};
use serde_json::json;

fn is_admitted(schedule: &str) -> bool {
    let object = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "rules": [{"name": "a", "schedule": schedule, "targetReplicas": 1}]}});
    let request = Request {
        operation: Operation::Create,
        group: "autoscaling.karmada.io",
        kind: "CronFederatedHPA",
        namespace: "default",
        old: None,
        uuid: "",
        customizations: &[],
        options: Options::default(),
    };
    admission::validate(&request, &object).is_ok()
}

#[test]
fn admitted_schedules_run() {
    let fields = [
        "*", "?", "0", "5", "1-3", "*/2", "1-5/2", "2/3", "1,4", "JAN", "mon", "FRI-SAT", "7", "L", "15W", "5L", "5#2",
        "0-0", "60", "5-1", "*/0", "",
    ];
    let macros = [
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@hourly",
        "@5minutes",
        "@10minutes",
        "@15minutes",
        "@30minutes",
        "@always",
        "@everysecond",
    ];
    let mut schedules: Vec<String> = macros.map(str::to_owned).into();
    for position in 0..5 {
        for field in fields {
            let mut parts = ["*"; 5];
            parts[position] = field;
            schedules.push(parts.join(" "));
            schedules.push(format!("30 {}", parts.join(" ")));
            schedules.push(format!("30 {} 2030-2040/2", parts.join(" ")));
            schedules.push(format!("{} 2030", parts.join(" ")));
        }
    }
    let (mut admitted, mut refused) = (0, 0);
    for schedule in schedules {
        let parsed = Schedule::parse(&schedule, TimeZone::UTC);
        if is_admitted(&schedule) {
            assert!(parsed.is_ok(), "{schedule}: {parsed:?}");
            admitted += 1;
        } else {
            assert!(parsed.is_err(), "{schedule} is not admitted and runs");
            refused += 1;
        }
    }
    assert!(admitted > 150 && refused > 50, "{admitted} {refused}");
    // Upstream's scheduler runs these; admission refuses them, as upstream's.
    for schedule in ["@midnight", "@every 5m", "TZ=UTC * * * * *"] {
        assert!(!is_admitted(schedule) && Schedule::parse(schedule, TimeZone::UTC).is_ok(), "{schedule}");
    }
    assert!(zone("Local", &TimeZone::UTC).is_ok());
}
