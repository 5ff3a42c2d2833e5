//! Detects the launcher that started this process, its rank and the number of ranks: a function of the environment
//! alone.
//!
//! Rank and size have exactly one source. Launchers nest (`srun torchrun hir-run`, or mpirun, whose daemons srun
//! starts), and the variables of the outer one are still there: torchrun's agent hides every other launcher, mpirun
//! hides srun. Variables that were set by hand in torchrun's manner hide nothing, so they have to agree with a
//! launcher's.

use super::launcher::{EnvLookup, Launcher};
use super::token::{self, LaunchToken};
use super::{hosts, local};
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;

/// Options of the command line.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct LaunchFlags {
    /// `--rank`.
    pub(crate) rank: Option<u32>,
    /// `--world`.
    pub(crate) world: Option<u32>,
    /// `--coordinator HOST:PORT`.
    pub(crate) coordinator: Option<String>,
    /// `--token`, which is refused.
    pub(crate) token: bool,
    /// `--processes`: start the ranks as processes.
    pub(crate) processes: bool,
}

/// This process's place in the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RankAssignment {
    /// The launcher that said it.
    pub(crate) launcher: Launcher,
    /// Rank of this process.
    pub(crate) rank: u32,
    /// Number of processes, at least 2.
    pub(crate) world: u32,
    /// RankAssignment among the processes of this host, if it is known.
    pub(crate) local_rank: Option<u32>,
    /// The address at which rank 0 listens.
    pub(crate) rendezvous: RendezvousPoint,
    /// The secret of the run.
    pub(crate) token: Option<LaunchToken>,
}

/// The address at which rank 0 listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RendezvousPoint {
    /// The Unix socket of this name, which only processes of this host and user use.
    Local(String),
    /// A host and a port.
    Network(String, u16),
}

