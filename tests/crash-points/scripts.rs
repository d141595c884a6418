//! The shapes that are shell scripts. Their world is the ledger, and a directory of the scene that their socket lies in, where
//! they count how often something was executed. Every text that they post is the job and the key, as the checkers read it.

/// What each of them begins with. The scene is found by the socket: the declaration is the same in every scene.
pub(crate) const HEAD: &str = r#"
export SCENE="${TENURE_SOCKET%/s/*}"
export LEDGER_URL="$(cat "$SCENE/ledger-url")"
post='tenure-ledger post --key "$TENURE_IDEMPOTENCY_KEY" --text "$TENURE_JOB $KEY"'
post_unkeyed='tenure-ledger post --text "$TENURE_JOB $KEY"'
find='tenure-ledger find --text "$TENURE_JOB $KEY"'
"#;

/// Notes, and nothing else.
pub(crate) const NOTED: &str = r#"
for number in 1 2 3 4 5 6; do tenure note "line $number"; done
echo noted > "$TENURE_RESULT"
"#;

/// Work for another agent, some of it alike.
pub(crate) const GIVEN: &str = r#"
tenure send idle "first"
tenure send idle "second"
tenure note "two are sent"
tenure send idle "second"
tenure spawn idle "apart"
tenure send --key once idle "third"
tenure note "all is given"
"#;

/// Effects, and then a wait that only a cancel ends; what was done is undone.
pub(crate) const CANCELLED: &str = r#"
at='export LEDGER_URL="$(cat "${TENURE_SOCKET%/s/*}/ledger-url")"; tenure-ledger'
for number in 1 2; do
    export KEY="mail/$number"
    tenure effect "$KEY" --idempotent \
        --undo "$at post --key \"\$TENURE_IDEMPOTENCY_KEY\" --text \"\$TENURE_JOB undo:$KEY\"" -- sh -c "$post"
done
tenure note "waiting to be cancelled"
sleep 60 &
wait
"#;

/// One effect of each recovery, and one that only reads.
pub(crate) const POSTED: &str = r#"
tenure note "posting"
export KEY=mail/retry; tenure effect "$KEY" --retry --no-undo -- sh -c "$post"
export KEY=mail/idempotent; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
export KEY=mail/probe; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
export KEY=mail/ask; tenure effect "$KEY" --ask --no-undo -- sh -c "$post_unkeyed"
tenure effect mail/read --read-only -- tenure-ledger entries
tenure note "posted"
"#;

/// Effects that fail twice before they are done.
pub(crate) const REPEATED: &str = r#"
for number in 1 2; do
    export KEY="mail/$number"
    tenure effect "$KEY" --retry --on-failure did-not-happen --no-undo -- sh -c '
        echo executed >> "$SCENE/count-$(basename $KEY)"
        [ "$(wc -l < "$SCENE/count-$(basename $KEY)")" -gt 2 ] || exit 1
        '"$post"
done
tenure note "repeated"
"#;

/// A run that crashes twice, each time a bit later.
pub(crate) const RESTARTED: &str = r#"
tenure note "run $TENURE_RUN"
export KEY=mail/first; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
[ "$TENURE_RUN" -gt 1 ] || exit 3
export KEY=mail/second; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
[ "$TENURE_RUN" -gt 2 ] || exit 4
export KEY=mail/third; tenure effect "$KEY" --retry --no-undo -- sh -c "$post"
"#;

/// Commands that end badly and whose probe finds that they landed, or that they did not happen.
pub(crate) const LOOKED_UP: &str = r#"
export KEY=mail/landed; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed; exit 9"
tenure note "looked up"
export KEY=mail/absent
tenure effect "$KEY" --probe "$find" --no-undo -- sh -c '
    echo executed >> "$SCENE/count-absent"
    [ "$(wc -l < "$SCENE/count-absent")" -gt 1 ] || exit 9
    '"$post_unkeyed"
"#;

