//! Effects as a caller reads them: typed, in pages, and never guessed at.

use tenure_client::ClientError;
use tenure_core::{
    effect::{Disposition, EffectRecovery},
    id::{Digest, Seq},
};
use tenure_proto::{convert::time::write_timestamp, v1};

use crate::{
    journal::JOB,
    server::{Script, Server, sealed},
};

fn effect(key: &str) -> v1::Effect {
    v1::Effect {
        key: key.into(),
        attempt: 2,
        state: v1::EffectState::Failed.into(),
        disposition: v1::EffectDisposition::InDoubt.into(),
        recovery: v1::EffectRecovery::Ask.into(),
        mutates: true,
        tool: "git".into(),
        run: 1,
        announced_seq: 4,
        announced_at: Some(write_timestamp("2026-11-30T09:00:00Z".parse().unwrap())),
        outcome_seq: 5,
        request_digest: Digest::of(b"push").0.to_vec().into(),
        value: Some("no route".into()),
        exit_code: Some(128),
        undecided: true,
        ..Default::default()
    }
}

fn testimony() -> v1::Testimony {
    v1::Testimony {
        key: "push".into(),
        attempt: 2,
        run: 1,
        epoch: 1,
        state: v1::EffectState::Done.into(),
        arrived_at: Some(write_timestamp("2026-11-30T09:05:00Z".parse().unwrap())),
        contradicts: true,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_page_of_effects_is_read_also_where_the_first_answer_was_lost() {
    let server = Server::start(Script { answers_lost: 1, effects: vec![effect("push")], ..sealed(1) }).await;
    let page = server.client().list_effects(JOB, 0, None).await.unwrap();
    let [read] = &page.effects[..] else { panic!("one effect: {page:?}") };
    assert_eq!((read.key.as_str(), read.attempt, read.state), ("push", 2, "failed"));
    assert_eq!((read.disposition, read.recovery), (Some(Disposition::InDoubt), EffectRecovery::Ask));
    assert_eq!((read.outcome_seq, read.exit_code, read.undecided), (Some(Seq(5)), Some(128), true));
    let json = serde_json::to_value(&page).unwrap();
    assert_eq!((&json["effects"][0]["value"], &json["job_id"]), (&"no route".into(), &JOB.into()));
    assert_eq!(page.cursor.as_deref(), Some("9"));
    let last = server.client().list_effects(JOB, 0, page.cursor.as_deref()).await.unwrap();
    assert_eq!((last.effects.len(), last.cursor), (0, None));
}

#[tokio::test]
async fn what_came_too_late_stands_beside_the_doubt() {
    let script = Script { effects: vec![effect("push")], testimonies: vec![testimony()], ..sealed(1) };
    let server = Server::start(script).await;
    let page = server.client().list_undecided(JOB, 0, None).await.unwrap();
    let [testimony] = &page.testimonies[..] else { panic!("one: {page:?}") };
    assert_eq!((testimony.state, testimony.disposition, testimony.contradicts), ("done", None, true));
    assert_eq!(serde_json::to_value(testimony).unwrap()["value"], serde_json::Value::Null);
}

#[tokio::test]
async fn an_effect_in_a_form_that_is_not_known_is_refused_and_not_guessed_at() {
    let unknown = v1::Effect { state: 99, ..effect("push") };
    let without = v1::Effect { disposition: 0, ..effect("push") };
    for effect in [unknown, without] {
        let server = Server::start(Script { effects: vec![effect], ..sealed(1) }).await;
        let error = server.client().list_effects(JOB, 0, None).await.unwrap_err();
        assert!(matches!(error, ClientError::Unreadable { .. }), "{error:?}");
    }
}
