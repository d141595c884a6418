//! Memory and processor time, where this host can limit them.

use tenure_worker::guardian::Fencing;
use tenure_worker::runner::{ProcessEnd, ResourceLimits, find_limit_support};

use super::scene::{Scene, finish};

/// As many bytes as the number says, in one process's memory.
const EAT: &str = "head -c $0 /dev/zero | tail -c $0 > /dev/null";

#[tokio::test(flavor = "multi_thread")]
async fn beyond_its_memory_a_child_is_killed_and_within_it_is_not() {
    if !find_limit_support().memory {
        println!("skipped: this host cannot limit memory");
        return;
    }
    for fencing in [Fencing::Kernel, Fencing::Guardian] {
        let run = async |bytes: u64| {
            let scene = Scene::new(fencing);
            let mut spec = scene.spec(&EAT.replace("$0", &bytes.to_string()));
            spec.limits = ResourceLimits { memory_bytes: Some(32 * 1024 * 1024), cpu_cores: None };
            let outcome = finish(scene.start_spec(spec)).await.2;
            (scene, outcome.end)
        };
        let (_, within) = run(4 * 1024 * 1024).await;
        assert_eq!(within, ProcessEnd::ExitCode(0), "{fencing:?}");
        let (scene, beyond) = run(200 * 1024 * 1024).await;
        assert!(
            matches!(beyond, ProcessEnd::ExitCode(137) | ProcessEnd::Signal(9)),
            "{fencing:?}: {beyond:?}"
        );
        assert_eq!(find_cgroups(&scene), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cgroups_say_the_limits_and_are_removed_after_the_run() {
    let support = find_limit_support();
    if !support.memory || !support.cpu {
        println!("skipped: this host cannot limit memory and processor time");
        return;
    }
    let scene = Scene::new(Fencing::Kernel);
    let mut spec = scene.spec("sleep 60");
    spec.limits = ResourceLimits { memory_bytes: Some(64 * 1024 * 1024), cpu_cores: Some(0.5) };
    let mut process = scene.start_spec(spec);
    process.wait_started().await.unwrap();
    let contents: Vec<String> = find_cgroups(&scene)
        .iter()
        .flat_map(|directory| {
            ["memory.limit_in_bytes", "memory.max", "cpu.cfs_quota_us", "cpu.max"]
                .map(|file| std::fs::read_to_string(format!("{directory}/{file}")))
        })
        .flatten()
        .map(|text| text.trim().to_owned())
        .collect();
    assert!(contents.contains(&(64 * 1024 * 1024).to_string()), "{contents:?}");
    assert!(contents.iter().any(|text| text == "50000" || text == "50000 100000"), "{contents:?}");
    process.handle().kill();
    finish(process).await;
    assert_eq!(find_cgroups(&scene), Vec::<String>::new());
}

fn find_cgroups(scene: &Scene) -> Vec<String> {
    let name = format!("tenure-{}", scene.path("").file_name().unwrap().to_string_lossy());
    let output = std::process::Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", &name])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
