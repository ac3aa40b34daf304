//! `karmadactl create KIND` compared with the real kubectl: the same flags make the same object, or the same refusal.

use std::path::Path;
use std::process::Command;

use crate::fleet::Fleet;
use crate::karmadactl_kubectl::run;

/// Command lines after `create`, each of which ends with the flags of [`PRINTED`] unless it is one of [`STORED`]; `D/` is
/// the directory of the files, `~` a blank.
const DRAFTS: &[&str] = &[
    "ns x",
    "ns",
    "ns a b",
    "quota q --hard=cpu=0.5,memory=1024Ki,pods=2,a=1.5e3 --scopes=BestEffort,NotTerminating",
    "quota q",
    "quota q --hard=cpu=x",
    "quota q --hard=cpu",
    "quota q --hard=cpu=1=2",
    "secret generic s --from-literal=a=b --from-file=D/f.txt --from-file=k=D/bin --type=Opaque",
    "secret generic s --from-literal=a=b --append-hash --type=x",
    "secret generic s",
    "secret generic s --from-literal=a=b --from-literal=a=c",
    "secret generic s --from-file=D/dir",
    "secret docker-registry d --docker-username=u --docker-password=p --docker-email=e",
    "secret docker-registry d --from-file=.dockerconfigjson=D/f.txt",
    "secret docker-registry d",
    "secret tls t --cert=D/f.txt --key=D/f.txt",
    "secret tls t --cert=D/nosuch --key=D/f.txt",
    "secret tls t --key=D/f.txt",
    "cm c --from-literal=a=b --from-file=D/f.txt --from-file=k=D/bin --append-hash",
    "cm c --append-hash",
    "cm c --from-file=D/dir",
    "cm c --from-file=D/good",
    "cm c --from-literal=ab",
    "cm c --from-literal==b",
    "cm c --from-literal=a=b,c=d",
    "cm c --from-literal=a~b=c",
    "cm c --from-literal=a=b --from-literal=a=c",
    "cm c --from-file=D/nosuch",
    "cm c --from-file=a=b=c",
    "cm c --from-file==x",
    "cm c --from-file=x=",
    "cm c --from-file=k=D/dir",
    "cm c --from-env-file=D/env",
    "cm c --from-env-file=D/env2",
    "cm c --from-env-file=D/dir",
    "cm c --from-env-file=D/env --from-literal=a=b",
    "sa s",
    "svc clusterip s --tcp=80:8080 --tcp=443",
    "svc clusterip s --clusterip=None",
    "svc clusterip s --clusterip=None --tcp=80",
    "svc clusterip s",
    "svc clusterip s --tcp=x",
    "svc clusterip s --tcp=70000",
    "svc clusterip s --tcp=80:http",
    "svc clusterip s --tcp=80:a_b",
    "svc clusterip s --tcp=80:99999",
    "svc nodeport s --tcp=80,81:82 --node-port=30000",
    "svc loadbalancer s --tcp=80:81",
    "svc externalname s --external-name=a.b --tcp=80",
    "svc externalname s",
    "deploy d --image=nginx:1.2/foo --image=a/b@sha256:x --replicas=2 --port=80",
    "deploy d --image=nginx,busybox -r 3",
    "deploy d",
    "deploy d --image=nginx b",
    "clusterrole c --verb=get,list,get --resource=pods,deploy.apps,nodes/status,svc",
    "clusterrole c --verb=get --non-resource-url=/logs/*",
    "clusterrole c --verb=get --non-resource-url=/logs/* --resource=pods",
    "clusterrole c --verb=get --non-resource-url=logs",
    "clusterrole c --verb=get --non-resource-url=/a*b",
    "clusterrole c --verb=list --non-resource-url=/a",
    "clusterrole c --verb=get,* --resource=*",
    "clusterrole c --verb=get --resource=nosuch",
    "clusterrole c --verb=get --resource=nosuch.example.com",
    "clusterrole c --verb=get --resource=.apps",
    "clusterrole c --verb=impersonate --resource=users,groups,sa",
    "clusterrole c --verb=impersonate --resource=pods",
    "clusterrole c --verb=bind --resource=clusterroles --resource-name=a",
    "clusterrole c --aggregation-rule=a=b,c=d",
    "clusterrole c --aggregation-rule=a=b --verb=get",
    "clusterrole c",
    "clusterrole c --verb=get",
    "clusterrole c --verb=get --resource=propagationpolicies",
    "clusterrolebinding c --clusterrole=x --user=a --user=b --group=g --serviceaccount=n:s",
    "clusterrolebinding c --clusterrole=x",
    "clusterrolebinding c --clusterrole=x --serviceaccount=s",
    "clusterrolebinding c",
    "role c --verb=get --resource=pods --resource-name=a --resource-name=b --resource-name=a",
    "role c --verb=get,watch --resource=rs.apps/scale,po,pod",
    "role c --verb=foo --resource=pods",
    "role c --verb=get",
    "role c --resource=pods",
    "rolebinding c --role=x --user=a --serviceaccount=n:s",
    "rolebinding c --clusterrole=x --group=a",
    "rolebinding c --clusterrole=x --role=y",
    "rolebinding c",
    "pdb p --selector=app=x --min-available=50%",
    "pdb p --selector=app=x,d~in~(f,e),g~notin~(h),i,!j --max-unavailable=1",
    "pdb p --selector=app=x --max-unavailable=1 --min-available=1",
    "pdb p --selector=app=x",
    "pdb p --min-available=1",
    "pdb p --selector=a --min-available=x",
    "pc p --value=5 --global-default --description=d --preemption-policy=Never",
    "pc p",
    "job j --image=i",
    "job j",
    "job j --image=i --from=cronjob/x",
    "job j --from=cronjob/nosuch",
    "cj c --image=i --schedule=*/1~*~*~*~* --restart=Never",
    "cj c --image=i --schedule=x",
    "cj c --image=i",
    "cj c",
    "ing i --rule=foo.com/bar=svc:8080",
    "ing i --rule=foo.com/bar*=svc:http,tls=sec --rule=*.x.com/a=b:1,tls --class=c --annotation=a=b --default-backend=x:80",
    "ing i --rule=foo/a=b:1,tls=s --rule=foo/b=b:1,tls=t --rule=bar/b=b:1,tls=s --rule=/b=b:1,tls=s --rule=baz/=b:1,tls",
    "ing i --default-backend=x:http",
    "ing i --default-backend=x",
    "ing i --rule=foo",
    "ing i --rule=foo/=a",
    "ing i --rule=foo/=a:1 --annotation=x",
    "ing i",
    "sa s --dry-run=foo",
    "sa s --nosuch",
];

