//! Worker and guardian killed, frozen, and both at once: the group ends, always, and nobody else does.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tenure_worker::guardian::{Fencing, detect_fencing};
use tenure_worker::runner::ProcessEnd;

use super::scene::{Scene, finish, is_root, is_zombie, wait_for, wait_until};

const NOBODY: u32 = 65534;

fn await_nobody(scene: &Scene) {
    wait_for("the group to be empty", || {
        let living = scene.find_living();
        if living.is_empty() { Ok(()) } else { Err(format!("{living:?}")) }
    });
}

fn run_with_heartbeat(scene: &Scene) -> String {
    scene.leave_heartbeat() + "trap '' TERM; while :; do sleep 0.05; done"
}

#[test]
fn this_host_makes_pid_namespaces() {
    // The other tests of `kernel` fencing would fail for the host's sake.
    assert_eq!(detect_fencing(), Fencing::Kernel);
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_child_names_in_its_guardians_place_is_not_ended_for_it() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut process = scene.start("while :; do sleep 0.05; done");
        process.wait_started().await.unwrap();
        let guardian = scene.identity().guardian.pid;
        let mut forged = scene.identity();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", bystander.id())).unwrap();
        forged.child.pid = i32::try_from(bystander.id()).unwrap();
        forged.child.start_time_ticks = stat.split(' ').nth(21).unwrap().parse().unwrap();
        forged.init = Some(forged.child);
        let identity = scene.run_directory.path().join(tenure_worker::guardian::IDENTITY_FILE);
        std::fs::write(identity, serde_json::to_vec(&forged).unwrap()).unwrap();
        kill(Pid::from_raw(guardian), Signal::SIGKILL).unwrap();
        assert_eq!(finish(process).await.2.end, ProcessEnd::ContactLost, "{fencing:?}");
        assert_eq!(scene.find_living(), Vec::<String>::new(), "{fencing:?}");
        assert!(bystander.try_wait().unwrap().is_none(), "{fencing:?}: a stranger was ended");
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}

#[test]
fn a_killed_worker_takes_its_group_along() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let worker = scene.start_worker(&run_with_heartbeat(&scene), json!({}));
        scene.await_heartbeat();
        worker.signal(Signal::SIGKILL);
        await_nobody(&scene);
        let outcome = scene.run_directory.path().join(tenure_worker::guardian::OUTCOME_FILE);
        let left = wait_for("the outcome in the run directory", || {
            std::fs::read_to_string(&outcome).map_err(|error| error.to_string())
        });
        assert!(left.contains("contact_lost"), "{left}");
    }
}

#[test]
fn an_ordinary_users_worker_fences_as_well() {
    if !is_root() {
        println!("skipped: only root can become an ordinary user");
        return;
    }
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let worker = scene.start_worker_as(&run_with_heartbeat(&scene), json!({}), Some(NOBODY));
        scene.await_heartbeat();
        worker.signal(Signal::SIGKILL);
        await_nobody(&scene);
    }
}

#[test]
fn a_group_is_ended_also_where_the_host_has_no_pidfds() {
    if !is_root() {
        println!("skipped: only root can become a user for whom no cgroup can be made");
        return;
    }
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let plan = json!({ "without_pidfds": true });
        let worker = scene.start_worker_as(&run_with_heartbeat(&scene), plan, Some(NOBODY));
        scene.await_heartbeat();
        worker.signal(Signal::SIGKILL);
        await_nobody(&scene);
    }
}

#[test]
fn a_child_of_the_same_user_cannot_look_into_its_guardian() {
    if !is_root() {
        println!("skipped: only root can become an ordinary user, and root may look into everything");
        return;
    }
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let answer = scene.path("answer");
        let script = format!(
            "id -u > {0}.new; head -c 1 /proc/$PPID/mem /proc/$PPID/environ >> {0}.new 2>&1; mv {0}.new {0}",
            answer.display()
        );
        let _worker = scene.start_worker_as(&script, json!({}), Some(NOBODY));
        let seen = wait_for("the child's answer", || {
            std::fs::read_to_string(&answer).map_err(|error| error.to_string())
        });
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[0], NOBODY.to_string());
        let denied = lines.iter().filter(|line| line.ends_with("Permission denied")).count();
        assert_eq!((denied, lines.len()), (2, 3), "{fencing:?}: {seen}");
    }
}

