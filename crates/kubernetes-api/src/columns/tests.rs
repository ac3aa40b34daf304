use serde_json::json;

use apimachinery::resource::NAME_DESCRIPTION;

use super::*;

fn row(group: &str, kind: &str, mut object: Value) -> String {
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let now = Time::new("2026-01-01T00:05:00Z".parse().expect("a time"));
    let shown = cells(group, kind, &object, now);
    assert_eq!(shown.len(), columns(group, kind).len());
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    shown.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_line_is_read() {
    for line in TABLE.lines().filter_map(|line| line.strip_prefix(' ')) {
        assert!(row_is_known(line), "{line}");
    }
}

#[test]
fn columns_are_described() {
    for line in DESCRIPTIONS.lines().filter(|line| !line.starts_with([' ', '#'])) {
        for (group, kind) in line.split(", ").map(kind_of) {
            assert!(columns(group, kind).iter().any(|column| !column.description.is_empty()), "{group} {kind}");
        }
    }
    let listed = DESCRIPTIONS.lines().filter(|line| line.starts_with(' ')).count();
    let described = table().values().flatten().filter(|row| {
        let text = row.column.description.as_str();
        ![NAME_DESCRIPTION, CREATED_DESCRIPTION, ""].contains(&text)
    });
    // Events of both groups share one list.
    assert_eq!(described.count(), listed + 9);
    for (group, kind, at, name, type_, format, description) in [
        ("apps", "Deployment", 0, "Name", "string", "name", NAME_DESCRIPTION),
        ("apps", "Deployment", 1, "Ready", "string", "", "Number of the pod with ready state"),
        ("", "Event", 9, "Name", "string", "name", NAME_DESCRIPTION),
        ("rbac.authorization.k8s.io", "Role", 1, "Created At", "date", "", CREATED_DESCRIPTION),
        ("", "PodTemplate", 1, "Containers", "string", "", ""),
        ("a", "Unlisted", 1, "Age", "string", "", CREATED_DESCRIPTION),
    ] {
        let column = &columns(group, kind)[at];
        let shown = (&*column.name, &*column.type_, &*column.format, &*column.description);
        assert_eq!(shown, (name, type_, format, description), "{group} {kind}");
    }
    let (updated, now) =
        (&columns("apps", "Deployment")[2], Time::new("2026-01-01T00:00:00Z".parse().expect("a time")));
    assert_eq!((&*updated.type_, &cells("apps", "Deployment", &json!({}), now)[2]), ("string", &json!(0)));
}

fn row_is_known(line: &'static str) -> bool {
    super::row(line).is_some()
}

#[test]
fn rows_read_as_kubectl_shows_them() {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let at = |minutes: u32| format!("2026-01-01T00:0{minutes}:00Z");
    for (group, kind, object, expected) in [
        (
            "apps",
            "Deployment",
            json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]}, "template": template},
                "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}}),
            "x 2/3 3 2 5m c nginx a=b,c in (d,e)",
        ),
        (
            "",
            "Pod",
            json!({"spec": {"containers": [{}], "nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.1",
                "containerStatuses": [{"ready": true, "state": {"running": {}}, "restartCount": 2,
                    "lastState": {"terminated": {"finishedAt": at(3)}}}]}}),
            "x 1/1 Running 2 (2m ago) 5m 10.0.0.1 n <none> <none>",
        ),
        (
            "",
            "Service",
            json!({"spec": {"clusterIP": "10.1.1.1", "ports": [{"port": 80}, {"port": 53, "nodePort": 3, "protocol": "UDP"}]}}),
            "x ClusterIP 10.1.1.1 <none> 80/TCP,53:3/UDP 5m <none>",
        ),
        ("", "ConfigMap", json!({"data": {"a": "1"}, "binaryData": {"b": ""}}), "x 2 5m"),
        ("", "Node", json!({}), "x Unknown <none> 5m  <none> <none> <unknown> <unknown> <unknown>"),
        (
            "",
            "Node",
            json!({"metadata": {"labels": {"kubernetes.io/role": "z", "node-role.kubernetes.io/a": "", "node-role.kubernetes.io/z": ""}}}),
            "x Unknown a,z 5m  <none> <none> <unknown> <unknown> <unknown>",
        ),
        ("rbac.authorization.k8s.io", "Role", json!({}), "x 2026-01-01T00:00:00Z"),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "name": "t"}]}),
            "x Role/r 5m u, v  n/s, /t",
        ),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "@daily", "suspend": false}, "status": {"active": [{}], "lastScheduleTime": at(4)}}),
            "x @daily <none> False 1 60s 5m   <none>",
        ),
        (
            "batch",
            "Job",
            json!({"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": at(1)}}),
            "x Running 1/3 4m 5m   <none>",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1, "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}]}}),
            "x Deployment/d cpu: <unknown>/80% 1 5 0 5m",
        ),
        ("policy", "PodDisruptionBudget", json!({"spec": {"minAvailable": 2}}), "x 2 N/A 0 5m"),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}], "tls": [{}]}}),
            "x <none> a,b,c + 1 more...  80, 443 5m",
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"rules": [{"host": "a"}, {}, {"host": "c"}]}, "status": {"loadBalancer": {"ingress": [
                {"hostname": "b"}, {"ip": "1.2.3.4"}, {"hostname": "b"}]}}}),
            "x <none> a,c 1.2.3.4,b 80 5m",
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {}]}}),
            "x <none> a,b,c + 1 more...  80 5m",
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"spec": {"podSelector": {"matchLabels": {"a": "b", "z": "y"}, "matchExpressions": [
                {"key": "k", "operator": "NotIn", "values": ["d", "c"]}, {"key": "e", "operator": "Exists"}]}}}),
            "x a=b,e,k notin (c,d),z=y 5m",
        ),
        ("networking.k8s.io", "NetworkPolicy", json!({"spec": {"podSelector": {}}}), "x <none> 5m"),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"volumeName": "v", "volumeMode": "Filesystem", "storageClassName": "s"}, "status": {"phase":
                "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}),
            "x Bound v 1Gi RWO s <unset> 5m Filesystem",
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
                "spec": {"volumeName": "v", "storageClassName": "s"},
                "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}}),
            "x Bound v 0 RWO,RWX old <unset> 5m <unset>",
        ),
        ("resource.k8s.io", "ResourceClaim", json!({}), "x pending 5m"),
        (
            "resource.k8s.io",
            "ResourceClaim",
            json!({"metadata": {"deletionTimestamp": at(1)}, "status": {"allocation": {}, "reservedFor": [{}]}}),
            "x deleted,allocated,reserved 5m",
        ),
        (
            "resource.k8s.io",
            "ResourceSlice",
            json!({"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}}),
            "x n d p 5m",
        ),
        ("storage.k8s.io", "VolumeAttributesClass", json!({"driverName": "d"}), "x d 5m"),
        (
            "",
            "Event",
            json!({"type": "Normal", "reason": "R", "involvedObject": {"kind": "Pod"}, "eventTime": at(1),
                "reportingComponent": "c", "reportingInstance": "i", "series": {"count": 0, "lastObservedTime": at(4)}}),
            "60s Normal R pod  c, i  4m 0 x",
        ),
        (
            "",
            "Event",
            json!({"type": "Normal", "reason": "R", "involvedObject": {"kind": "Pod", "name": "p"}, "message": "m\n",
                "firstTimestamp": at(1), "lastTimestamp": at(4), "count": 3, "source": {"component": "c", "host": "h"}}),
            "60s Normal R pod/p  c, h m 4m 3 x",
        ),
        (
            "",
            "Endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}, {"port": 81}]}]}),
            "x 10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more... 5m",
        ),
        ("", "Endpoints", json!({"subsets": [{"notReadyAddresses": [{"ip": "10.0.0.1"}]}]}), "x  5m"),
        ("", "Endpoints", json!({}), "x <none> 5m"),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv4", "ports": [{"name": "p"}, {}, {"port": 80}], "endpoints": []}),
            "x IPv4 p,*,80 <unset> 5m",
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration",
            json!({"spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0}}}),
            "x Exempt <none> <none> <none> <none> 5m",
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"}),
            "x (default) p Delete Immediate false 5m",
        ),
        (
            "networking.k8s.io",
            "IngressClass",
            json!({"metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                "spec": {"controller": "a.b/c"}}),
            "x (default) a.b/c <none> 5m",
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            json!({"spec": {"signerName": "s", "username": "u"}}),
            "x 5m s u <none> Pending",
        ),
        ("apiregistration.k8s.io", "APIService", json!({}), "x Local Unknown 5m"),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"cpu": "2", "limits.cpu": "4"}, "used": {"cpu": "1"}}}),
            "x cpu: 1/2 limits.cpu: 0/4 5m",
        ),
    ] {
        assert_eq!(row(group, kind, object), expected, "{kind}");
    }
}

