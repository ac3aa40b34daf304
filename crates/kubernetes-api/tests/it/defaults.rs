//! The stored form of sent documents, kind by kind.

use apimachinery::resource::Resource;
use expect_test::{Expect, expect};
use serde_json::Value;

pub(crate) fn resource(group: &str, kind: &str) -> Resource {
    let is_named = |resource: &Resource| resource.info.resource.group == group && resource.info.resource.kind == kind;
    kubernetes_api::resources().into_iter().find(is_named).expect("a built-in kind")
}

pub(crate) fn yaml(text: &str) -> Value {
    apimachinery::yaml::to_json_value(text.as_bytes()).expect("valid YAML")
}

/// Prints the stored form of a document, and checks that reading it again changes nothing.
pub(crate) fn check(group: &str, kind: &str, document: &str, expected: &Expect) {
    let resource = resource(group, kind);
    let mut object = yaml(document);
    resource.strategy.default(&mut object).expect("few defaults");
    let once = object.clone();
    resource.strategy.default(&mut object).expect("few defaults");
    assert_eq!(object, once);
    expected.assert_eq(&apimachinery::yaml::to_string(&object));
}

#[test]
fn deployment() {
    let sent = "
spec:
  replicas: 0
  paused: false
  selector: {matchLabels: {app: x}}
  strategy: null
  template:
    metadata: {creationTimestamp: null, labels: {app: x}}
    spec:
      serviceAccount: robot
      hostNetwork: false
      containers:
      - name: a
        image: nginx
        args: []
        env: [{name: E, value: ''}, {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        ports: [{containerPort: 80}]
        resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 0.5}}
        livenessProbe: {httpGet: {port: 80}, initialDelaySeconds: 0}
      volumes: [{name: v}, {name: s, secret: {secretName: s}}]
";
    check(
        "apps",
        "Deployment",
        sent,
        &expect![[r#"
        spec:
          progressDeadlineSeconds: 600
          replicas: 0
          revisionHistoryLimit: 10
          selector:
            matchLabels:
              app: x
          strategy:
            rollingUpdate:
              maxSurge: 25%
              maxUnavailable: 25%
            type: RollingUpdate
          template:
            metadata:
              labels:
                app: x
            spec:
              containers:
              - env:
                - name: E
                - name: F
                  valueFrom:
                    fieldRef:
                      apiVersion: v1
                      fieldPath: metadata.name
                image: nginx
                imagePullPolicy: Always
                livenessProbe:
                  failureThreshold: 3
                  httpGet:
                    path: /
                    port: 80
                    scheme: HTTP
                  periodSeconds: 10
                  successThreshold: 1
                  timeoutSeconds: 1
                name: a
                ports:
                - containerPort: 80
                  protocol: TCP
                resources:
                  limits:
                    cpu: "1"
                    memory: 1Gi
                  requests:
                    cpu: 500m
                terminationMessagePath: /dev/termination-log
                terminationMessagePolicy: File
              dnsPolicy: ClusterFirst
              restartPolicy: Always
              schedulerName: default-scheduler
              securityContext: {}
              serviceAccount: robot
              serviceAccountName: robot
              terminationGracePeriodSeconds: 30
              volumes:
              - emptyDir: {}
                name: v
              - name: s
                secret:
                  defaultMode: 420
                  secretName: s
        status: {}
    "#]],
    );
}

#[test]
fn service() {
    check(
        "",
        "Service",
        "spec: {ports: [{port: 80}], selector: {a: b}}",
        &expect![[r#"
        spec:
          internalTrafficPolicy: Cluster
          ports:
          - port: 80
            protocol: TCP
            targetPort: 80
          selector:
            a: b
          sessionAffinity: None
          type: ClusterIP
        status:
          loadBalancer: {}
    "#]],
    );
    let sent = "spec: {type: LoadBalancer, sessionAffinity: ClientIP, ports: [{port: 80, targetPort: http}]}";
    check(
        "",
        "Service",
        sent,
        &expect![[r#"
        spec:
          allocateLoadBalancerNodePorts: true
          externalTrafficPolicy: Cluster
          internalTrafficPolicy: Cluster
          ports:
          - port: 80
            protocol: TCP
            targetPort: http
          sessionAffinity: ClientIP
          sessionAffinityConfig:
            clientIP:
              timeoutSeconds: 10800
          type: LoadBalancer
        status:
          loadBalancer: {}
    "#]],
    );
    check(
        "",
        "Service",
        "spec: {type: ExternalName, externalName: a.b}",
        &expect![[r#"
        spec:
          externalName: a.b
          sessionAffinity: None
          type: ExternalName
        status:
          loadBalancer: {}
    "#]],
    );
}

#[test]
fn pod() {
    let sent = "spec: {containers: [{name: a, image: 'a:1', resources: {limits: {cpu: 1}}}]}";
    check(
        "",
        "Pod",
        sent,
        &expect![[r#"
        spec:
          containers:
          - image: a:1
            imagePullPolicy: IfNotPresent
            name: a
            resources:
              limits:
                cpu: "1"
              requests:
                cpu: "1"
            terminationMessagePath: /dev/termination-log
            terminationMessagePolicy: File
          dnsPolicy: ClusterFirst
          enableServiceLinks: true
          restartPolicy: Always
          schedulerName: default-scheduler
          securityContext: {}
          terminationGracePeriodSeconds: 30
        status:
          phase: Pending
    "#]],
    );
}

#[test]
fn jobs() {
    let template = "template: {spec: {restartPolicy: Never, containers: [{name: a, image: 'a:1'}]}}";
    check(
        "batch",
        "Job",
        &format!("spec: {{{template}}}"),
        &expect![[r#"
        spec:
          backoffLimit: 6
          completionMode: NonIndexed
          completions: 1
          manualSelector: false
          parallelism: 1
          podReplacementPolicy: TerminatingOrFailed
          suspend: false
          template:
            metadata: {}
            spec:
              containers:
              - image: a:1
                imagePullPolicy: IfNotPresent
                name: a
                resources: {}
                terminationMessagePath: /dev/termination-log
                terminationMessagePolicy: File
              dnsPolicy: ClusterFirst
              restartPolicy: Never
              schedulerName: default-scheduler
              securityContext: {}
              terminationGracePeriodSeconds: 30
        status: {}
    "#]],
    );
    let cron = format!("spec: {{schedule: '@daily', jobTemplate: {{spec: {{{template}}}}}}}");
    check(
        "batch",
        "CronJob",
        &cron,
        &expect![[r#"
        spec:
          concurrencyPolicy: Allow
          failedJobsHistoryLimit: 1
          jobTemplate:
            metadata: {}
            spec:
              template:
                metadata: {}
                spec:
                  containers:
                  - image: a:1
                    imagePullPolicy: IfNotPresent
                    name: a
                    resources: {}
                    terminationMessagePath: /dev/termination-log
                    terminationMessagePolicy: File
                  dnsPolicy: ClusterFirst
                  restartPolicy: Never
                  schedulerName: default-scheduler
                  securityContext: {}
                  terminationGracePeriodSeconds: 30
          schedule: '@daily'
          successfulJobsHistoryLimit: 3
          suspend: false
        status: {}
    "#]],
    );
}

#[test]
fn sets() {
    let sent = "
spec:
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}
";
    check(
        "apps",
        "StatefulSet",
        sent,
        &expect![[r#"
        spec:
          persistentVolumeClaimRetentionPolicy:
            whenDeleted: Retain
            whenScaled: Retain
          podManagementPolicy: OrderedReady
          replicas: 1
          revisionHistoryLimit: 10
          template:
            metadata: {}
            spec:
              dnsPolicy: ClusterFirst
              restartPolicy: Always
              schedulerName: default-scheduler
              securityContext: {}
              terminationGracePeriodSeconds: 30
          updateStrategy:
            rollingUpdate:
              partition: 0
            type: RollingUpdate
          volumeClaimTemplates:
          - apiVersion: v1
            kind: PersistentVolumeClaim
            metadata:
              name: data
            spec:
              accessModes:
              - ReadWriteOnce
              resources:
                requests:
                  storage: 1Gi
              volumeMode: Filesystem
            status:
              phase: Pending
        status:
          availableReplicas: 0
          replicas: 0
    "#]],
    );
    check(
        "apps",
        "DaemonSet",
        "spec: {updateStrategy: {type: OnDelete}}",
        &expect![[r#"
            metadata:
              annotations:
                deprecated.daemonset.template.generation: "0"
            spec:
              revisionHistoryLimit: 10
              template:
                metadata: {}
                spec:
                  dnsPolicy: ClusterFirst
                  restartPolicy: Always
                  schedulerName: default-scheduler
                  securityContext: {}
                  terminationGracePeriodSeconds: 30
              updateStrategy:
                type: OnDelete
            status:
              currentNumberScheduled: 0
              desiredNumberScheduled: 0
              numberMisscheduled: 0
              numberReady: 0
        "#]],
    );
}

#[test]
fn others() {
    check(
        "",
        "Secret",
        "{stringData: {a: b}, data: {a: eA==}}",
        &expect![[r#"
        data:
          a: Yg==
        type: Opaque
    "#]],
    );
    check(
        "",
        "ConfigMap",
        "{data: {a: ''}, binaryData: {}, immutable: false}",
        &expect![[r#"
        data:
          a: ""
        immutable: false
    "#]],
    );
    check(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "spec: {maxReplicas: 3}",
        &expect![[r#"
        spec:
          maxReplicas: 3
          metrics:
          - resource:
              name: cpu
              target:
                averageUtilization: 80
                type: Utilization
            type: Resource
          minReplicas: 1
          scaleTargetRef: {}
        status:
          currentMetrics: null
          desiredReplicas: 0
    "#]],
    );
    // Fields that upstream's types always encode.
    for (group, kind, document, expected) in [
        (
            "apps",
            "ControllerRevision",
            "{}",
            expect![[r#"
            data: null
            revision: 0
        "#]],
        ),
        (
            "",
            "LimitRange",
            "spec: {}",
            expect![[r#"
            spec:
              limits: null
        "#]],
        ),
        (
            "",
            "PersistentVolume",
            "spec: {iscsi: {iqn: i, targetPortal: t}}",
            expect![[r#"
            spec:
              iscsi:
                iqn: i
                iscsiInterface: default
                lun: 0
                targetPortal: t
              persistentVolumeReclaimPolicy: Retain
              volumeMode: Filesystem
            status:
              phase: Pending
        "#]],
        ),
        (
            "",
            "Pod",
            "status: {containerStatuses: [{name: c}]}",
            expect![[r#"
            spec:
              dnsPolicy: ClusterFirst
              enableServiceLinks: true
              restartPolicy: Always
              schedulerName: default-scheduler
              securityContext: {}
              terminationGracePeriodSeconds: 30
            status:
              containerStatuses:
              - image: ""
                imageID: ""
                lastState: {}
                name: c
                ready: false
                restartCount: 0
                state: {}
              phase: Pending
        "#]],
        ),
        (
            "storage.k8s.io",
            "VolumeAttachment",
            "status: {}",
            expect![[r#"
            spec: {}
            status:
              attached: false
        "#]],
        ),
    ] {
        check(group, kind, document, &expected);
    }
    check(
        "rbac.authorization.k8s.io",
        "Role",
        "{}",
        &expect![[r#"
        rules: null
    "#]],
    );
    check(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        "{roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s}]}",
        &expect![[r#"
            roleRef:
              apiGroup: rbac.authorization.k8s.io
              kind: Role
              name: r
            subjects:
            - apiGroup: rbac.authorization.k8s.io
              kind: User
              name: u
            - kind: ServiceAccount
              name: s
        "#]],
    );
    check(
        "networking.k8s.io",
        "NetworkPolicy",
        "spec: {egress: [{}], podSelector: {}}",
        &expect![[r#"
        spec:
          egress:
          - {}
          podSelector: {}
          policyTypes:
          - Ingress
          - Egress
    "#]],
    );
    check(
        "",
        "Event",
        "{involvedObject: {}, count: 0}",
        &expect![[r#"
        eventTime: null
        firstTimestamp: null
        involvedObject: {}
        lastTimestamp: null
        reportingComponent: ""
        reportingInstance: ""
        source: {}
    "#]],
    );
    check(
        "",
        "LimitRange",
        "spec: {limits: [{type: Container, max: {cpu: '2'}}]}",
        &expect![[r#"
        spec:
          limits:
          - default:
              cpu: "2"
            defaultRequest:
              cpu: "2"
            max:
              cpu: "2"
            type: Container
    "#]],
    );
}
