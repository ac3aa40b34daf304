//! Pod templates and pods: containers, probes, environments, volumes, tolerations, as kubectl lays them out.

use serde_json::Value;

use super::super::lines::Lines;
use super::{entries, items, rfc1123, text, values, volumes};

/// The part of a workload's page about its pods.
pub fn template(lines: &mut Lines, template: &Value) {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    lines.text(0, "Pod Template:");
    lines.map(1, "Labels:", &metadata["labels"], "=");
    if metadata["annotations"].as_object().is_some_and(|it| !it.is_empty()) {
        lines.map(1, "Annotations:", &metadata["annotations"], ": ");
    }
    if let Some(account) = spec["serviceAccountName"].as_str().filter(|it| !it.is_empty()) {
        lines.text(1, &format!("Service Account:\t{account}"));
    }
    if items(&spec["initContainers"]).next().is_some() {
        containers(lines, 1, "Init Containers:", &spec["initContainers"], None);
    }
    containers(lines, 1, "Containers:", &spec["containers"], None);
    volume_list(lines, 1, &spec["volumes"]);
    placement(lines, 1, spec);
}

/// Node selectors and tolerations.
fn placement(lines: &mut Lines, level: usize, spec: &Value) {
    lines.map(level, "Node-Selectors:", &spec["nodeSelector"], "=");
    let mut tolerations: Vec<&Value> = items(&spec["tolerations"]).collect();
    tolerations.sort_by_key(|it| text(&it["key"]));
    if tolerations.is_empty() {
        lines.text(level, "Tolerations:\t<none>");
    }
    for (position, toleration) in tolerations.into_iter().enumerate() {
        let label = if position == 0 { "Tolerations:" } else { "" };
        lines.text(level, &format!("{label}\t{}", shown_toleration(toleration)));
    }
}

fn shown_toleration(toleration: &Value) -> String {
    let mut shown = text(&toleration["key"]);
    let field = |name: &str| text(&toleration[name]);
    if !field("value").is_empty() {
        shown.push_str(&format!("={}", field("value")));
    }
    if !field("effect").is_empty() {
        shown.push_str(&format!(":{}", field("effect")));
    }
    if field("operator") == "Exists" && field("value").is_empty() {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str("op=Exists");
    }
    if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
        shown.push_str(&format!(" for {seconds}s"));
    }
    shown
}

/// A pod's page.
pub fn pod(lines: &mut Lines, pod: &Value) {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    if let Some(priority) = spec["priority"].as_i64() {
        lines.text(0, &format!("Priority:\t{priority}"));
    }
    for (label, field) in [
        ("Priority Class Name:", "priorityClassName"),
        ("Runtime Class Name:", "runtimeClassName"),
        ("Service Account:", "serviceAccountName"),
    ] {
        if let Some(value) = spec[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
        }
    }
    match spec["nodeName"].as_str().filter(|it| !it.is_empty()) {
        Some(node) => lines.text(0, &format!("Node:\t{node}/{}", text(&status["hostIP"]))),
        None => lines.text(0, "Node:\t<none>"),
    }
    if let Some(start) = status["startTime"].as_str() {
        lines.text(0, &format!("Start Time:\t{}", rfc1123(start)));
    }
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    if metadata["deletionTimestamp"].is_string() {
        let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        lines.text(0, "Status:\tTerminating");
        lines.text(0, &format!("Termination Grace Period:\t{grace}s"));
    } else {
        lines.text(0, &format!("Status:\t{}", text(&status["phase"])));
    }
    for (label, field) in [("Reason:", "reason"), ("Message:", "message")] {
        if let Some(value) = status[field].as_str().filter(|it| !it.is_empty()) {
            lines.text(0, &format!("{label}\t{value}"));
        }
    }
    lines.text(0, &format!("IP:\t{}", text(&status["podIP"])));
    let addresses: Vec<String> = items(&status["podIPs"]).map(|it| text(&it["ip"])).collect();
    if addresses.is_empty() {
        lines.text(0, "IPs:\t<none>");
    } else {
        lines.text(0, "IPs:");
        addresses.iter().for_each(|address| lines.text(1, &format!("IP:\t{address}")));
    }
    if let Some(owner) = items(&metadata["ownerReferences"]).find(|it| it["controller"] == true) {
        lines.text(0, &format!("Controlled By:\t{}/{}", text(&owner["kind"]), text(&owner["name"])));
    }
    if items(&spec["initContainers"]).next().is_some() {
        containers(lines, 0, "Init Containers:", &spec["initContainers"], Some((pod, "initContainerStatuses")));
    }
    containers(lines, 0, "Containers:", &spec["containers"], Some((pod, "containerStatuses")));
    if items(&status["conditions"]).next().is_some() {
        lines.text(0, "Conditions:");
        lines.text(1, "Type\tStatus");
        for condition in items(&status["conditions"]) {
            lines.text(1, &format!("{} \t{} ", text(&condition["type"]), text(&condition["status"])));
        }
    }
    volume_list(lines, 0, &spec["volumes"]);
    if let Some(class) = status["qosClass"].as_str() {
        lines.text(0, &format!("QoS Class:\t{class}"));
    }
    placement(lines, 0, spec);
}

