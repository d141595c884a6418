//! A host of its own on this one: a network namespace with one link to the outside, which can be broken in the ways in which
//! networks break. What runs there reaches the outside at one address alone, where a proxy can listen for it.
//!
//! Needs root and the program `ip`; [`Host::find_hindrance`] says what is missing, so that a test can say why it did not run.
//! Hosts of several processes at once do not collide: each holds a lock on its number. What a killed process left is
//! removed when its number is taken again.
//!
//! Neighbours: `cluster` starts workers there; `proxy` carries what they say to a coordinator on the loopback device.

use std::{
    fs::{self, File},
    net::Ipv4Addr,
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::fcntl::{Flock, FlockArg};

/// How many hosts there can be at once on one machine.
const HOSTS_MAX: u8 = 60;

/// The first two bytes of every host's addresses.
const NETWORK: [u8; 2] = [10, 231];

/// A hardware address that nobody has: what is sent to it arrives and is thrown away.
const NOBODY: &str = "02:00:00:00:00:01";

/// How a host's link is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// The link is down: nothing passes.
    LinkDown,
    /// Packets vanish both ways, and the link looks well.
    Blackhole,
    /// What the host sends arrives; nothing reaches it.
    Inbound,
    /// Everything reaches the host; nothing that it sends arrives.
    Outbound,
}

/// A network namespace with a link.
#[derive(Debug)]
pub struct Host {
    namespace: String,
    /// The outer end of the link; the inner one is called `eth0`.
    link: String,
    outside: Ipv4Addr,
    inside: Ipv4Addr,
    _number: Flock<File>,
}

impl Host {
    /// What stands in the way of making one here; nothing where one can be made.
    #[must_use]
    pub fn find_hindrance() -> Option<String> {
        if !nix::unistd::geteuid().is_root() {
            return Some("a network namespace needs root".to_owned());
        }
        let probe = format!("tenure-probe-{}", std::process::id());
        match ip(&["netns", "add", &probe]).and_then(|()| ip(&["netns", "del", &probe])) {
            Ok(()) => None,
            Err(error) => Some(format!("no network namespace can be made: {error:#}")),
        }
    }

    /// Makes one, with its link up.
    ///
    /// # Errors
    /// See [`Host::find_hindrance`]; or all numbers are taken.
    pub fn create() -> Result<Self> {
        let (number, lock) = take_number()?;
        let host = Self {
            namespace: format!("tenure-host{number}"),
            link: format!("tenure{number}"),
            outside: Ipv4Addr::new(NETWORK[0], NETWORK[1], number, 1),
            inside: Ipv4Addr::new(NETWORK[0], NETWORK[1], number, 2),
            _number: lock,
        };
        host.remove();
        host.build().with_context(|| format!("making the host {}", host.namespace))?;
        Ok(host)
    }

