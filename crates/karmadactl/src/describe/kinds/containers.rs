//! Containers of pods and of pod templates: states, probes, environments and mounts.

use apimachinery::field::go_quoted;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::super::lines::Lines;
use super::{entries, items, rfc1123, text};

/// Containers of a template, or of a pod with the field of their statuses.
pub fn containers(lines: &mut Lines, level: usize, label: &str, containers: &Value, of: Option<(&Value, &str)>) {
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
        resources(lines, 2, &container["resources"]);
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

/// Limits and requests of a container or of a pod.
pub fn resources(lines: &mut Lines, level: usize, resources: &Value) {
    for (label, field) in [("Limits:", "limits"), ("Requests:", "requests")] {
        let amounts: Vec<(String, String)> = entries(&resources[field]);
        if !amounts.is_empty() {
            lines.text(level, label);
            amounts.iter().for_each(|(name, amount)| lines.text(level + 1, &format!("{name}:\t{amount}")));
        }
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
            let name = port["name"].as_str().filter(|name| !name.is_empty());
            let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
            format!("{}/{protocol}{name}", port[field].as_i64().unwrap_or_default())
        };
        let shown: Vec<String> = ports.iter().map(shown).collect();
        if shown.is_empty() { "<none>".to_owned() } else { shown.join(", ") }
    };
    lines.text(2, &format!("Port{plural}:\t{}", list("containerPort")));
    lines.text(2, &format!("Host Port{plural}:\t{}", list("hostPort")));
    seccomp(lines, [2, 3], container);
}

/// The seccomp profile of a pod or of a container, and of a local one its file.
pub fn seccomp(lines: &mut Lines, [level, of_file]: [usize; 2], owner: &Value) {
    let profile = &owner["securityContext"]["seccompProfile"];
    if profile.is_object() {
        lines.text(level, &format!("SeccompProfile:\t{}", text(&profile["type"])));
        if profile["type"] == "Localhost" {
            lines.text(of_file, &format!("LocalhostProfile:\t{}", text(&profile["localhostProfile"])));
        }
    }
}

fn command(lines: &mut Lines, container: &Value) {
    for (label, field) in [("Command:", "command"), ("Args:", "args")] {
        if items(&container[field]).next().is_some() {
            lines.text(2, label);
            for word in items(&container[field]) {
                text(word).split('\n').for_each(|line| lines.text(3, line));
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
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let path = url_path(&get.get("path").map(text).unwrap_or_default());
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

/// A path as Go prints it in a URL with a host.
fn url_path(path: &str) -> String {
    let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
    let mut shown = slash.to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => shown.push(char::from(byte)),
            _ if b"-_.~$&+,/:;=@".contains(&byte) => shown.push(char::from(byte)),
            _ => shown.push_str(&format!("%{byte:02X}")),
        }
    }
    shown
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
        let amount = amount_of(container, &field, &from["resourceFieldRef"]["divisor"]);
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

/// The amount of a field such as `limits.cpu` in units of the divisor, rounded up.
fn amount_of(container: &Value, field: &str, divisor: &Value) -> String {
    let parsed = |value: Option<&Value>| value?.as_str()?.parse::<Quantity>().ok();
    let Some((list, resource)) = field.split_once('.') else { return String::new() };
    let amount = parsed(container["resources"][list].get(resource)).unwrap_or_default();
    let divisor = parsed(Some(divisor)).filter(|divisor| divisor.milli_value() != 0);
    let (amount, unit) = match resource {
        "cpu" => (amount.milli_value(), divisor.map_or(1000, Quantity::milli_value)),
        _ => (amount.value(), divisor.map_or(1, Quantity::value)),
    };
    match (amount + unit - 1) / unit {
        // A container without a limit may use what its node has.
        0 if matches!(field, "limits.cpu" | "limits.memory") => "node allocatable".to_owned(),
        amount => amount.to_string(),
    }
}

fn mounts(lines: &mut Lines, container: &Value) {
    let sorted = |field: &str, by: &str| {
        let mut found: Vec<&Value> = items(&container[field]).collect();
        found.sort_by_key(|it| text(&it[by]));
        found
    };
    let (mounts, devices) = (sorted("volumeMounts", "mountPath"), sorted("volumeDevices", "devicePath"));
    let none = if mounts.is_empty() { "\t<none>" } else { "" };
    lines.text(2, &format!("Mounts:{none}"));
    for mount in mounts {
        let mut flags = vec![if mount["readOnly"] == true { "ro".to_owned() } else { "rw".to_owned() }];
        if let Some(path) = mount["subPath"].as_str().filter(|it| !it.is_empty()) {
            flags.push(format!("path={}", go_quoted(path)));
        }
        lines.text(3, &format!("{} from {} ({})", text(&mount["mountPath"]), text(&mount["name"]), flags.join(",")));
    }
    if !devices.is_empty() {
        // As in kubectl, with the mark of the mounts.
        lines.text(2, &format!("Devices:{none}"));
        devices.iter().for_each(|it| lines.text(3, &format!("{} from {}", text(&it["devicePath"]), text(&it["name"]))));
    }
}
