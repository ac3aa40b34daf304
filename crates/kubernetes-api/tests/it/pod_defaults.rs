//! Defaults of pods that depend on several of their parts.

use crate::defaults::{resource, yaml};

#[test]
fn image_volumes() {
    let sent = "
spec:
  volumes:
  - {name: a, image: {reference: 'registry/a:1'}}
  - {name: b, image: {reference: b}}
  - {name: c, image: {reference: c, pullPolicy: Never}}
";
    let mut pod = yaml(sent);
    resource("", "Pod").strategy.default(&mut pod).expect("few defaults");
    let policies: Vec<_> = (0..3).map(|at| pod["spec"]["volumes"][at]["image"]["pullPolicy"].clone()).collect();
    assert_eq!(policies, ["IfNotPresent", "Always", "Never"]);
}

#[test]
fn pod_level_resources() {
    for (own, container, expected) in [
        // Requests are those of the containers, or else the limits.
        (
            "{limits: {cpu: '2', memory: 1Gi}}",
            "{requests: {cpu: 100m}}",
            "{limits: {cpu: '2', memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}",
        ),
        ("{limits: {cpu: '2'}, requests: {cpu: '1'}}", "{}", "{limits: {cpu: '2'}, requests: {cpu: '1'}}"),
        // Limits of huge pages are those of the containers.
        (
            "{limits: {cpu: '2'}}",
            "{limits: {hugepages-2Mi: 4Mi, example.com/gpu: '1'}}",
            "{limits: {cpu: '2', hugepages-2Mi: 4Mi}, requests: {cpu: '2', hugepages-2Mi: 4Mi}}",
        ),
        ("{requests: {cpu: '1'}}", "{requests: {memory: 1Gi}}", "{requests: {cpu: '1'}}"),
        ("null", "{limits: {cpu: '1'}}", "null"),
    ] {
        let text = format!("spec: {{resources: {own}, containers: [{{name: a, image: a, resources: {container}}}]}}");
        let mut pod = yaml(&text);
        resource("", "Pod").strategy.default(&mut pod).expect("few defaults");
        assert_eq!(pod["spec"]["resources"], yaml(expected), "{own} {container}");
        let mut template = yaml(&format!("spec: {{template: {{{text}}}}}"));
        resource("apps", "Deployment").strategy.default(&mut template).expect("few defaults");
        assert_eq!(template["spec"]["template"]["spec"]["resources"], yaml(own), "{own} {container}");
    }
}
