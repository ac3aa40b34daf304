//! `cargo xtask fuzz`: builds the fuzz targets with coverage counters, on stable Rust, and runs them.
//!
//! `cargo fuzz` requires a nightly compiler for its sanitizers; libFuzzer itself needs only LLVM's coverage pass, which
//! every compiler has.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail, ensure};
use cargo_metadata::Message;
use clap::Args;

/// Run the fuzz targets of every decoder with libFuzzer.
#[derive(Args)]
pub struct Fuzz {
    /// The targets to run, one for each directory in fuzz/corpus; all of them without a name.
    targets: Vec<String>,
    /// How long each target runs, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Targets at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Where libFuzzer's choices begin, so that a run can be had again; 0 takes another one each time.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Run one target on this input only, to reproduce a finding.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// The crates in which most time is spent, in addition to those that the tests optimize.
const OPTIMIZED: [&str; 4] = ["apiextensions", "cel", "kubernetes-api", "fuzz"];
/// A single input needs far less: a body of 3 MiB becomes a tree of a few hundred MiB at most.
const MEGABYTES: u32 = 2048;
/// The time limit of an input in seconds; inputs are small, and CI machines are slow.
const TIMEOUT: u32 = 20;
/// The maximum size of an input. Tests cover large inputs (`hostile` in apiserver's tests).
const MAX_BYTES: u32 = 16 * 1024;

impl Fuzz {
    /// # Errors
    /// When a target does not build, is unknown, or has a finding.
    pub fn run(&self) -> anyhow::Result<()> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let directory = directory.canonicalize().context("looking for the directory fuzz")?;
        let known = known_targets(&directory)?;
        let targets = if self.targets.is_empty() { known.clone() } else { self.targets.clone() };
        if let Some(unknown) = targets.iter().find(|name| !known.contains(name)) {
            bail!("there is no target {unknown:?}; there are {}", known.join(", "));
        }
        let built = built_in(&directory)?;
        let runner = Runner { binary: build(&directory)?, directory, built };
        if let Some(input) = &self.input {
            ensure!(targets.len() == 1, "--input needs the name of one target");
            ensure!(runner.repeat(&targets[0], input)?.success(), "{} finds something", targets[0]);
            return Ok(());
        }
        let failures = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, targets.len()) {
                scope.spawn(|| {
                    while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = runner.explore(target, self.seconds, self.seed)
                            && let Ok(mut failures) = failures.lock()
                        {
                            failures.push(format!("{error:#}"));
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap_or_default();
        ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
        Ok(())
    }
}

/// Every target has a directory of seeds.
fn known_targets(directory: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(directory.join("corpus")).context("reading fuzz/corpus")?;
    let mut names: Vec<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The directory of the build and of the findings: beside all other build output, so that a cache includes both.
fn built_in(directory: &Path) -> anyhow::Result<PathBuf> {
    let shared = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| directory.join("../target"), PathBuf::from);
    std::fs::create_dir_all(&shared).with_context(|| format!("making {}", shared.display()))?;
    let shared = shared.canonicalize().with_context(|| format!("looking for {}", shared.display()))?;
    Ok(shared.join("fuzz"))
}

/// The binary with all targets. Only the workspace's own crates are compiled for it, with counters: third-party crates
/// are those of the tests, with their features.
fn build(directory: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = directory.parent().context("the directory fuzz is in none")?;
    let output = Command::new(cargo)
        .args(["build", "--workspace", "--example", "fuzz", "--features", "fuzz/libfuzzer"])
        .args(["--message-format", "json-render-diagnostics"])
        .args(
            OPTIMIZED
                .iter()
                .flat_map(|name| ["--config".to_owned(), format!("profile.dev.package.{name}.opt-level=1")]),
        )
        .current_dir(root)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTC_WORKSPACE_WRAPPER", directory.join("rustc-with-counters"))
        .stderr(Stdio::inherit())
        .output()
        .context("building the targets")?;
    ensure!(output.status.success(), "the targets do not build");
    let messages = Message::parse_stream(&*output.stdout).map_while(Result::ok);
    let executables = messages.filter_map(|message| match message {
        Message::CompilerArtifact(artifact) if artifact.target.name == "fuzz" => artifact.executable,
        _ => None,
    });
    Ok(executables.last().context("cargo built no executable named fuzz")?.into())
}

struct Runner {
    directory: PathBuf,
    built: PathBuf,
    binary: PathBuf,
}

impl Runner {
    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("FUZZ_TARGET", target).current_dir(&self.directory).args([
            format!("-rss_limit_mb={MEGABYTES}"),
            format!("-timeout={TIMEOUT}"),
            format!("-max_len={MAX_BYTES}"),
        ]);
        command
    }

    fn repeat(&self, target: &str, input: &Path) -> anyhow::Result<ExitStatus> {
        let input = input.canonicalize().with_context(|| format!("reading {}", input.display()))?;
        self.command(target).arg(input).status().context("running the target")
    }

    /// New inputs with new coverage are stored beside the build for the next run.
    fn explore(&self, target: &str, seconds: u32, seed: u32) -> anyhow::Result<()> {
        let (kept, findings) = (self.built.join("corpus").join(target), format!("findings/{target}/"));
        for path in [&kept, &self.directory.join(&findings)] {
            std::fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        }
        let log = self.built.join(format!("{target}.log"));
        let file = std::fs::File::create(&log).with_context(|| format!("writing {}", log.display()))?;
        let mut command = self.command(target);
        command
            .args([format!("-max_total_time={seconds}"), format!("-artifact_prefix={findings}")])
            .arg(format!("-seed={seed}"))
            .args(["-print_final_stats=1", "-use_value_profile=1", "-dict=words.dict"])
            .arg(&kept)
            .arg(format!("corpus/{target}"))
            .stdout(Stdio::null())
            .stderr(file);
        let status = command.status().context("running the target")?;
        let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
        if !status.success() {
            bail!("{}", self.describe(target, &text));
        }
        let executed = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("{target}: {} inputs, nothing found", executed.unwrap_or("?").trim());
        Ok(())
    }

    fn describe(&self, target: &str, log: &str) -> String {
        let panic = log.lines().skip_while(|line| !line.contains("panicked at") && !line.starts_with("==")).take(12);
        let panic: Vec<&str> = panic.collect();
        let file = log.lines().find_map(|line| line.split_once("Test unit written to ").map(|(_, path)| path));
        let file = self.directory.join(file.unwrap_or("(no input was written)"));
        format!(
            "{target} finds something:\n{}\nrepeat with: cargo xtask fuzz {target} --input {}",
            panic.join("\n"),
            file.display()
        )
    }
}
