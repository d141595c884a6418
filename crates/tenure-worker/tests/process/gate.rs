//! The last moment before a child becomes its program: what was said or reached by then keeps it from starting.

use std::time::Duration;

use serde_json::json;
use tenure_worker::guardian::{BootInstant, Fencing};

use super::raw_guardian::{RawGuardian, spec_frame};
use super::scene::Scene;

const BOTH: [Fencing; 2] = [Fencing::Kernel, Fencing::Guardian];
const HOUR: Duration = Duration::from_secs(3_600);

fn assert_nothing_ran(scene: &Scene, guardian: &mut RawGuardian, why: &str) {
    let ended = guardian.await_frame("ended");
    assert_eq!(ended["end"]["kind"], "not_started", "{:?}: {ended}", scene.fencing);
    assert!(ended["end"]["reason"].as_str().unwrap().contains(why), "{:?}: {ended}", scene.fencing);
    assert!(!scene.path("ran").exists(), "{:?}", scene.fencing);
    assert_eq!(scene.find_living(), Vec::<String>::new(), "{:?}", scene.fencing);
}

fn leave_a_trace(scene: &Scene) -> String {
    format!("touch {}", scene.path("ran").display())
}

#[test]
fn a_child_whose_worker_is_gone_before_it_could_run_is_not_started() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let spec = spec_frame(&scene, &leave_a_trace(&scene), BootInstant::NEVER, 0);
        let mut guardian = RawGuardian::start_abandoned(&[spec]);
        assert_nothing_ran(&scene, &mut guardian, "its worker was gone");
    }
}

#[test]
fn a_child_that_is_to_end_before_it_could_run_is_not_started() {
    for fencing in BOTH {
        for order in [
            json!({ "kind": "kill" }),
            json!({ "kind": "stop", "grace_ms": 60_000, "cause": { "kind": "asked" } }),
        ] {
            let scene = Scene::new(fencing);
            let spec = spec_frame(&scene, &leave_a_trace(&scene), BootInstant::NEVER, 0);
            let mut guardian = RawGuardian::start(&[spec, order]);
            assert_nothing_ran(&scene, &mut guardian, "its end was asked for");
        }
    }
}

#[test]
fn a_child_is_not_started_within_the_margin_before_the_deadline_nor_after_it() {
    for fencing in BOTH {
        for (left, margin_ms) in [(HOUR, 7_200_000), (Duration::ZERO, 0)] {
            let scene = Scene::new(fencing);
            let deadline = BootInstant::now().plus(left);
            let mut guardian =
                RawGuardian::start(&[spec_frame(&scene, &leave_a_trace(&scene), deadline, margin_ms)]);
            assert_nothing_ran(&scene, &mut guardian, "deadline");
        }
    }
}

#[test]
fn a_renewal_that_came_before_the_child_could_run_counts() {
    for fencing in BOTH {
        let scene = Scene::new(fencing);
        let spec = spec_frame(&scene, &leave_a_trace(&scene), BootInstant::now(), 0);
        let renewal = json!({ "kind": "deadline", "at": BootInstant::NEVER });
        let mut guardian = RawGuardian::start(&[spec, renewal]);
        let ended = guardian.await_frame("ended");
        assert_eq!(ended["end"], json!({ "kind": "exited", "code": 0 }), "{fencing:?}");
        assert!(scene.path("ran").exists(), "{fencing:?}");
    }
}