#[test]
fn a_child_of_the_same_user_cannot_look_into_its_worker() {
    if !is_root() {
        println!("skipped: only root can become an ordinary user, and root may look into everything");
        return;
    }
    // Under this fencing the worker can be seen at all.
    let scene = Scene::new(Fencing::Guardian);
    let answer = scene.path("answer");
    let script = format!(
        "worker=$(awk '/^PPid:/ {{ print $2 }}' /proc/$PPID/status); cat /proc/$worker/comm > {0}.new; \
         head -c 1 /proc/$worker/mem /proc/$worker/environ >> {0}.new 2>&1; mv {0}.new {0}",
        answer.display()
    );
    let _worker = scene.start_worker_as(&script, json!({}), Some(NOBODY));
    let seen = wait_for("the child's answer", || {
        std::fs::read_to_string(&answer).map_err(|error| error.to_string())
    });
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines[0].starts_with("process-test-wo"), "{seen}");
    let denied = lines.iter().filter(|line| line.ends_with("Permission denied")).count();
    assert_eq!((denied, lines.len()), (2, 3), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_guardian_takes_its_group_along_and_the_worker_says_so_afterwards() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let mut process = scene.start(&run_with_heartbeat(&scene));
        let child = process.wait_started().await.unwrap();
        scene.await_heartbeat();
        let identity = scene.identity();
        kill(Pid::from_raw(identity.guardian.pid), Signal::SIGKILL).unwrap();
        let (_, _, outcome) = finish(process).await;
        assert_eq!(scene.find_living(), Vec::<String>::new(), "{fencing:?}");
        assert_eq!(outcome.end, ProcessEnd::ContactLost, "{fencing:?}");
        for pid in [Some(child), identity.init.map(|init| init.pid)].into_iter().flatten() {
            assert!(!is_zombie(pid), "{pid} is a zombie");
        }
    }
}

#[test]
fn without_a_cgroup_a_worker_still_finds_what_a_killed_guardian_left() {
    if !is_root() {
        println!("skipped: only root can become an ordinary user");
        return;
    }
    let scene = Scene::new(Fencing::Guardian);
    let worker = scene.start_worker_as(&run_with_heartbeat(&scene), json!({}), Some(NOBODY));
    scene.await_heartbeat();
    kill(Pid::from_raw(scene.identity().guardian.pid), Signal::SIGKILL).unwrap();
    assert_eq!(worker.await_line("ended"), "ended ContactLost");
    assert_eq!(scene.find_living(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_guardian_is_ended_with_its_group() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let mut process = scene.start(&run_with_heartbeat(&scene));
        process.wait_started().await.unwrap();
        scene.await_heartbeat();
        let guardian = scene.identity().guardian.pid;
        kill(Pid::from_raw(guardian), Signal::SIGSTOP).unwrap();
        if fencing == Fencing::Guardian {
            // The local deadline passes sooner than the guardian is given up for its silence, as the other one is.
            process.handle().move_deadline(tenure_worker::guardian::BootInstant::now());
        }
        let (_, _, outcome) = finish(process).await;
        assert_eq!(outcome.end, ProcessEnd::ContactLost, "{fencing:?}");
        assert_eq!(scene.find_living(), Vec::<String>::new(), "{fencing:?}");
        assert!(!is_zombie(guardian));
    }
}

#[test]
fn worker_and_guardian_killed_at_once_end_the_namespace() {
    let scene = Scene::new(Fencing::Kernel);
    let worker = scene.start_worker(&run_with_heartbeat(&scene), json!({}));
    scene.await_heartbeat();
    let guardian = Pid::from_raw(scene.identity().guardian.pid);
    // Frozen first, so that neither can do anything about the other's death.
    kill(guardian, Signal::SIGSTOP).unwrap();
    worker.signal(Signal::SIGSTOP);
    kill(guardian, Signal::SIGKILL).unwrap();
    worker.signal(Signal::SIGKILL);
    await_nobody(&scene);
}

#[test]
fn a_frozen_worker_finds_the_end_when_it_thaws() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let worker = scene.start_worker(&run_with_heartbeat(&scene), json!({ "deadline_in_ms": 2_500 }));
        scene.await_heartbeat();
        worker.signal(Signal::SIGSTOP);
        await_nobody(&scene);
        worker.signal(Signal::SIGCONT);
        assert_eq!(worker.await_line("ended"), "ended ContactLost", "{fencing:?}");
        worker.reap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_one_run_spares_its_neighbour() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let first = Scene::new(fencing);
        let second = Scene::new(fencing);
        let doomed = first.start(&run_with_heartbeat(&first));
        let gate = second.path("gate");
        let spared = second.start(&format!(
            "setsid sh -c 'while ! test -e {0}; do sleep 0.02; done; echo still here' {0} & wait; exit 5",
            gate.display()
        ));
        first.await_heartbeat();
        kill(Pid::from_raw(first.identity().guardian.pid), Signal::SIGKILL).unwrap();
        assert_eq!(finish(doomed).await.2.end, ProcessEnd::ContactLost);
        std::fs::write(&gate, "").unwrap();
        let (stdout, _, outcome) = finish(spared).await;
        assert_eq!((stdout.as_str(), outcome.end), ("still here\n", ProcessEnd::ExitCode(5)), "{fencing:?}");
        wait_until("the first group to be empty", || {
            let living = first.find_living();
            if living.is_empty() { Ok(()) } else { Err(format!("{living:?}")) }
        })
        .await;
    }
}
