//! What a child finds when it starts, and what is said where it cannot.

use std::collections::BTreeMap;
use std::fs;

use tenure_worker::guardian::Fencing;
use tenure_worker::runner::{
    EnvironmentPlan, ProcessCommand, ProcessEnd, ProcessStdin, RunFiles, UserError, compose_environment,
    resolve_user,
};

use super::scene::{Scene, finish, is_root, is_zombie};

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_exact() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let plan = EnvironmentPlan {
            tenure_directory: Some("/opt/tenure/bin".into()),
            home: Some("/home/agents".to_owned()),
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
            tenure: scene.run_directory.compose_variables(),
            agent: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
            secrets: Vec::new(),
        };
        let (environment, _) = compose_environment(&plan, |name| std::env::var_os(name)).unwrap();
        let mut spec = scene.spec("");
        spec.command = ProcessCommand::Argv(vec!["env".to_owned()]);
        spec.environment = environment;
        let (stdout, _, outcome) = finish(scene.start_spec(spec)).await;
        assert_eq!(outcome.end, ProcessEnd::ExitCode(0));
        let mut names: Vec<&str> = stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        names.retain(|name| *name != "TZ" || std::env::var_os("TZ").is_none());
        assert_eq!(
            names,
            [
                "HOME",
                "LANG",
                "PATH",
                "TENURE_BRIEF",
                "TENURE_HANDOVER",
                "TENURE_INPUT",
                "TENURE_RESULT",
                "TRACEPARENT"
            ]
        );
        let path = stdout.lines().find(|line| line.starts_with("PATH=")).unwrap();
        assert!(path.starts_with("PATH=/opt/tenure/bin:"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stdin_is_the_file_and_otherwise_empty() {
    let scene =
        Scene::with_files(Fencing::Kernel, &RunFiles { input: b"raw input", ..RunFiles::default() }, None);
    let (nothing, _, _) = finish(scene.start("cat; echo end")).await;
    assert_eq!(nothing, "end\n");
    let mut spec = scene.spec("cat; echo; echo end");
    spec.stdin = ProcessStdin::File(scene.run_directory.path().join("input"));
    let (stdout, _, _) = finish(scene.start_spec(spec)).await;
    assert_eq!(stdout, "raw input\nend\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_under_sh_with_e_and_u() {
    let scene = Scene::new(Fencing::Kernel);
    let run = async |text: &str| {
        let mut spec = scene.spec("");
        spec.command = ProcessCommand::Script(text.to_owned());
        finish(scene.start_spec(spec)).await
    };
    let (stdout, _, outcome) = run("echo one\necho two\n").await;
    assert_eq!((stdout.as_str(), outcome.end), ("one\ntwo\n", ProcessEnd::ExitCode(0)));
    let (stdout, _, outcome) = run("false\necho unreachable\n").await;
    assert_eq!((stdout.as_str(), outcome.end), ("", ProcessEnd::ExitCode(1)));
    let (_, stderr, outcome) = run("echo $UNSET_VARIABLE\n").await;
    assert!(stderr.contains("UNSET_VARIABLE") && outcome.end != ProcessEnd::ExitCode(0), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_has_a_session_of_its_own_default_signals_and_three_descriptors() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let script = "cat /proc/self/status; echo descriptors: $(ls /proc/self/fd | wc -l); \
                      echo session: $(cut -d' ' -f6 /proc/$$/stat) pid: $$";
        let (stdout, _, _) = finish(scene.start(script)).await;
        let line = |name: &str| stdout.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        assert_eq!(line("SigBlk:"), "0000000000000000", "{fencing:?}");
        assert_eq!(line("SigIgn:"), "0000000000000000", "{fencing:?}");
        // The fourth is the directory that ls reads.
        assert_eq!(line("descriptors:"), "4", "{fencing:?}");
        let (session, pid) = line("session:").split_once(" pid: ").unwrap();
        assert_eq!(session, pid, "{fencing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_end_waits_for_a_child_that_is_not_its_program_yet() {
    // What a copy of the guardian only ignores is lost; what it blocks is kept until it is unblocked.
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let mut process = scene.start("while :; do sleep 0.05; done");
        process.wait_started().await.unwrap();
        let identity = scene.identity();
        for copied in [Some(identity.guardian), identity.init].into_iter().flatten() {
            let status = fs::read_to_string(format!("/proc/{}/status", copied.pid)).unwrap();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
            let blocked = u64::from_str_radix(blocked, 16).unwrap();
            for signal in [nix::libc::SIGHUP, nix::libc::SIGINT, nix::libc::SIGTERM, nix::libc::SIGQUIT] {
                assert_ne!(blocked & (1 << (signal - 1)), 0, "{fencing:?}: {signal} is not in {blocked:x}");
            }
        }
        process.handle().kill();
        finish(process).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_named() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let run = async |argv: &[&str]| {
            let mut spec = scene.spec("");
            spec.command = ProcessCommand::Argv(argv.iter().map(|argument| (*argument).to_owned()).collect());
            match finish(scene.start_spec(spec)).await.2.end {
                ProcessEnd::NotStarted { reason } => reason,
                other => panic!("{argv:?} ended with {other:?}"),
            }
        };
        let reason = run(&["no-such-notes", "--fast"]).await;
        assert!(
            reason.contains("no-such-notes") && reason.contains("ENOENT") && reason.contains("PATH"),
            "{reason}"
        );
        let reason = run(&["/no/such/program"]).await;
        assert!(reason.contains("/no/such/program") && reason.contains("ENOENT"), "{reason}");
        let reason = run(&["/etc/passwd"]).await;
        assert!(reason.contains("/etc/passwd") && reason.contains("EACCES"), "{reason}");
        assert!(run(&[]).await.contains("empty"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_not_there_is_named() {
    let scene = Scene::new(Fencing::Kernel);
    let mut spec = scene.spec("true");
    spec.cwd = "/no/such/directory".into();
    let (_, _, outcome) = finish(scene.start_spec(spec)).await;
    let ProcessEnd::NotStarted { reason } = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(reason.contains("/no/such/directory"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guardian_that_cannot_be_started_is_an_end_that_names_it() {
    let scene = Scene::new(Fencing::Kernel);
    let start = |program: &str| {
        let guard = tenure_worker::runner::GuardCommand { program: program.into(), arguments: Vec::new() };
        tenure_worker::runner::ProcessRunner::new(guard, Fencing::Kernel)
            .start_process(scene.spec("true"), super::scene::unbounded_link())
    };
    let (_, _, outcome) = finish(start("/no/such/guardian")).await;
    let ProcessEnd::NotStarted { reason } = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(reason.contains("/no/such/guardian"), "{reason}");
    // A program that is no guardian.
    let (_, _, outcome) = finish(start("/bin/false")).await;
    let ProcessEnd::NotStarted { reason } = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(reason.contains("exit code 1"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_runs_as_its_user_with_that_users_files() {
    if !is_root() {
        println!("skipped: only root can switch users");
        return;
    }
    let user = resolve_user("nobody").unwrap();
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let files = RunFiles { input: b"for nobody", ..RunFiles::default() };
        let scene = Scene::with_files(fencing, &files, Some(&user));
        let mut spec = scene.spec("");
        spec.command = ProcessCommand::Script(
            "id -u; id -G; cat \"$TENURE_INPUT\"; printf mine > \"$TENURE_RESULT\"; cat /proc/1/environ 2>/dev/null || echo denied > /dev/stdout"
                .to_owned(),
        );
        spec.user = Some(user.clone());
        let (stdout, _, outcome) = finish(scene.start_spec(spec)).await;
        assert_eq!(outcome.end, ProcessEnd::ExitCode(0), "{stdout}");
        let groups = user.groups.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(stdout, format!("{}\n{groups}\nfor nobodydenied\n", user.uid));
        let mut result = Vec::new();
        let left = scene.run_directory.open_result().unwrap().unwrap();
        left.read_pieces(|piece| std::io::Write::write_all(&mut result, piece)).unwrap();
        assert_eq!(result, b"mine");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_the_place_of_the_input_leads_no_further_than_the_child_itself_may_go() {
    if !is_root() {
        println!("skipped: only root can switch users");
        return;
    }
    let user = resolve_user("nobody").unwrap();
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::with_files(fencing, &RunFiles::default(), Some(&user));
        let secret = scene.path("secret");
        fs::write(&secret, "of root").unwrap();
        fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let input = scene.run_directory.path().join("input");
        fs::remove_file(&input).unwrap();
        std::os::unix::fs::symlink(&secret, &input).unwrap();
        let mut spec = scene.spec("cat");
        spec.user = Some(user.clone());
        spec.stdin = ProcessStdin::File(input.clone());
        let (stdout, _, outcome) = finish(scene.start_spec(spec)).await;
        assert_eq!(stdout, "", "{fencing:?}");
        let ProcessEnd::NotStarted { reason } = outcome.end else { panic!("{:?}", outcome.end) };
        assert!(reason.contains(&*input.to_string_lossy()) && reason.contains("denied"), "{reason}");
    }
}

#[test]
fn an_unknown_user_is_named() {
    let error = resolve_user("no-such-user").unwrap_err();
    assert!(error.to_string().contains("no-such-user"), "{error}");
    match error {
        UserError::Unknown { .. } => assert!(is_root()),
        UserError::WorkerIsNotRoot { .. } => assert!(!is_root()),
        UserError::Unreadable { .. } => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_identity_names_the_child_and_nothing_is_left_when_it_ended() {
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let scene = Scene::new(fencing);
        let mut process = scene.start("read line < /dev/zero; sleep 60");
        let pid = process.wait_started().await.unwrap();
        let identity = scene.identity();
        assert_eq!(identity.child.pid, pid);
        assert_eq!(identity.init.is_some(), fencing == Fencing::Kernel);
        assert_eq!(
            tenure_worker::guardian::find_presence(&identity),
            if identity.machine_id.is_some() {
                tenure_worker::guardian::Presence::Present
            } else {
                tenure_worker::guardian::Presence::Unknown
            }
        );
        process.handle().kill();
        let (_, _, outcome) = finish(process).await;
        assert_eq!(outcome.end, ProcessEnd::Signal(9));
        let guardian = identity.guardian.pid;
        assert!(!fs::exists(format!("/proc/{guardian}")).unwrap(), "{guardian} is there");
        for pid in [Some(identity.child), identity.init].into_iter().flatten().map(|mark| mark.pid) {
            assert!(!is_zombie(pid), "{pid} is a zombie");
        }
        assert_eq!(scene.find_living(), Vec::<String>::new());
    }
}
