//! `karmada`: every component of the control plane in one program, selected by its name or its first argument.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // A heap of small, short-lived objects keeps nearly all of its huge pages resident: they were half of the memory of
    // an idle API server. A kernel without this request ignores it.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    karmada::run(std::env::args_os())
}
