//! Prints pod templates as upstream does in errors: with the fields of its internal structs, in declaration order,
//! including unset ones. Types that are not listed here are printed as sent.

use serde_json::{Map, Value};

/// One field: its Go name, then the mark of its zero value (`"` an empty string, `#` zero, `!` false, `?` null, `{` a
/// struct), then its JSON name if that is not the Go name with a lower-case first letter, then the shape of its
/// content.
type Shape = &'static [(&'static str, char, &'static str, &'static str)];

const SHAPES: &[(&str, Shape)] = &[
    ("Container", CONTAINER),
    ("ContainerPort", PORT),
    ("EnvVar", VARIABLE),
    ("PodSecurityContext", SECURITY),
    ("PodSpec", POD),
    ("Capabilities", CAPABILITIES),
    ("FailurePolicy", FAILURE_POLICY),
    ("FailureRule", FAILURE_RULE),
    ("FailureCodes", FAILURE_CODES),
    ("FailureCondition", FAILURE_CONDITION),
    ("Resources", RESOURCES),
    ("SecurityContext", CONTAINER_SECURITY),
    ("SuccessPolicy", SUCCESS_POLICY),
    ("SuccessRule", SUCCESS_RULE),
    ("Toleration", TOLERATION),
    ("VolumeMount", MOUNT),
    ("NodeSelector", NODE_SELECTOR),
    ("NodeSelectorTerm", NODE_SELECTOR_TERM),
    ("NodeSelectorRequirement", NODE_SELECTOR_REQUIREMENT),
    ("VolumeNodeAffinity", VOLUME_AFFINITY),
];

const POD: Shape = &[
    ("Volumes", '?', "", ""),
    ("InitContainers", '?', "", "Container"),
    ("Containers", '?', "", "Container"),
    ("EphemeralContainers", '?', "", ""),
    ("RestartPolicy", '"', "", ""),
    ("TerminationGracePeriodSeconds", '?', "", ""),
    ("ActiveDeadlineSeconds", '?', "", ""),
    ("DNSPolicy", '"', "dnsPolicy", ""),
    ("NodeSelector", '?', "", ""),
    ("ServiceAccountName", '"', "", ""),
    ("AutomountServiceAccountToken", '?', "", ""),
    ("NodeName", '"', "", ""),
    ("SecurityContext", '?', "", "PodSecurityContext"),
    ("ImagePullSecrets", '?', "", ""),
    ("Hostname", '"', "", ""),
    ("Subdomain", '"', "", ""),
    ("SetHostnameAsFQDN", '?', "", ""),
    ("Affinity", '?', "", ""),
    ("SchedulerName", '"', "", ""),
    ("Tolerations", '?', "", "Toleration"),
    ("HostAliases", '?', "", ""),
    ("PriorityClassName", '"', "", ""),
    ("Priority", '?', "", ""),
    ("PreemptionPolicy", '?', "", ""),
    ("DNSConfig", '?', "dnsConfig", ""),
    ("ReadinessGates", '?', "", ""),
    ("RuntimeClassName", '?', "", ""),
    ("Overhead", '?', "", ""),
    ("EnableServiceLinks", '?', "", ""),
    ("TopologySpreadConstraints", '?', "", ""),
    ("OS", '?', "os", ""),
    ("SchedulingGates", '?', "", ""),
    ("ResourceClaims", '?', "", ""),
    ("Resources", '?', "", "Resources"),
    ("HostnameOverride", '?', "", ""),
    ("SchedulingGroup", '?', "", ""),
];

const CONTAINER: Shape = &[
    ("Name", '"', "", ""),
    ("Image", '"', "", ""),
    ("Command", '?', "", ""),
    ("Args", '?', "", ""),
    ("WorkingDir", '"', "", ""),
    ("Ports", '?', "", "ContainerPort"),
    ("EnvFrom", '?', "", ""),
    ("Env", '?', "", "EnvVar"),
    ("Resources", '{', "", "Resources"),
    ("ResizePolicy", '?', "", ""),
    ("RestartPolicy", '?', "", ""),
    ("RestartPolicyRules", '?', "", ""),
    ("VolumeMounts", '?', "", "VolumeMount"),
    ("VolumeDevices", '?', "", ""),
    ("LivenessProbe", '?', "", ""),
    ("ReadinessProbe", '?', "", ""),
    ("StartupProbe", '?', "", ""),
    ("Lifecycle", '?', "", ""),
    ("TerminationMessagePath", '"', "", ""),
    ("TerminationMessagePolicy", '"', "", ""),
    ("ImagePullPolicy", '"', "", ""),
    ("SecurityContext", '?', "", ""),
    ("Stdin", '!', "", ""),
    ("StdinOnce", '!', "", ""),
    ("TTY", '!', "tty", ""),
];

const PORT: Shape = &[
    ("Name", '"', "", ""),
    ("HostPort", '#', "", ""),
    ("ContainerPort", '#', "", ""),
    ("Protocol", '"', "", ""),
    ("HostIP", '"', "", ""),
];

const VARIABLE: Shape = &[("Name", '"', "", ""), ("Value", '"', "", ""), ("ValueFrom", '?', "", "")];

const RESOURCES: Shape = &[("Limits", '?', "", ""), ("Requests", '?', "", ""), ("Claims", '?', "", "")];

const MOUNT: Shape = &[
    ("Name", '"', "", ""),
    ("ReadOnly", '!', "", ""),
    ("RecursiveReadOnly", '?', "", ""),
    ("MountPath", '"', "", ""),
    ("SubPath", '"', "", ""),
    ("MountPropagation", '?', "", ""),
    ("SubPathExpr", '"', "", ""),
];

