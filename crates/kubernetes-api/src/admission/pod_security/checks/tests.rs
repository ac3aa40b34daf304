use serde_json::json;

use super::*;

/// The violations, in the form of messages.
fn found(level: Level, version: Version, metadata: &Value, spec: &Value) -> String {
    let policy = Policy { level, version };
    super::super::details(&policy.violations(metadata, spec))
}

fn restricted_spec() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }}],
    })
}

#[test]
fn pods_are_checked_against_the_level() {
    let plain = json!({"containers": [{"name": "a"}]});
    let bad = json!({
        "hostNetwork": true, "hostPID": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "containers": [{"name": "a", "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_ADMIN"]}},
                        "ports": [{"hostPort": 9}, {"hostPort": 80}]}],
    });
    for (level, spec, expected) in [
        (Level::Privileged, &bad, ""),
        (Level::Baseline, &plain, ""),
        (Level::Restricted, &restricted_spec(), ""),
        (
            Level::Restricted,
            &plain,
            "allowPrivilegeEscalation != false (container \"a\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set \
             securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must set \
             securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
             securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
        ),
        (
            Level::Baseline,
            &bad,
            "non-default capabilities (container \"a\" must not include \
             \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true, hostPID=true), \
             hostPath volumes (volume \"v\"), hostPort (container \"a\" uses hostPorts 80, 9), privileged (container \"a\" \
             must not set securityContext.privileged=true)",
        ),
        (
            Level::Restricted,
            &bad,
            "host namespaces (hostNetwork=true, hostPID=true), hostPort (container \"a\" uses hostPorts 80, 9), \
             privileged (container \"a\" must not set securityContext.privileged=true), \
             allowPrivilegeEscalation != false (container \"a\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set \
             securityContext.capabilities.drop=[\"ALL\"]; container \"a\" must not include \"SYS_ADMIN\" in \
             securityContext.capabilities.add), restricted volume types (volume \"v\" uses restricted volume type \
             \"hostPath\"), runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
             seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" \
             or \"Localhost\")",
        ),
    ] {
        assert_eq!(found(level, Version::Latest, &Value::Null, spec), expected, "{level:?} {spec}");
    }
}

#[test]
fn rules_apply_from_their_release_on() {
    let sysctl = json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}, {"name": "kernel.msgmax"}]}});
    let probe = json!({"containers": [{"name": "b", "livenessProbe": {"httpGet": {"host": "h"}}},
        {"name": "a", "lifecycle": {"preStop": {"tcpSocket": {"host": "g"}}}}]});
    let engine =
        json!({"containers": [{"name": "a", "securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}]});
    let user = json!({"hostUsers": false, "containers": [{"name": "a", "securityContext": {"procMount": "Unmasked"}}]});
    let unmasked = "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")";
    for (minor, spec, expected) in [
        (31, &sysctl, "forbidden sysctls (net.ipv4.tcp_rmem, kernel.msgmax)"),
        (32, &sysctl, "forbidden sysctls (kernel.msgmax)"),
        (33, &probe, ""),
        (34, &probe, "probe or lifecycle host (containers \"a\", \"b\" use probe or lifecycle hosts \"g\", \"h\")"),
        (
            30,
            &engine,
            "seLinuxOptions (container \"a\" set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")",
        ),
        (31, &engine, ""),
        (34, &user, unmasked),
        (35, &user, ""),
        (99, &user, ""),
    ] {
        assert_eq!(found(Level::Baseline, Version::Minor(minor), &Value::Null, spec), expected, "{minor} {spec}");
    }
    let of_restricted = |minor: u32, spec: &Value| {
        let policy = Policy { level: Level::Restricted, version: Version::Minor(minor) };
        super::super::reasons(&policy.violations(&Value::Null, spec))
    };
    let plain = json!({"containers": [{"name": "a"}]});
    assert_eq!(of_restricted(0, &plain), "runAsNonRoot != true");
    assert_eq!(of_restricted(8, &plain), "allowPrivilegeEscalation != false, runAsNonRoot != true");
    let all = "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile";
    assert_eq!(of_restricted(22, &plain), all);
    let windows = json!({"os": {"name": "windows"}, "containers": [{"name": "a"}]});
    assert_eq!(
        (of_restricted(24, &windows).as_str(), of_restricted(25, &windows).as_str()),
        (all, "runAsNonRoot != true")
    );
    let root = json!({"hostUsers": false, "securityContext": {"runAsUser": 0, "runAsNonRoot": false}});
    let reasons = "runAsNonRoot != true, runAsUser=0";
    assert_eq!(of_restricted(22, &root), "runAsNonRoot != true");
    assert_eq!((of_restricted(34, &root).as_str(), of_restricted(35, &root).as_str()), (reasons, ""));
    assert_eq!(of_restricted(35, &user).matches("procMount").count(), 1, "user namespaces do not relax it");
    let adding = json!({"containers": [{"name": "a", "securityContext": {"capabilities": {"add": ["X"]}}}]});
    assert!(of_restricted(21, &adding).starts_with("non-default capabilities, "));
}

#[test]
fn details_name_the_offenders() {
    let context = |context: Value| json!({"name": "a", "securityContext": context});
    let both = |value: Value| {
        let mut spec = restricted_spec();
        for (field, value) in value.as_object().expect("a map") {
            spec["securityContext"][field] = value.clone();
            spec["containers"][0]["securityContext"][field] = value.clone();
        }
        spec
    };
    for (spec, expected) in [
        (
            both(json!({"runAsNonRoot": false})),
            "runAsNonRoot != true (pod and container \"a\" must not set securityContext.runAsNonRoot=false)",
        ),
        (both(json!({"runAsUser": 0})), "runAsUser=0 (pod and container \"a\" must not set runAsUser=0)"),
        (
            both(json!({"seccompProfile": {"type": "Unconfined"}})),
            "seccompProfile (pod and container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            both(json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (pod and container \"a\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            both(json!({"seLinuxOptions": {"type": "x", "user": "u", "role": "r"}})),
            "seLinuxOptions (pod and container \"a\" set forbidden securityContext.seLinuxOptions: type \"x\"; user may \
             not be set; role may not be set)",
        ),
    ] {
        assert_eq!(found(Level::Restricted, Version::Latest, &Value::Null, &spec), expected);
    }
    let metadata = json!({"annotations": {
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "unconfined",
    }});
    let unconfined = json!({"containers": [context(json!({"appArmorProfile": {"type": "Unconfined"}}))]});
    assert_eq!(
        found(Level::Baseline, Version::Minor(18), &metadata, &unconfined),
        "forbidden AppArmor profiles (container \"a\" and annotation must not set AppArmor profile type to \
         \"Unconfined\", \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\"), seccompProfile \
         (forbidden annotation container.seccomp.security.alpha.kubernetes.io/a=\"unconfined\")"
    );
    let volumes =
        json!({"volumes": [{"name": "v", "nfs": {}}, {"name": "w", "future": {}}, {"name": "x", "image": {}}]});
    assert_eq!(
        found(Level::Restricted, Version::Latest, &Value::Null, &volumes),
        "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"nfs\", \"unknown\")"
    );
}
