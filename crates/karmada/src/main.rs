//! `karmada`: every component of the control plane in one program; its name or its first argument says which.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    karmada::run(std::env::args_os())
}
