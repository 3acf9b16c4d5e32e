//! Giving way to other programs.

use crate::output;

/// Lowers the priority of this thread, and of those it starts, as far as it goes.
pub(crate) fn give_way() {
    #[cfg(unix)]
    if let Err(error) = rustix::process::nice(19) {
        output::warning(&format!("--nice: the priority stays as it is: {error}"));
    }
    #[cfg(target_os = "linux")]
    idle_reading();
    #[cfg(not(unix))]
    output::warning("--nice does nothing on this system");
}

/// Puts this process into the idle class of the I/O scheduler. The call for it (`ioprio_set`) has no safe wrapper that is
/// looked after, so that the program that belongs to it does it.
#[cfg(target_os = "linux")]
fn idle_reading() {
    use std::process::{Command, Stdio};
    let process = std::process::id().to_string();
    let status = Command::new("ionice")
        .args(["-c", "3", "-p", &process])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        output::warning(
            "--nice: without the program `ionice` reading gets the lowest of the usual priorities, not the idle one",
        );
    }
}
