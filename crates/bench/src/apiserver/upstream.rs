//! The figures of kube-apiserver 1.36 with etcd 3.5 for the same scenarios, on two otherwise idle cores and 24 GiB, for
//! comparison.

/// One scenario of upstream's.
pub struct Upstream {
    pub scenario: &'static str,
    pub per_second: Option<f64>,
    /// Of both server processes.
    pub cpu_ms: Option<f64>,
    /// Of kube-apiserver alone.
    pub server_cpu_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

const fn row(
    scenario: &'static str,
    per_second: f64,
    [cpu_ms, server_cpu_ms]: [f64; 2],
    p50_ms: f64,
    p99_ms: f64,
) -> Upstream {
    const fn known(figure: f64) -> Option<f64> {
        if figure > 0.0 { Some(figure) } else { None }
    }
    Upstream {
        scenario,
        per_second: known(per_second),
        cpu_ms: known(cpu_ms),
        server_cpu_ms: known(server_cpu_ms),
        p50_ms: known(p50_ms),
        p99_ms: known(p99_ms),
    }
}

/// 0: not measured. The CPU of a list is the mean over eight forms of it, 220 lists in all.
const ROWS: &[Upstream] = &[
    row("create ConfigMap, C=1", 422.0, [2.14, 1.58], 1.9, 11.8),
    row("create ConfigMap, C=16", 716.0, [1.35, 1.073], 19.7, 61.6),
    row("create ConfigMap, C=64", 787.0, [1.327, 1.133], 63.4, 480.9),
    row("get ConfigMap", 1873.0, [0.543, 0.438], 7.3, 27.3),
    row("get ConfigMap, rv=0", 2916.0, [0.395, 0.395], 4.1, 25.7),
    row("patch ConfigMap", 1068.0, [1.57, 1.253], 13.4, 39.9),
    row("list 3,000 ConfigMaps", 16.0, [0.0, 0.0], 56.4, 94.9),
    row("list, rv=0", 19.0, [0.0, 0.0], 47.5, 88.3),
    row("list, a page of 500", 81.0, [0.0, 0.0], 11.3, 28.9),
    row("list, gzip", 28.0, [0.0, 0.0], 33.8, 72.6),
    row("list as Table", 25.0, [0.0, 0.0], 35.5, 61.5),
    row("list metadata", 31.0, [0.0, 0.0], 31.5, 53.5),
    row("list as protobuf", 18.0, [0.0, 0.0], 52.5, 112.0),
    row("list, all forms", 0.0, [37.045, 36.4], 0.0, 0.0),
    row("create Deployment", 443.0, [2.413, 2.033], 32.8, 103.2),
    row("patch Deployment status", 349.0, [2.74, 2.367], 33.2, 203.7),
    row("server-side apply", 292.0, [3.48, 3.191], 47.7, 146.0),
    row("server-side apply, no change", 282.0, [3.48, 3.191], 48.7, 160.2),
    row("list 1,500 Deployments", 13.0, [59.0, 57.0], 77.3, 111.9),
    row("watch, 1 watcher", 451.0, [1.127, 0.827], 12.9, 68.6),
    row("watch, 100 watchers", 33372.0, [0.049, 0.0418], 41.2, 139.5),
    row("delete ConfigMap", 639.0, [1.3, 0.933], 21.0, 104.7),
    row("deletecollection of 3,000", 0.19, [4500.0, 2290.0], 5317.1, 5317.1),
];

pub fn of(scenario: &str) -> Option<&'static Upstream> {
    ROWS.iter().find(|row| row.scenario == scenario)
}
