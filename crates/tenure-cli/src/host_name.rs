//! The name of this host, as what serves here is called after it: a worker by it alone, a coordinator by it and its port.
//! In a container it is the container's. Neighbours: `worker` and `coordinator`.

use std::net::SocketAddr;

use tenure_core::limits;

/// The host's name, without what a worker's name may not have; `otherwise` where nothing is left of it.
pub(crate) fn name_of_host(otherwise: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    clean_name(&host, otherwise)
}

/// What tells this coordinator from others: the address that it listens on may be the same in every container.
pub(crate) fn name_of_coordinator(listen: SocketAddr) -> String {
    format!("{}:{}", name_of_host("coordinator"), listen.port())
}

fn clean_name(host: &str, otherwise: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = host
        .chars()
        .filter(allowed)
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .take(limits::NAME_MAX_BYTES)
        .collect();
    if name.is_empty() { otherwise.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_is_called_after_its_host_and_port_wherever_it_listens() {
        let name = |listen: &str| name_of_coordinator(listen.parse().unwrap());
        let host = name_of_host("coordinator");
        assert_eq!(name("0.0.0.0:7420"), format!("{host}:7420"));
        assert_eq!(name("[::1]:7430"), format!("{host}:7430"));
    }

    #[test]
    fn a_name_has_what_a_worker_may_be_called_and_nothing_else() {
        assert_eq!(clean_name("-b uild_1.example", "worker"), "build_1.example");
        assert_eq!(clean_name("--", "worker"), "worker");
        assert_eq!(clean_name(&"x".repeat(1_000), "worker").len(), limits::NAME_MAX_BYTES);
    }
}