/// Containers of a template, or of a pod with the field of their statuses.
fn containers(lines: &mut Lines, level: usize, label: &str, containers: &Value, of: Option<(&Value, &str)>) {
    let statuses = of.map(|(pod, field)| &pod["status"][field]);
    lines.text(level, label);
    // Templates indent by one blank.
    let name_indent = if level == 0 { "  " } else { " " };
    for container in items(containers) {
        lines.text(level, &format!("{name_indent}{}:", text(&container["name"])));
        let status = statuses.and_then(|list| items(list).find(|it| it["name"] == container["name"]));
        basics(lines, container, status);
        command(lines, container);
        if let Some(status) = status {
            state(lines, "State:", &status["state"]);
            if status["lastState"]["terminated"].is_object() {
                state(lines, "Last State:", &status["lastState"]);
            }
            let ready = if status["ready"] == true { "True" } else { "False" };
            lines.text(2, &format!("Ready:\t{ready}"));
            lines.text(2, &format!("Restart Count:\t{}", status["restartCount"].as_i64().unwrap_or_default()));
        }
        for (label, field) in [("Limits:", "limits"), ("Requests:", "requests")] {
            let amounts: Vec<(String, String)> = entries(&container["resources"][field]);
            if !amounts.is_empty() {
                lines.text(2, label);
                amounts.iter().for_each(|(name, amount)| lines.text(3, &format!("{name}:\t{amount}")));
            }
        }
        for (label, field) in
            [("Liveness:", "livenessProbe"), ("Readiness:", "readinessProbe"), ("Startup:", "startupProbe")]
        {
            if container[field].is_object() {
                lines.text(2, &format!("{label}\t{}", probe(&container[field])));
            }
        }
        environment(lines, container, of.map(|(pod, _)| pod));
        mounts(lines, container);
    }
}

fn basics(lines: &mut Lines, container: &Value, status: Option<&Value>) {
    if let Some(status) = status {
        lines.text(2, &format!("Container ID:\t{}", text(&status["containerID"])));
    }
    lines.text(2, &format!("Image:\t{}", text(&container["image"])));
    if let Some(status) = status {
        lines.text(2, &format!("Image ID:\t{}", text(&status["imageID"])));
    }
    let ports: Vec<&Value> = items(&container["ports"]).collect();
    let plural = if ports.len() > 1 { "s" } else { "" };
    let list = |field: &str| {
        let shown = |port: &&Value| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            format!("{}/{protocol}", port[field].as_i64().unwrap_or_default())
        };
        let shown: Vec<String> = ports.iter().map(shown).collect();
        if shown.is_empty() { "<none>".to_owned() } else { shown.join(", ") }
    };
    lines.text(2, &format!("Port{plural}:\t{}", list("containerPort")));
    lines.text(2, &format!("Host Port{plural}:\t{}", list("hostPort")));
}

fn command(lines: &mut Lines, container: &Value) {
    for (label, field) in [("Command:", "command"), ("Args:", "args")] {
        if items(&container[field]).next().is_some() {
            lines.text(2, label);
            for word in items(&container[field]) {
                text(word).lines().for_each(|line| lines.text(3, line));
            }
        }
    }
}

fn state(lines: &mut Lines, label: &str, state: &Value) {
    if state["running"].is_object() {
        lines.text(2, &format!("{label}\tRunning"));
        lines.text(3, &format!("Started:\t{}", rfc1123(&text(&state["running"]["startedAt"]))));
    } else if state["waiting"].is_object() {
        lines.text(2, &format!("{label}\tWaiting"));
        if let Some(reason) = state["waiting"]["reason"].as_str() {
            lines.text(3, &format!("Reason:\t{reason}"));
        }
    } else if state["terminated"].is_object() {
        let ended = &state["terminated"];
        lines.text(2, &format!("{label}\tTerminated"));
        for (label, field) in [("Reason:", "reason"), ("Message:", "message")] {
            if let Some(value) = ended[field].as_str().filter(|it| !it.is_empty()) {
                lines.text(3, &format!("{label}\t{value}"));
            }
        }
        lines.text(3, &format!("Exit Code:\t{}", ended["exitCode"].as_i64().unwrap_or_default()));
        if let Some(signal) = ended["signal"].as_i64().filter(|it| *it > 0) {
            lines.text(3, &format!("Signal:\t{signal}"));
        }
        lines.text(3, &format!("Started:\t{}", rfc1123(&text(&ended["startedAt"]))));
        lines.text(3, &format!("Finished:\t{}", rfc1123(&text(&ended["finishedAt"]))));
    } else {
        lines.text(2, &format!("{label}\tWaiting"));
    }
}