impl std::fmt::Display for RendezvousPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RendezvousPoint::Local(name) => write!(f, "the Unix socket @{name}"),
            RendezvousPoint::Network(host, port) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            RendezvousPoint::Network(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// The report of one launcher.
#[derive(Clone, Debug)]
struct LauncherSettings {
    launcher: Launcher,
    rank: u32,
    world: Option<u32>,
    local_rank: Option<u32>,
    /// True if all processes are on one host, if that is known.
    one_host: Option<bool>,
    address: Option<String>,
    port: Option<u16>,
    /// A name of the run that all its processes get. It is no secret.
    job: Option<String>,
}

/// The distance of the rendezvous port from `MASTER_PORT`, which belongs to torchrun's agent.
const PORT_OFFSET: u16 = 43;
/// More processes than this are a mistake.
const MOST: u32 = 4096;

/// The place of this process; `None` if all ranks run in it.
///
/// # Errors
/// [`errors::LAUNCH`] for missing or malformed values, [`errors::LAUNCHERS`] for sources that disagree,
/// [`errors::TOKEN`] and [`errors::TOKEN_FILE`] for a token that is missing or unfit.
pub(crate) fn detect_rank(
    flags: &LaunchFlags,
    devices: Option<u32>,
    env: EnvLookup<'_>,
) -> Result<Option<RankAssignment>, Diag> {
    let found = if env("HIR_PARENT").is_some() {
        Some(manual_settings(Launcher::Processes, &LaunchFlags::default(), env)?)
    } else if flags.rank.is_some() || (devices.is_none() && env("HIR_RANK").is_some()) {
        if devices.is_some() {
            return Err(Diag::global_error(
                errors::CONFLICT,
                "`--devices` and `--rank` cannot be combined: `--devices` starts all ranks, and `--rank` is one of them",
            )
            .with_note("remove one of the two"));
        }
        Some(manual_settings(Launcher::Explicit, flags, env)?)
    } else if devices.is_some() {
        None
    } else {
        detect_launcher(env)?
    };
    match found {
        Some(found) => assign_rank(found, flags, env),
        None if flags.world.is_some() || flags.coordinator.is_some() => {
            Err(missing_setting("--rank", "`--world` and `--coordinator` require it"))
        }
        None if devices.is_none() => no_launch(env).map(|()| None),
        None => Ok(None),
    }
}

/// Refuses signs that this process is one of several without a rank: it would do everything beside the others, which do
/// everything too.
fn no_launch(env: EnvLookup<'_>) -> Result<(), Diag> {
    let said = ["HIR_WORLD", "HIR_COORDINATOR"].into_iter().find(|name| env(name).is_some());
    if let Some(name) = said {
        return Err(missing_setting("HIR_RANK", &format!("`{name}` is set, so this process is one of several")));
    }
    match env_number(env, "PMI_SIZE")? {
        Some(size) if size > 1 => {
            let message = message!(
                "`PMI_SIZE` is {}, but hir-run does not support the launcher that started these {} processes",
                size,
                size
            );
            Err(Diag::global_error(errors::LAUNCH, message)
                .with_note("tell each process its rank: `mpiexec -n 4 sh -c 'hir-run prog.hir --rank $PMI_RANK --world $PMI_SIZE --coordinator node7:29600'`, with the same `HIR_TOKEN` for all")
                .with_note("`--devices N` runs N ranks in this process"))
        }
        _ => Ok(()),
    }
}

fn missing_setting(what: &str, why: &str) -> Diag {
    Diag::global_error(errors::LAUNCH, message!("`{}` is missing: {}", what, why)).with_note(
        "set the launch by hand with `--rank`, `--world` and `--coordinator`, or run N ranks in this process with `--devices N`",
    )
}

/// A number in the environment: of processes, or of one of them.
fn env_number(env: EnvLookup<'_>, name: &str) -> Result<Option<u32>, Diag> {
    parse_env(env, name, &format!("an integer from 0 to {MOST}"))
}

/// `MASTER_PORT`; `None` for 0, which means any port.
fn master_port(env: EnvLookup<'_>) -> Result<Option<u16>, Diag> {
    let port: Option<std::num::NonZeroU16> = parse_env(env, "MASTER_PORT", "a port from 1 to 65535")?;
    Ok(port.map(|port| nearby_port(port.get())))
}

/// A value in the environment; `range` has the well-formed ones.
fn parse_env<T: std::str::FromStr>(env: EnvLookup<'_>, name: &str, range: &str) -> Result<Option<T>, Diag> {
    let Some(text) = env(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| {
        let message = message!("`{}` is `{}`, but must be {}", name, text, range);
        Diag::global_error(errors::LAUNCH, message).with_note(message!("unset `{}`, or let the launcher set it", name))
    })
}

/// A number that its launcher always sets.
fn required_number(env: EnvLookup<'_>, name: &str, because: &str) -> Result<u32, Diag> {
    let why = format!("{because} is set, so a launcher started this process");
    env_number(env, name)?.ok_or_else(|| missing_setting(name, &why))
}

fn manual_settings(launcher: Launcher, flags: &LaunchFlags, env: EnvLookup<'_>) -> Result<LauncherSettings, Diag> {
    let rank = match flags.rank {
        Some(rank) => rank,
        None => required_number(env, "HIR_RANK", "`HIR_PARENT`")?,
    };
    let world = match flags.world {
        Some(world) => Some(world),
        None => env_number(env, "HIR_WORLD")?,
    };
    let world = world.ok_or_else(|| missing_setting("--world", "`--rank` requires the number of processes"))?;
    Ok(LauncherSettings {
        launcher,
        rank,
        world: Some(world),
        local_rank: env_number(env, "HIR_LOCAL_RANK")?,
        one_host: None,
        address: None,
        port: None,
        job: None,
    })
}

/// Joins the reports of the launchers of the environment.
fn detect_launcher(env: EnvLookup<'_>) -> Result<Option<LauncherSettings>, Diag> {
    let torch = detect_torchrun(env)?;
    if env("TORCHELASTIC_RUN_ID").is_some() && torch.is_some() {
        return Ok(torch);
    }
    let other = match detect_mpirun(env)? {
        Some(found) => Some(found),
        None => match detect_srun(env)? {
            Some(found) => Some(found),
            None => detect_pmix(env)?,
        },
    };
    let (torch, other) = match (torch, other) {
        (Some(torch), Some(other)) => (torch, other),
        (torch, other) => return Ok(torch.or(other)),
    };
    if torch.rank != other.rank || other.world.is_some_and(|world| Some(world) != torch.world) {
        return Err(conflicting_launchers(&torch, &other));
    }
    Ok(Some(LauncherSettings {
        local_rank: torch.local_rank.or(other.local_rank),
        one_host: torch.one_host.or(other.one_host),
        job: torch.job.or(other.job),
        ..torch
    }))
}

impl LauncherSettings {
    /// `rank 1 of 4`.
    fn rank_of_world(&self) -> String {
        let world = self.world.map_or_else(|| "?".to_owned(), |world| world.to_string());
        format!("rank {} of {world}", self.rank)
    }
}

fn conflicting_launchers(one: &LauncherSettings, other: &LauncherSettings) -> Diag {
    let (a, b) = (one.launcher.name(), other.launcher.name());
    let message = message!(
        "the variables of {} set {}, but those of {} set {}",
        a,
        one.rank_of_world(),
        b,
        other.rank_of_world()
    );
    Diag::global_error(errors::LAUNCHERS, message)
        .with_note("unset the variables of one of them, or use `--rank`, `--world` and `--coordinator`; `--devices N` runs N ranks in this process")
}

fn detect_torchrun(env: EnvLookup<'_>) -> Result<Option<LauncherSettings>, Diag> {
    let (rank, world) = (env("RANK"), env("WORLD_SIZE"));
    if rank.is_none() && world.is_none() {
        return Ok(None);
    }
    let because = if rank.is_some() { "`RANK`" } else { "`WORLD_SIZE`" };
    let world = required_number(env, "WORLD_SIZE", because)?;
    let local_world = env_number(env, "LOCAL_WORLD_SIZE")?;
    // Without `--rdzv-id` the id is this word for everybody.
    let job = env("TORCHELASTIC_RUN_ID").filter(|id| id != "none");
    Ok(Some(LauncherSettings {
        launcher: Launcher::Torchrun,
        rank: required_number(env, "RANK", because)?,
        world: Some(world),
        local_rank: env_number(env, "LOCAL_RANK")?,
        one_host: local_world.map(|local| local == world),
        address: env("MASTER_ADDR"),
        port: master_port(env)?,
        job,
    }))
}

/// A port near one that is taken.
fn nearby_port(port: u16) -> u16 {
    port.checked_add(PORT_OFFSET).unwrap_or_else(|| port - PORT_OFFSET)
}

/// Open MPI; from release 5 on PRRTE starts the processes and sets the same variables.
fn detect_mpirun(env: EnvLookup<'_>) -> Result<Option<LauncherSettings>, Diag> {
    if env("OMPI_COMM_WORLD_RANK").is_none() && env("OMPI_COMM_WORLD_SIZE").is_none() {
        return Ok(None);
    }
    let because = "a variable of mpirun";
    let world = required_number(env, "OMPI_COMM_WORLD_SIZE", because)?;
    let local_world = env_number(env, "OMPI_COMM_WORLD_LOCAL_SIZE")?;
    Ok(Some(LauncherSettings {
        launcher: Launcher::Mpirun,
        rank: required_number(env, "OMPI_COMM_WORLD_RANK", because)?,
        world: Some(world),
        local_rank: env_number(env, "OMPI_COMM_WORLD_LOCAL_RANK")?,
        one_host: local_world.map(|local| local == world),
        address: env("MASTER_ADDR"),
        port: master_port(env)?,
        job: env("PMIX_NAMESPACE").or_else(|| env("OMPI_MCA_ess_base_jobid")),
    }))
}

/// srun: only inside a step that it started. A batch script, the external step and an interactive shell of `salloc`
/// have variables of Slurm too, and are no ranks.
fn detect_srun(env: EnvLookup<'_>) -> Result<Option<LauncherSettings>, Diag> {
    let Some(step) = env("SLURM_STEP_ID") else { return Ok(None) };
    // Slurm's numbers of the pending, external, batch and interactive steps.
    let special = step.parse().is_ok_and(|step: u32| step >= 0xffff_fffa);
    if special || step.parse::<u32>().is_err() {
        return Ok(None);
    }
    let because = "`SLURM_STEP_ID`";
    let world = match env_number(env, "SLURM_STEP_NUM_TASKS")? {
        Some(world) => world,
        None => required_number(env, "SLURM_NTASKS", because)?,
    };
    let nodes = match env_number(env, "SLURM_STEP_NUM_NODES")? {
        Some(nodes) => Some(nodes),
        None => env_number(env, "SLURM_NNODES")?,
    };
    let list = env("SLURM_STEP_NODELIST").or_else(|| env("SLURM_NODELIST"));
    let job = env("SLURM_JOB_ID").map(|job| format!("{job}.{step}"));
    Ok(Some(LauncherSettings {
        launcher: Launcher::Srun,
        rank: required_number(env, "SLURM_PROCID", because)?,
        world: Some(world),
        local_rank: env_number(env, "SLURM_LOCALID")?,
        one_host: nodes.map(|nodes| nodes == 1),
        address: env("MASTER_ADDR").or_else(|| hosts::first_host(&list?)),
        port: master_port(env)?,
        job,
    }))
}

/// PMIx tells ranks, not how many there are.
fn detect_pmix(env: EnvLookup<'_>) -> Result<Option<LauncherSettings>, Diag> {
    // In a Slurm allocation without a step nobody is a rank.
    let Some(rank) = env_number(env, "PMIX_RANK")? else { return Ok(None) };
    Ok(Some(LauncherSettings {
        launcher: Launcher::Pmix,
        rank,
        world: None,
        local_rank: None,
        one_host: None,
        address: env("MASTER_ADDR"),
        port: master_port(env)?,
        job: env("PMIX_NAMESPACE"),
    }))
}

/// Combines the detected launch and the flags; `None` for a world of one process.
fn assign_rank(
    found: LauncherSettings,
    flags: &LaunchFlags,
    env: EnvLookup<'_>,
) -> Result<Option<RankAssignment>, Diag> {
    let (given, by) = match flags.world {
        Some(world) => (Some(world), "--world"),
        // By hand, the flag is before the variable.
        None => (env_number(env, "HIR_WORLD")?, "HIR_WORLD"),
    };
    let name = found.launcher.name();
    let world = match (found.world, given) {
        (Some(own), Some(given)) if own != given => {
            let message = message!("{} started {} processes, but `{}` is {}", name, own, by, given);
            return Err(Diag::global_error(errors::LAUNCHERS, message)
                .with_note(message!("remove `{}`, or add `--rank` and `--coordinator`", by)));
        }
        (Some(world), _) | (None, Some(world)) => world,
        (None, None) => {
            return Err(missing_setting("--world", &format!("{name} sets the rank, but not the number of processes")));
        }
    };
    let sayer = if given.is_some() { format!("`{by}`") } else { name.to_owned() };
    check_world(&sayer, world)?;
    if found.rank >= world {
        let message = message!("{} sets rank {} of {}", name, found.rank, world);
        return Err(Diag::global_error(errors::LAUNCH, message)
            .with_note(message!("ranks are numbered from 0: the last one is {}", world - 1)));
    }
    if world == 1 {
        return Ok(None);
    }
    let token = token::token_from_env(env)?;
    let rendezvous = choose_rendezvous(&found, flags, token.is_some(), env)?;
    let LauncherSettings { launcher, rank, local_rank, .. } = found;
    Ok(Some(RankAssignment { launcher, rank, world, local_rank, rendezvous, token }))
}

/// Refuses a number of processes that a run cannot have.
fn check_world(sayer: &str, world: u32) -> Result<(), Diag> {
    if (1..=MOST).contains(&world) {
        return Ok(());
    }
    let message = message!("{} sets the number of processes to {}", sayer, world);
    Err(Diag::global_error(errors::LAUNCH, message).with_note(message!("a run has 1 to {} processes", MOST)))
}

/// The meeting place of the ranks: over the network with a token, on this host alone without one.
fn choose_rendezvous(
    found: &LauncherSettings,
    flags: &LaunchFlags,
    token: bool,
    env: EnvLookup<'_>,
) -> Result<RendezvousPoint, Diag> {
    if let Some(name) = env("HIR_MEETING").filter(|_| found.launcher == Launcher::Processes) {
        return Ok(RendezvousPoint::Local(name));
    }
    let said = match (&flags.coordinator, env("HIR_COORDINATOR")) {
        (Some(text), _) => Some(hosts::parse_address(text, "--coordinator")?),
        (None, Some(text)) => Some(hosts::parse_address(&text, "HIR_COORDINATOR")?),
        (None, None) => None,
    };
    let name = found.launcher.name();
    if let (None, Some(true), Some(job), false) = (&said, found.one_host, &found.job, token) {
        let launch_text = format!("{name} {job} {}", found.port.unwrap_or(0));
        return Ok(RendezvousPoint::Local(local::socket_name(&launch_text)));
    }
    let is_said = said.is_some();
    let (host, port) = match said {
        Some(said) => said,
        None => rendezvous_address(found)?,
    };
    if token {
        return Ok(RendezvousPoint::Network(host, port));
    }
    // Launchers count agents: two of them on one machine are two hosts to torchrun. An explicit setting wins.
    if hosts::is_loopback(&host) && (is_said || found.one_host != Some(false)) {
        return Ok(RendezvousPoint::Local(local::socket_name(&format!("port {port}"))));
    }
    let why = match found.one_host {
        Some(false) => format!("the ranks of {name} are on several hosts"),
        _ => format!("other hosts can reach {host}"),
    };
    Err(token::missing_token(found.launcher, &why))
}

/// Rank 0's port, if nobody said it.
fn rendezvous_port(found: &LauncherSettings) -> Result<u16, Diag> {
    let name = found.launcher.name();
    match (found.port, &found.job) {
        (Some(port), _) => Ok(port),
        (None, Some(job)) => Ok(hosts::port_of(job)),
        (None, None) if found.launcher == Launcher::Torchrun => {
            Err(missing_rendezvous("MASTER_PORT", "`RANK` and `WORLD_SIZE` require it"))
        }
        (None, None) => {
            let why = format!("{name} provides no job id to derive a port from");
            Err(missing_rendezvous("MASTER_PORT", &why))
        }
    }
}

/// Rank 0's host and port, unless they are given.
fn rendezvous_address(found: &LauncherSettings) -> Result<(String, u16), Diag> {
    let name = found.launcher.name();
    if found.launcher == Launcher::Explicit {
        return Err(missing_setting("--coordinator", "the ranks do not know where rank 0 listens"));
    }
    let port = rendezvous_port(found)?;
    let why = match (found.one_host, &found.address) {
        (Some(true), _) => return Ok(("127.0.0.1".to_owned(), port)),
        (_, Some(address)) => return Ok((address.clone(), port)),
        (Some(false), None) => {
            format!("the ranks of {name} are on several hosts, and the host of rank 0 is unknown")
        }
        (None, None) => {
            format!("{name} reports neither whether all ranks are on one host nor the host of rank 0")
        }
    };
    Err(missing_rendezvous("MASTER_ADDR", &why))
}

/// The error for a launcher that does not give rank 0's address.
fn missing_rendezvous(what: &str, why: &str) -> Diag {
    let message = message!("`{}` is missing: {}", what, why);
    Diag::global_error(errors::LAUNCH, message).with_note("set `HIR_COORDINATOR=HOST:PORT` on all ranks to where rank 0 listens; `--devices N` runs N ranks in this process")
}

#[cfg(test)]
#[path = "detect/tests.rs"]
mod tests;