/// Effects that are undone after the job failed for good, the last first, down to the pivot. The undoing knows nothing of the
/// script; its probe is that of the effect, and says whether that still stands.
pub(crate) const UNDONE: &str = r#"
at='export LEDGER_URL="$(cat "${TENURE_SOCKET%/s/*}/ledger-url")"; tenure-ledger'
export KEY=mail/pivot; tenure effect "$KEY" --idempotent --pivot -- sh -c "$post"
export KEY=mail/keyed
tenure effect "$KEY" --idempotent \
    --undo "$at post --key \"\$TENURE_IDEMPOTENCY_KEY\" --text \"\$TENURE_JOB undo:mail/keyed\"" -- sh -c "$post"
tenure note "two of four"
export KEY=mail/probed
stands="$at find --text \"\$TENURE_JOB mail/probed\" && { tenure-ledger find --text \"\$TENURE_JOB undo:mail/probed\" > found; [ \$? -eq 10 ] || exit 10; }"
tenure effect "$KEY" --probe "$stands" --undo "$at post --text \"\$TENURE_JOB undo:mail/probed\"" -- sh -c "$post_unkeyed"
export KEY=mail/last; tenure effect "$KEY" --retry --no-undo -- sh -c "$post"
exit 65
"#;

/// An input and a result that no row takes.
pub(crate) const LARGE: &str = r#"
tenure note "$(wc -c < "$TENURE_INPUT") bytes"
[ "$(wc -c < "$TENURE_INPUT")" -eq 300000 ] || exit 9
export KEY=mail/before; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
cp "$TENURE_INPUT" "$TENURE_RESULT"
export KEY=mail/after; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
"#;

/// A success that an effect in doubt stands in the way of; what it returned is kept until a person has answered.
pub(crate) const KEPT: &str = r#"
export KEY=mail/keyed; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
echo kept > "$TENURE_RESULT"
export KEY=mail/asked; tenure effect "$KEY" --ask --no-undo -- sh -c "$post_unkeyed; exit 9" || true
"#;

/// Two runs that fail for good, each a bit later, and a third that goes on to the end.
pub(crate) const CONTINUED: &str = r#"
export KEY=mail/first; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
[ "$TENURE_RUN" -gt 1 ] || exit 65
tenure note "gone on"
export KEY=mail/second; tenure effect "$KEY" --ask --no-undo -- sh -c "$post_unkeyed"
[ "$TENURE_RUN" -gt 2 ] || exit 65
export KEY=mail/third; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
"#;

/// Effects whose undoing ends badly each time: a person finds that it happened, and has the next be undone.
pub(crate) const UNDONE_BY_HAND: &str = r#"
at='export LEDGER_URL="$(cat "${TENURE_SOCKET%/s/*}/ledger-url")"; tenure-ledger'
for number in 1 2; do
    export KEY="mail/$number"
    tenure effect "$KEY" --ask --undo "$at post --text \"\$TENURE_JOB undo:$KEY\"; exit 9" -- sh -c "$post_unkeyed"
done
exit 65
"#;

/// An end on purpose between two effects, until an instant has come.
pub(crate) const SUSPENDED: &str = r#"
export KEY=mail/before; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
tenure wait --until 1s
tenure note "it is later"
export KEY=mail/after; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
"#;

/// A second session that is booked for later; the one that was booked first does not count.
pub(crate) const SET_DOWN: &str = r#"
tenure set-down --until 2h --waiting-for "a thing that comes later"
export KEY=mail/before; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
tenure set-down --until 1h --waiting-for "the answer"
export KEY=mail/after; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
"#;

/// A first run that only somebody else ends, and a second that goes on.
pub(crate) const HELD: &str = r#"
export KEY=mail/before; tenure effect "$KEY" --idempotent --no-undo -- sh -c "$post"
if [ "$TENURE_RUN" -eq 1 ]; then
    tenure note "held"
    sleep 60 &
    wait
fi
export KEY=mail/after; tenure effect "$KEY" --probe "$find" --no-undo -- sh -c "$post_unkeyed"
"#;
