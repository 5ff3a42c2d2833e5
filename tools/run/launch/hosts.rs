//! Names of hosts, and where the ranks meet.

use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use std::net::{IpAddr, ToSocketAddrs};

/// The first host of Slurm's list: `gpu[07-09,12],x1` is gpu07 first.
pub(super) fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let Some(inside) = rest.strip_prefix('[') else {
        return (!prefix.is_empty()).then(|| prefix.to_owned());
    };
    let (numbers, after) = inside.split_once(']')?;
    let number = numbers.split([',', '-']).next()?;
    // A name may have text after its number, up to the next name of the list.
    let suffix = after.split(',').next().unwrap_or_default();
    Some(format!("{prefix}{number}{suffix}"))
}

/// `HOST:PORT`, with brackets around an address of IPv6; `from` is where it was said.
///
/// # Errors
/// A text without a host or a port.
pub(super) fn parse_address(text: &str, from: &str) -> Result<(String, u16), Diag> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| {
        let host = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
        (!host.is_empty()).then_some(())?;
        // Port 0 is any port: nobody would know which.
        Some((host.to_owned(), port.parse().ok().filter(|port| *port > 0)?))
    });
    parts.ok_or_else(|| {
        let message = message!("`{}` is `{}`, but must be a host with a port from 1 to 65535", from, text);
        Diag::global_error(errors::LAUNCH, message)
            .with_note("write the host of rank 0 and a free port there: `node7:29600`")
    })
}

/// A port that all processes of a job derive from its id alone, above those that systems assign.
pub(super) fn port_of(job: &str) -> u16 {
    let hash = job.bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    61_440 + (hash % 4096) as u16
}

/// Returns true if only this host's processes can reach an address.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let named = ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];
    named.contains(&host.as_str())
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The addresses of a name, those of IPv4 first. `localhost` is 127.0.0.1 on all ranks: if rank 0 listens on one of its
/// addresses, anybody may listen on the other.
///
/// # Errors
/// A name that cannot be resolved.
pub(super) fn resolve_host(host: &str, port: u16) -> std::io::Result<Vec<std::net::SocketAddr>> {
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let mut found: Vec<_> = (host, port).to_socket_addrs()?.collect();
    found.sort_by_key(|address| !address.is_ipv4());
    Ok(found)
}

/// A name that processes share exactly if they run on one host: its boot id, since names of containers differ.
/// `HIR_HOST_ID` overrides it.
pub(super) fn own_host_id(given: Option<String>) -> String {
    given
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok())
        .map_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned(), |id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_hosts_of_lists() {
        for (list, expected) in
            [("gpu1", "gpu1"), ("gpu[07-09,12],x1", "gpu07"), ("a3,a4", "a3"), ("r[1-2]n,x", "r1n"), ("gpu[3]", "gpu3")]
        {
            assert_eq!(first_host(list).as_deref(), Some(expected), "{list}");
        }
        assert_eq!(first_host(""), None);
        assert_eq!(first_host("gpu[1-2"), None);
    }

    #[test]
    fn addresses_of_coordinators() {
        assert_eq!(parse_address("node7:29600", "x").unwrap(), ("node7".to_owned(), 29600));
        assert_eq!(parse_address("[::1]:80", "x").unwrap(), ("::1".to_owned(), 80));
        for wrong in ["", "node7", "node7:", ":80", "node7:99999", "[::1:80", "x:-1", "x:0"] {
            let diag = parse_address(wrong, "HIR_COORDINATOR").unwrap_err();
            assert_eq!(diag.code, "H0640", "{wrong}");
            let start = format!("`HIR_COORDINATOR` is `{wrong}`, but must be");
            assert!(diag.message.starts_with(&start), "{}", diag.message);
        }
    }

    /// Whatever `/etc/hosts` says.
    #[test]
    fn localhost_is_one_address() {
        let found = resolve_host("localhost", 7000).unwrap();
        assert_eq!(found, [([127, 0, 0, 1], 7000).into()]);
    }

    #[test]
    fn loopback_and_ports() {
        assert!(is_loopback("localhost") && is_loopback("127.0.0.2") && is_loopback("::1"));
        assert!(is_loopback("LocalHost") && is_loopback("a.localhost") && is_loopback("ip6-localhost"));
        assert!(!is_loopback("10.0.0.1") && !is_loopback("node7") && !is_loopback("mylocalhost"));
        assert!((61_440..=65_535).contains(&port_of("4711.0")));
        assert_ne!(port_of("4711.0"), port_of("4712.0"));
    }
}