    fn build(&self) -> Result<()> {
        let (namespace, link) = (self.namespace.as_str(), self.link.as_str());
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace])?;
        ip(&["address", "add", &format!("{}/30", self.outside), "dev", link])?;
        ip(&["link", "set", link, "up"])?;
        ip(&["-n", namespace, "address", "add", &format!("{}/30", self.inside), "dev", "eth0"])?;
        ip(&["-n", namespace, "link", "set", "eth0", "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The one address outside that can be reached from it.
    #[must_use]
    pub fn outside(&self) -> Ipv4Addr {
        self.outside
    }

    /// Breaks its link.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn sever(&self, how: Break) -> Result<()> {
        let (namespace, link) = (self.namespace.as_str(), self.link.as_str());
        let (outside, inside) = (self.outside.to_string(), self.inside.to_string());
        match how {
            Break::LinkDown => ip(&["link", "set", link, "down"]),
            Break::Blackhole => {
                ip(&["route", "add", "blackhole", &inside])?;
                ip(&["-n", namespace, "route", "add", "blackhole", &outside])
            }
            Break::Inbound => ip(&["neigh", "replace", &inside, "lladdr", NOBODY, "dev", link]),
            Break::Outbound => {
                ip(&["-n", namespace, "neigh", "replace", &outside, "lladdr", NOBODY, "dev", "eth0"])
            }
        }
    }

    /// Mends its link, however it was broken in this way.
    ///
    /// # Errors
    /// `ip` refuses.
    pub fn mend(&self, how: Break) -> Result<()> {
        let (namespace, link) = (self.namespace.as_str(), self.link.as_str());
        let (outside, inside) = (self.outside.to_string(), self.inside.to_string());
        match how {
            Break::LinkDown => ip(&["link", "set", link, "up"]),
            Break::Blackhole => {
                ip(&["route", "del", "blackhole", &inside])?;
                ip(&["-n", namespace, "route", "del", "blackhole", &outside])
            }
            Break::Inbound => ip(&["neigh", "del", &inside, "dev", link]),
            Break::Outbound => ip(&["-n", namespace, "neigh", "del", &outside, "dev", "eth0"]),
        }
    }

    /// Removes the namespace, with it the link, and what was left on this side.
    fn remove(&self) {
        // Most of it is usually not there.
        let _ = ip(&["route", "del", "blackhole", &self.inside.to_string()]);
        let _ = ip(&["link", "del", &self.link]);
        let _ = ip(&["netns", "del", &self.namespace]);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A number that no other host on this machine has.
fn take_number() -> Result<(u8, Flock<File>)> {
    let folder = std::env::temp_dir().join("tenure-hosts");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for number in 1..=HOSTS_MAX {
        let path = folder.join(number.to_string());
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        if let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            return Ok((number, lock));
        }
    }
    bail!("all {HOSTS_MAX} numbers of hosts are taken")
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("starting ip")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {}: {}", arguments.join(" "), said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{SocketAddr, TcpListener, TcpStream},
        thread,
        time::Duration,
    };

    use nix::sched::{CloneFlags, setns};

    use super::*;

    /// Patience for what must come.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Connects from inside the host: only the socket's making happens there.
    fn connect_from(host: &Host, to: SocketAddr) -> TcpStream {
        let namespace = File::open(format!("/run/netns/{}", host.namespace())).unwrap();
        thread::spawn(move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET).unwrap();
            TcpStream::connect(to).unwrap()
        })
        .join()
        .unwrap()
    }

    /// Two hosts, each with a connection from inside to outside that carries bytes.
    fn connected() -> Option<(Host, TcpStream, TcpStream)> {
        if let Some(hindrance) = Host::find_hindrance() {
            eprintln!("skipped: {hindrance}");
            return None;
        }
        let host = Host::create().unwrap();
        let listener = TcpListener::bind((host.outside(), 0)).unwrap();
        let inner = connect_from(&host, listener.local_addr().unwrap());
        let (outer, _) = listener.accept().unwrap();
        for stream in [&inner, &outer] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Some((host, inner, outer))
    }

    fn send(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<u8> {
        from.write_all(b"x")?;
        let mut byte = [0];
        to.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// Sends where nothing may arrive. A short wait can only make this pass too easily, never fail.
    fn assert_lost(from: &mut TcpStream, to: &mut TcpStream) {
        to.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(send(from, to).is_err(), "it arrived");
        to.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    #[test]
    fn two_hosts_at_once_are_apart_and_each_reaches_the_outside() {
        let (Some((one, mut inner, mut outer)), Some((other, ..))) = (connected(), connected()) else {
            return;
        };
        assert_ne!(one.outside(), other.outside());
        assert_eq!(send(&mut inner, &mut outer).unwrap(), b'x');
    }

    #[test]
    fn broken_link_loses_both_ways_and_delivers_when_mended() {
        for how in [Break::LinkDown, Break::Blackhole] {
            let Some((host, mut inner, mut outer)) = connected() else { return };
            host.sever(how).unwrap();
            assert_lost(&mut inner, &mut outer);
            assert_lost(&mut outer, &mut inner);
            host.mend(how).unwrap();
            let mut byte = [0];
            outer.read_exact(&mut byte).unwrap();
            inner.read_exact(&mut byte).unwrap();
        }
    }

    #[test]
    fn link_broken_one_way_delivers_the_other_way() {
        let Some((host, mut inner, mut outer)) = connected() else { return };
        host.sever(Break::Inbound).unwrap();
        assert_eq!(send(&mut inner, &mut outer).unwrap(), b'x');
        assert_lost(&mut outer, &mut inner);
        host.mend(Break::Inbound).unwrap();
        inner.read_exact(&mut [0]).unwrap();

        host.sever(Break::Outbound).unwrap();
        assert_eq!(send(&mut outer, &mut inner).unwrap(), b'x');
        assert_lost(&mut inner, &mut outer);
        host.mend(Break::Outbound).unwrap();
        outer.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn dropped_host_leaves_neither_namespace_nor_link() {
        let Some((host, ..)) = connected() else { return };
        let (namespace, link) = (host.namespace().to_owned(), host.link.clone());
        drop(host);
        assert!(!std::path::Path::new("/run/netns").join(&namespace).exists(), "{namespace} is there");
        assert!(!std::path::Path::new("/sys/class/net").join(&link).exists(), "{link} is there");
    }
}
