//! Long lists of built-in kinds, whose items are compared with each other or with those of another list.

use super::bodies::{LIMIT, numbered};
use super::cases::{Case, Expected, JSON, post};

use Expected::{Answered, Refused};

pub(super) fn all() -> Vec<Case> {
    let pod = |list: &str, item: &dyn Fn(usize) -> String, tail: &str| {
        numbered(&format!(r#"{{"metadata":{{"name":"l"}},"spec":{{{list}"#), item, tail, LIMIT)
    };
    let container = r#""containers":[{"name":"c","image":"i","#;
    let pods = "/api/v1/namespaces/n/pods";
    let volumes = numbered(
        r#"{"metadata":{"name":"l"},"spec":{"volumes":["#,
        |n| format!(r#"{{"name":"v{n}","emptyDir":{{}}}}"#),
        "],",
        30_000,
    );
    let mounts = numbered(
        &format!(r#"{volumes}{container}"volumeMounts":["#),
        |n| format!(r#"{{"name":"v{n}","mountPath":"/{n}"}}"#),
        "]}]}}",
        30_000,
    );
    let rules = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    vec![
        post("empty containers", pods, JSON, pod(r#""containers":["#, &|_| "{}".into(), "]}}"), Refused),
        post(
            "volumes",
            pods,
            JSON,
            pod(
                r#""volumes":["#,
                &|n| format!(r#"{{"name":"v{n}","emptyDir":{{}}}}"#),
                r#"],"containers":[{"name":"c","image":"i"}]}}"#,
            ),
            Answered,
        ),
        post("mounts", pods, JSON, mounts, Answered),
        post(
            "ports",
            pods,
            JSON,
            pod(
                &format!(r#"{container}"ports":["#),
                &|n| format!(r#"{{"containerPort":{}}}"#, n % 65_535 + 1),
                "]}]}}",
            ),
            Answered,
        ),
        post(
            "variables",
            pods,
            JSON,
            pod(&format!(r#"{container}"env":["#), &|n| format!(r#"{{"name":"E{}"}}"#, n / 2), "]}]}}"),
            Answered,
        ),
        post(
            "tolerations",
            pods,
            JSON,
            pod(
                r#""containers":[{"name":"c","image":"i"}],"tolerations":["#,
                &|n| format!(r#"{{"key":"k{n}"}}"#),
                "]}}",
            ),
            Answered,
        ),
        post(
            "gates",
            pods,
            JSON,
            pod(
                r#""containers":[{"name":"c","image":"i"}],"schedulingGates":["#,
                &|n| format!(r#"{{"name":"k{n}"}}"#),
                "]}}",
            ),
            Answered,
        ),
        post(
            "ports of a Service",
            "/api/v1/namespaces/n/services",
            JSON,
            pod(r#""ports":["#, &|n| format!(r#"{{"name":"p{n}","port":{}}}"#, n % 65_535 + 1), "]}}"),
            Answered,
        ),
        post(
            "rules of a role",
            rules,
            JSON,
            numbered(
                r#"{"metadata":{"name":"l"},"rules":["#,
                |n| format!(r#"{{"apiGroups":["g{n}"],"resources":["r"],"verbs":["get"]}}"#),
                "]}",
                LIMIT,
            ),
            Answered,
        ),
        post(
            "webhooks",
            webhooks,
            JSON,
            numbered(
                r#"{"metadata":{"name":"l"},"webhooks":["#,
                |n| format!(r#"{{"name":"w{n}.example.com"}}"#),
                "]}",
                LIMIT,
            ),
            Refused,
        ),
        post(
            "rules of an Ingress",
            "/apis/networking.k8s.io/v1/namespaces/n/ingresses",
            JSON,
            pod(r#""rules":["#, &|n| format!(r#"{{"host":"h{n}.example.com"}}"#), "]}}"),
            Answered,
        ),
        post(
            "addresses",
            "/api/v1/namespaces/n/endpoints",
            JSON,
            numbered(
                r#"{"metadata":{"name":"l"},"subsets":["#,
                |n| format!(r#"{{"addresses":[{{"ip":"10.0.{}.{}"}}]}}"#, n / 256 % 256, n % 256),
                "]}",
                LIMIT,
            ),
            Answered,
        ),
    ]
}
