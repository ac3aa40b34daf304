//! `karmada`: every component of the control plane in one program, selected by its name or its first argument.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // A heap of small objects that come and go keeps nearly all of its huge pages resident: half of the memory of an idle
    // API server was that. Where the kernel does not know the request, nothing is lost.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    karmada::run(std::env::args_os())
}