/// The first five are fields of the pod's spec in JSON.
const SECURITY: Shape = &[
    ("HostNetwork", '!', "", ""),
    ("HostPID", '!', "", ""),
    ("HostIPC", '!', "", ""),
    ("ShareProcessNamespace", '?', "", ""),
    ("HostUsers", '?', "", ""),
    ("SELinuxOptions", '?', "seLinuxOptions", ""),
    ("WindowsOptions", '?', "", ""),
    ("RunAsUser", '?', "", ""),
    ("RunAsGroup", '?', "", ""),
    ("RunAsNonRoot", '?', "", ""),
    ("SupplementalGroups", '?', "", ""),
    ("SupplementalGroupsPolicy", '?', "", ""),
    ("FSGroup", '?', "fsGroup", ""),
    ("FSGroupChangePolicy", '?', "fsGroupChangePolicy", ""),
    ("Sysctls", '?', "", ""),
    ("SeccompProfile", '?', "", ""),
    ("AppArmorProfile", '?', "", ""),
    ("SELinuxChangePolicy", '?', "seLinuxChangePolicy", ""),
];

const CONTAINER_SECURITY: Shape = &[
    ("Capabilities", '?', "", "Capabilities"),
    ("Privileged", '?', "", ""),
    ("SELinuxOptions", '?', "seLinuxOptions", ""),
    ("WindowsOptions", '?', "", ""),
    ("RunAsUser", '?', "", ""),
    ("RunAsGroup", '?', "", ""),
    ("RunAsNonRoot", '?', "", ""),
    ("ReadOnlyRootFilesystem", '?', "", ""),
    ("AllowPrivilegeEscalation", '?', "", ""),
    ("ProcMount", '?', "", ""),
    ("SeccompProfile", '?', "", ""),
    ("AppArmorProfile", '?', "", ""),
];

const CAPABILITIES: Shape = &[("Add", '?', "", ""), ("Drop", '?', "", "")];

const FAILURE_POLICY: Shape = &[("Rules", '?', "", "FailureRule")];

const FAILURE_RULE: Shape = &[
    ("Action", '"', "", ""),
    ("OnExitCodes", '?', "", "FailureCodes"),
    ("OnPodConditions", '?', "", "FailureCondition"),
];

const FAILURE_CODES: Shape = &[("ContainerName", '?', "", ""), ("Operator", '"', "", ""), ("Values", '?', "", "")];

const FAILURE_CONDITION: Shape = &[("Type", '"', "", ""), ("Status", '"', "", "")];

const SUCCESS_POLICY: Shape = &[("Rules", '?', "", "SuccessRule")];

const SUCCESS_RULE: Shape = &[("SucceededIndexes", '?', "", ""), ("SucceededCount", '?', "", "")];

const TOLERATION: Shape = &[
    ("Key", '"', "", ""),
    ("Operator", '"', "", ""),
    ("Value", '"', "", ""),
    ("Effect", '"', "", ""),
    ("TolerationSeconds", '?', "", ""),
];

const VOLUME_AFFINITY: Shape = &[("Required", '?', "", "NodeSelector")];

const NODE_SELECTOR: Shape = &[("NodeSelectorTerms", '?', "", "NodeSelectorTerm")];

const NODE_SELECTOR_TERM: Shape =
    &[("MatchExpressions", '?', "", "NodeSelectorRequirement"), ("MatchFields", '?', "", "NodeSelectorRequirement")];

const NODE_SELECTOR_REQUIREMENT: Shape = &[("Key", '"', "", ""), ("Operator", '"', "", ""), ("Values", '?', "", "")];

/// Metadata is inlined, with its JSON names.
const METADATA: [&str; 5] = ["name", "namespace", "labels", "annotations", "finalizers"];

pub(super) fn pod_template(template: &Value) -> String {
    let metadata = METADATA.iter().filter_map(|name| Some((*name, template["metadata"].get(*name)?)));
    let mut members: Vec<String> = metadata.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let mut spec = template["spec"].clone();
    let moved = SECURITY[..5].iter().filter_map(|(name, ..)| {
        let name = small(name);
        let value = template["spec"].get(&name)?.clone();
        Some((name, value))
    });
    if let Some(Value::Object(context)) = spec.get_mut("securityContext") {
        context.extend(moved);
    }
    members.push(format!("\"Spec\":{}", shown("PodSpec", &spec)));
    format!("{{{}}}", members.join(","))
}

fn small(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

pub(super) fn shown(shape: &str, value: &Value) -> String {
    let fields = SHAPES.iter().find(|(name, _)| *name == shape).map(|(_, fields)| *fields);
    match (fields, value) {
        (Some(fields), Value::Object(map)) => fields_of(fields, map),
        (Some(_), Value::Array(items)) => {
            format!("[{}]", items.iter().map(|item| shown(shape, item)).collect::<Vec<_>>().join(","))
        }
        _ => value.to_string(),
    }
}

fn fields_of(fields: Shape, map: &Map<String, Value>) -> String {
    let members = fields.iter().map(|(name, zero, json, shape)| {
        let json = if json.is_empty() { small(name) } else { (*json).to_owned() };
        let value = match (map.get(&json), zero) {
            (Some(value), _) => shown(shape, value),
            (None, '"') => "\"\"".to_owned(),
            (None, '#') => "0".to_owned(),
            (None, '!') => "false".to_owned(),
            (None, '{') => shown(shape, &Value::Object(Map::new())),
            (None, _) => "null".to_owned(),
        };
        format!("\"{name}\":{value}")
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}