const PRINTED: [&str; 2] = ["--dry-run=client", "-o=yaml"];

/// Command lines whose objects are stored, in order.
const STORED: &[&str] = &[
    "create deploy web --image=nginx --port=80 -- sh -c date",
    "create deploy web --image=nginx",
    "create cj tick --image=busybox --schedule=*/5~*~*~*~* -- date",
    "create cj tick --image=busybox --schedule=x",
    "create job once --from=cronjob/tick",
    "create job once --image=busybox",
    "create cm conf --from-literal=a=b",
    "create secret generic s --from-literal=a=b",
    "create secret generic s --from-literal=a=b",
    "create svc clusterip web --tcp=80",
    "create svc clusterip web --tcp=80",
    "create sa robot",
    "create sa robot",
    "create role r --verb=get --resource=po",
    "create role r --verb=get --resource=po",
    "create rolebinding r --role=r --serviceaccount=a:robot",
    "create rolebinding r --role=r",
    "create quota q --hard=pods=100",
    "create quota q --hard=pods=100",
    "create pdb p --selector=a=b --min-available=1",
    "create pdb p --selector=a=b --min-available=1",
    "create ing web --rule=foo.com/bar=svc:8080",
    "create ing web --rule=foo.com/bar=svc:8080",
    "create cm A_b",
    "create token nosuch",
    "create token robot --duration=1.5s",
    "create token robot --audience=",
    "create token robot --bound-object-name=a",
    "create token robot --bound-object-uid=a",
    "create token robot --bound-object-kind=Secret",
    "create token robot --bound-object-kind=Secret --bound-object-name=nosuch",
    "get deploy/web cj/tick -o jsonpath={range~.items[*]}{.spec}{\"\\n\"}{end}",
    "get cm/conf secret/s svc/web role/r rolebinding/r quota/q pdb/p ing/web -o name",
    "get job/once -o jsonpath={.metadata.annotations}{.metadata.ownerReferences[*].kind}",
];

#[tokio::test]
#[cfg_attr(no_kubectl, ignore = "kubectl is not on PATH")]
async fn objects_from_flags_are_kubectls() {
    let fleet = Fleet::start(&[]).await;
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    write(here);
    let namespaces = ["aaa-real", "aaa-ours"];
    for namespace in namespaces {
        assert_eq!(fleet.karmadactl(&["create", "namespace", namespace]).await.code, Some(0));
    }
    let mut different = String::new();
    let drafts = DRAFTS.iter().map(|line| [&["create", *line][..], &PRINTED].concat().join(" "));
    for line in drafts.chain(STORED.iter().map(|line| (*line).to_owned())) {
        let mut real = Command::new("kubectl");
        real.env("KUBECONFIG", fleet.kubeconfig()).env("HOME", here);
        let kubectl = run(&fleet, real, namespaces[0], &line, here).await;
        let karmadactl = run(&fleet, fleet.command(&[]), namespaces[1], &line, here).await;
        let kubectl = normalized(&kubectl);
        if kubectl != normalized(&karmadactl) {
            different.push_str(&format!("{line}\n--- kubectl\n{kubectl}--- karmadactl\n{karmadactl}\n"));
        }
    }
    assert!(different.is_empty(), "{different}");
    let token = fleet.karmadactl(&["create", "token", "robot", "-n", namespaces[1]]).await;
    assert_eq!(token.out.split('.').count(), 3, "{}{}", token.out, token.err);
}

/// Without what differs between versions of kubectl: times that are null, and how an error is introduced.
fn normalized(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| line.trim() != "creationTimestamp: null") {
        let logged = line.split_once("\"command failed\" err=\"").map(|(_, error)| error.trim_end_matches('"'));
        let line = logged.unwrap_or(line).replace("\\\"", "\"").replace("metadata: {}", "metadata:");
        let error = line.strip_prefix("error: ").or_else(|| line.strip_prefix("Error: "));
        lines.push(error.unwrap_or(&line).to_owned());
    }
    lines.join("\n") + "\n"
}

fn write(directory: &Path) {
    for name in ["dir", "good"] {
        std::fs::create_dir(directory.join(name)).expect("created");
    }
    let files: [(&str, &[u8]); 8] = [
        ("f.txt", b"hello\n"),
        ("bin", b"\xff\x00"),
        ("env", b"A=1\n# c\nB= x y\n export D=2\n"),
        ("env2", b"A=1\n\n# c\n  B= x=y\nNO_SUCH_VARIABLE\n"),
        ("dir/f.txt", b"hello\n"),
        ("dir/bad name", b"x"),
        ("good/a", b"1"),
        ("good/b.conf", b"\xfe"),
    ];
    for (name, content) in files {
        std::fs::write(directory.join(name), content).expect("written");
    }
}
