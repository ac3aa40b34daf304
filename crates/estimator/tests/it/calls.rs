//! A server and a client, with a control plane that has the server's Service.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use estimator::wire::ObjectReference;
use estimator::{Answer, Connections, Estimate, Query, Settings, Target, serve};
use karmada_api::work::v1alpha2::{Component, ReplicaRequirements};
use scheduling::accurate::{AssumedWorkload, Observer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::{ApiService, Identity, Request, Response};

/// Returns numbers derived from its arguments, which tests the conversion in both directions.
struct Echo;

impl Estimate for Echo {
    fn cluster(&self) -> &str {
        "m1"
    }

    fn replicas(
        &self,
        requirements: Option<&ReplicaRequirements>,
        assumed: &[AssumedWorkload],
        observer: &dyn Observer,
    ) -> Result<i64, String> {
        observer.plugin_finished("NodeResourceEstimator");
        let Some(requirements) = requirements else { return Ok(7) };
        match requirements.namespace.as_str() {
            "unknown" => return Ok(-1),
            "overdrawn" => return Ok(-2),
            _ => {}
        }
        if requirements.namespace == "broken" {
            return Err("estimate replica plugins fails with [größer]".to_owned());
        }
        let expected: ReplicaRequirements = serde_json::from_value(sent_requirements()).unwrap();
        assert_eq!(requirements, &expected);
        Ok(i64::try_from(assumed.len()).unwrap() + 40)
    }

    fn component_sets(
        &self,
        namespace: &str,
        components: &[Component],
        _: &[AssumedWorkload],
        _: &dyn Observer,
    ) -> Result<i64, String> {
        assert_eq!((namespace, components.len()), ("ns", 2));
        Ok(3)
    }

    fn unschedulable(
        &self,
        resource: &ObjectReference,
        threshold: Duration,
        observer: &dyn Observer,
    ) -> Result<i64, String> {
        observer.step_finished("GetObjectFromCache");
        assert_eq!((resource.name.as_str(), threshold), ("web", Duration::from_secs(300)));
        Ok(2)
    }
}

fn sent_requirements() -> Value {
    json!({
        "namespace": "ns",
        "priorityClassName": "pc",
        "resourceRequest": {"cpu": "500m", "memory": "1Gi"},
        "nodeClaim": {
            "nodeSelector": {"z": "1"},
            "hardNodeAffinity": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["0"]}]}]},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        },
    })
}

/// A control plane with one Service for m1 and m2, which leads to `port`; the Service of m3 leads nowhere.
fn control(port: u16) -> Client {
    let service = tower::service_fn(move |request: Request| async move {
        let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let target = if name.ends_with("-m3") { 1 } else { port };
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "karmada-system", "resourceVersion": "1"},
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": 10352, "targetPort": target}]}});
        let mut response = Response::new(transport::full(object.to_string()));
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
        Ok::<Response, Infallible>(response)
    });
    Client::in_process(ApiService::new(service), Identity::system("test"))
}

#[tokio::test]
async fn each_cluster_has_its_own_result() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stop = CancellationToken::new();
    let (stopped, echo, registry) = (stop.clone(), Arc::new(Echo), metrics::Registry::default());
    let counted = registry.clone();
    let server = tokio::spawn(async move { serve(listener, None, echo, counted, stopped).await });
    let connections = Connections::new(control(port), Settings::default()).unwrap();
    let of = |clusters: &[&str]| -> Vec<Target> { clusters.iter().map(|cluster| Target::from(*cluster)).collect() };

    let query = |requirements: Value| Query::Replicas { requirements: serde_json::from_value(requirements).unwrap() };
    let mut clusters = of(&["m1", "m2", "m3"]);
    clusters[0].assumed = vec![AssumedWorkload::default(); 2];
    let answers = connections.query(clusters, &query(sent_requirements())).await;
    assert_eq!(answers["m1"], Answer::Known(42));
    let wrong = "gRPC request cluster(m2) estimator error when calling MaxAvailableReplicas: rpc error: code = Unknown desc \
                 = cluster name does not match, got: m2, desire: m1";
    assert_eq!(answers["m2"], Answer::Unknown(wrong.to_owned()));
    let Answer::Unknown(why) = &answers["m3"] else { panic!("{answers:?}") };
    assert!(why.contains("dial 127.0.0.1:1 error: "), "{why}");

    let m1 = || of(&["m1"]);
    assert_eq!(connections.query(m1(), &query(Value::Null)).await["m1"], Answer::Known(7));
    let unknown = &connections.query(m1(), &query(json!({"namespace": "unknown"}))).await["m1"];
    assert_eq!(unknown, &Answer::Unknown("the estimator of cluster m1 returned no estimate".to_owned()));
    let overdrawn = &connections.query(m1(), &query(json!({"namespace": "overdrawn"}))).await["m1"];
    assert_eq!(overdrawn, &Answer::Known(0), "an overdrawn quota leaves no capacity");
    let broken = connections.query(m1(), &query(json!({"namespace": "broken"}))).await;
    let Answer::Unknown(why) = &broken["m1"] else { panic!("{broken:?}") };
    assert!(why.ends_with("failed to estimate replicas: estimate replica plugins fails with [größer]"), "{why}");
    let components =
        serde_json::from_value(json!([{"name": "a", "replicas": 1}, {"name": "b", "replicas": 2}])).unwrap();
    let sets = Query::Sets { namespace: "ns".to_owned(), components };
    assert_eq!(connections.query(m1(), &sets).await["m1"], Answer::Known(3));
    let resource =
        ObjectReference { kind: "Deployment".to_owned(), name: "web".to_owned(), ..ObjectReference::default() };
    let refused = Query::Unschedulable { resource, threshold: Duration::from_secs(300) };
    assert_eq!(connections.query(m1(), &refused).await["m1"], Answer::Known(2));

    // After three consecutive failures an estimator is not called for a while.
    for _ in 0..2 {
        connections.query(of(&["m3"]), &refused).await;
    }
    let Answer::Unknown(why) = &connections.query(of(&["m3"]), &refused).await["m3"] else { panic!() };
    assert!(why.contains("retrying later"), "{why}");
    let text = registry.text();
    for family in [
        "estimating_plugin_execution_duration_seconds_count{estimating_plugin=\"NodeResourceEstimator\",\
         estimating_plugin_extension_point=\"estimate_replicas\"}",
        "estimating_plugin_extension_point_duration_seconds_count{estimating_plugin_extension_point=\"estimate_components\"}",
        "estimating_algorithm_duration_seconds_count{result=\"success\",type=\"GetUnschedulableReplicas\",step=\"GetObjectFromCache\"}",
    ] {
        assert!(text.contains(&format!("karmada_scheduler_estimator_{family}")), "{family}: {text}");
    }
    stop.cancel();
    server.await.unwrap();
}