#[test]
fn formats_of_columns_and_conditions_of_rows() {
    let format = |kind: &str| columns("", kind).first().map(|first| first.format.clone());
    assert_eq!(format("Pod").as_deref(), Some("name"));
    assert_eq!(format("Event").as_deref(), Some(""), "it begins with when it was seen");
    let done = json!({"status": {"phase": "Failed"}});
    let conditions = row_conditions("", "Pod", &done);
    assert_eq!(
        conditions,
        [json!({"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."})]
    );
    assert!(row_conditions("", "Namespace", &done).is_empty());
    assert!(row_conditions("", "Pod", &json!({"status": {"phase": "Running"}})).is_empty());
}

#[test]
fn pods_show_their_state() {
    let pod = |spec: Value, status: Value| row("", "Pod", json!({"spec": spec, "status": status}));
    let started = |line: &str, expected: &str| assert!(line.starts_with(expected), "{line}");
    let one = json!({"containers": [{}]});
    let waiting =
        json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    started(&pod(one.clone(), waiting), "x 0/1 ImagePullBackOff 0 5m");
    let done = json!({"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]});
    started(&pod(one.clone(), done), "x 0/1 Completed 0 5m");
    let inits = json!({"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]});
    let initializing = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"running": {}}, "restartCount": 1}]});
    started(&pod(inits, initializing), "x 0/1 Init:1/2 1 5m");
    let sidecar = json!({"name": "a", "restartPolicy": "Always"});
    let two = json!({"containers": [{}], "initContainers": [sidecar, {"name": "b"}, {"name": "c"}]});
    let begun = json!({"phase": "Pending", "initContainerStatuses": [
        {"name": "a", "started": true, "ready": true, "restartCount": 1, "state": {"running": {}}},
        {"name": "b", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
        {"name": "c", "restartCount": 4, "state": {"waiting": {"reason": "PodInitializing"}}}],
        "containerStatuses": [{"ready": true, "restartCount": 8, "state": {"running": {}}}]});
    started(&pod(two.clone(), begun.clone()), "x 1/2 Init:CrashLoopBackOff 3 5m");
    let mut initialized = begun;
    initialized["conditions"] = json!([{"type": "Initialized", "status": "True"}]);
    started(&pod(two, initialized), "x 2/2 Init:CrashLoopBackOff 9 5m");
    let leaving = json!({"metadata": {"deletionTimestamp": "t"}, "spec": one, "status": {"phase": "Running"}});
    started(&row("", "Pod", leaving), "x 0/1 Terminating 0 5m");
}
