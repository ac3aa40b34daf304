use expect_test::{Expect, expect};

mod flags;
mod global_flags;

use super::line::{command_first, find, without_empty};
use super::*;

fn words(line: &str) -> Vec<OsString> {
    ["karmadactl"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty())).map(OsString::from).collect()
}

#[test]
fn flags_may_stand_before_the_command() {
    for (input, expected) in [
        ("get pods -n a", "get pods -n a"),
        ("-n a get pods", "get -n a pods"),
        (
            "--kubeconfig=/x --karmada-context y --namespace=a get pods",
            "get --kubeconfig=/x --karmada-context y --namespace=a pods",
        ),
        ("--kubeconfig /x version", "version --kubeconfig /x"),
        ("-na get pods", "get -na pods"),
        ("--help get", "--help get"),
        ("-n a", "-n a"),
        ("-n", "-n"),
        ("--nosuch get", "--nosuch get"),
        ("--logtostderr --skip_headers get pods", "get --logtostderr --skip_headers pods"),
        ("--log-dir /x get pods", "get --log-dir /x pods"),
    ] {
        assert_eq!(command_first(words(input), &tree()), words(expected), "{input}");
    }
}

#[test]
fn the_word_after_a_flag_that_needs_a_value_is_its_value() {
    let check = |line: &str, expected: &str| match read("karmadactl", words(line)) {
        Request::Execute { name, .. } => assert_eq!(name, expected, "{line}"),
        Request::Print(text) | Request::Refuse(text) => panic!("{line}: {text}"),
    };
    check("token create --ttl -1h", "token create");
    check("get pods -l -x -n -y", "get");
    check("logs web --tail -1 --since -1h -f", "logs");
    check("apply -f a.yaml --dry-run=server --prune", "apply");
}

/// The request of a command line, as text.
fn check(program: &str, line: &str, expected: &Expect) {
    let text = match read(program, words(line)) {
        Request::Print(text) => format!("stdout, 0\n{text}"),
        Request::Refuse(text) => format!("stderr, 1\n{text}"),
        Request::Execute { name, .. } => format!("executes {name}\n"),
    };
    expected.assert_eq(&text);
}