fn probe(probe: &Value) -> String {
    let number = |field: &str| probe[field].as_i64().unwrap_or_default();
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds"),
        number("timeoutSeconds"),
        number("periodSeconds"),
        number("successThreshold"),
        number("failureThreshold")
    );
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if probe["exec"].is_object() {
        let words: Vec<String> = items(&probe["exec"]["command"]).map(text).collect();
        return format!("exec [{}] {attributes}", words.join(" "));
    }
    if let Some(get) = probe["httpGet"].as_object() {
        let scheme = get.get("scheme").map(text).unwrap_or_default().to_lowercase();
        let host = get.get("host").map(text).unwrap_or_default();
        let port = get.get("port").map(shown).unwrap_or_default();
        let path = get.get("path").map(text).unwrap_or_default();
        return format!("http-get {scheme}://{host}:{port}{path} {attributes}");
    }
    if probe["tcpSocket"].is_object() {
        let socket = &probe["tcpSocket"];
        return format!("tcp-socket {}:{} {attributes}", text(&socket["host"]), shown(&socket["port"]));
    }
    if probe["grpc"].is_object() {
        let grpc = &probe["grpc"];
        let port = grpc["port"].as_i64().unwrap_or_default();
        return format!("grpc <pod>:{port} {} {attributes}", text(&grpc["service"]));
    }
    format!("unknown {attributes}")
}

fn environment(lines: &mut Lines, container: &Value, pod: Option<&Value>) {
    let sources: Vec<&Value> = items(&container["envFrom"]).collect();
    if !sources.is_empty() {
        lines.text(2, "Environment Variables from:");
    }
    for source in sources {
        let (kind, reference) = match source["configMapRef"].is_object() {
            true => ("ConfigMap", &source["configMapRef"]),
            false => ("Secret", &source["secretRef"]),
        };
        let prefix = match text(&source["prefix"]) {
            prefix if prefix.is_empty() => String::new(),
            prefix => format!(" with prefix '{prefix}'"),
        };
        let optional = reference["optional"] == true;
        lines.text(3, &format!("{}\t{kind}{prefix}\tOptional: {optional}", text(&reference["name"])));
    }
    let variables: Vec<&Value> = items(&container["env"]).collect();
    if variables.is_empty() {
        return lines.text(2, "Environment:\t<none>");
    }
    lines.text(2, "Environment:");
    for variable in variables {
        variable_lines(lines, container, variable, pod);
    }
}

/// The value of a field of a pod's metadata; others are known to its node only.
fn field_of(pod: &Value, path: &str) -> String {
    let metadata = &pod["metadata"];
    let key = |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
    match path {
        "metadata.name" | "metadata.namespace" | "metadata.uid" => text(&metadata[&path["metadata.".len()..]]),
        _ => match (key("metadata.labels"), key("metadata.annotations")) {
            (Some(key), _) => text(&metadata["labels"][key]),
            (_, Some(key)) => text(&metadata["annotations"][key]),
            _ => String::new(),
        },
    }
}

fn variable_lines(lines: &mut Lines, container: &Value, variable: &Value, pod: Option<&Value>) {
    let name = text(&variable["name"]);
    let from = &variable["valueFrom"];
    let optional = |reference: &Value| reference["optional"] == true;
    if !from.is_object() {
        for (position, line) in text(&variable["value"]).split('\n').enumerate() {
            let label = if position == 0 { format!("{name}:") } else { String::new() };
            lines.text(3, &format!("{label}\t{line}"));
        }
    } else if from["fieldRef"].is_object() {
        let field = &from["fieldRef"];
        let version = field["apiVersion"].as_str().unwrap_or("v1");
        let path = text(&field["fieldPath"]);
        let value = pod.map(|pod| field_of(pod, &path)).unwrap_or_default();
        lines.text(3, &format!("{name}:\t{value} ({version}:{path})"));
    } else if from["resourceFieldRef"].is_object() {
        let field = text(&from["resourceFieldRef"]["resource"]);
        let amount = container["resources"].pointer(&format!("/{}", field.replace('.', "/")));
        let amount = amount.and_then(Value::as_str).and_then(|it| it.parse::<apimachinery::quantity::Quantity>().ok());
        let amount = amount.map_or(0, apimachinery::quantity::Quantity::value);
        lines.text(3, &format!("{name}:\t{amount} ({field})"));
    } else if from["secretKeyRef"].is_object() {
        let key = &from["secretKeyRef"];
        let what = format!("<set to the key '{}' in secret '{}'>", text(&key["key"]), text(&key["name"]));
        lines.text(3, &format!("{name}:\t{what}\tOptional: {}", optional(key)));
    } else if from["configMapKeyRef"].is_object() {
        let key = &from["configMapKeyRef"];
        let what = format!("<set to the key '{}' of config map '{}'>", text(&key["key"]), text(&key["name"]));
        lines.text(3, &format!("{name}:\t{what}\tOptional: {}", optional(key)));
    }
}

