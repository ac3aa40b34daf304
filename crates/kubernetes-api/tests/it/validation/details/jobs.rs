//! Jobs, cron jobs and their templates.

use expect_test::expect;

use super::super::{CONTAINER, check, deployment, update};
use crate::defaults::yaml;

#[test]
fn jobs_in_detail() {
    let job = |rest: &str| format!("spec: {{{rest}, template: {{spec: {{restartPolicy: Never, {CONTAINER}}}}}}}");
    for (rest, expected) in [
        (
            "backoffLimitPerIndex: 1, maxFailedIndexes: 1",
            expect![[r#"
            spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode
            spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode
        "#]],
        ),
        (
            "completionMode: Indexed, completions: 2, backoffLimitPerIndex: -1, maxFailedIndexes: 3",
            expect![[r#"
            spec.backoffLimitPerIndex: Invalid value: -1: must be greater than or equal to 0
            spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions
        "#]],
        ),
        (
            "podFailurePolicy: {rules: [{action: X}, {action: FailJob, onExitCodes: {operator: In, values: [0, 1, 1]}}]}",
            expect![[r#"
                spec.podFailurePolicy.rules[0].action: Unsupported value: "X": supported values: "Count", "FailIndex", "FailJob", "Ignore"
                spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required
                spec.podFailurePolicy.rules[1].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator
                spec.podFailurePolicy.rules[1].onExitCodes.values[2]: Duplicate value: 1
            "#]],
        ),
        (
            "podReplacementPolicy: X, completionMode: Z, ttlSecondsAfterFinished: -1, activeDeadlineSeconds: -1, backoffLimit: -1",
            expect![[r#"
                spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
                spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0
                spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0
                spec.completionMode: Unsupported value: "Z": supported values: "NonIndexed", "Indexed"
                spec.podReplacementPolicy: Unsupported value: "X": supported values: "Failed", "TerminatingOrFailed"
            "#]],
        ),
        (
            "successPolicy: {rules: [{}]}",
            expect![[r#"
                spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":null}]}: requires indexed completion mode
                spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified
            "#]],
        ),
        (
            "manualSelector: true",
            expect![[r#"
            spec.selector: Required value
        "#]],
        ),
        (
            "managedBy: X",
            expect![[r#"
            spec.managedBy: Invalid value: "X": must be a domain-prefixed path (such as "acme.io/foo")
        "#]],
        ),
    ] {
        check("batch", "Job", &job(rest), expected);
    }
    let cron = |rest: &str| {
        format!(
            "spec: {{{rest}, jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Always, {CONTAINER}}}}}}}}}}}"
        )
    };
    check(
        "batch",
        "CronJob",
        &cron(
            "schedule: '', concurrencyPolicy: X, timeZone: Nowhere, startingDeadlineSeconds: -1, failedJobsHistoryLimit: -1",
        ),
        expect![[r#"
            spec.schedule: Required value
            spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0
            spec.timeZone: Invalid value: "Nowhere": unknown time zone Nowhere
            spec.concurrencyPolicy: Unsupported value: "X": supported values: "Allow", "Forbid", "Replace"
            spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"
            spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0
        "#]],
    );
    for (zone, expected) in [
        ("Europe/Berlin", expect![""]),
        ("UTC", expect![""]),
        ("Etc/GMT+3", expect![""]),
        (
            "europe/berlin",
            expect![[r#"
            spec.timeZone: Invalid value: "europe/berlin": unknown time zone europe/berlin
        "#]],
        ),
        (
            "../Berlin",
            expect![[r#"
            spec.timeZone: Invalid value: "../Berlin": time: invalid location name
        "#]],
        ),
        (
            "Local",
            expect![[r#"
            spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones
        "#]],
        ),
    ] {
        let document = format!(
            "spec: {{schedule: '@daily', timeZone: {zone}, jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, \
             {CONTAINER}}}}}}}}}}}"
        );
        check("batch", "CronJob", &document, expected);
    }
    let indexed = job("completionMode: Indexed, completions: 2, parallelism: 2");
    for (path, value, expected) in [
        (
            "spec.completions",
            "3",
            expect![[r#"
            spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism
        "#]],
        ),
        (
            "spec.completionMode",
            "NonIndexed",
            expect![[r#"
            spec.completionMode: Invalid value: "NonIndexed": field is immutable
        "#]],
        ),
        (
            "spec.podFailurePolicy",
            "{rules: [{action: FailJob, onPodConditions: [{type: A, status: 'True'}]}]}",
            expect![[r#"
                spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"
                spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"FailJob","OnExitCodes":null,"OnPodConditions":[{"Type":"A","Status":"True"}]}]}: field is immutable
            "#]],
        ),
        (
            "spec.selector",
            "{matchLabels: {a: b}}",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`
            spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable
        "#]],
        ),
        ("spec.suspend", "true", expect![""]),
        (
            "spec.template.metadata.labels",
            "{a: b}",
            expect![[r#"
            spec.template: Invalid value: {"labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"a","Image":"a:1","Command":null,"Args":null,"WorkingDir":"","Ports":null,"EnvFrom":null,"Env":null,"Resources":{"Limits":null,"Requests":null,"Claims":null},"ResizePolicy":null,"RestartPolicy":null,"RestartPolicyRules":null,"VolumeMounts":null,"VolumeDevices":null,"LivenessProbe":null,"ReadinessProbe":null,"StartupProbe":null,"Lifecycle":null,"TerminationMessagePath":"/dev/termination-log","TerminationMessagePolicy":"File","ImagePullPolicy":"IfNotPresent","SecurityContext":null,"Stdin":false,"StdinOnce":false,"TTY":false}],"EphemeralContainers":null,"RestartPolicy":"Never","TerminationGracePeriodSeconds":30,"ActiveDeadlineSeconds":null,"DNSPolicy":"ClusterFirst","NodeSelector":null,"ServiceAccountName":"","AutomountServiceAccountToken":null,"NodeName":"","SecurityContext":{"HostNetwork":false,"HostPID":false,"HostIPC":false,"ShareProcessNamespace":null,"HostUsers":null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"SupplementalGroups":null,"SupplementalGroupsPolicy":null,"FSGroup":null,"FSGroupChangePolicy":null,"Sysctls":null,"SeccompProfile":null,"AppArmorProfile":null,"SELinuxChangePolicy":null},"ImagePullSecrets":null,"Hostname":"","Subdomain":"","SetHostnameAsFQDN":null,"Affinity":null,"SchedulerName":"default-scheduler","Tolerations":null,"HostAliases":null,"PriorityClassName":"","Priority":null,"PreemptionPolicy":null,"DNSConfig":null,"ReadinessGates":null,"RuntimeClassName":null,"Overhead":null,"EnableServiceLinks":null,"TopologySpreadConstraints":null,"OS":null,"SchedulingGates":null,"ResourceClaims":null,"Resources":null,"HostnameOverride":null,"SchedulingGroup":null}}: field is immutable
        "#]],
        ),
    ] {
        expected.assert_eq(&update("batch", "Job", &indexed, path, yaml(value)));
    }
    let set = deployment("", CONTAINER);
    for (kind, path, value, expected) in [
        ("Deployment", "spec.paused", "true", expect![""]),
        (
            "DaemonSet",
            "spec.selector.matchLabels.b",
            "c",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
            spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"c"}}: field is immutable
        "#]],
        ),
        (
            "ReplicaSet",
            "spec.selector.matchLabels.b",
            "c",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
            spec.selector: Invalid value: {"matchLabels":{"app":"x","b":"c"}}: field is immutable
        "#]],
        ),
        (
            "StatefulSet",
            "spec.podManagementPolicy",
            "Parallel",
            expect![[r#"
            spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden
        "#]],
        ),
        (
            "StatefulSet",
            "spec.selector.matchLabels.b",
            "c",
            expect![[r#"
            spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`
            spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden
        "#]],
        ),
    ] {
        expected.assert_eq(&update("apps", kind, &set, path, yaml(value)));
    }
}