#[test]
fn mistakes_in_a_command_line_are_named() {
    let check = |line: &str, expected: Expect| check("karmadactl", line, &expected);
    check(
        "gte",
        expect![[r#"
        stderr, 1
        error: unknown command "gte" for "karmadactl"

        Did you mean this?
        	get
    "#]],
    );
    check(
        "nosuchcommand",
        expect![[r#"
        stderr, 1
        error: unknown command "nosuchcommand" for "karmadactl"
    "#]],
    );
    check(
        "cord m1",
        expect![[r#"
        stderr, 1
        error: unknown command "cord" for "karmadactl"

        Did you mean this?
        	cordon
    "#]],
    );
    check(
        "aply -f x",
        expect![[r#"
        stderr, 1
        error: unknown command "aply" for "karmadactl"

        Did you mean this?
        	apply
    "#]],
    );
    check(
        "help nosuch",
        expect![[r#"
        stderr, 1
        error: unknown command "nosuch" for "karmadactl"
    "#]],
    );
    check(
        "scale deployment web --replicas=2",
        expect![[r#"
            stderr, 1
            error: unknown command "scale" for "karmadactl"

            It is a command of kubectl, which works with the same kubeconfig:
            	kubectl scale
        "#]],
    );
    check(
        "cp a b",
        expect![[r#"
            stderr, 1
            error: unknown command "cp" for "karmadactl"

            It is a command of kubectl, which reaches a member by its path behind the address of the control plane:
            	kubectl --server=https://HOST:PORT/apis/cluster.karmada.io/v1alpha1/clusters/NAME/proxy cp
        "#]],
    );
    check(
        "get --nosuch",
        expect![[r#"
        stderr, 1
        error: unknown flag: --nosuch
        See 'karmadactl get --help' for usage.
    "#]],
    );
    check(
        "get -Z",
        expect![[r#"
            stderr, 1
            error: unknown shorthand flag: 'Z' in -Z
            See 'karmadactl get --help' for usage.
        "#]],
    );
    check(
        "--nosuch",
        expect![[r#"
        stderr, 1
        error: unknown flag: --nosuch
        See 'karmadactl --help' for usage.
    "#]],
    );
    check(
        "get --namespace",
        expect![[r#"
        stderr, 1
        error: flag needs an argument: --namespace
        See 'karmadactl get --help' for usage.
    "#]],
    );
    check(
        "get --chunk-size many",
        expect![[r#"
            stderr, 1
            error: invalid argument "many" for "--chunk-size" flag: strconv.ParseInt: parsing "many": invalid syntax
            See 'karmadactl get --help' for usage.
        "#]],
    );
    check(
        "get -A=maybe",
        expect![[r#"
        stderr, 1
        error: invalid argument "maybe" for "--all-namespaces" flag
        See 'karmadactl get --help' for usage.
    "#]],
    );
    check(
        "version extra",
        expect![[r#"
        stderr, 1
        error: too many arguments: "extra"
        Usage: karmadactl version [options]
        See 'karmadactl version --help' for usage.
    "#]],
    );
    check(
        "api-resources pods services",
        expect![[r#"
            stderr, 1
            error: unexpected arguments: [pods]
            See 'karmadactl api-resources -h' for help and examples
        "#]],
    );
    check(
        "options x",
        expect![[r#"
        stderr, 1
        error: too many arguments: "x"
        Usage: karmadactl options [options]
        See 'karmadactl options --help' for usage.
    "#]],
    );
}

#[test]
fn harmless_forms_are_accepted() {
    let check = |line: &str, expected: Expect| check("karmadactl", line, &expected);
    for line in [
        "get pods -A=true --no-headers=false",
        "get pods --kubeconfig a --kubeconfig b",
        "join m1 --dry-run=false",
        "get pods -A -w",
        "get pods -o json -o yaml",
    ] {
        let name = line.split(' ').next().unwrap_or_default();
        let Request::Execute { name: found, .. } = read("karmadactl", words(line)) else { panic!("{line}") };
        assert_eq!(found, name, "{line}");
    }
    check(
        "--version",
        expect![[r#"
        executes version
    "#]],
    );
    check(
        "--kubeconfig x version --karmada-context y",
        expect![[r#"
        executes version
    "#]],
    );
}

#[test]
fn commands_that_are_not_built_name_their_replacement() {
    let check = |program: &str, line: &str, expected: Expect| check(program, line, &expected);
    check(
        "kubectl karmada",
        "--kubeconfig x deinit --purge-namespace",
        expect![[r#"
        stderr, 1
        error: "kubectl karmada deinit" is not part of this version: stop `karmada up` and remove its data directory
    "#]],
    );
    // Upstream's list.
    for name in ["init", "deinit", "addons"] {
        let Request::Refuse(text) = read("karmadactl", words(name)) else { panic!("{name}") };
        assert!(text.starts_with(&format!("error: \"karmadactl {name}\" is not part of this version: ")), "{text}");
        assert!(tree().find_subcommand(name).is_none(), "{name}");
    }
}

#[test]
fn help_has_kubectls_layout() {
    let check = |program: &str, line: &str, expected: Expect| check(program, line, &expected);
    check(
        "karmadactl",
        "",
        expect![[r#"
            stdout, 0
            karmadactl controls a Kubernetes Cluster Federation.

            Basic Commands:
              explain             Print the documentation of a resource and of its fields
              get                 Display one or many resources of the control plane and its member clusters
              create              Create resources from a file or from standard input
              delete              Delete resources by file names, standard input, resources and names, or by resources and a label selector
              edit                Edit a resource of the control plane

            Cluster Registration Commands:
              join                Register a cluster with the control plane in Push mode
              unjoin              Remove a Push mode cluster from the control plane
              token               Manage the bootstrap tokens with which clusters register
              register            Register a cluster with the control plane in Pull mode
              unregister          Remove a Pull mode cluster from the control plane

            Cluster Management Commands:
              cordon              Mark a cluster as unschedulable
              uncordon            Mark a cluster as schedulable
              taint               Update the taints on one or more clusters
              resume              Print and confirm the changes in members that are newer than the store
              failover            Plan failovers, list past moves, and release paused evictions

            Troubleshooting and Debugging Commands:
              attach              Attach to a running process in a container of a pod
              logs                Print the logs of a container in a pod of a member cluster
              exec                Execute a command in a container of a pod
              describe            Show the details of a specific resource or group of resources
              why                 Explain the state of a resource, from its policies to its members
              tree                Print a resource with its bindings, Works and the objects in members as a tree
              doctor              Check the control plane and its members, and print problems with the next steps
              explain-placement   Explain the placement of a workload, cluster by cluster
              interpret           Validate, test and edit interpreter customizations

            Advanced Commands:
              apply               Apply a configuration to a resource by file name or standard input, and propagate it to member clusters
              promote             Promote a resource of a member cluster to the control plane
              rollout             Manage the rollout of workloads over clusters
              wait                Wait for a condition of objects of the control plane or of member clusters
              top                 Display resource usage (CPU and memory) of member clusters
              diff                Compare members with the templates and their overrides, or with files that are not applied yet
              patch               Update fields of a resource
              schedule            Predict the placement of workloads after applying manifests or removing clusters

            Settings Commands:
              label               Update the labels on a resource
              annotate            Update the annotations on a resource
              completion          Print the script that completes commands in a shell (bash, zsh, fish or powershell)

            Other Commands:
              api-resources       Print the supported API resources of the control plane or of a member cluster
              api-versions        Print the supported API versions of the control plane or of a member cluster, in the form group/version
              version             Print the version information

            Not in this version (each answers with what to use instead):
              addons, deinit, init

            Usage:
              karmadactl [flags] [options]

            Use "karmadactl <command> --help" for more information about a given command.
            Use "karmadactl options" for a list of global command-line options (applies to all commands).
        "#]],
    );
    check(
        "kubectl karmada",
        "help cordon",
        expect![[r#"
        stdout, 0
        Mark a cluster as unschedulable.

         The scheduler assigns no further workloads to the cluster; existing ones stay.

        Examples:
          # Mark cluster member1 as unschedulable
          kubectl karmada cordon member1

          # Check without changing anything
          kubectl karmada cordon member1 --dry-run

        Options:
            --dry-run=false:
        	Run the command without changing anything

        Usage:
          kubectl karmada cordon CLUSTER [options]

        Use "kubectl karmada options" for a list of global command-line options (applies to all commands).
    "#]],
    );
    check(
        "karmadactl",
        "join --help",
        expect![[r#"
        stdout, 0
        Register a cluster with the control plane in Push mode.

         In Push mode the control plane connects to the member cluster. Service accounts are created in the member cluster, and their tokens are stored in the control plane.

        Examples:
          # Join the cluster of a kubeconfig's current context as member1
          karmadactl join member1 --cluster-kubeconfig=member1.config

          # Join the cluster of another context
          karmadactl join member1 --cluster-kubeconfig=members.config --cluster-context=kind-member1

          # Set the provider, region and zones that policies can select
          karmadactl join member1 --cluster-kubeconfig=member1.config --cluster-provider=aws --cluster-region=eu-west-1 --cluster-zones=eu-west-1a,eu-west-1b

          # Check without changing anything
          karmadactl join member1 --cluster-kubeconfig=member1.config --dry-run

          # Register the new address and new credentials of member1
          karmadactl join member1 --cluster-kubeconfig=member1.config --renew

        Options:
            --cluster-context='':
        	Name of the member cluster's context in its kubeconfig file; the current one when empty

            --cluster-kubeconfig='':
        	Path to the kubeconfig file of the member cluster

            --cluster-namespace='karmada-cluster':
        	Namespace of the control plane's credentials, in the member cluster and in the control plane

            --cluster-provider='':
        	Provider of the joining cluster

            --cluster-region='':
        	Region of the joining cluster

            --cluster-zones=[]:
        	Zones of the joining cluster

            --dry-run=false:
        	Run the checks without changing anything

            --karmada-as='':
        	Username to impersonate at the control plane

            --karmada-as-group=[]:
        	Group to impersonate at the control plane; this flag can be repeated

            --karmada-as-uid='':
        	UID to impersonate at the control plane

            --renew=false:
        	Register the present address of a joined cluster, and new credentials

        Usage:
          karmadactl join CLUSTER_NAME --cluster-kubeconfig=<KUBECONFIG> [options]

        Use "karmadactl options" for a list of global command-line options (applies to all commands).
    "#]],
    );
    let root = help::root("karmadactl", &tree());
    for line in ["--help", "-h", "help", "--kubeconfig x"] {
        let Request::Print(text) = read("karmadactl", words(line)) else { panic!("{line}") };
        assert_eq!(text, root, "{line}");
    }
}

/// Every command explains itself.
#[test]
fn every_command_has_examples_and_every_flag_help() {
    let tree = tree();
    let commands = pages::all().map(|page| {
        let command = find(&tree, page.command);
        (page.command, command.unwrap_or_else(|| panic!("{} is not a command", page.command)))
    });
    let named = tree.get_subcommands().map(|command| (command.get_name(), command));
    for (name, command) in named.chain(commands) {
        let page = pages::page(name);
        let page = page.unwrap_or_else(|| panic!("{name} has no page in cli/pages.rs"));
        assert!(!help::about(command).is_empty(), "{name} has no description");
        assert!(!page.examples.is_empty(), "{name} has no examples");
        assert_eq!(page.group == pages::Group::Hidden, command.is_hide_set(), "{name}");
        for (comment, lines) in page.examples {
            assert!(!comment.ends_with('.') && lines.contains(&format!("karmadactl {name}")), "{name}: {comment}");
            // The command lines of examples parse.
            for line in lines.lines().filter(|line| line.starts_with("karmadactl")) {
                let line = line.split([';', '|', '>']).next().unwrap_or_default();
                let read = read("karmadactl", words(line.trim_start_matches("karmadactl")));
                assert!(matches!(read, Request::Execute { .. }), "{line}");
            }
        }
        for arg in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
            let meaning = help::meaning(arg);
            assert!(!meaning.is_empty(), "{name} --{} has no help", arg.get_id());
            assert!(!meaning.ends_with('.') || meaning.ends_with("..."), "{name} --{}: full stop", arg.get_id());
            assert!(meaning.starts_with(|first: char| first.is_uppercase()), "{name} --{}: {meaning}", arg.get_id());
        }
    }
}

#[test]
fn completion_scripts_call_the_program() {
    let arguments = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        for program in ["karmadactl", "kubectl karmada"] {
            let script = completion::script(program, &arguments(&[shell])).expect("a script");
            for needle in [completion::COMMAND, &program.replace(' ', "-")] {
                assert!(script.contains(needle), "{shell} {needle}");
            }
        }
    }
    for (input, expected) in [
        (&[][..], "Shell not specified."),
        (&["tcsh"], "Unsupported shell type \"tcsh\"."),
        (&["bash", "zsh"], "Too many arguments. Expected only the shell type."),
    ] {
        let refused = completion::script("karmadactl", &arguments(input));
        assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(expected));
    }
}

#[test]
fn empty_flags_are_absent() {
    let check = |words: &[&str], expected: &[&str]| {
        let found = without_empty(words.iter().map(Into::into).collect());
        assert_eq!(found, expected.iter().map(OsString::from).collect::<Vec<_>>());
    };
    check(&["get", "-n", "", "pods", "--kubeconfig", ""], &["get", "pods"]);
    check(&["get", "--namespace=", "pods", "--kubeconfig=", "-n="], &["get", "pods"]);
    check(&["get", "-n", "a", "-l", "", "--namespace=b"], &["get", "-n", "a", "-l", "", "--namespace=b"]);
    check(&["get", "--namespace"], &["get", "--namespace"]);
    check(&["exec", "p", "--", "-n", ""], &["exec", "p", "--", "-n", ""]);
}
