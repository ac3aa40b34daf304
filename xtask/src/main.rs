//! `cargo xtask`: project tasks.

use clap::{Parser, Subcommand};
use xtask::bench::Bench;
use xtask::fuzz::Fuzz;
use xtask::problems::GenProblems;
use xtask::solve::Solve;
use xtask::tidy::Tidy;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the project", long_about = None)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Bench(Bench),
    Fuzz(Fuzz),
    GenProblems(GenProblems),
    Solve(Solve),
    Tidy(Tidy),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Bench(bench) => bench.run(),
        Task::Fuzz(task) => task.run(),
        Task::GenProblems(task) => task.run(),
        Task::Solve(task) => task.run(),
        Task::Tidy(task) => task.run(),
    }
}
