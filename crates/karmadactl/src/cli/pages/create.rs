//! The pages of `create KIND`.

use super::{Group, Page};

pub const PAGES: &[Page] = &[
    Page {
        command: "create clusterrole",
        group: Group::Basic,
        arguments: "NAME --verb=verb --resource=resource.group [--resource-name=resourcename] [--dry-run=server|client|none]",
        description: "Resources are named as in other commands; the server translates short names.",
        examples: &[
            (
                "Create a cluster role that allows to read pods",
                "karmadactl create clusterrole pod-reader --verb=get,list,watch --resource=pods",
            ),
            (
                "Allow to read two objects by name",
                "karmadactl create clusterrole reader --verb=get --resource=pods --resource-name=a --resource-name=b",
            ),
            (
                "Allow to scale replica sets",
                "karmadactl create clusterrole scaler --verb=get,patch --resource=rs.apps/scale",
            ),
            (
                "Allow to read paths of the server",
                "karmadactl create clusterrole logs --verb=get --non-resource-url='/logs/*'",
            ),
            (
                "Combine the cluster roles with a label",
                "karmadactl create clusterrole monitoring --aggregation-rule=monitoring=true",
            ),
        ],
    },
    Page {
        command: "create clusterrolebinding",
        group: Group::Basic,
        arguments: "NAME --clusterrole=NAME [--user=username] [--group=groupname] [--serviceaccount=namespace:serviceaccountname] [--dry-run=server|client|none]",
        description: "",
        examples: &[
            (
                "Bind two users and a group to cluster-admin",
                "karmadactl create clusterrolebinding admins --clusterrole=cluster-admin --user=a --user=b --group=ops",
            ),
            (
                "Bind a service account",
                "karmadactl create clusterrolebinding ci --clusterrole=edit --serviceaccount=ci:deployer",
            ),
        ],
    },
    Page {
        command: "create configmap",
        group: Group::Basic,
        arguments: "NAME [--from-file=[key=]source] [--from-literal=key1=value1] [--dry-run=server|client|none]",
        description: "The key of a file is its name, unless one is given; of a directory, the files that are valid keys are taken.",
        examples: &[
            ("Create a config map of the files of a directory", "karmadactl create configmap web --from-file=config/"),
            (
                "Create a config map with keys of their own",
                "karmadactl create configmap web --from-file=app.conf=conf/web.conf",
            ),
            (
                "Create a config map of literal values",
                "karmadactl create configmap web --from-literal=mode=fast --from-literal=level=3",
            ),
            ("Create a config map of an environment file", "karmadactl create configmap web --from-env-file=web.env"),
        ],
    },
    Page {
        command: "create cronjob",
        group: Group::Basic,
        arguments: "NAME --image=image --schedule='0/5 * * * ?' -- [COMMAND] [args...]",
        description: "",
        examples: &[
            ("Create a cron job", "karmadactl create cronjob backup --image=busybox --schedule='*/5 * * * *'"),
            (
                "Create a cron job with a command",
                "karmadactl create cronjob backup --image=busybox --schedule='@daily' -- date",
            ),
        ],
    },
    Page {
        command: "create deployment",
        group: Group::Basic,
        arguments: "NAME --image=image -- [COMMAND] [args...]",
        description: "A policy propagates it, see PropagationPolicy.",
        examples: &[
            ("Create a deployment", "karmadactl create deployment web --image=nginx:1.27"),
            (
                "Create a deployment with three replicas and a port",
                "karmadactl create deployment web --image=nginx:1.27 --replicas=3 --port=80",
            ),
            (
                "Create a deployment with a command",
                "karmadactl create deployment clock --image=busybox -- sh -c 'while date; do sleep 1; done'",
            ),
            (
                "Create a deployment with several containers",
                "karmadactl create deployment web --image=nginx:1.27 --image=busybox:1.37",
            ),
            ("Print the manifest", "karmadactl create deployment web --image=nginx:1.27 --dry-run=client -o yaml"),
        ],
    },
    Page {
        command: "create ingress",
        group: Group::Basic,
        arguments: "NAME --rule=host/path=service:port[,tls[=secret]]",
        description: "",
        examples: &[
            (
                "Create an ingress with the TLS secret my-cert",
                "karmadactl create ingress web --rule='foo.com/bar=svc:8080,tls=my-cert'",
            ),
            (
                "Create an ingress of a class for all hosts",
                "karmadactl create ingress web --class=other --rule='/path=svc:port'",
            ),
            (
                "Create an ingress with a prefix and annotations",
                "karmadactl create ingress web --rule='foo.com/path*=svc:8080' --annotation a=b --annotation c=d",
            ),
            ("Create an ingress with a default backend", "karmadactl create ingress web --default-backend=svc:http"),
        ],
    },
    Page {
        command: "create job",
        group: Group::Basic,
        arguments: "NAME --image=image [--from=cronjob/name] -- [COMMAND] [args...]",
        description: "",
        examples: &[
            ("Create a job", "karmadactl create job once --image=busybox"),
            ("Create a job with a command", "karmadactl create job once --image=busybox -- date"),
            ("Create a job from a cron job", "karmadactl create job once --from=cronjob/backup"),
        ],
    },
    Page {
        command: "create namespace",
        group: Group::Basic,
        arguments: "NAME [--dry-run=server|client|none]",
        description: "Karmada creates it in all member clusters.",
        examples: &[("Create a namespace", "karmadactl create namespace shop")],
    },
    Page {
        command: "create poddisruptionbudget",
        group: Group::Basic,
        arguments: "NAME --selector=SELECTOR --min-available=N [--dry-run=server|client|none]",
        description: "",
        examples: &[
            (
                "Require one available pod with the label app=web",
                "karmadactl create poddisruptionbudget web --selector=app=web --min-available=1",
            ),
            (
                "Require half of the pods",
                "karmadactl create poddisruptionbudget web --selector=app=web --min-available=50%",
            ),
        ],
    },
    Page {
        command: "create priorityclass",
        group: Group::Basic,
        arguments: "NAME --value=VALUE --global-default=BOOL [--dry-run=server|client|none]",
        description: "",
        examples: &[
            (
                "Create a priority class",
                "karmadactl create priorityclass high --value=1000 --description='important workloads'",
            ),
            (
                "Create the class of pods without one",
                "karmadactl create priorityclass default --value=10 --global-default",
            ),
            (
                "Create a class that preempts nothing",
                "karmadactl create priorityclass patient --value=1000 --preemption-policy=Never",
            ),
        ],
    },
    Page {
        command: "create quota",
        group: Group::Basic,
        arguments: "NAME [--hard=key1=value1,key2=value2] [--scopes=Scope1,Scope2] [--dry-run=server|client|none]",
        description: "",
        examples: &[
            ("Create a quota", "karmadactl create quota team --hard=cpu=1,memory=1Gi,pods=2,services=3"),
            (
                "Create a quota for pods of the class BestEffort",
                "karmadactl create quota best --hard=pods=100 --scopes=BestEffort",
            ),
        ],
    },
    Page {
        command: "create role",
        group: Group::Basic,
        arguments: "NAME --verb=verb --resource=resource.group/subresource [--resource-name=resourcename] [--dry-run=server|client|none]",
        description: "Resources are named as in other commands; the server translates short names.",
        examples: &[
            (
                "Create a role that allows to read pods",
                "karmadactl create role pod-reader --verb=get --verb=list --verb=watch --resource=pods",
            ),
            (
                "Allow to read two objects by name",
                "karmadactl create role reader --verb=get --resource=pods --resource-name=a --resource-name=b",
            ),
            (
                "Allow to read pods and their status",
                "karmadactl create role status --verb=get,list --resource=pods,pods/status",
            ),
        ],
    },
    Page {
        command: "create rolebinding",
        group: Group::Basic,
        arguments: "NAME --clusterrole=NAME|--role=NAME [--user=username] [--group=groupname] [--serviceaccount=namespace:serviceaccountname] [--dry-run=server|client|none]",
        description: "",
        examples: &[
            (
                "Bind users and a group to a cluster role",
                "karmadactl create rolebinding admins --clusterrole=admin --user=a --user=b --group=ops",
            ),
            (
                "Bind a service account to a role",
                "karmadactl create rolebinding ci --role=deployer --serviceaccount=ci:deployer",
            ),
        ],
    },
    Page {
        command: "create secret",
        group: Group::Basic,
        arguments: "(docker-registry | generic | tls)",
        description: "A type chooses the keys of the secret.",
        examples: &[
            (
                "Create a secret of literal values",
                "karmadactl create secret generic web --from-literal=password=s3cret",
            ),
            (
                "Create a secret of a certificate and its key",
                "karmadactl create secret tls web --cert=tls.crt --key=tls.key",
            ),
        ],
    },
    Page {
        command: "create secret docker-registry",
        group: Group::Basic,
        arguments: "NAME --docker-username=user --docker-password=password --docker-email=email [--docker-server=string] [--from-file=[key=]source] [--dry-run=server|client|none]",
        description: "Service accounts refer to it for pulling images.",
        examples: &[
            (
                "Create a secret for a registry",
                "karmadactl create secret docker-registry reg --docker-server=registry.example.com --docker-username=u --docker-password=p",
            ),
            (
                "Create a secret of Docker's own file",
                "karmadactl create secret docker-registry reg --from-file=.dockerconfigjson=config.json",
            ),
        ],
    },
    Page {
        command: "create secret generic",
        group: Group::Basic,
        arguments: "NAME [--type=string] [--from-file=[key=]source] [--from-literal=key1=value1] [--dry-run=server|client|none]",
        description: "The key of a file is its name, unless one is given.",
        examples: &[
            ("Create a secret of the files of a directory", "karmadactl create secret generic web --from-file=keys/"),
            (
                "Create a secret with keys of their own",
                "karmadactl create secret generic web --from-file=ssh-privatekey=id_rsa",
            ),
            (
                "Create a secret of literal values",
                "karmadactl create secret generic web --from-literal=password=s3cret",
            ),
            ("Create a secret of an environment file", "karmadactl create secret generic web --from-env-file=web.env"),
        ],
    },
    Page {
        command: "create secret tls",
        group: Group::Basic,
        arguments: "NAME --cert=path/to/cert/file --key=path/to/key/file [--dry-run=server|client|none]",
        description: "The key has to belong to the certificate.",
        examples: &[(
            "Create a secret of a certificate and its key",
            "karmadactl create secret tls web --cert=tls.crt --key=tls.key",
        )],
    },
    Page {
        command: "create service",
        group: Group::Basic,
        arguments: "(clusterip | externalname | loadbalancer | nodeport)",
        description: "It selects the pods with the label app=NAME.",
        examples: &[
            ("Create a service", "karmadactl create service clusterip web --tcp=80:8080"),
            ("Create a headless service", "karmadactl create service clusterip web --clusterip=None"),
        ],
    },
    Page {
        command: "create service clusterip",
        group: Group::Basic,
        arguments: "NAME [--tcp=<port>:<targetPort>] [--dry-run=server|client|none]",
        description: "",
        examples: &[
            ("Create a service", "karmadactl create service clusterip web --tcp=80:8080"),
            ("Create a headless service", "karmadactl create service clusterip web --clusterip=None"),
        ],
    },
    Page {
        command: "create service externalname",
        group: Group::Basic,
        arguments: "NAME --external-name external.name [--dry-run=server|client|none]",
        description: "",
        examples: &[(
            "Create a name for a service outside of the cluster",
            "karmadactl create service externalname db --external-name=db.example.com",
        )],
    },
    Page {
        command: "create service loadbalancer",
        group: Group::Basic,
        arguments: "NAME [--tcp=port:targetPort] [--dry-run=server|client|none]",
        description: "",
        examples: &[(
            "Create a service with a load balancer",
            "karmadactl create service loadbalancer web --tcp=80:8080",
        )],
    },
    Page {
        command: "create service nodeport",
        group: Group::Basic,
        arguments: "NAME [--tcp=port:targetPort] [--dry-run=server|client|none]",
        description: "",
        examples: &[(
            "Create a service with a port of each node",
            "karmadactl create service nodeport web --tcp=80:8080 --node-port=30080",
        )],
    },
    Page {
        command: "create serviceaccount",
        group: Group::Basic,
        arguments: "NAME [--dry-run=server|client|none]",
        description: "",
        examples: &[("Create a service account", "karmadactl create serviceaccount deployer")],
    },
    Page {
        command: "create token",
        group: Group::Basic,
        arguments: "SERVICE_ACCOUNT_NAME",
        description: "The token is printed alone, for use in scripts.",
        examples: &[
            ("Request a token for a service account", "karmadactl create token deployer -n ci"),
            ("Request a token for ten minutes", "karmadactl create token deployer --duration=10m"),
            ("Request a token for another audience", "karmadactl create token deployer --audience=https://example.com"),
            (
                "Request a token that expires with a secret",
                "karmadactl create token deployer --bound-object-kind=Secret --bound-object-name=mine",
            ),
        ],
    },
];