fn mounts(lines: &mut Lines, container: &Value) {
    let mut mounts: Vec<&Value> = items(&container["volumeMounts"]).collect();
    mounts.sort_by_key(|it| text(&it["mountPath"]));
    if mounts.is_empty() {
        return lines.text(2, "Mounts:\t<none>");
    }
    lines.text(2, "Mounts:");
    for mount in mounts {
        let mut flags = vec![if mount["readOnly"] == true { "ro".to_owned() } else { "rw".to_owned() }];
        if let Some(path) = mount["subPath"].as_str().filter(|it| !it.is_empty()) {
            flags.push(format!("path={path:?}"));
        }
        lines.text(3, &format!("{} from {} ({})", text(&mount["mountPath"]), text(&mount["name"]), flags.join(",")));
    }
}

fn volume_list(lines: &mut Lines, level: usize, volumes: &Value) {
    if items(volumes).next().is_none() {
        return lines.text(level, "Volumes:\t<none>");
    }
    lines.text(level, "Volumes:");
    let indent = if level == 0 { "  " } else { " " };
    for volume in items(volumes) {
        lines.text(level, &format!("{indent}{}:", text(&volume["name"])));
        if volumes::source(lines, volume, false) {
            continue;
        }
        if volume["projected"].is_object() {
            lines.text(2, "Type:\tProjected (a volume that contains injected data from multiple sources)");
            items(&volume["projected"]["sources"]).for_each(|source| projected(lines, source));
        } else if volume["downwardAPI"].is_object() {
            lines.text(2, "Type:\tDownwardAPI (a volume populated by information about the pod)");
            lines.text(2, "Items:");
            for item in items(&volume["downwardAPI"]["items"]) {
                lines.text(3, &format!("{} -> {}", text(&item["fieldRef"]["fieldPath"]), text(&item["path"])));
            }
        } else if volume["ephemeral"].is_object() {
            ephemeral(lines, &volume["ephemeral"]["volumeClaimTemplate"]);
        } else {
            lines.text(2, "Type:\t<unknown>");
        }
    }
}

/// As of a claim, although no volume is bound to a template.
fn ephemeral(lines: &mut Lines, claim: &Value) {
    let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
    lines.text(
        2,
        "Type:\tEphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)",
    );
    lines.text(2, &format!("StorageClass:\t{}", text(&spec["storageClassName"])));
    lines.text(2, &format!("Volume:\t{}", text(&spec["volumeName"])));
    for (label, map) in [("Labels:", &metadata["labels"]), ("Annotations:", &metadata["annotations"])] {
        match entries(map).is_empty() {
            true => lines.text(2, &format!("{label}\t    <none>")),
            false => volumes::attributes(lines, label, map),
        }
    }
    lines.text(2, "Capacity:\t");
    lines.text(2, "Access Modes:\t");
    if spec["volumeMode"].is_string() {
        lines.text(2, &format!("VolumeMode:\t{}", text(&spec["volumeMode"])));
    }
}

fn projected(lines: &mut Lines, source: &Value) {
    let optional = |value: &Value| if value.is_null() { "<nil>".to_owned() } else { values(value) };
    if source["serviceAccountToken"].is_object() {
        let seconds = source["serviceAccountToken"]["expirationSeconds"].as_i64().unwrap_or(3600);
        lines.text(2, &format!("TokenExpirationSeconds:\t{seconds}"));
    } else if source["configMap"].is_object() {
        lines.text(2, &format!("ConfigMapName:\t{}", text(&source["configMap"]["name"])));
        // As in kubectl, the label differs from that of a volume of one ConfigMap.
        lines.text(2, &format!("ConfigMapOptional:\t{}", optional(&source["configMap"]["optional"])));
    } else if source["secret"].is_object() {
        lines.text(2, &format!("SecretName:\t{}", text(&source["secret"]["name"])));
        lines.text(2, &format!("SecretOptionalName:\t{}", optional(&source["secret"]["optional"])));
    } else if source["downwardAPI"].is_object() {
        lines.text(2, "DownwardAPI:\ttrue");
    }
}
