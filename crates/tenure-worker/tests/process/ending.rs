//! How runs end: by themselves, by an order, by their own limits in time; and what they leave behind.

use std::time::Duration;

use tenure_worker::guardian::{BootInstant, Fencing};
use tenure_worker::runner::{GuardCommand, GuardLink, ProcessEnd, ProcessRunner, StopCause};

use super::scene::{Scene, finish, unbounded_link};

const BOTH: [Fencing; 2] = [Fencing::Kernel, Fencing::Guardian];

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_and_a_signal_are_told_as_they_were() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        assert_eq!(finish(scene.start("exit 65")).await.2.end, ProcessEnd::ExitCode(65));
        assert_eq!(finish(scene.start("kill -SEGV $$")).await.2.end, ProcessEnd::Signal(11));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_is_told_also_where_ended_children_were_ignored_before() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let ignoring = GuardCommand {
            program: "/usr/bin/env".into(),
            arguments: ["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_tenure-guard")].map(Into::into).to_vec(),
        };
        let process =
            ProcessRunner::new(ignoring, fencing).start_process(scene.spec("exit 65"), unbounded_link());
        assert_eq!(finish(process).await.2.end, ProcessEnd::ExitCode(65), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_time_signal_is_told_as_it_was_and_ends_nobody_else() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        assert_eq!(finish(scene.start("kill -34 $$")).await.2.end, ProcessEnd::Signal(34), "{fencing:?}");
        // An orphan: the guardian or its init reaps it. The subshell's number goes with it.
        let orphan = scene.path("orphan");
        let script = format!(
            "(sh -c 'echo $$ > {0}.new; mv {0}.new {0}; kill -34 $$' &)\n\
             while ! test -e {0} || test -e /proc/$(cat {0}); do sleep 0.02; done; exit 5",
            orphan.display()
        );
        assert_eq!(finish(scene.start(&script)).await.2.end, ProcessEnd::ExitCode(5), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_leaves_behind_ends_with_it() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let process = scene.start(&(scene.leave_heartbeat() + "exit 3"));
        let (_, _, outcome) = finish(process).await;
        assert_eq!(outcome.end, ProcessEnd::ExitCode(3), "{fencing:?}");
        assert_eq!(scene.find_living(), Vec::<String>::new(), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_behind_is_asked_before_it_is_forced() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let ready = scene.path("ready");
        let script = format!(
            "setsid sh -c 'trap \"echo asked; exit 0\" TERM; touch {0}; while :; do sleep 0.02; done' {0} &\n\
             while ! test -e {0}; do sleep 0.02; done",
            ready.display()
        );
        let mut spec = scene.spec(&script);
        spec.stop_grace = Duration::from_secs(60);
        let (stdout, _, outcome) = finish(scene.start_spec(spec)).await;
        assert_eq!((stdout.as_str(), outcome.end), ("asked\n", ProcessEnd::ExitCode(0)), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_forks_away_and_ignores_sigterm_is_ended_all_the_same() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let script = format!(
            "trap '' TERM; (setsid sh -c 'trap \"\" TERM; (setsid sh -c \"while :; do sleep 0.05; done\" {0}) & \
             while :; do sleep 0.05; done' {0} &) ; touch {0}; while :; do sleep 0.05; done",
            scene.path("ready").display()
        );
        let process = scene.start(&script);
        super::scene::wait_until("the child to be ready", || {
            scene.path("ready").exists().then_some(()).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        process.handle().stop(Duration::from_millis(100), StopCause::Asked);
        assert_eq!(finish(process).await.2.end, ProcessEnd::Signal(9), "{fencing:?}");
        assert_eq!(scene.find_living(), Vec::<String>::new(), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_the_child_finish_within_the_grace() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let ready = scene.path("ready");
        let script = format!(
            "trap 'echo tidying; exit 7' TERM; touch {}; while :; do sleep 0.02; done",
            ready.display()
        );
        let process = scene.start(&script);
        super::scene::wait_until("the trap to be set", || {
            ready.exists().then_some(()).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        process.handle().stop(Duration::from_secs(60), StopCause::Asked);
        let (stdout, _, outcome) = finish(process).await;
        assert_eq!((stdout.as_str(), outcome.end), ("tidying\n", ProcessEnd::ExitCode(7)), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_own_timeout_the_exit_code_does_not_count() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let mut spec = scene.spec("trap 'exit 0' TERM; while :; do sleep 0.02; done");
        spec.timeout = Duration::from_millis(400);
        let limit = spec.timeout;
        assert_eq!(
            finish(scene.start_spec(spec)).await.2.end,
            ProcessEnd::OwnTimeout { limit },
            "{fencing:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_past_the_idle_timeout_ends_it_and_a_note_is_no_silence() {
    let scene = Scene::new(Fencing::Kernel);
    let mut spec = scene.spec("while :; do sleep 0.05; done");
    spec.idle_timeout = Some(Duration::from_secs(2));
    let limit = Duration::from_secs(2);
    let process = scene.start_spec(spec.clone());
    assert_eq!(finish(process).await.2.end, ProcessEnd::IdleTimeout { limit });

    // Notes and output keep it alive for longer than the limit; each pause is far below it.
    spec.command = scene.spec("for i in 1 2 3 4 5 6; do sleep 0.5; echo $i; done; exit 9").command;
    assert_eq!(finish(scene.start_spec(spec.clone())).await.2.end, ProcessEnd::ExitCode(9));
    spec.command = scene.spec("sleep 3; exit 8").command;
    let process = scene.start_spec(spec);
    let handle = process.handle();
    let notes = tokio::spawn(async move {
        let mut every = tokio::time::interval(Duration::from_millis(100));
        loop {
            every.tick().await;
            handle.touch();
        }
    });
    let mut process = process;
    while process.next_output().await.is_some() {}
    assert_eq!(process.wait().await.end, ProcessEnd::ExitCode(8));
    notes.abort();
    process.handle().forget();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_local_deadline_the_group_is_ended_and_a_renewal_moves_it() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let soon = BootInstant::now().plus(Duration::from_secs(2));
        let link = GuardLink { deadline: soon, margin: Duration::from_millis(100), report: None };
        let script = scene.leave_heartbeat() + "trap '' TERM; while :; do sleep 0.05; done";
        let process = scene.runner().start_process(scene.spec(&script), link.clone());
        assert_eq!(finish(process).await.2.end, ProcessEnd::ContactLost, "{fencing:?}");
        assert!(BootInstant::now() >= soon);
        assert_eq!(scene.find_living(), Vec::<String>::new(), "{fencing:?}");

        let renewed = Scene::new(fencing);
        let link = GuardLink { deadline: BootInstant::now().plus(Duration::from_secs(2)), ..link };
        let process = renewed.runner().start_process(renewed.spec("sleep 3; exit 4"), link);
        process.handle().move_deadline(BootInstant::NEVER);
        assert_eq!(finish(process).await.2.end, ProcessEnd::ExitCode(4), "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_margin_before_the_deadline_the_child_is_asked() {
    let scene = Scene::new(Fencing::Kernel);
    let ready = scene.path("ready");
    let script =
        format!("trap 'echo asked; exit 0' TERM; touch {}; while :; do sleep 0.02; done", ready.display());
    let process = scene.runner().start_process(scene.spec(&script), unbounded_link());
    super::scene::wait_until("the trap to be set", || {
        ready.exists().then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    // Within the margin of 500 ms already.
    process.handle().move_deadline(BootInstant::now().plus(Duration::from_millis(450)));
    let (stdout, _, outcome) = finish(process).await;
    assert_eq!((stdout.as_str(), outcome.end), ("asked\n", ProcessEnd::ContactLost));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nobody_holds_a_run_any_more_it_is_ended() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let mut process = scene.start(&(scene.leave_heartbeat() + "sleep 60"));
        process.wait_started().await.unwrap();
        scene.await_heartbeat();
        drop(process);
        super::scene::wait_until("the group to be empty", || {
            let living = scene.find_living();
            if living.is_empty() { Ok(()) } else { Err(format!("{living:?}")) }
        })
        .await;
    }
}
