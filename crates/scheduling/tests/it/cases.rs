//! Documents of cases: their results, and the errors of unreadable ones.

use scheduling::Gates;
use scheduling::cases::solve;
use serde_json::{Value, json};

#[test]
fn every_list_is_filled_in() {
    let cluster =
        |name: &str, capacity: i64, region: &str| json!({"name": name, "allocatable": capacity, "region": region});
    let mut document = json!({
        "note": "stays",
        "assign": [
            {"id": "a", "strategy": "Dynamic", "replicas": 12, "has_requirements": true,
                "clusters": [cluster("m1", 6, ""), cluster("m2", 8, ""), cluster("m3", 10, "")]},
            {"id": "b", "strategy": "Aggregated", "replicas": 12, "run_select": true, "expect": "is replaced",
                "spread": [{"field": "cluster", "min": 1, "max": 1}], "clusters": [cluster("m1", 6, ""), cluster("m2", 8, "")]},
            {"id": "c", "strategy": "Static", "replicas": 3, "weights": [{"clusters": ["m2"], "weight": 2}],
                "previous": [["m1", 2]], "clusters": [cluster("m1", 0, ""), cluster("m2", 0, "")]},
            {"id": "d", "strategy": "Duplicated", "replicas": 1, "run_select": true,
                "spread": [{"field": "cluster", "min": 1, "max": 0}], "clusters": [cluster("m1", 6, "")]},
        ],
        "regions": [{"groups": [{"name": "R2", "value": 1, "weight": 60}, {"name": "R1", "value": 1, "weight": 80}],
            "min": 1, "max": 2, "target": 1}],
        "general_estimator": [
            {"kind": "replicas", "able": {"cpu": "4", "pods": "9"}, "req": {"cpu": "500m"}},
            {"kind": "sets", "able": {"cpu": "4", "pods": "9"}, "comps": [{"n": "a", "r": 2, "q": {"cpu": "1"}}]},
            {"kind": "replicas", "nosum": true, "req": {"cpu": "1"}},
            // Assumed workloads fill the nodes of models in any case, and count in the summary only with the gate.
            {"kind": "replicas", "able": {"cpu": "3", "pods": "5"}, "req": {"cpu": "500m"}, "gate": "SchedulingOvercommitProtection=false",
                "models": [{"g": 1, "c": 3, "min": {"cpu": "1"}}], "assumed": [[{"n": "t", "r": 4, "q": {"cpu": "100m"}}]]},
            {"kind": "replicas", "able": {"cpu": "3", "pods": "5"}, "req": {"cpu": "500m"}, "gate": "SchedulingOvercommitProtection=true",
                "models": [{"g": 1, "c": 3, "min": {"cpu": "1"}}], "assumed": [[{"n": "t", "r": 4, "q": {"cpu": "100m"}}]]},
            {"kind": "replicas", "able": {"cpu": "3", "pods": "5"}, "req": {"cpu": "500m"},
                "assumed": [[{"n": "t", "r": 4, "q": {"cpu": "100m"}}]]},
            {"kind": "replicas", "able": {"cpu": "3", "pods": "9"}, "req": {"cpu": "500m"},
                "gate": "CustomizedClusterResourceModeling=false,SchedulingOvercommitProtection=true",
                "models": [{"g": 1, "c": 3, "min": {"cpu": "1"}}], "assumed": [[{"n": "t", "r": 4, "q": {"cpu": "100m"}}]]},
        ],
    });
    solve(&mut document, &Gates::upstream()).unwrap();
    let expects = |list: &str| -> Vec<Value> {
        document[list].as_array().unwrap().iter().map(|case| case["expect"].clone()).collect()
    };
    assert_eq!(
        expects("assign"),
        [
            json!({"selected": ["m1", "m2", "m3"], "result": [["m1", 3], ["m2", 4], ["m3", 5]]}),
            json!({"error": "failed to select clusters: no enough resource when selecting 1 clusters"}),
            json!({"selected": ["m1", "m2"], "result": [["m2", 3]]}),
            json!({"selected": [], "error": "failed to assign replicas: no clusters available to schedule"}),
        ]
    );
    assert_eq!(expects("regions"), [json!(["R1"])]);
    assert_eq!(expects("general_estimator"), [8, 2, 0, 5, 1, 5, 5]);
    assert_eq!(document["note"], "stays");
}

#[test]
fn unreadable_cases_are_named() {
    for (document, expected) in [
        (json!({"assign": {}}), "assign is not a list of cases"),
        (json!({"assign": [{"strategy": "Dynamic"}]}), "reading assign[0]"),
        (json!({"regions": [{"min": -1}]}), "reading regions[0]"),
        (json!({"assign": [{"strategy": "Random", "replicas": 1}]}), "assign[0] has the unknown strategy \"Random\""),
    ] {
        let mut document = document;
        assert_eq!(solve(&mut document, &Gates::upstream()).unwrap_err().to_string(), expected);
    }
    let mut nothing = json!({"note": "no lists"});
    solve(&mut nothing, &Gates::upstream()).unwrap();
}
